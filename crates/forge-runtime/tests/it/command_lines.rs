//! Rules and every spelling of a command: what they say is held against what a real shell runs.

use std::path::Path;
use std::process::{Command, Stdio};

use forge_runtime::GrantGate;
use forge_tools::{CommandLine, Gate, GateRequest, Intent, Risk, Verdict};
use proptest::prelude::*;
use sandbox_config::{Sources, TrustedSettings, load};

const RULES: &str = "\
shell:
  default: ask
  rules:
    - { pattern: 'rm *', approval: blocked }
    - { pattern: 'curl *', approval: ask }
    - { pattern: 'git status', approval: preApproved }
    - { pattern: '(echo|env|sh|eval|nice|timeout|xargs|find|command|exec|trap|cat|git|sort|tar|split) *', approval: preApproved }
    - { pattern: 'sudo *', approval: preApproved }
";

fn gate(rules: &str) -> GrantGate {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("golem-forge.config.yaml"), rules).unwrap();
    let mut sources = Sources::new(dir.path());
    sources.trust = TrustedSettings::Given;
    let project = load(&sources).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    GrantGate::new(project.ceiling().clone())
}

/// None: no command line.
fn verdict(gate: &GrantGate, line: &str) -> Option<Verdict> {
    let line = CommandLine::parse(line).ok()?;
    let judgement = gate.judge(&GateRequest {
        tool: "shell",
        risk: Risk::Exec,
        requires_permission: true,
        needs_network: false,
        confined: true,
        intents: &[Intent::Execute(line)],
    });
    assert!(!judgement.reasons.is_empty());
    Some(judgement.verdict)
}

#[test]
fn every_spelling_of_a_command() {
    let gate = gate(RULES);
    for (line, expected) in [
        ("git status", Verdict::Allow),
        ("g''it \"status\"", Verdict::Allow),
        ("git status | cat -", Verdict::Allow),
        ("rm x", Verdict::Block),
        ("r\\m x", Verdict::Block),
        ("r''m x", Verdict::Block),
        ("'rm' x", Verdict::Block),
        ("rm\\\n x", Verdict::Block),
        ("/bin/rm x", Verdict::Block),
        ("../../bin/rm x", Verdict::Block),
        ("./rm x", Verdict::Block),
        ("A=b rm x", Verdict::Block),
        ("A=b B=c /bin/rm x", Verdict::Block),
        ("env rm x", Verdict::Block),
        ("env -i A=b rm x", Verdict::Block),
        ("env -S 'rm x'", Verdict::Block),
        ("sudo -u root rm x", Verdict::Block),
        ("timeout 5 nice -n 3 rm x", Verdict::Block),
        ("echo x | xargs -n 1 rm", Verdict::Block),
        ("find . -exec rm {} +", Verdict::Block),
        ("sh -c 'rm x'", Verdict::Block),
        ("sh -c 'echo a; sh -c \"rm x\"'", Verdict::Block),
        ("eval r''m x", Verdict::Block),
        ("trap 'rm x' EXIT; echo a", Verdict::Block),
        ("echo a && rm x", Verdict::Block),
        ("echo a || rm x", Verdict::Block),
        ("echo a; rm x", Verdict::Block),
        ("echo a\nrm x", Verdict::Block),
        ("echo a & rm x", Verdict::Block),
        ("(rm x)", Verdict::Block),
        ("echo $(rm x)", Verdict::Block),
        ("echo `rm x`", Verdict::Block),
        ("echo \"$(rm x)\"", Verdict::Block),
        ("echo \"a $(echo \"`rm x`\")\"", Verdict::Block),
        ("echo <(rm x)", Verdict::Block),
        ("if echo a; then rm x; fi", Verdict::Block),
        ("f() { rm x; }; f", Verdict::Block),
        ("cat <<E\n$(rm x)\nE", Verdict::Block),
        (">cat rm x", Verdict::Block),
        ("</dev/zero rm x", Verdict::Block),
        ("2>&1 rm x", Verdict::Block),
        (">|f rm x", Verdict::Block),
        ("&>f rm x", Verdict::Block),
        ("echo $(echo a)#; rm x", Verdict::Block),
        ("echo `echo a`#; rm x", Verdict::Block),
        ("echo \"$\\\n(rm x)\"; echo x", Verdict::Block),
        ("echo \"$(echo \"'\")\"; rm x; echo \"'\"", Verdict::Block),
        ("echo \"$$(\"; rm x; echo \")\"", Verdict::Block),
        ("A+=1 rm x", Verdict::Block),
        ("a[0]=1 rm x", Verdict::Block),
        ("function f { rm x; }; f", Verdict::Block),
        ("for x do rm y; done", Verdict::Block),
        ("env -vS 'rm x'", Verdict::Block),
        ("env --split='rm x'", Verdict::Block),
        ("env - rm x", Verdict::Block),
        ("find . -exec env -u + rm {} \\;", Verdict::Block),
        ("env curl x", Verdict::Ask),
        ("curl x | cat", Verdict::Ask),
        ("echo rm x", Verdict::Allow),
        ("echo 'rm x; rm y'", Verdict::Allow),
        ("echo a # rm x", Verdict::Allow),
        // What a shell would expand is not approved in advance.
        ("echo $A | cat", Verdict::Ask),
        ("echo * | cat", Verdict::Ask),
        ("echo a > b", Verdict::Ask),
        ("cat < a", Verdict::Ask),
        ("cat <<E\na\nE", Verdict::Ask),
        ("A=b git status", Verdict::Ask),
        ("sh -c \"echo 'a\"", Verdict::Ask),
        // Other programs, whatever they look like.
        ("g\u{456}t status", Verdict::Ask),
        ("git\u{a0}status", Verdict::Ask),
        ("./git status", Verdict::Ask),
        ("/usr/bin/git status", Verdict::Ask),
        ("GIT status", Verdict::Ask),
    ] {
        assert_eq!(verdict(&gate, line), Some(expected), "{line}");
    }
    for line in ["echo 'a", "echo \"a", "echo a |& |", "", "# a", "echo \\"] {
        assert_eq!(verdict(&gate, line), None, "{line}");
    }
    let narrow =
        self::gate("shell: { rules: [{ pattern: 'git status', approval: preApproved }] }\n");
    for line in [
        "git status x",
        "git -c alias.x=!sh x",
        "git -c alias.status=!sh status",
        "git -C / status",
        "git --exec-path=x status",
        "git statusx",
        "git  status -s",
        "env git status",
    ] {
        assert_eq!(verdict(&narrow, line), Some(Verdict::Block), "{line}");
    }
    assert_eq!(verdict(&narrow, "git  'status'"), Some(Verdict::Allow));
}

/// A command that starts a further program is judged also by the rule for that program; without a
/// rule the default speaks.
#[test]
fn what_a_program_starts_is_judged_too() {
    let rules = |default: &str| {
        format!(
            "shell:
  default: {default}
  rules:
    - {{ pattern: 'find * -delete *', approval: blocked }}
    - {{ pattern: '(find|env|timeout|xargs|nice|sh|rg|sort|tar|rsync|git|/bin/cat|strace|split|trap|grep) *', approval: preApproved }}
"
        )
    };
    let (blocks, asks) = (gate(&rules("blocked")), gate(&rules("ask")));
    // (line, whether something without a rule is started)
    for (line, started) in [
        ("find . -name x", false),
        ("find . -exec grep x {} +", false),
        ("find . -exec other {} +", true),
        ("find . -exec sh -c 'grep x; other y' +", true),
        ("env A=b other", true),
        ("env A=b grep x", false),
        ("timeout 5 other", true),
        ("timeout --foreground 5 grep x", false),
        ("timeout -k 1 5 nice -n 3 other", true),
        ("grep -l x | xargs grep y", false),
        ("grep -l x | xargs other", true),
        ("sh -c 'other'", true),
        ("rg --pre other x", true),
        ("rg --pre=other x", true),
        ("rg --pre grep x", false),
        ("rg x y", false),
        ("sort --compress-program=./other x", true),
        ("sort --compress other x", true),
        ("tar -xf a --to-command=other", true),
        ("tar -xf a --to-command other", true),
        ("tar -xf a -I other", true),
        ("tar -xf a -Iother", true),
        ("tar xIf other a", true),
        (
            "tar xf a --checkpoint=1 --checkpoint-action=exec=other",
            true,
        ),
        ("tar -xf a", false),
        ("rsync -e other a b", true),
        ("rsync -ae other a b", true),
        ("rsync -a --rsh=other a b", true),
        ("split --filter=other a", true),
        ("git -c core.pager=other log", true),
        ("git -c alias.x=!other x", true),
        ("git --exec-path=. x", true),
        ("git -c color.ui=never log", false),
        ("git log -c", false),
        ("strace -f other", true),
        ("strace -f grep x", false),
        ("trap 'grep x' EXIT", false),
        ("trap other EXIT", true),
        // The same program, judged as it is written.
        ("/bin/cat x", false),
    ] {
        let allowed = |otherwise| if started { otherwise } else { Verdict::Allow };
        assert_eq!(verdict(&asks, line), Some(allowed(Verdict::Ask)), "{line}");
        let blocked = verdict(&blocks, line);
        assert_eq!(blocked, Some(allowed(Verdict::Block)), "{line}");
    }
    for line in [
        "find . -delete",
        "find -delete",
        "find . -name x -delete -print",
    ] {
        assert_eq!(verdict(&asks, line), Some(Verdict::Block), "{line}");
    }
}

/// Where a rule blocks something, an approval mode says nothing about what it cannot see.
#[test]
fn no_mode_answers_for_what_is_not_seen() {
    let auto = "approval: { mode: auto }\n";
    let blocks = gate(&format!("{auto}{RULES}"));
    let asks = gate(&format!("{auto}shell: {{ default: ask }}\n"));
    for (line, with_blocks) in [
        ("curl x", Verdict::Allow),
        ("echo $A | cat", Verdict::Allow),
        (">f echo a", Verdict::Allow),
        (">f rm a", Verdict::Block),
        ("$A x; echo", Verdict::Ask),
        ("echo rm x | sh", Verdict::Ask),
        ("cat <<E\na\nE", Verdict::Ask),
        ("$'rm' x; echo", Verdict::Ask),
        ("alias a=rm\na x", Verdict::Ask),
        ("sh -c \"echo 'a\"", Verdict::Ask),
    ] {
        assert_eq!(verdict(&blocks, line), Some(with_blocks), "{line}");
        assert_eq!(verdict(&asks, line), Some(Verdict::Allow), "{line}");
    }
}

/// Programs that only say that they ran, beside some that start others.
fn programs(dir: &Path) {
    use std::os::unix::fs::{PermissionsExt, symlink};
    for name in ["rm", "curl", "other"] {
        let script = format!("#!/bin/sh\necho ran >{}/{name}.ran\n", dir.display());
        std::fs::write(dir.join(name), script).unwrap();
        std::fs::set_permissions(dir.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    for name in [
        "env", "sh", "nice", "timeout", "xargs", "find", "cat", "sort", "tar", "split", "git",
    ] {
        let found = ["/usr/bin", "/bin"]
            .map(|place| Path::new(place).join(name))
            .into_iter()
            .find(|path| path.exists());
        symlink(found.unwrap(), dir.join(name)).unwrap();
    }
}

/// Words and signs that make lines which run something, now and then.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "rm",
        "curl",
        "other",
        "./rm",
        "r\\m",
        "'rm'",
        "echo",
        "cat",
        "git",
        "env",
        "env -i",
        "A=b",
        "nice",
        "nice -n 1",
        "timeout 5",
        "xargs",
        "sh -c",
        "eval",
        "command",
        "exec",
        "trap",
        "find . -maxdepth 0 -exec",
        "sort --compress-program",
        "tar -cf a . -I",
        "tar cf a . --checkpoint=1 --checkpoint-action=exec=",
        "split --filter",
        "git -c alias.x=!",
        "x",
        "{}",
        "+",
        "\\;",
        "--",
        "-",
        "'",
        "\"",
        "'",
        "\"",
        "\\",
        "$(",
        ")",
        "`",
        "(",
        "|",
        "||",
        "&&",
        ";",
        "&",
        "\n",
        "\\\n",
        "#",
        "<",
        ">",
        "2>&1",
        ">f",
        "$(echo)",
        "A+=1",
        "a[0]=1",
        "$'",
        "</dev/null",
        ">/dev/null",
        "<<E\n",
        "\nE\n",
        "{",
        "}",
        "if",
        "then",
        "fi",
        "!",
        "EXIT",
        "\u{a0}",
        "*",
        "$x",
        "\u{456}",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: test_sample::count("shell rules: lines", 200, 600), ..ProptestConfig::default() })]

    /// Whatever is allowed without a question runs nothing that a rule forbids or asks about: a
    /// real shell is the judge.
    #[test]
    fn what_is_allowed_runs_nothing_that_is_not(
        pieces in prop::collection::vec((piece(), any::<bool>()), 1..9),
    ) {
        let line: String = pieces
            .iter()
            .map(|(piece, apart)| format!("{piece}{}", if *apart { " " } else { "" }))
            .collect();
        if verdict(&gate(RULES), &line) == Some(Verdict::Allow) {
            let dir = tempfile::tempdir().unwrap();
            programs(dir.path());
            let parsed = CommandLine::parse(&line).unwrap();
            let words = match parsed.argv() {
                Some(words) => words.to_vec(),
                None => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            };
            let _ended = Command::new("/usr/bin/env")
                .arg("-i")
                .arg(format!("PATH={}", dir.path().display()))
                .args(["/usr/bin/timeout", "-s", "KILL", "10"])
                .args(words)
                .current_dir(dir.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            for name in ["rm", "curl", "other"] {
                prop_assert!(!dir.path().join(format!("{name}.ran")).exists(), "{name}: {line:?}");
            }
        }
    }
}
