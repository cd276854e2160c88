//! The key for a provider. It exists in memory and in the header of a request, and nowhere else.

use secrecy::{ExposeSecret as _, SecretString};

/// A longer one is a mistake: the content of a file, say.
const MAX_BYTES: usize = 16 * 1024;

/// A shorter key could not be redacted: it occurs in too many texts by chance.
const MIN_BYTES: usize = 8;

/// Replaces a key in texts of a provider.
const HIDDEN: &str = "[key]";

/// An API key. `Debug` hides it, and its memory is overwritten on drop.
///
/// ```
/// use forge_runtime::ProviderKey;
/// let key = ProviderKey::new("sk-not-a-real-one\n").unwrap();
/// assert_eq!(format!("{key:?}"), "Key(…)");
/// assert_eq!(key.hide("no such key: sk-not-a-real-one"), "no such key: [key]");
/// ```
#[derive(Clone)]
pub struct ProviderKey(SecretString);

/// The reason why a text cannot be a key; it does not quote the text.
///
/// ```
/// let error = forge_runtime::ProviderKey::new(" ").unwrap_err();
/// assert_eq!(error.to_string(), "the key is empty");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProviderKeyError {
    /// Nothing, or only blanks.
    #[error("the key is empty")]
    Empty,
    /// Letters that no header can carry: line breaks inside of it, or not ASCII.
    #[error("the key holds characters that no key has")]
    Characters,
    /// Shorter than the minimum for redaction.
    #[error(
        "the key is shorter than {MIN_BYTES} bytes, too short to be kept out of what is shown and recorded"
    )]
    TooShort,
    /// Longer than any key.
    #[error("the key is longer than any key")]
    TooLong,
}

impl ProviderKey {
    /// A key; blanks and line breaks around it are not part of it.
    ///
    /// # Errors
    ///
    /// It cannot be one.
    pub fn new(text: impl Into<String>) -> Result<Self, ProviderKeyError> {
        // Made a secret first, so that the whole text is overwritten afterwards.
        let text = SecretString::from(text.into());
        let key = text.expose_secret().trim();
        if key.is_empty() {
            Err(ProviderKeyError::Empty)
        } else if key.len() > MAX_BYTES {
            Err(ProviderKeyError::TooLong)
        } else if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            Err(ProviderKeyError::Characters)
        } else if key.len() < MIN_BYTES {
            Err(ProviderKeyError::TooShort)
        } else {
            Ok(ProviderKey(SecretString::from(key)))
        }
    }

    /// Returns the key: for a header, or for the redactor.
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }

    /// `text` without the key.
    pub fn hide(&self, text: &str) -> String {
        text.replace(self.reveal(), HIDDEN)
    }

    /// Removes a partial key at the end of truncated bytes.
    pub(super) fn cut_off(&self, bytes: &mut Vec<u8>) {
        let key = self.reveal().as_bytes();
        let begun = (1..=key.len())
            .rev()
            .find(|len| bytes.ends_with(&key[..*len]));
        bytes.truncate(bytes.len() - begun.unwrap_or(0));
    }
}

impl std::fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_key() {
        let rows = [
            ("", Some(ProviderKeyError::Empty)),
            (" \n", Some(ProviderKeyError::Empty)),
            ("sk-1234", Some(ProviderKeyError::TooShort)),
            ("  sk-1234\n", Some(ProviderKeyError::TooShort)),
            ("sk-12345", None),
            ("sk-1 2345", Some(ProviderKeyError::Characters)),
            ("sk-12345ü", Some(ProviderKeyError::Characters)),
            // What is wrong with each letter goes before how many there are.
            ("a b", Some(ProviderKeyError::Characters)),
        ];
        for (text, why) in rows {
            assert_eq!(ProviderKey::new(text).err(), why, "{text}");
        }
        let long = "x".repeat(MAX_BYTES + 1);
        assert_eq!(
            ProviderKey::new(long).err(),
            Some(ProviderKeyError::TooLong)
        );
    }
}
