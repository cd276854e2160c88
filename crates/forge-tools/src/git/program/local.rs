//! What a repository of this machine would do when it is pushed to. Its hooks are programs of
//! whoever made it and are not run; so one that may say no is a no.

use std::fs;
use std::path::Path;

/// Hooks that can refuse a push, or change what comes of it.
const ASKED: [&str; 5] = [
    "pre-receive",
    "update",
    "proc-receive",
    "reference-transaction",
    "push-to-checkout",
];

/// A configuration above this is of no repository that anybody works with.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Why it would have to be asked, if it would.
pub(super) fn would_be_asked(repository: &Path) -> Option<String> {
    let inside = repository.join(".git");
    let at = if inside.is_dir() {
        inside.as_path()
    } else {
        repository
    };
    let is_there = |name: &&str| at.join("hooks").join(name).exists();
    if let Some(name) = ASKED.into_iter().find(is_there) {
        return Some(format!(
            "its hook {name} would have to be asked, and none is run from here"
        ));
    }
    let config = at.join("config");
    let size = fs::metadata(&config).map_or(0, |about| about.len());
    let text = match size <= MAX_CONFIG_BYTES {
        true => fs::read(&config).unwrap_or_default(),
        false => return Some("its configuration is too long to be looked at".to_owned()),
    };
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    // Wherever else its hooks are; what it includes is not looked at, so it says so too.
    let elsewhere = text.contains("hookspath") || text.contains("[include");
    elsewhere.then(|| "its configuration names other hooks, and none is run from here".to_owned())
}
