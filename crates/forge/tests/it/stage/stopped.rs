//! A push that is stopped: in the question, and in the middle of the transfer. The repository is
//! as it was or has all of it, and what is staged is there or can be told to have arrived.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::world::{bare, git, has_git, head, stage};
use crate::support::World;
use crate::terminal::pty::{Terminal, USUAL};

const ASKED: &str = "[y] push it  [n] no  [?] >";

fn staged(world: &World) -> usize {
    let text = world.forge(&["stage", "--json"]).code(0).stdout.clone();
    let object: Value = serde_json::from_str(&text).unwrap();
    object["staged"].as_array().unwrap().len()
}

#[test]
fn in_the_question() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    let repo = bare(&world, "r.git", &[("a", b"a\n")]);
    let before = head(&repo);
    let id = stage(&world, &repo, &[("a", Some(b"b\n"))], "B");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id]);
        terminal.until(ASKED);
        terminal.signal(signal);
        assert_eq!(terminal.end().code, Some(code));
        assert_eq!((head(&repo), staged(&world)), (before.clone(), 1));
    }
    let listed = world.forge(&["log", "list"]).stdout;
    assert_eq!(listed.matches("stopped: 1 call").count(), 2, "{listed}");
}

#[test]
fn in_the_middle() {
    if !has_git() {
        return;
    }
    let world = World::new(&[]);
    let repo = bare(&world, "r.git", &[("a", b"a\n")]);
    // What does not get smaller on the way takes a while.
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut noise = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_le_bytes()
    };
    let bytes: Vec<u8> = (0..1 << 20).flat_map(|_| noise()).collect();
    let before = head(&repo);
    let id = stage(&world, &repo, &[("noise", Some(&bytes))], "Noise");
    let mut stopped = 0;
    for (round, signal) in [Signal::KILL, Signal::INT, Signal::KILL, Signal::TERM]
        .into_iter()
        .cycle()
        .take(12)
        .enumerate()
    {
        if head(&repo) != before {
            break;
        }
        let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id]);
        terminal.until(ASKED);
        terminal.type_text("y\n");
        let wait = 20 + 60 * u64::try_from(round).unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        terminal.signal(signal);
        let ended = terminal.end();
        stopped += usize::from(ended.code != Some(0));
        git(&repo, &["fsck", "--no-dangling"]);
        if head(&repo) == before {
            assert_eq!(staged(&world), 1, "{}", ended.screen);
        }
    }
    assert!(stopped > 0);
    // Whatever it was, the next one brings it to its end.
    if staged(&world) > 0 {
        let terminal = Terminal::start(&world, USUAL, &["stage", "push", &id]);
        terminal.until(ASKED);
        terminal.type_text("y\n");
        let ended = terminal.end();
        assert_eq!(ended.code, Some(0), "{}", ended.screen);
    }
    assert_eq!(staged(&world), 0);
    assert_eq!(git(&repo, &["rev-parse", "main^"]).trim(), before);
    assert_eq!(
        git(&repo, &["cat-file", "-s", "main:noise"]).trim(),
        bytes.len().to_string()
    );
}
