//! The person's settings of git in commands: those that say how git works, and no others.

use crate::support::{Ran, World};

use super::exec::mechanisms;

const PERSONAL: &str = "\
[user]
\tname = n
\temail = n@example.com
[init]
\tdefaultBranch = trunk
[core]
\texcludesFile = ~/ignored
\tpager = evil
\teditor = evil
\thooksPath = /tmp/evil
\tfsmonitor = evil
[alias]
\tst = status --short
\tcall = !echo secret
\tquoted = \"log --format=\\\"%s\\\"\"
[color \"diff\"]
\tmeta = blue
[push]
\tdefault = current
[pull]
\trebase = true
[commit]
\tgpgSign = true
[gpg]
\tprogram = evil
[credential]
\thelper = store
[http]
\textraHeader = Authorization: secret
[url \"https://token@example.com/\"]
\tinsteadOf = https://example.com/
";

fn world() -> World {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n"), ("a.log", "1\n")]);
    let home = world.outside().join("home");
    std::fs::write(home.join(".gitconfig"), PERSONAL).unwrap();
    std::fs::write(home.join("ignored"), "*.log\n").unwrap();
    let made = world
        .command("git".as_ref(), &["init", "-q", "-b", "main"])
        .status();
    assert!(made.unwrap().success());
    world
}

fn run(world: &World, mechanism: &str, script: &str) -> Ran {
    let flags = ["exec", "-q", "--mechanism", mechanism, "--"];
    world.forge(&[&flags[..], &["sh", "-c", script]].concat())
}

#[test]
fn commands_get_those_that_say_how_git_works() {
    let world = world();
    let table = |file: &str| {
        for mechanism in mechanisms(&world) {
            for (script, want) in [
                ("git config --get init.defaultBranch", "trunk\n"),
                ("git config --get push.default", "current\n"),
                ("git config --get pull.rebase", "true\n"),
                ("git config --get color.diff.meta", "blue\n"),
                ("git config --get alias.quoted", "log --format=\"%s\"\n"),
                (
                    "git status --short; git add -A; git ls-files",
                    "?? forge.yaml\nforge.yaml\n",
                ),
                ("git rm -q --cached forge.yaml; git st", "?? forge.yaml\n"),
                // The repository's own settings win, and those that a command makes.
                (
                    "git config --global push.default upstream; git config push.default",
                    "upstream\n",
                ),
                (
                    "cd $(mktemp -d); git init -q; git branch --show-current",
                    "trunk\n",
                ),
                (
                    "git config --list | grep -i -e evil -e secret -e token -e =store -e gpgsign",
                    "",
                ),
                (
                    "grep -rs secret \"${GIT_CONFIG_SYSTEM%/*}\"; grep -rs token \"${GIT_CONFIG_SYSTEM%/*}\"",
                    "",
                ),
                ("echo >> \"$GIT_CONFIG_SYSTEM\" || echo kept", "kept\n"),
                // `.git/info` is protected, and both would write a list there.
                (
                    "git commit -qm a --allow-empty; git gc 2>&1; git repack -adq 2>&1",
                    "",
                ),
                // git tries to remove the empty directories on the way, up to its own.
                (
                    "echo a > new; git add new; git stash -q; git stash drop -q",
                    "",
                ),
            ] {
                let ran = run(&world, mechanism, script);
                assert_eq!(
                    ran.stdout, want,
                    "{file}, {mechanism}: {script}\n{}",
                    ran.stderr
                );
                assert!(
                    !script.contains("stash") || ran.stderr.is_empty(),
                    "{}",
                    ran.stderr
                );
            }
        }
    };
    table("~/.gitconfig");
    // git itself is asked where files are included, and has a place of its own for ignored names.
    let home = world.outside().join("home");
    let settings = home.join(".config/git");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::rename(home.join("ignored"), settings.join("ignore")).unwrap();
    let included = PERSONAL.replace("\texcludesFile = ~/ignored\n", "");
    std::fs::write(home.join("more"), included).unwrap();
    std::fs::write(home.join(".gitconfig"), "[include]\n\tpath = more\n").unwrap();
    table("an included file");
    let left = std::fs::read_dir(world.outside().join("state"))
        .unwrap()
        .flatten();
    let left = left.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with("git-settings-")
    });
    assert_eq!(left.count(), 0);
}

/// Who signs commits is told that those of a command are not.
#[test]
fn unsigned_commits_are_told() {
    let world = world();
    let commit = ["git", "commit", "-q", "--allow-empty", "-m", "x"];
    let config = world.outside().join("home/.gitconfig");
    for mechanism in mechanisms(&world) {
        for (gpg_sign, flags, command, is_told) in [
            ("true", &[][..], &commit[..], true),
            (
                "true",
                &[],
                &["/usr/bin/git", "-C", ".", "rebase", "HEAD"],
                true,
            ),
            ("true", &["-q"], &commit, false),
            ("true", &[], &["git", "status"], false),
            ("true", &[], &["echo", "commit"], false),
            ("true", &[], &["git", "log", "--grep", "commit"], false),
            ("true", &[], &["git", "-c", "x.y=commit", "status"], false),
            ("false", &[], &commit, false),
        ] {
            let settings = PERSONAL.replace("gpgSign = true", &format!("gpgSign = {gpg_sign}"));
            std::fs::write(&config, settings).unwrap();
            let exec = ["exec", "--mechanism", mechanism, "--"];
            let ran = world.forge(&[flags, &exec, command].concat());
            let told = ran.code(0).stderr.contains("are not signed");
            assert_eq!(told, is_told, "{mechanism} {gpg_sign} {command:?}: {ran:?}");
        }
    }
}

/// A command can make the first repository.
#[test]
fn a_new_repository_has_the_persons_branch_and_committer() {
    let world = World::new(&[("a", "1")]);
    let home = world.outside().join("home");
    std::fs::write(home.join(".gitconfig"), PERSONAL).unwrap();
    for mechanism in mechanisms(&world) {
        let script = "git init -q new && cd new && git commit -q --allow-empty -m x && \
                      git log --format='%an %ae' && git branch --show-current; cd ..; rm -rf new";
        let ran = run(&world, mechanism, script);
        assert_eq!(
            ran.stdout, "n n@example.com\ntrunk\n",
            "{mechanism}: {}",
            ran.stderr
        );
    }
}
