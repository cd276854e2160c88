//! The cache of the git program: bounded, and worth nothing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use forge_git::{BranchName, GitProgram, GitRepositories as _};
use os_sandbox::Support;

use crate::program::{confined, over_file};
use crate::remote::noise;
use crate::world::{World, wait};

/// Three of these do not fit, and one is less than a half.
const LIMIT: u64 = 500_000;
const ONE: usize = 240_000;

fn head(world: &World, cache: &Path) {
    let program = GitProgram::new(cache, Support::detect()).cache_limit(LIMIT);
    let head = wait(program.head(&world.repo, &BranchName::default())).unwrap();
    let tree = wait(program.tree(&world.repo, &head.unwrap())).unwrap();
    let ids: Vec<_> = tree.into_iter().map(|entry| entry.id).collect();
    wait(program.contents(&world.repo, &ids, 10 << 20)).unwrap();
}

fn commit(world: &World, seed: u64) {
    let text = noise(ONE, seed);
    let files = [("noise", Some(text.as_str()))];
    world.others.commit(&BranchName::default(), &files);
}

/// Where something is kept.
fn kept(cache: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(cache).unwrap();
    let mut all: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).collect();
    all.retain(|place| place.join("made").exists() && place.join("bare/HEAD").exists());
    all.sort();
    all
}

fn used_before(place: &Path, hours: u64) {
    let turn = File::options()
        .write(true)
        .open(place.join("turn"))
        .unwrap();
    let then = SystemTime::now() - Duration::from_secs(3600 * hours);
    turn.set_modified(then).unwrap();
}

pub(crate) fn bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let sizes = entries.map(|entry| match entry.metadata().unwrap().is_dir() {
        true => bytes(&entry.path()),
        false => entry.metadata().unwrap().len(),
    });
    sizes.sum()
}

#[test]
fn what_nobody_has_used_for_longest_makes_room() {
    if !confined() {
        return;
    }
    let held = tempfile::tempdir().unwrap();
    let worlds: Vec<World> = (1..=3)
        .map(|seed| {
            let world = over_file();
            commit(&world, seed);
            world
        })
        .collect();
    head(&worlds[0], held.path());
    let first = kept(held.path()).remove(0);
    head(&worlds[1], held.path());
    let second = kept(held.path()).into_iter().find(|place| *place != first);
    let second = second.unwrap();
    used_before(&first, 2);
    used_before(&second, 1);
    head(&worlds[2], held.path());
    let now = kept(held.path());
    assert_eq!(now.len(), 2);
    assert!(!now.contains(&first) && now.contains(&second));
    // One that somebody works in stays, however old; and one that was just worked in.
    used_before(&second, 3);
    let turn = File::open(second.join("turn")).unwrap();
    turn.lock().unwrap();
    head(&worlds[0], held.path());
    assert_eq!(kept(held.path()).len(), 3);
    drop(turn);
    head(&worlds[0], held.path());
    assert!(!kept(held.path()).contains(&second));
    // What went is fetched again.
    head(&worlds[1], held.path());
}

#[test]
fn one_that_has_grown_begins_anew() {
    if !confined() {
        return;
    }
    let (held, world) = (tempfile::tempdir().unwrap(), over_file());
    let mut largest = 0;
    for seed in 1..8 {
        commit(&world, seed);
        head(&world, held.path());
        largest = largest.max(bytes(held.path()));
    }
    // A half, and what was fetched on top of it.
    assert!(largest < LIMIT / 2 + 250_000, "{largest}");
}

#[test]
fn what_a_loss_of_power_leaves_is_made_anew() {
    if !confined() {
        return;
    }
    for damage in ["refs/forge/heads", "objects", "shallow"] {
        let (held, world) = (tempfile::tempdir().unwrap(), over_file());
        commit(&world, 1);
        head(&world, held.path());
        let bare = kept(held.path()).remove(0).join("bare");
        let mut emptied = 0;
        let mut left = vec![bare.join(damage)];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            } else {
                fs::remove_file(&path).unwrap();
                File::create(&path).unwrap();
                emptied += 1;
            }
        }
        assert!(emptied > 0, "{damage}");
        commit(&world, 2);
        head(&world, held.path());
    }
}
