//! Private functions for the fuzz targets: answers of git and of credential helpers, and
//! descriptions read back from the store. Compiled for them only.

use super::names::StagedId;
use super::program::answered;
use super::staged::StoredCommit;

/// Parses an answer of git or of a credential helper, depending on the first byte.
pub fn answer(bytes: &[u8]) {
    if let Some((kind, answer)) = bytes.split_first() {
        answered(*kind, answer);
    }
}

/// Parses the description of a staged commit: refused in words for a terminal, or equal when it is
/// written again.
pub fn kept(text: &[u8]) {
    let Ok(id) = StagedId::parse("00000000000000000123456789abcdef") else {
        return;
    };
    match StoredCommit::read(text, &id) {
        Err(error) => {
            let moves = |c: char| c.is_control() && c != '\n';
            assert!(!error.to_string().contains(moves), "{error}");
        }
        Ok(commit) => {
            let again = commit.kept().text();
            let read = StoredCommit::read(again.as_bytes(), &id);
            assert_eq!(read.as_ref().ok(), Some(&commit));
        }
    }
}
