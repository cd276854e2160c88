//! A thread exchanges a directory and a link out, over and over, while operations go through that
//! name. Each either works on the directory inside or is refused; none comes out.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use file_sandbox::{FileSandbox, ListOptions};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::scene::{Scene, path};

const ROUNDS: usize = 2_000;

#[test]
fn a_directory_exchanged_for_a_link_out() {
    race(&Scene::new());
}

#[test]
fn a_directory_exchanged_for_a_link_out_by_the_walk_alone() {
    race(&Scene::with_nested_root());
}

fn race(scene: &Scene) {
    fs::create_dir(scene.at("data/swap")).unwrap();
    symlink("../outside", scene.at("data/link")).unwrap();
    fs::write(scene.at("outside/f.txt"), "secret").unwrap();
    fs::write(scene.at("outside/victim.txt"), "secret").unwrap();
    let before = outside(scene);

    let stop = AtomicBool::new(false);
    let counts = thread::scope(|scope| {
        scope.spawn(|| {
            let (a, b) = (scene.at("data/swap"), scene.at("data/link"));
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let attempts = scope.spawn(|| attempts(&scene.files)).join();
        stop.store(true, Ordering::Relaxed);
        attempts.unwrap()
    });
    assert_eq!(outside(scene), before);
    // Otherwise nothing raced.
    assert!(counts.0 > 0 && counts.1 > 0, "{counts:?}");
}

/// How many attempts worked, and how many were refused.
fn attempts(files: &FileSandbox) -> (usize, usize) {
    let mut counts = (0, 0);
    let mut count = |worked: bool| {
        if worked {
            counts.0 += 1;
        } else {
            counts.1 += 1;
        }
    };
    let file = path("/data/swap/f.txt");
    let victim = path("/data/swap/victim.txt");
    for _ in 0..ROUNDS {
        count(files.write(&file, "inside", Default::default()).is_ok());
        if let Ok(text) = files.read(&file, Default::default()) {
            assert_eq!(text.content, "inside");
            count(true);
        }
        if let Ok(listing) = files.list(&path("/data/swap"), ListOptions::new()) {
            assert!(
                listing
                    .entries
                    .iter()
                    .all(|entry| entry.name != "secret.txt")
            );
        }
        // Inside there is none.
        assert!(files.delete(&victim).is_err());
        assert!(!files.exists(&victim).unwrap_or(false));
    }
    counts
}

fn outside(scene: &Scene) -> Vec<(std::path::PathBuf, crate::scene::Seen)> {
    let outside = scene.at("outside");
    let picture = scene.picture().into_iter();
    picture
        .filter(|(path, _)| path.starts_with(&outside))
        .collect()
}
