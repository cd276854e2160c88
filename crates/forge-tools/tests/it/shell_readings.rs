//! Our reading of a command line is held against real shells: whatever they run, it has seen, or
//! it says that it has not.

use std::path::Path;
use std::process::{Command, Stdio};

use forge_tools::{CommandLine, CommandSegment};
use proptest::prelude::*;
use proptest::strategy::Union;

/// The program that lines start, if a shell lets them.
const MARKER: &str = "mark";

/// Shells, each as `sh`: what runs a command line is one or the other. None is skipped in silence:
/// there is always `/bin/sh`.
fn shells() -> Vec<&'static str> {
    ["/bin/sh", "/bin/dash", "/bin/bash"]
        .into_iter()
        .filter(|shell| Path::new(shell).exists())
        .collect()
}

/// A directory with the marker and a few programs that start others.
fn scratch() -> tempfile::TempDir {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let marker = bin.join(MARKER);
    let script = format!("#!/bin/sh\necho ran >{}/ran\n", dir.path().display());
    std::fs::write(&marker, script).unwrap();
    std::fs::set_permissions(&marker, PermissionsExt::from_mode(0o755)).unwrap();
    for name in [
        "env", "nice", "timeout", "nohup", "setsid", "stdbuf", "xargs", "find", "cat", "true", "sh",
    ] {
        let found = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(name));
        if let Some(found) = found.into_iter().find(|path| path.exists()) {
            symlink(found, bin.join(name)).unwrap();
        }
    }
    for shell in shells() {
        let name = Path::new(shell).file_name().unwrap().to_str().unwrap();
        let place = dir.path().join(format!("as-{name}"));
        std::fs::create_dir(&place).unwrap();
        symlink(shell, place.join("sh")).unwrap();
    }
    dir
}

/// Whether the marker ran, as the `shell` tool would start the line, under any shell.
fn runs(dir: &Path, parsed: &CommandLine) -> Option<&'static str> {
    let work = dir.join("work");
    shells().into_iter().find(|shell| {
        std::fs::create_dir_all(&work).unwrap();
        let name = Path::new(shell).file_name().unwrap().to_str().unwrap();
        let words = match parsed.argv() {
            Some(words) => words.to_vec(),
            None => {
                let sh = dir.join(format!("as-{name}/sh")).display().to_string();
                vec![sh, "-c".to_owned(), parsed.as_str().to_owned()]
            }
        };
        let _ended = Command::new("/usr/bin/env")
            .arg("-i")
            .arg(format!("PATH={}", dir.join("bin").display()))
            .args(["/usr/bin/timeout", "-s", "KILL", "10"])
            .args(words)
            .current_dir(&work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let ran = std::fs::remove_file(dir.join("ran")).is_ok();
        std::fs::remove_dir_all(&work).unwrap();
        ran
    })
}

fn sees_marker(parsed: &CommandLine) -> bool {
    let mut commands = parsed.segments().iter().chain(parsed.starts());
    let is_marker = |one: &CommandSegment| {
        let program = one.words().first().map_or("", String::as_str);
        program.rsplit('/').next() == Some(MARKER)
    };
    parsed.has_hidden_commands() || commands.any(is_marker)
}

/// Nothing, or what stands between two parts.
fn gap() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        " ",
        " ",
        " ",
        "\t",
        " \\\n",
        "\\\n ",
        " >f ",
        " </dev/null ",
        " 2>&1 ",
        " 2>f ",
        " >|f ",
        " <>f ",
        " >>f ",
        " A=1 ",
        " >&2 ",
    ])
    .prop_map(str::to_owned)
}

/// A word that is only data, with what a shell may trip over.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "''",
        "'#'",
        "\"'\"",
        "'\"'",
        "a#",
        "\\#",
        "$(echo a)#",
        "`echo a`#",
        "\"$(echo \"'\")\"",
        "\"$$(\"",
        "\")\"",
        "$x",
        "\"${x}\"",
        "${x:-y}",
        "$((1 + 2))",
        "$#",
        "~",
        "*",
        "{a,b}",
        "a\\\nb",
        "\"a\\\nb\"",
        "\\'",
        "\\\"",
        "'\\'",
        "$'a'",
        "$\"a\"",
        "{}",
        "=",
        "\"`echo a`\"",
    ])
    .prop_map(str::to_owned)
}

/// A command that starts another one, which stands behind it.
fn carrier() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "env",
        "env -i PATH=\"$PATH\"",
        "env A=1",
        "env -u X",
        "nice",
        "nice -n 1",
        "nice -5",
        "timeout 5",
        "timeout -k 1 5",
        "timeout --signal=INT 5",
        "nohup",
        "setsid",
        "stdbuf -oL",
        "time",
        "command",
        "command -p --",
        "exec",
        "builtin command",
        "!",
        "A=1",
        "A+=1",
        "a[0]=1",
        "2>&1",
        ">f",
        "<>f",
        "15>f",
        "{x}>f",
        "&>f",
        "$x",
        "\"\"$x",
        "if",
        "while",
        "{",
        "xargs",
        "xargs -n 1",
        "xargs -I{}",
        "find . -maxdepth 0 -exec",
        "eval",
        "then",
        "coproc",
        "function f {",
        "f()",
        "for x in a; do",
        "for x do",
        "case a in a)",
        "(",
        "$(",
        "((",
        "echo a;",
        "echo a |",
        "false ||",
        "true &&",
        "true &",
        "echo a\n",
        "# a\n",
        "echo a#\n",
    ])
    .prop_map(str::to_owned)
}

/// Lines with the marker in any place where a shell could run it. They need not be right: what is
/// a mistake to the shell runs nothing.
fn line() -> impl Strategy<Value = String> {
    let marker = prop::sample::select(vec![
        "mark",
        "mark x",
        "./../bin/mark",
        "m\\ark",
        "ma''rk",
        "\"mark\"",
        "ma\\\nrk",
    ])
    .prop_map(str::to_owned);
    marker.prop_recursive(5, 24, 2, |inner| {
        let quoted = |text: &str| text.replace('\'', "'\\''");
        Union::new([
            (carrier(), gap(), inner.clone())
                .prop_map(|(before, gap, command)| format!("{before}{gap}{command}"))
                .boxed(),
            (word(), gap(), inner.clone())
                .prop_map(|(word, gap, command)| format!("echo {word}{gap}; {command}"))
                .boxed(),
            (word(), inner.clone(), word())
                .prop_map(|(before, command, after)| format!("echo {before}; {command} {after}"))
                .boxed(),
            (inner.clone(), word())
                .prop_map(|(command, word)| format!("echo $({command}){word}"))
                .boxed(),
            (word(), inner.clone())
                .prop_map(|(word, command)| format!("echo \"{word}$({command})\""))
                .boxed(),
            (word(), inner.clone())
                .prop_map(|(word, command)| format!("echo \"$\\\n({command})\" {word}"))
                .boxed(),
            inner
                .clone()
                .prop_map(|command| format!("echo `{}`", command.replace(['\\', '`'], "")))
                .boxed(),
            (
                prop::sample::select(vec!["sh -c", "sh -ec", "eval", "env -vS", "env -S", "trap"]),
                inner.clone(),
            )
                .prop_map(move |(before, command)| format!("{before} '{}'", quoted(&command)))
                .boxed(),
            (
                inner.clone(),
                prop::sample::select(vec![
                    "; }", "; fi", ")", "; done", "; }; f", ";; esac", " +", " \\;", "))", " EXIT",
                    " | cat", " &", " # a", "\n", " >f", "<<E\nE\n", "#",
                ]),
            )
                .prop_map(|(command, after)| format!("{command}{after}"))
                .boxed(),
            (inner.clone(), gap(), inner)
                .prop_map(|(one, gap, other)| format!("{one}{gap}&& {other}"))
                .boxed(),
        ])
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: test_sample::count("command lines: a shell reads them", 500, 1500), ..ProptestConfig::default() })]

    #[test]
    fn what_a_shell_runs_is_seen(line in line()) {
        // What cannot be taken apart is not run at all.
        if let Ok(parsed) = CommandLine::parse(&line)
            && !sees_marker(&parsed)
        {
            let dir = scratch();
            let ran = runs(dir.path(), &parsed);
            prop_assert!(ran.is_none(), "{ran:?} runs the marker: {line:?}");
        }
    }
}

/// The grammar makes lines that run the marker, and not only ones that we refuse to read.
#[test]
fn the_judge_can_tell() {
    let dir = scratch();
    for (line, ran, seen) in [
        (">f mark x", true, true),
        ("echo $(echo a)#; mark", true, true),
        ("echo \"$\\\n(mark)\"", true, true),
        ("A=1 env - PATH=\"$PATH\" mark; true", true, true),
        ("echo mark | cat", false, false),
        ("echo 'a; mark' # ; mark", false, false),
    ] {
        let parsed = CommandLine::parse(line).unwrap();
        assert_eq!(runs(dir.path(), &parsed).is_some(), ran, "{line}");
        assert_eq!(sees_marker(&parsed), seen, "{line}");
    }
}
