//! Replacement for `encodings` without the feature: every other encoding is not text.

/// UTF-8.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Codec(());

impl Codec {
    pub(super) const UTF_8: Self = Self(());

    pub(super) fn name(self) -> &'static str {
        "UTF-8"
    }

    pub(super) fn for_bom(_start: &[u8]) -> Option<(Self, usize)> {
        None
    }

    pub(super) fn guess(_bytes: &[u8], _whole: bool) -> Option<Self> {
        None
    }

    pub(super) fn decoder(self) -> EncodingDecoder {
        EncodingDecoder(Vec::new())
    }

    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        Ok(text.as_bytes().to_vec())
    }
}

/// Decodes a text chunk by chunk. Holds the bytes of an incomplete character.
pub(crate) struct EncodingDecoder(Vec<u8>);

impl EncodingDecoder {
    /// Appends the characters that `bytes` complete; `None` if they are invalid.
    pub(crate) fn take(&mut self, bytes: &[u8], last: bool, text: &mut String) -> Option<()> {
        self.0.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.0) {
            Ok(whole) => whole.len(),
            Err(error) if last || error.error_len().is_some() => return None,
            Err(error) => error.valid_up_to(),
        };
        text.push_str(std::str::from_utf8(&self.0[..whole]).ok()?);
        self.0.drain(..whole);
        Some(())
    }
}
