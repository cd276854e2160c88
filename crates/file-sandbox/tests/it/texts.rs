//! Every text that a model can see.

use std::error::Error as _;

use file_sandbox::{
    Error, FileSandbox, HardLinks, Limits, ListOptions, Mode, Restriction, RootStyle, SandboxPath,
    WriteOptions,
};
use insta::assert_snapshot;

use crate::scene::{Scene, mount, path};

fn read(files: &FileSandbox, at: &str) -> Error {
    match SandboxPath::parse(at) {
        Ok(path) => files.read(&path, Default::default()).unwrap_err(),
        Err(error) => error,
    }
}

fn write(files: &FileSandbox, at: &str) -> Error {
    files
        .write(&path(at), "0123456789+", Default::default())
        .unwrap_err()
}

/// The sentences for a project with named paths.
#[test]
fn sentences_of_the_documents() {
    let scene = Scene::new();
    let files = FileSandbox::builder()
        .mount(
            mount("portfolio", &scene.at("docs"), Mode::ReadWrite)
                .with_limits(Limits::new().suffixes([".md", ".pdf"]).max_file_bytes(10)),
        )
        .mount(mount("pipeline", &scene.at("ref"), Mode::ReadOnly))
        .root_style(RootStyle::Relative)
        .build()
        .unwrap();
    assert_snapshot!(read(&files, "/etc/passwd"), @r"
    Cannot access '/etc/passwd': path is outside sandbox.
    Readable paths: ./portfolio, ./pipeline
    ");
    assert_snapshot!(write(&files, "pipeline/x.md"), @r"
    Cannot write to 'pipeline/x.md': path is read-only.
    Writable paths: ./portfolio
    ");
    assert_snapshot!(read(&files, "portfolio/a.exe"), @r"
    Cannot access 'portfolio/a.exe': suffix not allowed.
    Allowed suffixes: .md, .pdf
    ");
    assert_snapshot!(read(&files, "portfolio/big.md"), @r"
    Cannot read 'portfolio/big.md': file too large (11 bytes).
    Maximum allowed: 10 bytes
    ");
    assert_snapshot!(write(&files, "./portfolio/new.md"), @r"
    Cannot write to './portfolio/new.md': file too large (11 bytes).
    Maximum allowed: 10 bytes
    ");
    assert_snapshot!(read(&files, "portfolio/nope.md"), @r"
    File not found: portfolio/nope.md
    Nearest existing names: ./portfolio/tool.md, ./portfolio/a.md, ./portfolio/big.md
    ");

    let ro = files
        .restrict(&Restriction::new().keep(path("pipeline")))
        .unwrap();
    assert_snapshot!(write(&ro, "pipeline/x.md"), @r"
    Cannot write to 'pipeline/x.md': path is read-only.
    Writable paths: none
    ");
    let none = FileSandbox::new(vec![]).unwrap();
    assert_snapshot!(read(&none, "/x"), @r"
    Cannot access '/x': path is outside sandbox.
    Readable paths: none
    ");
}

#[test]
fn sentences_of_our_own() {
    let scene = Scene::new();
    let files = &scene.files;
    assert_snapshot!(files.path("../x").unwrap_err(), @r"
    Cannot access '../x': path is outside sandbox.
    Readable paths: /data, /docs, /ref
    ");
    assert_snapshot!(read(files, "../x"), @r"Cannot access '../x': path is outside sandbox.");
    assert_snapshot!(read(files, "/data/out_rel"), @r"
    Cannot access '/data/out_rel': a link leads outside sandbox.
    Readable paths: /data, /docs, /ref
    ");
    assert_snapshot!(read(files, "/data/loop_a"), @r"Cannot access '/data/loop_a': too many links.");
    assert_snapshot!(read(files, "/data/fifo"), @r"Cannot read '/data/fifo': it is a pipe, not a file.");
    assert_snapshot!(read(files, "/data/socket"), @r"Cannot read '/data/socket': it is a socket, not a file.");
    assert_snapshot!(read(files, "/data/sub"), @r"
    Cannot read '/data/sub': it is a directory.
    List it instead.
    ");
    assert_snapshot!(read(files, "/data/a.md/x"), @r"Cannot read '/data/a.md/x': it is below a file, not a directory.");
    assert_snapshot!(files.list(&path("/data/a.md"), ListOptions::new()).unwrap_err(), @r"
    Cannot list '/data/a.md': it is a file, not a directory.
    Read it instead.
    ");
    assert_snapshot!(write(files, "/data/.git/hooks/x"), @r"Cannot write to '/data/.git/hooks/x': path is read-only, because '.git/hooks' is a protected name.");
    assert_snapshot!(write(files, "/data/hard.txt"), @r"Cannot write to '/data/hard.txt': the file has 2 hard links, and another of its names may be outside sandbox.");
    assert_snapshot!(files.delete(&path("/ref/r.md")).unwrap_err(), @r"
    Cannot delete '/ref/r.md': path is read-only.
    Writable paths: /data, /docs
    ");
    assert_snapshot!(files.delete(&path("data")).unwrap_err(), @r"Cannot delete 'data': it is a root of the sandbox.");
    assert_snapshot!(files.delete(&path("/data/sub")).unwrap_err(), @r"
    Cannot delete '/data/sub': it is a directory that is not empty.
    Delete what is in it first.
    ");
    assert_snapshot!(files.delete(&path("/data/A.MD")).unwrap_err(), @r"
    File not found: /data/A.MD
    Nearest existing names: /data/a.md
    ");
    let new = WriteOptions::new().create_new(true);
    assert_snapshot!(files.write(&path("/data/a.md"), "", new).unwrap_err(), @r"Cannot create '/data/a.md': it already exists.");
    assert_snapshot!(write(files, "/data/.forge-tmp-x"), @r"Invalid path '/data/.forge-tmp-x': the name is reserved for temporary files.");
    assert_snapshot!(files.read_bytes(&path("/data/a.md"), 5).unwrap_err(), @r"
    Cannot read '/data/a.md': file too large (6 bytes).
    Maximum allowed: 5 bytes
    ");
    std::fs::write(scene.at("data/pic.png"), b"\x89PNG\0").unwrap();
    assert_snapshot!(read(files, "/data/pic.png"), @r"
    Cannot read '/data/pic.png': not a text file.
    Pass binary files as attachments instead.
    ");
    let limits = Limits::new().hard_links(HardLinks::Deny);
    let strict = mount("/d", &scene.at("data"), Mode::ReadOnly).with_limits(limits);
    assert_snapshot!(read(&FileSandbox::new(vec![strict]).unwrap(), "/d/hard.txt"), @r"Cannot read '/d/hard.txt': the file has 2 hard links, and another of its names may be outside sandbox.");
}

#[test]
fn texts_that_are_no_paths() {
    let long = "n".repeat(300);
    let longer = "d/".repeat(2500);
    let error = |text: &str| SandboxPath::parse(text).unwrap_err();
    assert_snapshot!(error(""), @r"Invalid path '': it is empty.");
    assert_snapshot!(error("a\0b"), @r"Invalid path 'a\u{0}b': it contains a NUL character.");
    assert_snapshot!(error("~/x"), @r"Invalid path '~/x': '~' is not expanded here.");
    assert_snapshot!(error("C:\\x"), @r"Invalid path 'C:\x': it starts with a drive letter.");
    assert_snapshot!(error("a\\b"), @r"Invalid path 'a\b': it contains a backslash; names are separated by '/'.");
    assert_snapshot!(error(&long), @r"
    Cannot access 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn…': name too long (300 bytes).
    Maximum allowed: 255 bytes
    ");
    assert_snapshot!(error(&longer), @r"
    Cannot access 'd/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/…': path too long (5000 bytes).
    Maximum allowed: 4096 bytes
    ");
    assert_snapshot!(SandboxPath::parse_strict("a/../b").unwrap_err(), @r"Invalid path 'a/../b': '..' is not allowed here.");
    assert_snapshot!(SandboxPath::root().join("/a").unwrap_err(), @r"Invalid path '/a': it is not relative.");
    let files = FileSandbox::new(vec![]).unwrap();
    let pattern = ListOptions::new().pattern("[a");
    assert_snapshot!(files.list(&SandboxPath::root(), pattern).unwrap_err(), @r"Invalid pattern '[a': '[' is not closed.");
    // A name that tries to write lines of its own.
    assert_snapshot!(read(&files, "/x\nReadable paths: /etc\u{1b}[2J"), @r"
    Cannot access '/x\u{a}Readable paths: /etc\u{1b}[2J': path is outside sandbox.
    Readable paths: none
    ");
}

#[test]
fn sentences_about_more_than_there_is() {
    let scene = Scene::new();
    let error = |r: Restriction| scene.files.restrict(&r).unwrap_err();
    let keep = |at: &str| Restriction::new().keep(path(at));
    assert_snapshot!(error(Restriction::new().read_only(false)), @r"Cannot upgrade read-only sandbox to read-write");
    assert_snapshot!(error(Restriction::new().keep_as(path("/ref"), Mode::ReadWrite)), @r"Child requests 'rw' on 'ref' but parent only has 'ro'");
    assert_snapshot!(error(keep("/logs")), @r"
    Child requests 'logs' but parent doesn't have it
    Available: data, docs, ref
    ");
    assert_snapshot!(error(keep("/data/in_dir")), @r"
    Child requests 'data/in_dir' but a link is on the way
    Name the directory that it leads to.
    ");
}

#[test]
fn sentences_about_mounts() {
    let scene = Scene::new();
    let authority = cap_std::ambient_authority();
    let open = |host: &str| {
        let host = scene.at(host);
        file_sandbox::Mount::open_ambient(path("/m"), &host, Mode::ReadOnly, authority).unwrap_err()
    };
    assert_snapshot!(open("none"), @r"Cannot mount '/m': its directory does not exist.");
    assert_snapshot!(open("data/a.md"), @r"Cannot mount '/m': it is not a directory.");
    assert_snapshot!(open("/proc"), @r"Cannot mount '/m': the directory gives access to the system itself.");
    assert!(open("none").source().is_some());
    let twice = |a: &str, b: &str| {
        let a = mount(a, &scene.at("data"), Mode::ReadOnly);
        let b = mount(b, &scene.at("data"), Mode::ReadWrite);
        FileSandbox::new(vec![a, b]).unwrap_err()
    };
    assert_snapshot!(twice("/a", "/a"), @r"Cannot mount '/a': this place is taken by another one.");
    assert_snapshot!(twice("/a", "/b"), @r"Cannot mount '/b': its directory is also reached as '/a', with other rules.");
    let bad = mount("/a", &scene.at("data"), Mode::ReadOnly).protect(["a/../b"]);
    assert_snapshot!(bad.unwrap_err(), @r"Invalid pattern 'a/../b': '..' is not allowed here.");
}
