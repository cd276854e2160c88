//! Where a project file is looked for, and what holds without one.

use std::path::Path;

use sandbox_config::{ConfigChoice, Mode, Sources, WithoutDirectories, load};

use crate::support::{CONFIG, Scratch, codes};

/// What lies below the project's parent, where one starts, where home is, what was asked for, and
/// the file that is found; `Err` is a code.
struct Row {
    about: &'static str,
    /// Files by name; a name that ends in `/` is a directory.
    tree: &'static [(&'static str, &'static str)],
    start: &'static str,
    home: Option<&'static str>,
    choice: Asked,
    found: Result<Option<&'static str>, &'static str>,
}

enum Asked {
    Nothing,
    /// `--config`
    File(&'static str),
    /// `--no-config`
    None,
}

const GOOD: &str = "name: found\n";
const BROKEN: &str = "name: [\n";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { about: "the start itself",
        tree: &[("p/program.yml", GOOD)],
        start: "p", home: None, choice: Asked::Nothing, found: Ok(Some("p/program.yml")) },
    Row { about: "above the start",
        tree: &[("p/golem-forge.config.yaml", GOOD), ("p/a/b/", "")],
        start: "p/a/b", home: None, choice: Asked::Nothing, found: Ok(Some("p/golem-forge.config.yaml")) },
    Row { about: "the nearest of several, whatever its name",
        tree: &[("p/golem-forge.config.yaml", GOOD), ("p/a/program.yml", GOOD), ("p/a/b/", "")],
        start: "p/a/b", home: None, choice: Asked::Nothing, found: Ok(Some("p/a/program.yml")) },
    Row { about: "files of such names in directories beside the way are nobody's",
        tree: &[("p/other/program.yaml", GOOD), ("p/a/", "")],
        start: "p/a", home: None, choice: Asked::Nothing, found: Ok(None) },
    Row { about: "beside a .git",
        tree: &[("p/.git/", ""), ("p/program.yaml", GOOD), ("p/a/", "")],
        start: "p/a", home: None, choice: Asked::Nothing, found: Ok(Some("p/program.yaml")) },
    Row { about: "not above a .git",
        tree: &[("p/program.yaml", GOOD), ("p/a/.git/", ""), ("p/a/b/", "")],
        start: "p/a/b", home: None, choice: Asked::Nothing, found: Ok(None) },
    Row { about: "a linked worktree's .git is a file",
        tree: &[("p/program.yaml", GOOD), ("p/a/.git", "gitdir: x\n"), ("p/a/b/", "")],
        start: "p/a/b", home: None, choice: Asked::Nothing, found: Ok(None) },
    Row { about: "a .git inside of the project's repository takes no directory out of it in silence",
        tree: &[("p/.git/", ""), ("p/program.yaml", GOOD), ("p/a/.git/", ""), ("p/a/b/", "")],
        start: "p/a/b", home: None, choice: Asked::Nothing, found: Err("config.cut_off") },
    Row { about: "nor does a file of that name",
        tree: &[("p/.git/", ""), ("p/program.yaml", GOOD), ("p/a/.git", "")],
        start: "p/a", home: None, choice: Asked::Nothing, found: Err("config.cut_off") },
    Row { about: "unless it has a project file",
        tree: &[("p/.git/", ""), ("p/program.yaml", GOOD), ("p/a/.git/", ""), ("p/a/program.yaml", GOOD)],
        start: "p/a", home: None, choice: Asked::Nothing, found: Ok(Some("p/a/program.yaml")) },
    Row { about: "or is asked for by itself",
        tree: &[("p/.git/", ""), ("p/program.yaml", GOOD), ("p/a/.git/", "")],
        start: "p/a", home: None, choice: Asked::None, found: Ok(None) },
    Row { about: "not in the home directory when one starts below it",
        tree: &[("home/program.yaml", GOOD), ("home/p/", "")],
        start: "home/p", home: Some("home"), choice: Asked::Nothing, found: Ok(None) },
    Row { about: "nor above it",
        tree: &[("program.yaml", GOOD), ("home/p/", "")],
        start: "home/p", home: Some("home"), choice: Asked::Nothing, found: Ok(None) },
    Row { about: "in the home directory when one starts there",
        tree: &[("home/program.yaml", GOOD)],
        start: "home", home: Some("home"), choice: Asked::Nothing, found: Ok(Some("home/program.yaml")) },
    Row { about: "below the home directory",
        tree: &[("home/p/program.yaml", GOOD), ("home/p/a/", "")],
        start: "home/p/a", home: Some("home"), choice: Asked::Nothing, found: Ok(Some("home/p/program.yaml")) },
    Row { about: "two names in one directory",
        tree: &[("p/golem-forge.config.yml", GOOD), ("p/program.yaml", GOOD), ("p/a/", "")],
        start: "p/a", home: None, choice: Asked::Nothing, found: Err("config.two_files") },
    Row { about: "two names above the one that is found are not looked at",
        tree: &[("p/program.yml", GOOD), ("p/program.yaml", GOOD), ("p/a/program.yml", GOOD)],
        start: "p/a", home: None, choice: Asked::Nothing, found: Ok(Some("p/a/program.yml")) },
    Row { about: "a broken file is fatal, though a good one lies above",
        tree: &[("p/program.yaml", GOOD), ("p/a/program.yaml", BROKEN), ("p/a/b/", "")],
        start: "p/a/b", home: None, choice: Asked::Nothing, found: Err("config.syntax") },
    Row { about: "so is a directory of that name",
        tree: &[("p/program.yaml", GOOD), ("p/a/program.yaml/", ""), ("p/a/b/", "")],
        start: "p/a/b", home: None, choice: Asked::Nothing, found: Err("config.unreadable") },
    Row { about: "--config, from the start; its directory is the project",
        tree: &[("p/program.yaml", GOOD), ("p/other/mine.yaml", GOOD)],
        start: "p", home: None, choice: Asked::File("other/mine.yaml"), found: Ok(Some("p/other/mine.yaml")) },
    Row { about: "--config looks at nothing else",
        tree: &[("p/program.yaml", BROKEN), ("p/program.yml", BROKEN), ("p/mine.yaml", GOOD)],
        start: "p", home: None, choice: Asked::File("mine.yaml"), found: Ok(Some("p/mine.yaml")) },
    Row { about: "--config of a file that is absent",
        tree: &[("p/program.yaml", GOOD)],
        start: "p", home: None, choice: Asked::File("mine.yaml"), found: Err("config.unreadable") },
    Row { about: "--no-config, beside a broken file",
        tree: &[("p/program.yaml", BROKEN)],
        start: "p", home: None, choice: Asked::None, found: Ok(None) },
];

#[test]
fn which_file_is_found() {
    for row in ROWS {
        let scratch = row
            .tree
            .iter()
            .fold(Scratch::loose(), |scratch, (name, text)| {
                match name.strip_suffix('/') {
                    Some(dir) => scratch.dir(dir),
                    None => scratch.file(name, text),
                }
            });
        let at = |path: &str| scratch.path().join(path);
        let mut sources = Sources::new(at(row.start));
        sources.home = row.home.map(at);
        sources.choice = match row.choice {
            Asked::Nothing => ConfigChoice::Discover,
            Asked::File(file) => ConfigChoice::File(file.into()),
            Asked::None => ConfigChoice::None,
        };
        let project = match (load(&sources), row.found) {
            (Ok(project), Ok(_)) => project,
            (Err(mistakes), Err(code)) => {
                assert_eq!(codes(&mistakes), [code], "{}", row.about);
                continue;
            }
            (loaded, _) => panic!("{}: {loaded:?}", row.about),
        };
        let file = row.found.unwrap_or_default().map(at);
        assert_eq!(project.file(), file.as_deref(), "{}", row.about);
        let dir = file
            .as_deref()
            .and_then(Path::parent)
            .map_or(at(row.start), Path::to_path_buf);
        assert_eq!(project.dir(), dir, "{}", row.about);
        // The sandbox root lies at the project, wherever one starts.
        let cache = project
            .ceiling()
            .mount("cache")
            .map(|mount| mount.host().to_path_buf());
        let zones = file.is_none_or(|file| !file.to_string_lossy().contains("program"));
        assert_eq!(
            cache,
            zones.then(|| dir.join(".sandbox/cache")),
            "{}",
            row.about
        );
    }
}

/// Names the directory that the test, started once more, looks for a project file from.
const BELOW_BOUNDARY: &str = "FORGE_TEST_BELOW_BOUNDARY";

/// A file system is mounted where nobody else sees it, and this very test is run again there.
#[test]
fn a_file_system_of_its_own_is_a_boundary() {
    if let Some(start) = std::env::var_os(BELOW_BOUNDARY) {
        assert_eq!(load(&Sources::new(start)).unwrap().file(), None);
        return;
    }
    const NOT_HERE: i32 = 77;
    let scratch = Scratch::with_config(GOOD).dir("disk");
    let mount = format!("mount -t tmpfs none \"$1\" && mkdir \"$1/sub\" || exit {NOT_HERE}");
    let again = |script: &str| {
        std::process::Command::new("unshare")
            .args([
                "--mount",
                "sh",
                "-c",
                &format!("{script}\nexec \"$2\" --exact \"$3\""),
            ])
            .arg("sh")
            .arg(scratch.path().join("disk"))
            .arg(std::env::current_exe().unwrap())
            .arg("discovery::a_file_system_of_its_own_is_a_boundary")
            .env(BELOW_BOUNDARY, scratch.path().join("disk/sub"))
            .output()
    };
    let output = match again(&mount) {
        Ok(output) if output.status.code() != Some(NOT_HERE) => output,
        not_here => {
            eprintln!("skipped: no file system can be mounted here: {not_here:?}");
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(1) && said.is_empty() {
        eprintln!(
            "skipped: unshare: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    // Without the mount the file above is found, so it is the mount that hides it.
    let without = again("mkdir \"$1/sub\"").unwrap();
    assert!(!without.status.success());
}

#[test]
fn two_files_are_none() {
    let scratch = Scratch::with_config("").file("program.yaml", "");
    insta::assert_snapshot!(scratch.mistakes(), @r#"
    error[config.two_files]: two project files in one directory: golem-forge.config.yaml and program.yaml
      --> golem-forge.config.yaml
       = help: keep one, or name it with --config
    "#);
}

#[test]
fn every_name_is_read() {
    for name in [
        CONFIG,
        "golem-forge.config.yml",
        "program.yaml",
        "program.yml",
    ] {
        let scratch = Scratch::loose().file(name, "name: found\n");
        assert_eq!(scratch.load().unwrap().name(), "found", "{name}");
    }
}

#[test]
fn without_a_file() {
    let scratch = Scratch::loose();
    let project = scratch.load().unwrap();
    let names: Vec<&str> = project
        .ceiling()
        .mounts()
        .map(|mount| mount.name())
        .collect();
    assert_eq!(names, ["cache", "workspace"]);

    let mut sources = scratch.sources();
    sources.without_directories = WithoutDirectories::WholeDirectory;
    let project = load(&sources).unwrap();
    let root = project.ceiling().mount("/").unwrap();
    assert_eq!((root.target(), root.mode()), ("/", Mode::ReadWrite));
    assert_eq!(root.host(), scratch.path());
    assert!(
        project
            .ceiling()
            .protect()
            .iter()
            .any(|pattern| pattern == ".git/hooks")
    );
    assert!(
        project
            .ceiling()
            .hide()
            .iter()
            .any(|pattern| pattern == ".env*")
    );
    assert!(
        root.own_files()
            .iter()
            .any(|file| file == "/golem-forge.config.yaml")
    );

    sources.start = "/".into();
    assert_eq!(codes(&load(&sources).unwrap_err()), ["config.host_path"]);
}

#[test]
fn a_start_that_is_no_directory() {
    let scratch = Scratch::loose().file("f", "");
    for start in ["f", "absent"] {
        let mistakes = load(&Sources::new(scratch.path().join(start))).unwrap_err();
        assert_eq!(codes(&mistakes), ["config.unreadable"], "{start}");
    }
}

/// Anybody can put a project file into a directory that all may write.
#[test]
fn a_project_file_of_another_user_governs_nobody() {
    let scratch = Scratch::loose().file("p/program.yaml", GOOD).dir("p/mine");
    let file = scratch.path().join("p/program.yaml");
    if let Err(error) = std::os::unix::fs::chown(&file, Some(65534), None) {
        eprintln!("skipped: only root gives files away: {error}");
        return;
    }
    let found = |start: &str| load(&Sources::new(scratch.path().join(start)));
    assert_eq!(
        codes(&found("p/mine").unwrap_err()),
        ["config.foreign_file"]
    );
    // A caller in its directory means it, and so does its owner.
    assert_eq!(found("p").unwrap().file(), Some(file.as_path()));
    std::os::unix::fs::chown(scratch.path().join("p/mine"), Some(65534), None).unwrap();
    assert_eq!(found("p/mine").unwrap().file(), Some(file.as_path()));
}

/// A command can make a link, but no worker file.
#[test]
fn workers_are_not_read_through_a_link() {
    for link in ["workers", ".workers"] {
        let scratch = Scratch::loose()
            .file("p/program.yaml", GOOD)
            .file("other/outside.worker", "---\nname: outside\n---\nGo.\n")
            .link("../other", &format!("p/{link}"));
        let project = load(&Sources::new(scratch.path().join("p"))).unwrap();
        let mistakes = project.workers().unwrap_err();
        assert_eq!(codes(&mistakes), ["config.unreadable"], "{link}");
        assert!(project.worker("outside").is_err(), "{link}");
    }
}

/// Git keeps files where it can find a repository.
#[test]
fn a_name_is_no_repository() {
    const IN_PLACE: &str = "sandbox: { mode: direct, zones: { w: { path: ., mode: rw } } }\n";
    for (git, text, needs_consent) in [
        (".git", "", true),
        (".git", "gitdir: elsewhere\n", true),
        (".git", "gitdir: real\n", false),
        (".git/HEAD", "ref: refs/heads/main\n", false),
    ] {
        let scratch = Scratch::loose()
            .file("p/forge.yaml", IN_PLACE)
            .file("p/data.txt", "mine")
            .file("p/real/HEAD", "ref: refs/heads/main\n");
        let scratch = scratch.file(&format!("p/{git}"), text);
        let loaded = load(&Sources::new(scratch.path().join("p")));
        assert_eq!(loaded.is_err(), needs_consent, "{git} {text}: {loaded:?}");
    }
}

/// The person's own file is told all of its mistakes at once, as a project file is.
#[test]
fn a_users_file_has_all_of_its_mistakes_told() {
    let own = "limits: { max_stepz: 3 }\nlog: { redact: 5 }\nnetwork: fals\nprovidrs: {}\n";
    let scratch = Scratch::with_config(GOOD).file("own.yaml", own);
    let mut sources = scratch.sources();
    sources.user_file = Some(scratch.path().join("own.yaml"));
    let mistakes = load(&sources).unwrap_err();
    for key in ["max_stepz", "log.redact", "network", "providrs"] {
        assert!(mistakes.to_string().contains(key), "{key}: {mistakes}");
    }
    assert_eq!(codes(&mistakes).len(), 4, "{mistakes}");
}
