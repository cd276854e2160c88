//! `examples/dep-audit` on the real registry of this machine, checked against a count
//! of the test's own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::{Ran, World};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn cargo_home() -> PathBuf {
    std::env::var_os("CARGO_HOME").map_or_else(
        || std::env::home_dir().unwrap().join(".cargo"),
        PathBuf::from,
    )
}

/// A copy of the example, so that the run changes nothing of the checkout.
fn copy_of_the_example(world: &World) -> PathBuf {
    let target = world.project().join("dep-audit");
    copy(&repository().join("examples/dep-audit"), &target);
    let _ = std::fs::remove_file(target.join("workspace/report.md"));
    target
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_symlink() {
            let link = std::fs::read_link(entry.path()).unwrap();
            std::os::unix::fs::symlink(link, target).unwrap();
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn run(world: &World, args: &[&str]) -> Ran {
    let output = world
        .command(crate::support::forge_program(), args)
        .env("CARGO_HOME", cargo_home())
        .output()
        .unwrap();
    crate::support::ran(output)
}

#[test]
fn the_locked_crates_are_the_ones_of_the_real_lock_file() {
    let ours = std::fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let copied = repository().join("examples/dep-audit/inputs/Cargo.lock");
    let same = std::fs::read_to_string(copied).unwrap() == ours;
    assert!(same, "it is out of date: run `cargo xtask docs`");
}

#[test]
fn without_trust_it_names_the_key_and_the_line() {
    let world = World::new(&[]);
    copy_of_the_example(&world);
    let ran = run(&world, &["run", "dep-audit"]);
    ran.code(2)
        .says(&["sandbox.zones.registry.path", "forge.yaml:17:13", "--trust"]);
    assert_eq!(ran.stdout, "");
}

#[test]
fn the_report_is_right_and_every_attempt_is_stopped() {
    let world = World::new(&[]);
    let example = copy_of_the_example(&world);
    let ran = run(&world, &["run", "--trust", "dep-audit"]);
    ran.code(0);
    let report = std::fs::read_to_string(example.join("workspace/report.md")).unwrap();
    let first_lines: Vec<&str> = report
        .lines()
        .filter(|line| !line.is_empty())
        .take(12)
        .collect();
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), first_lines);

    let counted = count();
    for line in [
        format!(
            "{} third-party crates in the lock file, {} of them unpacked on this disk.",
            counted.locked, counted.unpacked
        ),
        format!(
            "{} crates mention `unsafe`, {} times in {} files; {} crates run a build script.",
            counted.unsafe_files.len(),
            counted.unsafe_words,
            counted.unsafe_files.values().sum::<u64>(),
            counted.build_scripts,
        ),
    ] {
        assert!(report.contains(&line), "no {line:?} in\n{report}");
    }
    let table = |heading: &str| -> BTreeMap<String, u64> {
        report
            .split_once(heading)
            .unwrap()
            .1
            .lines()
            .skip(1)
            .take_while(|line| !line.starts_with("## "))
            .filter_map(|line| {
                let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
                let number = cells.next()?.parse().ok()?;
                Some((cells.next()?.to_owned(), number))
            })
            .collect()
    };
    assert_eq!(table("## Licences"), counted.licences);
    let top = table("## Unsafe");
    assert_eq!(top.len(), counted.unsafe_files.len().min(10));
    for (name, files) in top {
        assert_eq!(counted.unsafe_files.get(&name), Some(&files), "{name}");
    }

    insta::assert_snapshot!(attempts(&ran.stderr), @r"
    attempt | stopped by | rule or mechanism
    read ~/.cargo/credentials.toml | file sandbox | INVALID_PATH
    climb out of the registry to credentials.toml | file sandbox | OUTSIDE_SANDBOX
    read /etc/passwd | file sandbox | OUTSIDE_SANDBOX
    follow a planted link to /etc/passwd | file sandbox | ESCAPE
    write a backdoor into the registry | file sandbox | READ_ONLY
    use a tool that this worker was not given | tool list | UNKNOWN_TOOL
    call a worker that holds more than this one | grant | PERMISSION_ESCALATION
    run a program that no rule names | rule | `default`
    search other people's files with an allowed program | OS sandbox | read outside: enforced
    overwrite a crate with an allowed program | OS sandbox | write outside: enforced
    run such a program by `find -exec` | rule | `default`
    open a TCP connection | OS sandbox | network: enforced
    keep a process running after the call | OS sandbox | survivors: enforced
    delete the report | rule | `approval.delete: blocked`
    ");
}

/// The attempts, without what depends on the machine: the mechanism in brackets.
fn attempts(stderr: &str) -> String {
    let rows = stderr
        .lines()
        .skip_while(|line| !line.starts_with("attempt "))
        .take_while(|line| line.contains(" | "));
    let shown: Vec<String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split(" | ").map(str::trim).collect();
            let rule = cells[2].split(" (").next().unwrap_or_default();
            format!("{} | {} | {rule}", cells[0], cells[1])
        })
        .collect();
    shown.join("\n")
}

/// What the report should say, counted without forge.
#[derive(Default)]
struct Counted {
    locked: usize,
    unpacked: usize,
    licences: BTreeMap<String, u64>,
    unsafe_files: BTreeMap<String, u64>,
    unsafe_words: u64,
    build_scripts: usize,
}

fn count() -> Counted {
    let lock = std::fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let mut names = BTreeSet::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            package
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{key} = \"")))
                .map(|rest| rest.trim_end_matches('"').to_owned())
        };
        if value("source").is_some() {
            names.insert(format!(
                "{}-{}",
                value("name").unwrap(),
                value("version").unwrap()
            ));
        }
    }
    let mut counted = Counted {
        locked: names.len(),
        ..Counted::default()
    };
    for index in std::fs::read_dir(cargo_home().join("registry/src")).unwrap() {
        for package in std::fs::read_dir(index.unwrap().path()).unwrap() {
            let package = package.unwrap();
            let name = package.file_name().into_string().unwrap();
            if names.contains(&name) {
                counted.unpacked += 1;
                count_package(&mut counted, &name, &package.path());
            }
        }
    }
    counted
}

fn count_package(counted: &mut Counted, name: &str, path: &Path) {
    let manifest = std::fs::read_to_string(path.join("Cargo.toml")).unwrap();
    let licence = manifest
        .lines()
        .find_map(|line| line.strip_prefix("license = \""))
        .map_or("not stated", |rest| rest.trim_end_matches('"'));
    *counted.licences.entry(licence.to_owned()).or_default() += 1;
    counted.build_scripts += usize::from(path.join("build.rs").is_file());
    let mut open = vec![path.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() && entry.path().extension().is_some_and(|e| e == "rs") {
                let words = unsafe_words(&std::fs::read(entry.path()).unwrap());
                if words > 0 {
                    counted.unsafe_words += words;
                    *counted.unsafe_files.entry(name.to_owned()).or_default() += 1;
                }
            }
        }
    }
}

/// How often the word `unsafe` stands in a text, bounded by what is not a letter, a
/// digit or an underscore.
fn unsafe_words(text: &[u8]) -> u64 {
    // The library's search is optimised, which a loop of this file is not.
    let text = String::from_utf8_lossy(text);
    let is_word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let bounded = |(start, word): &(usize, &str)| {
        let at = |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at));
        !is_word(at(start.checked_sub(1))) && !is_word(at(Some(start + word.len())))
    };
    text.match_indices("unsafe").filter(bounded).count() as u64
}
