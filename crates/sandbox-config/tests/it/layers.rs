//! Defaults < user file < project file < `FORGE__…` < `-c`, and where each value comes from.

use sandbox_config::{Layer, Mode, NetworkAccess, Verdict, load};

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
    assert!(project.privileged_settings().is_empty());
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
        ("sandbox.zones.data.approval.raed", "ask"),
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
     1 | =x
       | ^
       = help: write `-c sandbox.mode=direct` or `FORGE__SANDBOX__MODE=direct`

    error[config.syntax]: unclosed bracket '['
      --> -c model:1:7
       |
     1 | model=[a
       |       ^

    error[config.unknown_key]: unknown key `raed`
      --> -c sandbox.zones.data.approval.raed:1:29
       |
     1 | sandbox.zones.data.approval.raed=ask
       |                             ^^^^ `approval` of a zone has: read, write, delete
       = help: did you mean `read`?

    error[config.bad_value]: `wr` is not a value of `sandbox.zones.data.mode`
      --> -c sandbox.zones.data.mode:1:25
       |
     1 | sandbox.zones.data.mode=wr
       |                         ^^ allowed: ro, rw, staged
       = help: did you mean `rw`?
    "#);
}

#[test]
fn guards_and_blocked_rules_unite() {
    let scratch = Scratch::with_config(
        "sandbox: { protect: [mine] }\nshell:\n  deny: [dd]\n  rules:\n    - { pattern: \"rm *\", approval: blocked }\n    - { pattern: \"ls *\", approval: ask }\n",
    );
    let mut sources = scratch.sources();
    sources
        .overrides
        .push(("sandbox.protect".into(), "[yours]".into()));
    sources.overrides.push((
        "shell.rules".into(),
        "[{ pattern: \"*\", approval: preApproved }]".into(),
    ));
    sources
        .overrides
        .push(("shell.deny".into(), "[mkfs]".into()));
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
    let denied: Vec<&str> = shell
        .programs()
        .flat_map(|programs| programs.deny())
        .map(String::as_str)
        .collect();
    assert_eq!(denied, ["mkfs", "dd"]);
}

/// What is another spelling at the top is a name elsewhere.
#[test]
fn names_of_the_project_are_no_other_spellings() {
    let scratch = Scratch::with_config(
        "sandbox: { zones: { approval: { path: ./a }, permissions: { path: ./p } } }\n",
    );
    let mut sources = scratch.sources();
    sources
        .overrides
        .push(("sandbox.zones.permissions.mode".into(), "ro".into()));
    let project = load(&sources).unwrap();
    let mode = |name: &str| project.ceiling().mount_access(name);
    assert_eq!(mode("permissions"), Some(Mode::ReadOnly));
    assert_eq!(mode("approval"), Some(Mode::ReadWrite));
    let settings = project.settings();
    assert_eq!(
        settings.get("sandbox.zones.permissions.path").unwrap(),
        "./p"
    );
    assert!(settings.to_yaml(false).contains("permissions:"));
    // And at the top it is one.
    sources
        .overrides
        .push(("permissions.mode".into(), "manual".into()));
    let manual = load(&sources).unwrap().ceiling().approval().mode();
    assert_eq!(manual, sandbox_config::ApprovalMode::Manual);
}

/// Tables of what can be typed: key and value, and what comes of it.
#[test]
fn flags_and_variables_reach_any_key_in_any_shape() {
    let project = "sandbox: { zones: { data: { path: ./d }, a.b: { path: ./e }, Upper: { path: ./u } } }\nnetwork: { allow: [a.org] }\nlimits: { max_turns: 9 }\n";
    let scratch = Scratch::with_config(project);
    type Check = fn(&sandbox_config::Project) -> bool;
    let rows: [(&str, &str, Check); 8] = [
        ("-c", "sandbox.zones.data.mode=ro", |p| {
            p.ceiling().mount_access("data") == Some(sandbox_config::Mode::ReadOnly)
        }),
        ("-c", "sandbox.zones.\"a.b\".mode=ro", |p| {
            p.ceiling().mount_access("a.b") == Some(sandbox_config::Mode::ReadOnly)
        }),
        // A mapping is merged in, a list replaces.
        ("-c", "sandbox.zones={more: {path: ./m}}", |p| {
            p.ceiling().mounts().count() == 4
        }),
        ("-c", "network={allow: [b.org]}", |p| {
            p.ceiling().network().allows("b.org", 1) && !p.ceiling().network().allows("a.org", 1)
        }),
        ("-c", "network.allow=[b.org]", |p| {
            p.ceiling().network().allows("b.org", 1) && !p.ceiling().network().allows("a.org", 1)
        }),
        ("FORGE__SANDBOX__ZONES__UPPER__MODE", "ro", |p| {
            p.ceiling().mount_access("Upper") == Some(sandbox_config::Mode::ReadOnly)
        }),
        ("FORGE__DELEGATION__MAXDEPTH", "2", |p| p.max_depth() == 2),
        ("FORGE__LIMITS", "{max_turns: 3}", |p| {
            p.ceiling().limits().max_turns() == 3
        }),
    ];
    for (name, text, check) in rows {
        let mut sources = scratch.sources();
        if name == "-c" {
            let (key, value) = text.split_once('=').unwrap();
            sources.overrides.push((key.into(), value.into()));
        } else {
            sources.env.push((name.into(), text.into()));
        }
        let project = match load(&sources) {
            Ok(project) => project,
            Err(mistakes) => panic!("{name} {text}\n{mistakes}"),
        };
        assert!(check(&project), "{name} {text}");
        assert!(!check(&scratch.load().unwrap()), "{name} {text}");
    }
}

#[test]
fn mistakes_in_variables_name_the_variable() {
    let scratch = Scratch::new();
    let mut sources = scratch.sources();
    for (name, value) in [
        ("FORGE__SANDBOX__MODE", "host"),
        ("FORGE____MODE", "x"),
        ("FORGE__LIMITS", "{max_turns: 3, max_turns: 4}"),
        ("FORGE__NETWORK", ""),
        ("FORGE__NAME", "a: b: c"),
    ] {
        sources.env.push((name.into(), value.into()));
    }
    insta::assert_snapshot!(load(&sources).unwrap_err(), @r#"
    error[config.duplicate_key]: `max_turns` stands here a second time
      --> FORGE__LIMITS:1:30
       |
     1 | FORGE__LIMITS={max_turns: 3, max_turns: 4}
       |                              ^^^^^^^^^
      ::: FORGE__LIMITS:1:16   the first one
       = help: remove one of them: which one holds must not depend on the order

    error[config.syntax]: mapping values are not allowed in this context
      --> FORGE__NAME:1:17
       |
     1 | FORGE__NAME=a: b: c
       |                 ^
       = help: quote a value that contains `: `

    error[config.wrong_type]: `network` must be true, false or a mapping, not nothing
      --> FORGE__NETWORK:1:16
       |
     1 | FORGE__NETWORK=
       |                ^

    error[config.bad_value]: `host` is not a value of `sandbox.mode`
      --> FORGE__SANDBOX__MODE:1:22
       |
     1 | FORGE__SANDBOX__MODE=host
       |                      ^^^^ allowed: sandboxed, direct

    error[config.bad_value]: a part of the key is empty
      --> FORGE____MODE:1:8
       |
     1 | FORGE____MODE=x
       |        ^
       = help: write `-c sandbox.mode=direct` or `FORGE__SANDBOX__MODE=direct`
    "#);
}

/// A section of the wrong type is a mistake, whatever a stronger layer sets in it.
#[test]
fn no_layer_replaces_a_section_of_the_wrong_type() {
    let nested = |parts: &[&str], last: &str| {
        let lines = parts.iter().enumerate();
        let lines: String = lines
            .map(|(depth, part)| format!("{}{part}:\n", " ".repeat(depth)))
            .collect();
        format!("{lines}{}{last}\n", " ".repeat(parts.len()))
    };
    let mut tried = 0;
    for key in &sandbox_config::schema::project_keys() {
        let (leaf, value) = (key.path(), key.words().first().copied().unwrap_or("1"));
        let parts: Vec<&str> = leaf.split('.').collect();
        let sections = (0..parts.len()).map(|depth| parts.split_at(depth));
        for ((above, below), wrong) in sections.flat_map(|at| ["[x]", "5", "word"].map(|w| (at, w)))
        {
            let file = nested(above, wrong);
            let scratch =
                Scratch::with_config(&file).file("user/config.yaml", nested(&parts, value));
            let mut ways = vec![scratch.sources(), scratch.sources()];
            ways[0].overrides.push((leaf.to_owned(), value.to_owned()));
            ways[1].user_file = Some(scratch.path().join("user/config.yaml"));
            if !above.is_empty() {
                let mut whole = scratch.sources();
                let inner = |inner, part: &&str| format!("{{ {part}: {inner} }}");
                let mapping = below.iter().rev().fold(value.to_owned(), inner);
                whole.overrides.push((above.join("."), mapping));
                ways.push(whole);
            }
            for (way, sources) in ways.iter().enumerate() {
                let found = load(sources)
                    .map(|_| ())
                    .map_err(|mistakes| mistakes.to_string());
                let is_told = |text: &String| {
                    text.contains("config.wrong_type") && text.contains("golem-forge.config.yaml:")
                };
                assert!(
                    found.as_ref().is_err_and(is_told),
                    "{way} {leaf}\n{file}{found:?}"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 500, "{tried}");
}
