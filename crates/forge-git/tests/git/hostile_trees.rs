//! Trees that no git of ours would make: what a pull takes of them, and what a stage and a push make
//! of them.

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use forge_git::{BranchName, GitErrorKind, GitProgram, GitRepositories as _, OnDivergence, Repo};
use os_sandbox::Support;
use sha1::Digest as _;

use crate::program::{Bare, confined, git, over_file};
use crate::world::{World, wait};

/// What nothing of this may take longer than, on a slow machine with others at work.
const LONG: Duration = Duration::from_secs(600);

pub(crate) fn bare(world: &World) -> &Bare {
    world.others.as_bare().unwrap()
}

/// Writes an object that git itself would refuse to make. Not by a program: some trees are thousands
/// of objects.
fn hash(world: &World, kind: &str, bytes: &[u8]) -> String {
    let object = [format!("{kind} {}\0", bytes.len()).as_bytes(), bytes].concat();
    let digest = sha1::Sha1::digest(&object);
    let id: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let dir = bare(world).dir.join("objects").join(&id[..2]);
    std::fs::create_dir_all(&dir).unwrap();
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&object).unwrap();
    std::fs::write(dir.join(&id[2..]), packed.finish().unwrap()).unwrap();
    id
}

fn raw(id: &str) -> Vec<u8> {
    let digits = id.as_bytes().chunks(2);
    digits
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

/// A tree as it is written, in the order given.
pub(crate) fn tree(world: &World, entries: &[(&str, &[u8], &str)]) -> String {
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend_from_slice(mode.as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(name);
        bytes.push(0);
        bytes.extend_from_slice(&raw(id));
    }
    hash(world, "tree", &bytes)
}

pub(crate) fn blob(world: &World, text: &str) -> String {
    hash(world, "blob", text.as_bytes())
}

/// Makes it what stands at the top of `main`.
pub(crate) fn commit(world: &World, top: &str) {
    let text = format!("tree {top}\nauthor x <x@x> 0 +0000\ncommitter x <x@x> 0 +0000\n\nx\n");
    let id = hash(world, "commit", text.as_bytes());
    std::fs::write(bare(world).dir.join("refs/heads/main"), format!("{id}\n")).unwrap();
}

/// A world with `names` in the directory `d`, and `a.md` beside it.
fn with_names(names: &[&[u8]]) -> World {
    let world = over_file();
    let file = blob(&world, "x\n");
    let entries: Vec<(&str, &[u8], &str)> = names
        .iter()
        .map(|name| ("100644", *name, file.as_str()))
        .collect();
    let below = tree(&world, &entries);
    let top = tree(
        &world,
        &[("100644", b"a.md", &file), ("40000", b"d", &below)],
    );
    commit(&world, &top);
    world
}

#[test]
fn a_name_that_is_not_safe_is_listed_and_not_pulled() {
    if !confined() {
        return;
    }
    let long = [b'n'; 300];
    let rows: &[&[u8]] = &[
        b".git",
        b".GIT",
        b".git ",
        b"git~1",
        b"GITMOD~1",
        b".gitmodules",
        b".g\xe2\x80\x8cit",
        b".git\xef\xb8\x8f",
        b".git::$INDEX_ALLOCATION",
        b"..",
        b".",
        b"../../up",
        b"/etc/cron.d/x",
        b"a\\..\\b",
        b"two\nlines",
        b"tab\tname",
        b"\x1b]0;title\x07",
        b"caf\xe9",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        &long,
    ];
    let world = with_names(rows);
    let pulled = world.pull(&["d"], "/workspace").unwrap();
    assert_eq!(pulled.files, [], "none of them is safe");
    assert_eq!(pulled.skipped.len(), rows.len());
    for (path, why) in &pulled.skipped {
        assert_eq!(*why, "its name is not safe as a path");
        assert!(!path.contains(char::is_control), "{path:?}");
    }
    // Nor do they stand in the way of what is safe, or become part of it.
    for path in ["/workspace/d/new.md", "/workspace/d/caf\u{fffd}"] {
        world.write(path, "mine\n");
        let staged = world.stage(&[path]).unwrap();
        assert_eq!(staged.files()[0].operation().as_str(), "create");
        assert!(wait(world.git.discard(staged.id())).is_ok());
    }
}

#[test]
fn two_names_that_are_one_are_each_what_they_are() {
    if !confined() {
        return;
    }
    let world = with_names(&[b"A.md", b"a.md", b"same", b"same"]);
    let pulled = world.pull(&["d"], "/workspace").unwrap();
    let paths: Vec<&str> = pulled.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/workspace/d/A.md",
            "/workspace/d/a.md",
            "/workspace/d/same"
        ]
    );
}

/// What a push changes in the repository, by git's own account.
fn changed(world: &World, before: &str) -> Vec<String> {
    let args = ["diff-tree", "-r", "--name-status", before, "main"];
    let said = String::from_utf8(git(bare(world).args(&args), b"")).unwrap();
    said.lines().map(str::to_owned).collect()
}

fn head(world: &World) -> String {
    let id = git(bare(world).args(&["rev-parse", "main"]), b"");
    String::from_utf8(id).unwrap().trim().to_owned()
}

#[test]
fn a_push_changes_nothing_but_what_was_shown() {
    if !confined() {
        return;
    }
    // What others have there, in the same directory and beside it: modes of old, links, other
    // repositories, names that are no text.
    let world = over_file();
    let file = blob(&world, "x\n");
    let entries: &[(&str, &[u8], &str)] = &[
        ("100664", b"a.md", &file),
        ("100755", b"b.sh", &file),
        ("100644", b"caf\xe9", &file),
        ("120000", b"link", &file),
        ("160000", b"other", &"12".repeat(20)),
    ];
    let below = tree(&world, entries);
    let mut all = entries.to_vec();
    all.insert(3, ("40000", b"d", &below));
    let top = tree(&world, &all);
    commit(&world, &top);
    let before = head(&world);
    for name in ["a.md", "b.sh", "new.md"] {
        world.write(&format!("/workspace/d/{name}"), "mine\n");
    }
    let staged = world
        .stage(&[
            "/workspace/d/a.md",
            "/workspace/d/b.sh",
            "/workspace/d/new.md",
        ])
        .unwrap();
    wait(world.git.push(world.approve(&staged), OnDivergence::Refuse)).unwrap();
    assert_eq!(
        changed(&world, &before),
        ["M\td/a.md", "M\td/b.sh", "A\td/new.md"]
    );
    let mode = git(bare(&world).args(&["ls-tree", "main", "d/b.sh"]), b"");
    assert!(mode.starts_with(b"100755 "));
}

#[test]
fn what_became_a_link_or_a_program_meanwhile_has_moved() {
    if !confined() {
        return;
    }
    for mode in ["120000", "100755"] {
        let world = over_file();
        let file = blob(&world, "x\n");
        let top = tree(&world, &[("100644", b"a.md", &file)]);
        commit(&world, &top);
        world.write("/workspace/a.md", "mine\n");
        let staged = world.stage(&["/workspace/a.md"]).unwrap();
        // The same bytes.
        let top = tree(&world, &[(mode, b"a.md", &file)]);
        commit(&world, &top);
        let pushed = wait(world.git.push(world.approve(&staged), OnDivergence::Rebase));
        let error = pushed.unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Moved, "{mode}: {error}");
    }
}

#[test]
fn a_branch_in_place_of_a_directory_of_branches_is_found() {
    if !confined() {
        return;
    }
    let world = over_file();
    let program = GitProgram::new(
        world._held.as_ref().unwrap().path().join("cache"),
        Support::detect(),
    );
    // Each is gone before the next one comes; the last one leaves no room for a `.lock`.
    let long = "n".repeat(255);
    for name in ["a", "a/b", "a/b/c", "A", long.as_str()] {
        let place = bare(&world).dir.join("packed-refs");
        let file = blob(&world, name);
        let top = tree(&world, &[("100644", b"a.md", &file)]);
        commit(&world, &top);
        std::fs::write(place, format!("{} refs/heads/{name}\n", head(&world))).unwrap();
        let branch = BranchName::parse(name).unwrap();
        let found = wait(program.head(&world.repo, &branch)).unwrap();
        assert_eq!(found.unwrap().as_str(), head(&world), "{name}");
    }
}

/// Directories within directories, each of them `wide` times the one below it.
fn nested(world: &World, deep: usize, wide: usize, lowest: &[(&str, &[u8], &str)]) -> String {
    let mut below = tree(world, lowest);
    let names: Vec<String> = (0..wide).map(|n| format!("d{n:02}")).collect();
    for _ in 0..deep {
        let entries: Vec<(&str, &[u8], &str)> = names
            .iter()
            .map(|name| ("40000", name.as_bytes(), below.as_str()))
            .collect();
        below = tree(world, &entries);
    }
    below
}

#[test]
fn a_tree_of_ten_thousand_million_paths_is_given_up() {
    if !confined() {
        return;
    }
    let world = over_file();
    let file = blob(&world, "x\n");
    let top = nested(&world, 10, 10, &[("100644", b"a.md", &file)]);
    commit(&world, &top);
    let since = Instant::now();
    let error = world.pull(&["d00"], "/workspace").unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::TooLarge, "{error}");
    world.write("/workspace/new.md", "mine\n");
    let error = world.stage(&["/workspace/new.md"]).unwrap_err();
    assert_eq!(error.kind(), GitErrorKind::TooLarge, "{error}");
    assert!(since.elapsed() < LONG);
}

#[test]
fn directories_deeper_than_git_goes_are_given_up() {
    if !confined() {
        return;
    }
    let world = over_file();
    let file = blob(&world, "x\n");
    let top = nested(&world, 10_000, 1, &[("100644", b"a.md", &file)]);
    commit(&world, &top);
    let since = Instant::now();
    let error = world.pull(&["d00"], "/workspace").unwrap_err();
    assert!(error.to_string().len() < 4096, "{error}");
    assert!(since.elapsed() < LONG);
}

/// The most memory that this process has ever held, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

/// Runs one test of this file in a process of its own, so that what it holds is seen.
fn alone(test: &str) {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", test])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "measured by the next one, in a process of its own"]
fn deep_and_wide() {
    let world = over_file();
    let file = blob(&world, "x\n");
    // 15 000 times the same 2 000 directories: 60 MB of names, which have 30 million different
    // directories in them.
    let chain = nested(&world, 1_990, 1, &[("100644", b"a.md", &file)]);
    let names: Vec<String> = (0..7_000).map(|n| format!("w{n:05}")).collect();
    let mut entries: Vec<(&str, &[u8], &str)> = names
        .iter()
        .map(|name| ("40000", name.as_bytes(), chain.as_str()))
        .collect();
    entries.insert(0, ("100644", b"a.md", &file));
    let top = tree(&world, &entries);
    commit(&world, &top);
    world.write("/workspace/w00000/d00/new.md", "mine\n");
    let since = Instant::now();
    world.stage(&["/workspace/w00000/d00/new.md"]).unwrap();
    assert!(since.elapsed() < LONG, "{:?}", since.elapsed());
    assert!(peak() < 512 << 20, "{} bytes", peak());
}

#[test]
fn a_deep_and_wide_tree_takes_little_memory() {
    if !confined() {
        return;
    }
    alone("hostile_trees::deep_and_wide");
}

#[test]
fn texts_with_nothing_in_common_are_merged_in_bounded_time() {
    if !confined() {
        return;
    }
    let world = over_file();
    // Two bytes a line, below the bound on what is merged.
    let text = |from: u32| -> String {
        (from..from + 600_000)
            .map(|n| format!("{:x}\n", n % 1_000_003))
            .collect()
    };
    world
        .others
        .commit(&BranchName::default(), &[("a.md", Some(&text(0)))]);
    world.pull(&["a.md"], "/workspace").unwrap();
    world.write("/workspace/a.md", &text(2_000_000));
    let other: String = text(0)
        .lines()
        .rev()
        .map(|line| format!("{line}\n"))
        .collect();
    world
        .others
        .commit(&BranchName::default(), &[("a.md", Some(&other))]);
    let since = Instant::now();
    world.pull(&["a.md"], "/workspace").unwrap();
    assert!(since.elapsed() < LONG, "{:?}", since.elapsed());
}

#[test]
fn a_link_in_the_path_of_a_repository_is_not_followed() {
    if !confined() {
        return;
    }
    let world = over_file();
    world
        .others
        .commit(&BranchName::default(), &[("a.md", Some("secret\n"))]);
    let held = world._held.as_ref().unwrap().path();
    // A worker that may write where the repository lies puts a link there.
    std::os::unix::fs::symlink(&bare(&world).dir, held.join("granted.git")).unwrap();
    std::os::unix::fs::symlink(held, held.join("up")).unwrap();
    let program = GitProgram::new(held.join("cache"), Support::detect());
    for place in ["granted.git", "up/bare.git"] {
        let repo = Repo::parse(held.join(place).to_str().unwrap()).unwrap();
        let error = wait(program.head(&repo, &BranchName::default())).unwrap_err();
        assert_eq!(error.kind(), GitErrorKind::Refused, "{place}: {error}");
    }
}
