//! Defaults < user file < project file < `FORGE__…` < `-c`, and where each value comes from.

use sandbox_config::{Layer, NetworkAccess, Verdict, load};

use crate::support::Scratch;

#[test]
fn the_strongest_layer_wins_and_is_named() {
    let scratch = Scratch::with_config("name: p\nmodel: from:project\n")
        .file("user/config.yaml", "# mine\nmodel: from:user\n");
    let mut sources = scratch.sources();
    sources.user_file = Some(scratch.path().join("user/config.yaml"));
    let model = |sources: &sandbox_config::Sources| {
        let project = load(sources).unwrap();
        let origin = project.origin("model").unwrap();
        (
            project.model().map(str::to_owned),
            origin.layer(),
            origin.line(),
        )
    };
    assert_eq!(
        model(&sources),
        (Some("from:project".into()), Layer::Project, 2)
    );
    sources.env.push(("FORGE_MODEL".into(), "from:env".into()));
    assert_eq!(
        model(&sources),
        (Some("from:env".into()), Layer::Environment, 1)
    );
    sources
        .env
        .push(("FORGE__MODEL".into(), "from:env2".into()));
    assert_eq!(
        model(&sources),
        (Some("from:env2".into()), Layer::Environment, 1)
    );
    sources.overrides.push(("model".into(), "from:flag".into()));
    assert_eq!(
        model(&sources),
        (Some("from:flag".into()), Layer::CommandLine, 1)
    );

    let scratch = Scratch::new().file("user/config.yaml", "# mine\nmodel: from:user\n");
    let mut sources = scratch.sources();
    assert_eq!(model(&sources), (None, Layer::Default, 0));
    sources.user_file = Some(scratch.path().join("user/config.yaml"));
    assert_eq!(model(&sources), (Some("from:user".into()), Layer::User, 2));
}

#[test]
fn ones_own_voice_needs_no_trust() {
    let scratch = Scratch::new();
    let mut sources = scratch.sources();
    sources.overrides.push(("network".into(), "true".into()));
    let project = load(&sources).unwrap();
    assert_eq!(project.ceiling().network(), &NetworkAccess::Unrestricted);
    assert!(project.widening().is_empty());
}

#[test]
fn variables_reach_any_key() {
    let scratch = Scratch::with_config("sandbox: { zones: { data: { path: ./d } } }\n");
    let mut sources = scratch.sources();
    sources
        .env
        .push(("FORGE__SANDBOX__MODE".into(), "direct".into()));
    sources
        .overrides
        .push(("sandbox.zones.data.mode".into(), "ro".into()));
    let project = load(&sources).unwrap();
    let data = project.ceiling().mount("data").unwrap();
    assert_eq!(data.host(), scratch.path().join("d"));
    assert_eq!(data.mode().to_string(), "ro");
}

#[test]
fn mistakes_in_flags_point_at_flags() {
    let scratch = Scratch::with_config("sandbox: { zones: { data: { path: ./d } } }\n");
    let mut sources = scratch.sources();
    for (key, value) in [
        ("sandbox.mdoe", "direct"),
        ("sandbox.zones.data.mode", "wr"),
        ("", "x"),
        ("model", "[a"),
    ] {
        sources.overrides.push((key.into(), value.into()));
    }
    insta::assert_snapshot!(load(&sources).unwrap_err(), @r#"
    error[config.bad_value]: a part of the key is empty
      --> -c :1:1
       |
     1 | x
       | ^
       = help: write `-c sandbox.mode=direct` or `FORGE__SANDBOX__MODE=direct`

    error[config.syntax]: unclosed bracket '['
      --> -c model:1:1
       |
     1 | [a
       | ^

    error[config.unknown_key]: unknown key `mdoe`
      --> -c sandbox.mdoe:1:1
       |
     1 | direct
       | ^^^^^^ `sandbox` has: mode, root, zones, readonly, paths, mounts, read_paths, write_paths, default, require_os_sandbox, protect, hide, network
       = help: did you mean `mode`?

    error[config.bad_value]: `wr` is not a value of `sandbox.zones.data.mode`
      --> -c sandbox.zones.data.mode:1:1
       |
     1 | wr
       | ^^ allowed: ro, rw
       = help: did you mean `rw`?
    "#);
}

#[test]
fn guards_and_blocked_rules_unite() {
    let scratch = Scratch::with_config(
        "sandbox: { protect: [mine] }\nshell:\n  rules:\n    - { pattern: \"rm *\", approval: blocked }\n    - { pattern: \"ls *\", approval: ask }\n",
    );
    let mut sources = scratch.sources();
    sources
        .overrides
        .push(("sandbox.protect".into(), "[yours]".into()));
    sources.overrides.push((
        "shell.rules".into(),
        "[{ pattern: \"*\", approval: preApproved }]".into(),
    ));
    let project = load(&sources).unwrap();
    for pattern in ["mine", "yours", ".git/hooks"] {
        assert!(
            project.ceiling().protect().iter().any(|p| p == pattern),
            "{pattern}"
        );
    }
    let shell = project.ceiling().shell().unwrap();
    let verdict = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        shell.decide(&words).verdict()
    };
    assert_eq!(verdict(&["rm", "x"]), Verdict::Block);
    assert_eq!(verdict(&["ls"]), Verdict::Allow);
}
