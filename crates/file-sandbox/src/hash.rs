//! A token for the content of a file: a caller that read it can ask for an operation on exactly
//! this content.
//!
//! Why not the time: times change without the content, and contents without the time.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a file's bytes.
///
/// ```
/// use file_sandbox::ContentHash;
///
/// let hash = ContentHash::of(b"hello world");
/// assert!(hash.to_string().starts_with("b94d27b9934d3e08"));
/// assert_eq!(hash.to_string().parse(), Ok(hash));
/// assert!("b94d".parse::<ContentHash>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = ContentHasher::new();
        hasher.take(bytes);
        hasher.finish()
    }
}

/// A hash in the making.
pub(crate) struct ContentHasher(Sha256);

impl ContentHasher {
    pub(crate) fn new() -> Self {
        Self(Sha256::new())
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> ContentHash {
        ContentHash(self.0.finalize().into())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

impl FromStr for ContentHash {
    type Err = ParseHashError;

    fn from_str(text: &str) -> Result<Self, ParseHashError> {
        let bytes = sandbox_names::unhex(text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(ParseHashError(()))
    }
}

/// The error for a text that is not a hash.
///
/// ```
/// let error = "x".parse::<file_sandbox::ContentHash>().unwrap_err();
/// assert_eq!(error.to_string(), "a content hash has 64 hexadecimal digits");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("a content hash has 64 hexadecimal digits")]
pub struct ParseHashError(());

impl fmt::Debug for ParseHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
