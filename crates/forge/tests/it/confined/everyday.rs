//! Everyday commands run in `forge exec` as they do outside: as an ordinary user with an empty
//! home, in a small git project. The table is `fixtures/everyday.tsv`; `docs/first-hour.md` is made
//! from it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Ran, copy_forge, ran};

const TABLE: &str = include_str!("../../../../../fixtures/everyday.tsv");

/// The user of a test that root starts.
const ORDINARY: &str = "65534";

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a row says of one mechanism when a command runs there as it does outside.
const SAME: &str = "same";

/// The mechanisms, in the order of the columns.
const MECHANISMS: [&str; 2] = ["namespaces", "landlock"];

struct Row<'a> {
    command: &'a str,
    needs: &'a str,
    /// What the table says of each mechanism.
    expected: [&'a str; MECHANISMS.len()],
}

fn rows() -> Vec<Row<'static>> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [_, command, needs, namespaces, landlock] = cells[..] else {
            panic!("not five cells: {line}");
        };
        Row {
            command,
            needs,
            expected: [namespaces, landlock],
        }
    });
    rows.collect()
}

/// A person with an empty home, and a project to copy for each command.
struct Person {
    root: tempfile::TempDir,
}

impl Person {
    fn new() -> Person {
        let person = Person {
            root: tempfile::tempdir().unwrap(),
        };
        let root = person.root.path();
        for dir in [
            "home",
            "state",
            "project/src",
            "project/empty",
            "project/dep",
            "project/tests",
        ] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        for (name, text) in [
            ("README.md", "hello\n"),
            ("src/app.py", "def hello():\n    return 'hello'\n"),
            ("src/data.txt", "one\ntwo\n"),
            (
                "test_app.py",
                "import sys, unittest\nsys.path.insert(0, 'src')\nimport app\n\
                 class T(unittest.TestCase):\n    def test(self): self.assertEqual(app.hello(), 'hello')\n",
            ),
            (
                "hello.c",
                "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n",
            ),
            (
                "Makefile",
                "hello: hello.c\n\tcc -o hello hello.c\nclean:\n\trm -f hello\n",
            ),
            (".env", "A=1\n"),
            (
                "cert.pem",
                "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            ),
            (
                "tests/key.pem",
                "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n",
            ),
            (
                "dep/package.json",
                "{\"name\": \"dep\", \"version\": \"1.0.0\"}\n",
            ),
            ("dep/index.js", "module.exports = 'dep'\n"),
        ] {
            std::fs::write(root.join("project").join(name), text).unwrap();
        }
        std::fs::write(
            root.join("home/.gitconfig"),
            "[user]\n\tname = A. Person\n\temail = a@example.com\n[init]\n\tdefaultBranch = main\n",
        )
        .unwrap();
        copy_forge(&root.join("forge"), b"");
        if is_root() {
            let mut chown = Command::new("chown");
            chown.arg("-R").arg(format!("{ORDINARY}:{ORDINARY}"));
            chown.arg(root);
            assert!(chown.status().unwrap().success());
        }
        let made = person.outside(
            &root.join("project"),
            "git init -q && git add -A && git commit -qm first && git clone -q --bare . hub.git && \
             git remote add hub ./hub.git && echo hub.git >> .git/info/exclude",
        );
        made.code(0);
        person
    }

    fn command(&self, directory: &Path, words: &[&str]) -> Ran {
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                let ids = ["--reuid", ORDINARY, "--regid", ORDINARY, "--clear-groups"];
                command.args(ids).args(words);
                command
            }
            false => {
                let mut command = Command::new(words[0]);
                command.args(&words[1..]);
                command
            }
        };
        command
            .current_dir(directory)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.root.path().join("home"))
            .env("FORGE_STATE_DIR", self.root.path().join("state"))
            .stdin(Stdio::null());
        ran(command.output().unwrap())
    }

    fn outside(&self, directory: &Path, script: &str) -> Ran {
        self.command(directory, &["sh", "-ec", script])
    }

    fn inside(&self, directory: &Path, mechanism: &str, script: &str) -> Ran {
        let forge = self.root.path().join("forge");
        let forge = forge.to_str().unwrap();
        let exec = [forge, "exec", "-q", "--mechanism", mechanism];
        let words = [&exec[..], &["--", "sh", "-ec", script]].concat();
        self.command(directory, &words)
    }

    /// A copy of the project, always of the same name, for commands that print it.
    fn copy(&self, name: &str) -> PathBuf {
        let around = self.root.path().join(name);
        let to = around.join("project");
        let script = format!("mkdir {0} && cp -a project {0}/", around.display());
        self.outside(self.root.path(), &script).code(0);
        to
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn they_run_as_they_do_outside() {
    let person = Person::new();
    let is_there = MECHANISMS.map(|mechanism| {
        let copy = person.copy(&format!("probe-{mechanism}"));
        let probe = person.inside(&copy, mechanism, "true");
        if probe.code != 0 {
            eprintln!("skipped: no {mechanism} here: {}", probe.stderr);
        }
        probe.code == 0
    });
    let rows = rows();
    let next = AtomicUsize::new(0);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let one = || {
            let mut wrong = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(row) = rows.get(index) else {
                    return wrong;
                };
                wrong.extend(complaints(&person, is_there, index, row));
            }
        };
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(one)).collect();
        let wrong = workers.into_iter().map(|worker| worker.join().unwrap());
        wrong.flatten().collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is not as the row says, under the mechanisms that are there.
#[expect(clippy::print_stderr, reason = "a skip is said")]
fn complaints(
    person: &Person,
    is_there: [bool; MECHANISMS.len()],
    index: usize,
    row: &Row<'_>,
) -> Vec<String> {
    let command = row.command;
    if row.needs != "-" {
        let there = person.outside(Path::new("/"), &format!("command -v {}", row.needs));
        if there.code != 0 {
            eprintln!("skipped: no {} here: {command}", row.needs);
            return Vec::new();
        }
    }
    let outside = person.outside(&person.copy(&format!("{index}-outside")), command);
    if outside.code != 0 {
        let why = outside.stderr;
        return vec![format!("it fails outside: {command}\n{why}")];
    }
    let rows = MECHANISMS.iter().zip(row.expected).zip(is_there);
    let rows = rows.filter_map(|(row, is_there)| is_there.then_some(row));
    let wrong = rows.filter_map(|(mechanism, expected)| {
        let directory = person.copy(&format!("{index}-{mechanism}"));
        let Ran {
            code,
            stdout,
            stderr,
        } = person.inside(&directory, mechanism, command);
        let is_same = code == 0 && stdout == outside.stdout;
        let is_expected = is_same == (expected == SAME);
        (!is_expected).then(|| {
            format!(
                "{command} under {mechanism}\n  expected: {expected}\n  outside: {:?}\n  \
                 inside: exit {code}, {stdout:?}, {stderr:?}",
                outside.stdout
            )
        })
    });
    wrong.collect()
}
