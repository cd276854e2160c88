//! `forge image build`: the same image twice, mistakes that leave nothing behind, and real containers.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Ran, World, copy_forge, forge_program, ran};

const TAG: &str = "forge-sandbox:1";

/// Runs `forge image build` where no engine is.
fn build(world: &World, args: &[&str]) -> Ran {
    let all = [&["image", "build"], args].concat();
    let mut command = world.command(forge_program(), &all);
    command.env("DOCKER_HOST", "unix:///nonexistent/engine.sock");
    ran(command.output().unwrap())
}

fn json(ran: &Ran) -> serde_json::Value {
    ran.code(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// What differs from machine to machine is taken out: digests, libraries and where they are.
fn shown(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let of_host = [".so", "/lib", "/usr"]
            .iter()
            .any(|part| line.contains(part));
        if let Some((_, program)) = line.split_once("--library-path /.forge ") {
            lines.push(format!("entry point  [..]{program}"));
        } else if line.starts_with("entry point") {
            lines.push(line.replace("/.forge/forge", "[..]/.forge/forge"));
        } else if let Some((before, _)) = line.split_once("sha256:") {
            lines.push(format!("{before}sha256:[..]"));
        } else if let Some((before, _)) = line.split_once(" from ") {
            lines.push(format!("{before} from [..]"));
        } else if !of_host {
            lines.push(line.replace(env!("CARGO_PKG_VERSION"), "[version]"));
        }
    }
    lines.join("\n")
}

#[test]
fn a_dry_run_prints_everything_and_makes_nothing() {
    let world = World::new(&[]);
    let ran = build(&world, &["--dry-run"]);
    ran.code(0);
    let text: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| !of_a_library(line))
        .collect();
    insta::assert_snapshot!(shown(&text.join("\n")), @r"
    image        forge-sandbox:1
    base         none (scratch)
    entry point  [..]/.forge/forge node serve --stdio
    label        forge.node=1
    label        org.opencontainers.image.version=[version]
    id           sha256:[..]

    0755  /.forge/
    0755  /.forge/forge  from [..]
    0755  /etc/
    0644  /etc/group  (25 bytes)
    0644  /etc/passwd  (77 bytes)
    1777  /tmp/
    0755  /work/
    ");
    let object = json(&build(&world, &["--dry-run", "--json"]));
    assert_eq!(object["name"], TAG);
    assert!(object["id"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(fs::read_dir(world.project()).unwrap().count(), 0);
}

fn of_a_library(line: &str) -> bool {
    line.starts_with('0') && line.contains(".so.")
}

/// A copy of forge in a directory of its own, with a time of its own.
fn copy(world: &World, name: &str, more: &[u8]) -> PathBuf {
    let dir = world.outside().join(name);
    fs::create_dir(&dir).unwrap();
    let program = dir.join("forge");
    copy_forge(&program, more);
    program
}

#[test]
fn the_same_forge_gives_the_same_bytes_wherever_and_whenever() {
    let world = World::new(&[]);
    let run = |program: &Path, args: &[&str]| {
        let all = [&["image", "build", "--json"], args].concat();
        json(&ran(world.command(program, &all).output().unwrap()))
    };
    let (one, other) = (copy(&world, "one", b""), copy(&world, "other", b""));
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(86_400);
    fs::File::open(&other).unwrap().set_modified(old).unwrap();
    let first = run(&one, &["-o", "first.tar"]);
    let second = run(&other, &["-o", "../other/second.tar"]);
    assert_eq!(first["id"], second["id"]);
    assert_eq!(first["manifest"], second["manifest"]);
    let bytes = |place: &str| fs::read(world.project().join(place)).unwrap();
    assert!(
        bytes("first.tar") == bytes("../other/second.tar"),
        "the archives differ"
    );

    let third = run(&copy(&world, "third", b"\0"), &["--dry-run"]);
    assert_ne!(first["id"], third["id"]);
}

#[test]
fn mistakes_are_said_and_leave_nothing() {
    let world = World::new(&[("file", "")]);
    let digest = format!("sha256:{}", "0".repeat(64));
    let rows: [(&[&str], i32, &str); 11] = [
        (
            &["--tag=--privileged"],
            2,
            "invalid image name `--privileged`",
        ),
        (&["--tag", "a\nb"], 2, r"invalid image name `a\nb`"),
        (&["--tag", ""], 2, "invalid image name ``"),
        (&["--tag", &digest], 2, "cannot be given to another"),
        (
            &["--base", "../containers"],
            2,
            "--base: invalid image name `../containers`",
        ),
        (&["-o", "nowhere/a.tar"], 2, "nowhere: No such file"),
        (&["-o", "file/a.tar"], 2, "is not a directory"),
        (&["-o", "../home"], 2, "is there, and no file"),
        (&["-o", "-"], 2, "into a file, not to standard output"),
        (&["-o", "a.tar", "--dry-run"], 2, "cannot be used with"),
        (
            &[],
            7,
            "no container engine answers at unix:///nonexistent/engine.sock",
        ),
    ];
    for (args, code, says) in rows {
        build(&world, args).code(code).says(&[says]);
        let left: Vec<_> = fs::read_dir(world.project()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{args:?} left {left:?}");
    }
}

/// A file system of one megabyte, in a mount namespace of the test's own.
#[test]
fn a_full_disk_leaves_no_half_of_an_archive() {
    const SCRIPT: &str = "mount -t tmpfs -o size=1m none \"$1\" || exit 99; shift; \
        \"$@\" -o small/a.tar; code=$?; ls -A small; exit $code";
    let world = World::new(&[("small/.keep", "")]);
    let mut command = world.command(Path::new("unshare"), &[]);
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            SCRIPT,
            "sh",
        ])
        .arg(world.project().join("small"))
        .arg(forge_program())
        .args(["image", "build"]);
    let ran = ran(command.output().unwrap());
    if ran.code == 99 || ran.stderr.contains("unshare failed") {
        eprintln!("skipped: nobody may mount here: {}", ran.stderr);
        return;
    }
    ran.code(1)
        .says(&["cannot write", "No space left on device"]);
    assert_eq!(ran.stdout, "", "something is left");
}

mod engine {
    use super::*;
    use crate::daemon::{self, Daemon};

    /// `forge image build` with that engine, as an object.
    fn built(world: &World, engine: &Daemon, args: &[&str]) -> serde_json::Value {
        let all = [&["image", "build", "--json"], args].concat();
        let mut command = world.command(forge_program(), &all);
        json(&ran(command
            .env("DOCKER_HOST", engine.host())
            .output()
            .unwrap()))
    }

    /// One test, since an engine is dear: what is built is there under its id, and runs.
    #[test]
    fn what_is_built_runs_in_a_real_engine() {
        let engine = match Daemon::start() {
            Ok(engine) => engine,
            Err(reason) => {
                eprintln!("skipped: {reason}");
                return;
            }
        };
        let world = World::new(&[]);
        let tag = "forge-test-image:1";
        let made = built(&world, &engine, &["--tag", tag]);
        let inspect = |format: &str| engine.docker(&["inspect", "--format", format, tag]);
        assert_eq!(inspect("{{.Id}}"), made["id"].as_str().unwrap());
        assert_eq!(built(&world, &engine, &["--tag", tag])["id"], made["id"]);
        let version = format!("forge {}", env!("CARGO_PKG_VERSION"));
        let run = [
            "run",
            "--rm",
            "--network",
            "none",
            "--read-only",
            "--cap-drop",
            "ALL",
        ];
        let forge = ["--entrypoint", "/.forge/forge", tag, "--version"];
        assert_eq!(engine.docker(&[&run[..], &forge].concat()), version);

        // As a broker that is gone at once: the entry point is a node, and ends.
        let node = engine.try_docker(&[&run[..], &["--interactive", tag]].concat());
        assert_eq!(node.status.code(), Some(0), "{node:?}");
        assert!(node.stderr.is_empty(), "{node:?}");
        on_a_base(&engine, &world, &run, &version);
        let _gone = engine.try_docker(&["rmi", tag]);
    }

    /// Everything of the base is there, and forge beside it.
    fn on_a_base(engine: &Daemon, world: &World, run: &[&str], version: &str) {
        let tag = "forge-test-base:1";
        let id = engine.docker(&["inspect", "--format", "{{.Id}}", daemon::IMAGE]);
        let made = built(world, engine, &["--tag", tag, "--base", daemon::IMAGE]);
        assert_eq!(made["base"]["id"], id);
        assert_eq!(
            built(world, engine, &["--tag", tag, "--base", &id])["id"],
            made["id"]
        );
        let inspect = |format: &str| engine.docker(&["inspect", "--format", format, tag]);
        assert_eq!(inspect("{{.Id}}"), made["id"].as_str().unwrap());
        let label = "{{index .Config.Labels \"org.opencontainers.image.base.digest\"}}";
        assert_eq!(inspect(label), id);
        let shell = ["--entrypoint", "/bin/sh", tag, "-c", "cat /etc/secret"];
        assert_eq!(
            engine.docker(&[run, &shell].concat()),
            "a secret of the image"
        );
        // As the entry point starts it: the base has no loader for it.
        let words: Vec<String> = serde_json::from_value(made["entrypoint"].clone()).unwrap();
        let words: Vec<&str> = words
            .iter()
            .map(String::as_str)
            .take_while(|word| *word != "node")
            .collect();
        let (first, rest) = words.split_first().unwrap();
        let forge = [&["--entrypoint", first, tag], rest, &["--version"]].concat();
        assert_eq!(engine.docker(&[run, &forge].concat()), version);
        let _gone = engine.try_docker(&["rmi", tag]);

        let mut unknown =
            world.command(forge_program(), &["image", "build", "--base", "nothing:1"]);
        let unknown = ran(unknown.env("DOCKER_HOST", engine.host()).output().unwrap());
        unknown.code(1).says(&[
            "the container engine has no image `nothing:1`",
            "docker pull",
        ]);
    }
}
