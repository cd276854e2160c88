//! Checks a push to a repository of this machine. Its hooks are foreign programs and are not run;
//! so a hook that may refuse counts as a refusal.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

/// Hooks that can refuse a push, or change its result.
const ASKED: [&str; 5] = [
    "pre-receive",
    "update",
    "proc-receive",
    "reference-transaction",
    "push-to-checkout",
];

/// A larger configuration file is not of a repository in use.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Why it would have to be asked, if it would.
///
/// Git looks for a repository in several places of a directory, and takes the first that is one.
/// Each of them is looked at here: a no that is not needed costs a push over https.
pub(super) fn would_be_asked(repository: &Path) -> Option<String> {
    let inside = repository.join(".git");
    // A file there names another directory, and so does `commondir`.
    if inside.is_file() {
        return Some("it is a part of another repository, which is not looked at".to_owned());
    }
    [inside.join(".git"), inside, repository.to_owned()]
        .iter()
        .find_map(|at| asked_at(at))
}

/// Returns `true` if the branch is checked out in the repository's own directory or in another one
/// of it (`git worktree`), as far as its files say.
pub(super) fn is_checked_out(repository: &Path, branch: &str) -> bool {
    let inside = repository.join(".git");
    let at = if inside.is_dir() { &inside } else { repository };
    let is_head = |head: &Path| {
        let text = read_start(&head.join("HEAD"));
        text.strip_prefix("ref:")
            .and_then(|name| name.trim().strip_prefix("refs/heads/"))
            == Some(branch)
    };
    let others = fs::read_dir(at.join("worktrees")).into_iter().flatten();
    let in_another = || others.flatten().any(|other| is_head(&other.path()));
    !is_bare(at) && is_head(at) || in_another()
}

/// As `git init` writes it; without a word, the name of the directory tells.
fn is_bare(at: &Path) -> bool {
    let config = read_start(&at.join("config")).to_ascii_lowercase();
    let said = config.lines().rev().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "bare").then(|| matches!(value.trim(), "true" | "yes" | "on" | "1"))
    });
    said.unwrap_or_else(|| !at.ends_with(".git"))
}

/// The beginning of a file; empty if it is none.
fn read_start(file: &Path) -> String {
    let mut text = Vec::new();
    if fs::metadata(file).is_ok_and(|about| about.is_file())
        && let Ok(file) = File::open(file)
    {
        let _partly = file.take(MAX_CONFIG_BYTES).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn asked_at(at: &Path) -> Option<String> {
    let is_there = |name: &&str| at.join("hooks").join(name).exists();
    if let Some(name) = ASKED.into_iter().find(is_there) {
        return Some(format!(
            "its hook {name} would have to be asked, and none is run from here"
        ));
    }
    if at.join("commondir").exists() {
        return Some("it is a part of another repository, which is not looked at".to_owned());
    }
    ["config", "config.worktree"]
        .iter()
        .find_map(|name| asked_in(&at.join(name)))
}

fn asked_in(config: &Path) -> Option<String> {
    let about = fs::metadata(config).ok()?;
    // Neither a pipe, which may never be written to, nor a device without an end.
    if !about.is_file() {
        return Some("its configuration is not a file".to_owned());
    }
    let mut text = Vec::new();
    let file = File::open(config).map(|file| file.take(MAX_CONFIG_BYTES + 1));
    if let Err(error) = file.and_then(|mut file| file.read_to_end(&mut text)) {
        return Some(format!("its configuration cannot be read: {error}"));
    }
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Some("its configuration is too long to be looked at".to_owned());
    }
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    // Its hooks may be elsewhere; included files are not read, so they count as well.
    let elsewhere = text.contains("hookspath") || text.contains("[include");
    elsewhere.then(|| "its configuration names other hooks, and none is run from here".to_owned())
}
