//! Keys in files that are about to leave: their places, their display to a person, and the person's
//! agreement to exactly these contents.

use std::collections::HashSet;

use file_sandbox::{ContentHash, SandboxPath};
use forge_tools::{FileChange, Redactor, ReviewedState, ToolContext};

use super::repo_path::RepoPath;

/// Most places of one file that a person is shown.
const MAX_SHOWN: usize = 50;

/// The policy for files that contain text with the shape of a key.
///
/// ```
/// use forge_git::SecretPolicy;
/// assert!(matches!(SecretPolicy::default(), SecretPolicy::Refused));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SecretPolicy {
    /// They are not staged; the error says where it is.
    #[default]
    Refused,
    /// Files pass that a person was shown, and declared harmless.
    Agreed(AgreedSecrets),
}

/// Contents that a person has seen and agreed to, by their hashes: a changed file is not covered.
///
/// Only an answer makes one. The executor has it when a person was asked about a call of
/// `git_stage`, and other code cannot make one:
///
/// ```compile_fail
/// let agreed = forge_git::AgreedSecrets { contents: Default::default() };
/// ```
///
/// ```compile_fail
/// let agreed = forge_git::AgreedSecrets::default();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgreedSecrets {
    contents: HashSet<ContentHash>,
}

impl AgreedSecrets {
    /// The contents of these files that a person was shown before the call was made.
    pub(super) fn seen<'a>(
        context: &ToolContext,
        paths: impl IntoIterator<Item = &'a SandboxPath>,
    ) -> SecretPolicy {
        let seen = |path| match context.seen(path) {
            Some(ReviewedState::Bytes(hash)) => Some(hash),
            Some(ReviewedState::Missing | ReviewedState::Tree(_)) | None => None,
        };
        let contents: HashSet<ContentHash> = paths.into_iter().filter_map(seen).collect();
        match contents.is_empty() {
            true => SecretPolicy::Refused,
            false => SecretPolicy::Agreed(AgreedSecrets { contents }),
        }
    }
}

impl SecretPolicy {
    /// `true` if a content may pass despite a key in it.
    pub(super) fn allow(&self, content: &[u8]) -> bool {
        match self {
            SecretPolicy::Refused => false,
            SecretPolicy::Agreed(agreed) => agreed.contents.contains(&ContentHash::of(content)),
        }
    }
}

/// Describes the keys in a file, without their values.
pub(super) fn complaints(redactor: &Redactor, path: &RepoPath, content: &[u8]) -> Vec<String> {
    let places = redactor.kinds(&text(content));
    let told = |(kind, line)| format!("'{path}' line {line} looks like a secret ({kind}).");
    places.into_iter().map(told).collect()
}

/// Describes the keys for a person, with the surrounding text of each; `None` without keys.
pub(super) fn shown(redactor: &Redactor, path: &SandboxPath, content: &[u8]) -> Option<FileChange> {
    let places = redactor.excerpts(&text(content));
    if places.is_empty() {
        return None;
    }
    let hash = ContentHash::of(content);
    let change = if places.len() > MAX_SHOWN {
        FileChange::unseen(path.as_str())
    } else {
        // With the hash, so that any change of it is a new question.
        let mut rows = format!(" ({} bytes, SHA-256 {hash})\n", content.len());
        for place in places {
            rows.push_str(&format!(
                " line {}, {}:\n+{}\n",
                place.line, place.kind, place.shown
            ));
        }
        FileChange::of_diff(path.as_str(), rows)
    };
    Some(change.based_on(path.as_str(), ReviewedState::Bytes(hash)))
}

/// The text that is searched: of two-byte letters, the bytes that are not zero.
fn text(content: &[u8]) -> String {
    match content.contains(&0) {
        false => String::from_utf8_lossy(content).into_owned(),
        true => {
            let letters: Vec<u8> = content.iter().copied().filter(|byte| *byte != 0).collect();
            String::from_utf8_lossy(&letters).into_owned()
        }
    }
}
