//! Presets: the built-in ones, files of the person's, and the rights that they add.

use std::fs;

use sandbox_config::{HostGroup, PresetChoice, PresetLibrary, Project, Sources, load};
use serde_json::Value;

use crate::support::Scratch;

fn with_presets(sources: &mut Sources, names: &[&str], choice: &PresetChoice) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let set = PresetLibrary::built_in().compose(&names).unwrap();
    sources.presets = set.rights(choice).unwrap();
}

fn hosts(project: &Project) -> String {
    project.ceiling().network().to_string()
}

#[test]
fn every_built_in_preset_is_valid_and_fits_its_schema() {
    let schema: Value = serde_json::from_str(&sandbox_config::schema::preset()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let library = PresetLibrary::built_in();
    for name in library.names() {
        let preset = library.read(&name).unwrap();
        let set = library.compose(std::slice::from_ref(&name)).unwrap();
        assert!(set.rights(&PresetChoice::default()).is_ok(), "{name}");
        let value: Value = serde_saphyr::from_str(preset.text()).unwrap();
        let mistakes: Vec<String> = schema
            .iter_errors(&value)
            .map(|one| one.to_string())
            .collect();
        assert!(mistakes.is_empty(), "{name}: {mistakes:?}");
        // A host without a port is reachable on others than the program uses.
        for host in set.hosts(|_| true) {
            assert!(host.ends_with(":443"), "{name}: {host}");
        }
    }
}

/// Hosts of package registries come from the settings of a person's tools.
#[test]
fn no_preset_names_a_package_registry() {
    let library = PresetLibrary::built_in();
    for name in library.names() {
        let text = library.read(&name).unwrap().text().to_owned();
        for word in ["registry.", "pypi", "crates.io", "proxy.golang", "maven"] {
            assert!(!text.contains(word), "{name}: {word}");
        }
    }
}

#[test]
fn all_mistakes_of_a_file_at_once() {
    let text = "\
preset: other
about: \"\"
host: {}
hosts: { api: [\"https://example.com/\"], telemtry: [] }
programs: [\"../bin\", ok]
state:
  - { path: /etc, mode: share }
  - { path: ~/a, mode: shared, holds: [token] }
  - { path: ~/../b, mode: read }
  - { path: ~/c, mode: read, protect: [/d] }
unprotect: [.git/hooks]
env: { set: [], keys: [A_KEY] }
credentials:
  - { key: B_KEY, server: \"http://example.com\", base_url: PATH, header: \"x: 1\", placeholder: short }
  - { key: A_KEY, url: x }
  - { key: A_KEY, server: \"https://10.0.0.1\", header: x-api-key, placeholder: placeholder, args: [--url, \"{base_url}\"] }
  - { key: A_KEY, server: \"http://localhost:1\", header: x-api-key, placeholder: placeholder }
";
    let mistakes = PresetLibrary::parse("mine", text).unwrap_err();
    insta::assert_snapshot!(mistakes.to_string());
}

#[test]
fn the_server_of_a_key_is_reached_where_the_key_stays_outside() {
    let set = PresetLibrary::built_in()
        .compose(&["opencode".into()])
        .unwrap();
    let scratch = Scratch::with_config("sandbox: { root: . }\n");
    for (keys, added, withheld) in [
        (false, &[][..], &[][..]),
        (true, &["OPENAI_API_KEY"], &["OPENAI_API_KEY"]),
        (true, &["OPENAI_API_KEY"], &[]),
    ] {
        let list = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        let choice = PresetChoice {
            keys,
            added: list(added),
            withheld: list(withheld),
            ..PresetChoice::default()
        };
        let mut sources = scratch.sources();
        sources.presets = set.rights(&choice).unwrap();
        let project = load(&sources).unwrap();
        let network = project.ceiling().network();
        let reached = network.allows("api.openai.com", 443);
        assert_eq!(reached, !added.is_empty());
        assert!(!network.allows("api.anthropic.com", 443));
        let passed = project.ceiling().environment().pass();
        let passed = passed.contains(&"OPENAI_API_KEY".to_owned());
        assert_eq!(passed, keys && withheld.is_empty());
    }
}

/// A note that hosts are missing is not about a preset that another one extends with hosts.
#[test]
fn notes_about_missing_hosts_are_left_out_for_named_ones() {
    let scratch = Scratch::new();
    let own = scratch.path().join("presets");
    fs::create_dir(&own).unwrap();
    let text = "preset: mine\nabout: x\nextends: [git-https]\n";
    let hosts = "hosts: { api: [\"git.example.com:443\"] }\n";
    for (more, count) in [("", 1), (hosts, 0)] {
        fs::write(own.join("mine.yaml"), format!("{text}{more}")).unwrap();
        let set = PresetLibrary::with_directory(&own)
            .compose(&["mine".into()])
            .unwrap();
        assert_eq!(set.notes().count(), count, "{more}");
    }
    let set = PresetLibrary::with_directory(&own);
    let set = set.compose(&["mine".into(), "gemini".into()]).unwrap();
    assert_eq!(set.notes().count(), 1);
}

#[test]
fn a_preset_replaces_the_server_of_one_that_it_includes() {
    let scratch = Scratch::new();
    let own = scratch.path().join("presets");
    fs::create_dir(&own).unwrap();
    let text = "preset: mine\nabout: x\nextends: [claude]\nenv: { keys: [ANTHROPIC_API_KEY] }\n\
                credentials: [{ key: ANTHROPIC_API_KEY, server: \"https://gate.example.com\", \
                base_url: ANTHROPIC_BASE_URL, header: x-api-key, placeholder: placeholder }]\n";
    fs::write(own.join("mine.yaml"), text).unwrap();
    let library = PresetLibrary::with_directory(&own);
    let servers = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let set = library.compose(&names).unwrap();
        let of_key = set
            .credentials()
            .filter(|one| one.key == "ANTHROPIC_API_KEY");
        of_key.map(|one| one.server.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(servers(&["mine"]), ["https://gate.example.com:443"]);
    // Neither includes the other, so forge cannot know which one is meant.
    let both = [
        "https://api.anthropic.com:443",
        "https://api.anthropic.com:443/v1",
    ];
    assert_eq!(servers(&["claude", "opencode"]), both);
}

#[test]
fn servers_of_keys_are_strict() {
    for (text, ok) in [
        ("https://api.example.com", true),
        ("HTTPS://api.example.com:8443/v1/", true),
        ("http://127.0.0.1:8080", true),
        ("http://localhost", true),
        ("http://[::1]:1/a", true),
        ("http://api.example.com", false),
        ("http://localhost.example.com", false),
        ("https://me:secret@api.example.com", false),
        ("https://api.example.com/?a=b", false),
        ("https://api.example.com/a b", false),
        ("https://", false),
        ("https:///v1", false),
        ("api.example.com", false),
        ("ftp://api.example.com", false),
        ("https://a\r\nb", false),
    ] {
        assert_eq!(sandbox_config::ServerUrl::parse(text).is_ok(), ok, "{text}");
    }
}

#[test]
fn a_file_of_the_persons_includes_another_preset() {
    let scratch = Scratch::new();
    let own = scratch.path().join("presets");
    fs::create_dir(&own).unwrap();
    let write = |name: &str, text: &str| {
        let text = format!("preset: {name}\nabout: x\n{text}");
        fs::write(own.join(format!("{name}.yaml")), text).unwrap();
    };
    write(
        "mine",
        "extends: [claude]\nhosts: { api: [\"example.com:443\"] }\n",
    );
    write("round", "extends: [trip]\n");
    write("trip", "extends: [round]\n");
    write("codex", "");
    let library = PresetLibrary::with_directory(&own);
    let set = library.compose(&["mine".into(), "claude".into()]).unwrap();
    let names: Vec<&str> = set.presets().iter().map(|one| one.name()).collect();
    assert_eq!(names, ["agent-programs", "claude", "mine"]);
    assert!(
        set.hosts(HostGroup::is_default)
            .any(|host| host == "example.com:443")
    );
    let mistake = |name: &str| library.compose(&[name.into()]).unwrap_err().to_string();
    assert!(mistake("round").contains("includes itself"));
    assert!(mistake("codex").contains("has the name of a built-in preset"));
    assert!(mistake("mien").contains("did you mean `mine`?"));
}

#[test]
fn rights_are_added_and_nothing_is_taken_away() {
    let scratch = Scratch::with_config(
        "sandbox: { root: ., protect: [.claude] }\n\
         network: { allow: [\"example.com:443\"], deny: [platform.claude.com] }\n\
         shell: { env: { set: { DISABLE_AUTOUPDATER: \"0\" } } }\n",
    );
    let mut sources = scratch.sources();
    sources.trust = sandbox_config::TrustedSettings::Given;
    with_presets(&mut sources, &["claude"], &PresetChoice::default());
    let project = load(&sources).unwrap();
    let network = project.ceiling().network();
    assert!(network.allows("example.com", 443) && network.allows("api.anthropic.com", 443));
    // Denied by the project; of a group that is off; another port.
    assert!(!network.allows("platform.claude.com", 443));
    assert!(!network.allows("statsig.anthropic.com", 443));
    assert!(!network.allows("api.anthropic.com", 80));
    let environment = project.ceiling().environment();
    assert_eq!(environment.set()["DISABLE_AUTOUPDATER"], "0");
    assert!(!environment.pass().contains(&"ANTHROPIC_API_KEY".to_owned()));
    // Protected by the project itself.
    let policy = project.ceiling().policy().unwrap();
    assert!(policy.protected().any(|name| name == ".claude"));
}

#[test]
fn untrusted_hosts_of_the_project_stay_untrusted() {
    let scratch =
        Scratch::with_config("sandbox: { root: . }\nnetwork: { allow: [\"example.com:443\"] }\n");
    let mut sources = scratch.sources();
    with_presets(&mut sources, &["claude"], &PresetChoice::default());
    let project = load(&sources).unwrap();
    let network = project.ceiling().network();
    assert!(!network.allows("example.com", 443) && network.allows("api.anthropic.com", 443));
}

#[test]
fn the_network_that_a_person_turned_off_stays_off() {
    for (setting, is_off) in [(Some("false"), true), (None, false)] {
        let scratch = Scratch::with_config("sandbox: { root: . }\nnetwork: false\n");
        let mut sources = scratch.sources();
        let own = setting.map(|value| ("network".to_owned(), value.to_owned()));
        sources.overrides.extend(own);
        with_presets(&mut sources, &["claude"], &PresetChoice::default());
        assert_eq!(
            hosts(&load(&sources).unwrap()) == "off",
            is_off,
            "{setting:?}"
        );
    }
}

#[test]
fn groups_and_keys_are_chosen() {
    let scratch = Scratch::with_config("sandbox: { root: . }\n");
    let mut sources = scratch.sources();
    let choice = PresetChoice {
        groups: vec![HostGroup::Telemetry],
        keys: true,
        ..PresetChoice::default()
    };
    with_presets(&mut sources, &["claude"], &choice);
    let project = load(&sources).unwrap();
    assert!(
        project
            .ceiling()
            .network()
            .allows("statsig.anthropic.com", 443)
    );
    let environment = project.ceiling().environment();
    assert!(environment.pass().contains(&"ANTHROPIC_API_KEY".to_owned()));
    let policy = project.ceiling().policy().unwrap();
    assert!(!policy.protected().any(|name| name == ".claude"));
    assert!(policy.protected().any(|name| name == ".claude/hooks"));
}

/// The user file limits every project, and what a preset adds to it.
#[test]
fn the_user_file_still_limits() {
    let scratch = Scratch::with_config("sandbox: { root: . }\n").file(
        "own/config.yaml",
        "network: { allow: [\"*.anthropic.com\"] }\nshell: { env: { pass: [CI] } }\n",
    );
    let mut sources = scratch.sources();
    sources.user_file = Some(scratch.path().join("own/config.yaml"));
    let choice = PresetChoice {
        keys: true,
        ..PresetChoice::default()
    };
    with_presets(&mut sources, &["claude"], &choice);
    let project = load(&sources).unwrap();
    assert_eq!(
        hosts(&project),
        "api.anthropic.com:443, console.anthropic.com:443"
    );
    assert!(project.ceiling().environment().pass().is_empty());
}
