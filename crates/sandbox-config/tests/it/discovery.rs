//! Where a project file is looked for, and what holds without one.

use sandbox_config::{ConfigChoice, Mode, Sources, WithoutFile, load};

use crate::support::{CONFIG, Scratch, codes};

#[test]
fn from_below() {
    let scratch = Scratch::with_config("name: above\n").dir("a/b");
    let project = load(&Sources::new(scratch.path().join("a/b"))).unwrap();
    assert_eq!(project.dir(), scratch.path());
    assert_eq!(project.file(), Some(scratch.path().join(CONFIG).as_path()));
    // The sandbox root lies at the project, wherever one starts (F000-06).
    assert!(
        project
            .ceiling()
            .mount("cache")
            .unwrap()
            .host()
            .starts_with(scratch.path().join(".sandbox"))
    );
}

#[test]
fn not_beyond_a_repository_nor_in_the_home_directory() {
    let scratch = Scratch::with_config("name: above\n")
        .dir("repo/.git")
        .dir("repo/src");
    let project = load(&Sources::new(scratch.path().join("repo/src"))).unwrap();
    assert_eq!(project.file(), None);

    let scratch = Scratch::with_config("name: above\n").dir("a");
    let mut sources = Sources::new(scratch.path().join("a"));
    sources.home = Some(scratch.path());
    assert_eq!(load(&sources).unwrap().file(), None);
    sources.start = scratch.path();
    assert!(load(&sources).unwrap().file().is_some());
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
        let scratch = Scratch::new().file(name, "name: found\n");
        assert_eq!(scratch.load().unwrap().name(), "found", "{name}");
    }
}

#[test]
fn named_or_refused_by_hand() {
    let scratch = Scratch::with_config("name: a\n").file("other/b.yaml", "name: b\n");
    let mut sources = scratch.sources();
    sources.choice = ConfigChoice::File("other/b.yaml".into());
    let project = load(&sources).unwrap();
    assert_eq!(
        (project.name(), project.dir()),
        ("b", scratch.path().join("other").as_path())
    );
    sources.choice = ConfigChoice::None;
    assert_eq!(load(&sources).unwrap().file(), None);
}

#[test]
fn without_a_file() {
    let scratch = Scratch::new();
    let project = scratch.load().unwrap();
    let names: Vec<&str> = project
        .ceiling()
        .mounts()
        .map(|mount| mount.name())
        .collect();
    assert_eq!(names, ["cache", "workspace"]);

    let mut sources = scratch.sources();
    sources.without_file = WithoutFile::RootAtStart;
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
    let scratch = Scratch::new().file("f", "");
    for start in ["f", "absent"] {
        let mistakes = load(&Sources::new(scratch.path().join(start))).unwrap_err();
        assert_eq!(codes(&mistakes), ["config.unreadable"], "{start}");
    }
}
