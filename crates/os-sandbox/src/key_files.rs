//! Files with names such as `*.pem`, which are secrets if they contain a private key.

use sandbox_names::secret::{MAX_JUDGED_BYTES, holds_private_key};
use std::io::Read;

/// Returns `true` if an open file contains a private key, or cannot be read.
pub fn is_key(file: impl Read) -> bool {
    content_of(file, MAX_JUDGED_BYTES).is_none_or(|content| holds_private_key(&content))
}

/// Returns the bytes of a file, `None` if it has more than `most` or cannot be read.
pub(crate) fn content_of(file: impl Read, most: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    file.take(most.saturating_add(1))
        .read_to_end(&mut content)
        .ok()?;
    u64::try_from(content.len())
        .is_ok_and(|bytes| bytes <= most)
        .then_some(content)
}
