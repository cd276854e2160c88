//! Widening keys of files that came with a repository.

use std::collections::BTreeSet;

use sandbox_config::{
    ApprovalMode, NetworkAccess, Operation, PrivilegedSetting, TrustRule, TrustedSettings,
    Untrusted, Verdict, load,
};

use crate::support::{CONFIG, Scratch, codes};

/// A project with every privileged setting of this slice; `outside` lies beside it.
const WIDE: &str = "\
network: true
sandbox:
  mode: direct
  zones:
    out: { path: ../outside, mode: ro }
    own: { path: ./own, approval: { delete: preApproved } }
approval:
  mode: auto
  require_user_permission: { shell: false }
  require_user_permission_by_risk: { exec: false, read_only: false }
shell:
  rules:
    - { pattern: \"grep *\", approval: preApproved }
  env: { pass: [CC] }
";

fn wide() -> Scratch {
    Scratch::new()
        .dir("outside")
        .file("p/golem-forge.config.yaml", WIDE)
}

#[test]
fn untrusted_is_an_error_with_key_and_line() {
    let scratch = wide();
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    let mistakes = load(&sources).unwrap_err();
    insta::assert_snapshot!(scratch.anonymous(&mistakes.to_string()), @r#"
    error[config.untrusted]: `sandbox.zones.out.path` reaches outside the project (<project>/outside ro), and you have not agreed to that
      --> golem-forge.config.yaml:5:18
       |
     5 |     out: { path: ../outside, mode: ro }
       |                  ^^^^^^^^^^

    warning[config.untrusted]: `network` lets commands use the network, and you have not agreed to that: the network stays off
      --> golem-forge.config.yaml:1:10
       |
     1 | network: true
       |          ^^^^

    warning[config.untrusted]: `sandbox.zones.own.approval.delete` deletes without asking, and you have not agreed to that: deleting asks
      --> golem-forge.config.yaml:6:45
       |
     6 |     own: { path: ./own, approval: { delete: preApproved } }
       |                                             ^^^^^^^^^^^

    warning[config.untrusted]: `approval.mode` answers every question with yes, and you have not agreed to that: the rules decide
      --> golem-forge.config.yaml:8:9
       |
     8 |   mode: auto
       |         ^^^^

    warning[config.untrusted]: `approval.require_user_permission.shell` runs without asking, and you have not agreed to that: it asks as before
      --> golem-forge.config.yaml:9:37
       |
     9 |   require_user_permission: { shell: false }
       |                                     ^^^^^

    warning[config.untrusted]: `approval.require_user_permission_by_risk.exec` runs without asking, and you have not agreed to that: it asks as before
       --> golem-forge.config.yaml:10:44
        |
     10 |   require_user_permission_by_risk: { exec: false, read_only: false }
        |                                            ^^^^^

    warning[config.untrusted]: `shell.rules[grep *].approval` runs commands without asking, and you have not agreed to that: it asks
       --> golem-forge.config.yaml:13:38
        |
     13 |     - { pattern: "grep *", approval: preApproved }
        |                                      ^^^^^^^^^^^

    warning[config.untrusted]: `shell.env.pass[CC]` hands a variable of yours to commands, and you have not agreed to that: it is not passed
       --> golem-forge.config.yaml:14:17
        |
     14 |   env: { pass: [CC] }
        |                 ^^
        = help: if you trust this project: `forge -C '<project>/p' trust`, or `--trust` for one run
    "#);
    assert_eq!(mistakes.to_json()["error"]["code"], "config.untrusted");
    assert_eq!(mistakes.to_json()["error"]["line"], 5);
}

#[test]
fn what_can_be_ignored_is_ignored() {
    let scratch = wide();
    let text = WIDE.replace("    out: { path: ../outside, mode: ro }\n", "");
    std::fs::write(scratch.path().join("p/golem-forge.config.yaml"), text).unwrap();
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    let project = load(&sources).unwrap();
    let ceiling = project.ceiling();
    assert_eq!(project.warnings().len(), 7);
    assert_eq!(ceiling.network(), &NetworkAccess::Denied);
    assert_eq!(ceiling.approval().mode(), ApprovalMode::Tool);
    assert_eq!(ceiling.approval().for_tool("shell"), None);
    assert_eq!(
        ceiling.mount_approval("own", Operation::Delete),
        Verdict::Ask
    );
    let grep = ceiling.shell().unwrap().decide(&["grep".to_owned()]);
    assert_eq!(grep.verdict(), Verdict::Ask);
    assert!(ceiling.environment().pass().is_empty());

    sources.trust = TrustedSettings::Given;
    let project = load(&sources).unwrap();
    let ceiling = project.ceiling();
    assert!(project.warnings().is_empty());
    assert_eq!(ceiling.network(), &NetworkAccess::Unrestricted);
    assert_eq!(ceiling.approval().mode(), ApprovalMode::Auto);
    assert_eq!(ceiling.approval().for_tool("shell"), Some(Verdict::Allow));
    assert_eq!(
        ceiling.mount_approval("own", Operation::Delete),
        Verdict::Allow
    );
    assert_eq!(ceiling.environment().pass(), ["CC"]);
}

#[test]
fn a_yes_is_bound_to_key_value_and_project() {
    let scratch = wide();
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    sources.trust = TrustedSettings::Given;
    let hashes: BTreeSet<String> = load(&sources)
        .unwrap()
        .privileged_settings()
        .iter()
        .map(|key| key.hash().to_owned())
        .collect();
    assert_eq!(hashes.len(), 8);
    sources.trust = TrustedSettings::Store(hashes);
    assert!(load(&sources).unwrap().warnings().is_empty());

    // Read-write instead of read-only is another value.
    let file = scratch.path().join("p/golem-forge.config.yaml");
    std::fs::write(&file, WIDE.replace("mode: ro", "mode: rw")).unwrap();
    let mistakes = load(&sources).unwrap_err();
    assert_eq!(codes(&mistakes), ["config.untrusted"]);

    // The same file in another place is another project.
    let other = scratch.dir("q").file("q/golem-forge.config.yaml", WIDE);
    sources.start = other.path().join("q");
    assert!(load(&sources).is_err());
}

#[test]
fn a_way_through_a_link_needs_a_yes_and_a_link_is_no_zone() {
    let config = "sandbox: { mode: direct, zones: { a: { path: ./way/sub } } }\n";
    let scratch = Scratch::with_config(config)
        .dir("real/sub")
        .link("real", "way");
    assert_eq!(codes(&scratch.load().unwrap_err()), ["config.untrusted"]);

    let config = "sandbox: { mode: direct, zones: { a: { path: ./way } } }\n";
    let scratch = Scratch::with_config(config).dir("real").link("real", "way");
    assert_eq!(codes(&scratch.load().unwrap_err()), ["config.host_path"]);

    // In sandboxed mode there is nothing to agree to.
    let scratch = Scratch::with_config("sandbox: { zones: { a: { path: ./a } } }\n")
        .dir("elsewhere")
        .link("elsewhere", ".sandbox");
    assert_eq!(codes(&scratch.load().unwrap_err()), ["config.host_path"]);
}

#[test]
fn host_paths_expand() {
    let scratch = Scratch::new()
        .dir("home/registry")
        .file("p/golem-forge.config.yaml", "sandbox:\n  mode: direct\n  zones:\n    registry: { path: \"${CARGO_HOME:-~/registry}\", mode: ro }\n");
    let mut sources = scratch.sources();
    sources.start = scratch.path().join("p");
    sources.home = Some(scratch.path().join("home"));
    sources.trust = TrustedSettings::Given;
    let project = load(&sources).unwrap();
    assert_eq!(
        project.ceiling().mount("registry").unwrap().host(),
        scratch.path().join("home/registry")
    );
    sources.env.push((
        "CARGO_HOME".into(),
        scratch.path().join("p/c").display().to_string(),
    ));
    let project = load(&sources).unwrap();
    assert_eq!(
        project.ceiling().mount("registry").unwrap().host(),
        scratch.path().join("p/c")
    );
}

#[test]
fn a_variable_that_makes_programs_run_other_code_needs_a_yes() {
    for (name, is_hook) in [
        ("LD_PRELOAD", true),
        ("BASH_ENV", true),
        ("PYTHONSTARTUP", true),
        ("GIT_EXTERNAL_DIFF", true),
        ("NODE_OPTIONS", true),
        ("MAKEFLAGS", true),
        ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", true),
        ("npm_config_script_shell", true),
        ("CI", false),
        ("LDFLAGS", false),
    ] {
        let text = format!("shell: {{ default: ask, env: {{ set: {{ {name}: x }} }} }}\n");
        let scratch = Scratch::new().file("golem-forge.config.yaml", &text);
        let mut sources = scratch.sources();
        let set = |sources: &sandbox_config::Sources| {
            let project = load(sources).unwrap();
            project.ceiling().environment().set().contains_key(name)
        };
        assert_eq!(set(&sources), !is_hook, "{name}");
        sources.trust = TrustedSettings::Given;
        assert!(set(&sources), "{name}");
    }
}

/// Every row of the table, both ways: by its own examples, so a row that nothing asks by, or that
/// asks for something else, is found.
#[test]
fn every_row_of_the_table_asks_and_is_answered() {
    for rule in TrustRule::all() {
        for (pattern, example) in rule.examples() {
            let scratch = Scratch::loose()
                .dir("outside")
                .dir("p/real/sub")
                .file("p/full/kept", "x")
                .file("p/full/sub/kept", "x")
                .link("real", "p/way");
            let (scratch, is_worker) = if example.starts_with("---") {
                (scratch.file("p/workers/w.worker", example), true)
            } else {
                (scratch.file("p/golem-forge.config.yaml", example), false)
            };
            let mut sources = scratch.sources();
            sources.start = scratch.path().join("p");
            sources.env.push(("CC".to_owned(), "real".to_owned()));
            let warnings_and_keys = |sources: &sandbox_config::Sources| {
                let project = load(sources)?;
                if !is_worker {
                    return Ok((
                        project.warnings().len(),
                        project.privileged_settings().to_vec(),
                    ));
                }
                let worker = project.worker("w")?;
                Ok((
                    worker.warnings().len(),
                    worker.privileged_settings().to_vec(),
                ))
            };
            let untrusted: Result<_, sandbox_config::Diagnostics> = warnings_and_keys(&sources);
            match (rule.untrusted(), untrusted) {
                (Untrusted::Refused, Err(mistakes)) => {
                    assert_eq!(codes(&mistakes), ["config.untrusted"], "{example}");
                }
                (Untrusted::Ignored(_), Ok((warnings, _))) => assert_eq!(warnings, 1, "{example}"),
                (rule, other) => panic!("{example}: {rule:?}, {other:?}"),
            }
            sources.trust = TrustedSettings::Given;
            let (warnings, keys) = warnings_and_keys(&sources).unwrap();
            assert_eq!(warnings, 0, "{example}");
            let [key] = keys.as_slice() else {
                panic!("{example}: {keys:?}");
            };
            assert!(fits(pattern, key.key()), "{pattern} {}", key.key());
            assert!(std::ptr::eq(key.rule(), rule), "{example}: {key:?}");
            sources.trust =
                TrustedSettings::Store([PrivilegedSetting::hash(key).to_owned()].into());
            assert_eq!(warnings_and_keys(&sources).unwrap().0, 0, "{example}");
        }
    }
}

/// `*` stands for one name.
fn fits(pattern: &str, key: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == key,
        Some((before, after)) => key.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len())
                .filter(|at| rest.is_char_boundary(*at))
                .any(|at| fits(after, &rest[at..]))
        }),
    }
}

#[test]
fn writing_in_place_needs_a_yes_unless_git_keeps_what_was_there() {
    let config = |mode: &str| {
        format!("sandbox: {{ mode: direct, zones: {{ a: {{ path: ./a, mode: {mode} }} }} }}\n")
    };
    let loose = |mode: &str| Scratch::loose().file(CONFIG, config(mode));
    let full = |mode: &str| loose(mode).file("a/kept", "x");
    assert_eq!(codes(&full("rw").load().unwrap_err()), ["config.untrusted"]);
    assert!(full("ro").load().is_ok());
    assert!(full("rw").dir(".git").load().is_ok());
    assert!(loose("rw").dir("a").load().is_ok());
    assert!(loose("rw").load().is_ok());
    // A home directory under version control says nothing about what lies below it.
    let scratch = full("rw").dir(".git");
    let mut sources = scratch.sources();
    sources.home = Some(scratch.path());
    assert_eq!(codes(&load(&sources).unwrap_err()), ["config.untrusted"]);
}

/// In every front-end: what is written in place, outside of any repository, and holds something.
#[test]
fn writing_in_place_is_asked_about_in_every_front_end() {
    for (config, asked) in [
        // Zones: in place, below a root that the file names, the default ones at such a place.
        (
            "sandbox: { mode: direct, zones: { a: { path: ./full } } }",
            true,
        ),
        (
            "sandbox: { mode: direct, zones: { a: { path: ./full, mode: ro } } }",
            false,
        ),
        (
            "sandbox: { mode: direct, zones: { a: { path: ./empty } } }",
            false,
        ),
        (
            "sandbox: { mode: direct, zones: { a: { path: ./absent } } }",
            false,
        ),
        (
            "sandbox: { root: full, zones: { a: { path: ./workspace } } }",
            true,
        ),
        ("sandbox: { root: ., zones: { a: { path: ./full } } }", true),
        (
            "sandbox: { root: ., zones: { a: { path: ./full, mode: ro } } }",
            false,
        ),
        (
            "sandbox: { root: full, zones: { a: { path: ./new } } }",
            false,
        ),
        ("sandbox: { mode: sandboxed, root: full }", true),
        ("sandbox: { mode: sandboxed, root: empty }", false),
        ("sandbox: { mode: direct }", true),
        // One root.
        ("sandbox: { root: . }", true),
        ("sandbox: { root: full }", true),
        ("sandbox: { root: full, readonly: false }", true),
        ("sandbox: { root: full, readonly: true }", false),
        ("sandbox: { root: empty }", false),
        // Named paths.
        (
            "sandbox: { paths: { a: { root: ./full, mode: rw } } }",
            true,
        ),
        ("sandbox: { paths: { a: { root: ./full } } }", false),
        (
            "sandbox: { paths: { a: { root: ./empty, mode: rw } } }",
            false,
        ),
        (
            "sandbox: { paths: { a: { root: ./absent, mode: rw } } }",
            false,
        ),
        // Mounts, which are writable unless they say otherwise.
        ("sandbox: { mounts: [{ source: ., target: / }] }", true),
        (
            "sandbox: { mounts: [{ source: ./full, target: /a }] }",
            true,
        ),
        (
            "sandbox: { mounts: [{ source: ./full, target: /a, readonly: true }] }",
            false,
        ),
        (
            "sandbox: { mounts: [{ source: ./empty, target: /a }] }",
            false,
        ),
        // Lists.
        ("sandbox: { write_paths: [./full] }", true),
        ("sandbox: { read_paths: [.], write_paths: [./full] }", true),
        ("sandbox: { read_paths: [./full] }", false),
        ("sandbox: { write_paths: [./empty, ./absent] }", false),
        // What forge makes itself, in any spelling.
        ("{}", false),
        ("sandbox: { mode: sandboxed }", false),
        (
            "sandbox: { root: .sandbox, zones: { a: { path: ./workspace } } }",
            false,
        ),
        ("sandbox: { mode: sandboxed, root: ./.sandbox/ }", false),
        (
            "sandbox: { paths: { a: { root: .sandbox/workspace, mode: rw } } }",
            false,
        ),
        ("sandbox: { mode: sandboxed, root: .sandbox/../full }", true),
        (
            "sandbox: { paths: { a: { root: .sandboxes, mode: rw } } }",
            true,
        ),
    ] {
        let scratch = Scratch::loose()
            .file(CONFIG, config)
            .file("full/workspace/kept", "x")
            .file("workspace/kept", "x")
            .file(".sandbox/workspace/kept", "x")
            .file(".sandboxes/kept", "x")
            .dir("empty");
        let untrusted = scratch.load();
        match (asked, untrusted) {
            (true, Err(mistakes)) => {
                assert_eq!(codes(&mistakes), ["config.untrusted"], "{config}");
                let said = mistakes.to_string();
                assert!(said.contains("is written in place"), "{config}: {said}");
            }
            (false, Ok(_)) => {}
            (true, Ok(_)) => panic!("nobody was asked: {config}"),
            (false, Err(mistakes)) => panic!("{config}: {mistakes}"),
        }
        // With a yes, for a repository, and where the person says so.
        let mut sources = scratch.sources();
        sources.trust = TrustedSettings::Given;
        let project = load(&sources).unwrap_or_else(|said| panic!("{config}: {said}"));
        assert_eq!(
            project.privileged_settings().len(),
            usize::from(asked),
            "{config}"
        );
        let scratch = scratch.dir(".git");
        assert!(scratch.load().is_ok(), "{config}");
    }
    // Whoever types the place has said yes to it.
    let scratch = Scratch::loose()
        .file(CONFIG, "sandbox: { zones: { a: { path: ./workspace } } }\n")
        .file("full/workspace/kept", "x");
    let mut sources = scratch.sources();
    sources.overrides = vec![("sandbox.root".into(), "full".into())];
    assert!(load(&sources).is_ok());
    let scratch = Scratch::loose().file("kept", "x");
    let mut sources = scratch.sources();
    sources.overrides = vec![("sandbox.root".into(), ".".into())];
    assert!(load(&sources).is_ok());
}

/// What a pre-approved command does is decided by more than its rule, so a yes is bound to that.
#[test]
fn a_yes_to_a_command_is_bound_to_what_decides_what_it_does() {
    const SHELL: &str = "\
shell:
  rules:
    - { pattern: 'git push *', approval: blocked, why: A person pushes. }
    - { pattern: 'git log *', approval: ask }
    - { pattern: 'git *', approval: preApproved }
    - { pattern: 'git stash *', approval: blocked }
  default: blocked
  deny: [rm]
  env: { pass: [LANG], set: { CI: '1' } }
";
    let rules = SHELL.lines().skip(2).take(4).collect::<Vec<_>>();
    let swapped = SHELL
        .replacen(rules[0], "@", 1)
        .replacen(rules[3], rules[0], 1);
    let swapped = swapped.replacen('@', rules[3], 1);
    for (text, holds) in [
        (SHELL.to_owned(), true),
        // What is no part of it: other keys, the words for the model, places.
        (
            format!("name: other\nlimits: {{ max_turns: 9 }}\n{SHELL}"),
            true,
        ),
        (SHELL.replace(", why: A person pushes.", ""), true),
        (
            SHELL.replace(
                "  default:",
                "    - { pattern: 'make *', approval: preApproved }\n  default:",
            ),
            true,
        ),
        // Blocked rules, others, their order.
        (
            SHELL.replace("    - { pattern: 'git stash *', approval: blocked }\n", ""),
            false,
        ),
        (SHELL.replace("git push *", "git pushes *"), false),
        (
            SHELL.replace(
                "'git log *', approval: ask",
                "'git log *', approval: blocked",
            ),
            false,
        ),
        (
            SHELL.replace("    - { pattern: 'git log *', approval: ask }\n", ""),
            false,
        ),
        (swapped, false),
        // The default, the programs, the variables.
        (SHELL.replace("default: blocked", "default: ask"), false),
        (SHELL.replace("  default: blocked\n", ""), false),
        (SHELL.replace("  deny: [rm]\n", ""), false),
        (SHELL.replace("pass: [LANG]", "pass: [LANG, TERM]"), false),
        (format!("{SHELL}  session: worker\n"), false),
        (SHELL.replace("CI: '1'", "CI: '2'"), false),
        (SHELL.replace("CI: '1'", "CI: '1', why: x"), false),
        (
            SHELL.replace("  env: { pass: [LANG], set: { CI: '1' } }\n", ""),
            false,
        ),
    ] {
        let scratch = Scratch::with_config(SHELL);
        let mut sources = scratch.sources();
        let hashes: BTreeSet<String> = load(&sources)
            .unwrap()
            .privileged_settings()
            .iter()
            .map(|key| key.hash().to_owned())
            .collect();
        sources.trust = TrustedSettings::Store(hashes);
        let scratch = scratch.file("golem-forge.config.yaml", &text);
        let project = load(&sources).unwrap();
        let words = ["git".to_owned(), "status".to_owned()];
        let verdict = project.ceiling().shell().unwrap().decide(&words).verdict();
        assert_eq!(verdict == Verdict::Allow, holds, "{text}");
        drop(scratch);
    }
}
