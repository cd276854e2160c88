//! Encodings other than UTF-8, by `encoding_rs` and `chardetng`.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Decoder, DecoderResult, EncoderResult, Encoding};

/// An encoding of the Encoding Standard.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Codec(&'static Encoding);

impl Codec {
    pub(super) const UTF_8: Self = Self(encoding_rs::UTF_8);

    pub(super) fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns the encoding of the byte order mark, and the mark's length.
    pub(super) fn for_bom(start: &[u8]) -> Option<(Self, usize)> {
        let (coding, length) = Encoding::for_bom(start)?;
        Some((Self(coding), length))
    }

    /// Guesses the encoding of text that is not UTF-8.
    pub(super) fn guess(bytes: &[u8], whole: bool) -> Option<Self> {
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(bytes, whole);
        Some(Self(detector.guess(None, Utf8Detection::Deny)))
    }

    pub(super) fn decoder(self) -> EncodingDecoder {
        EncodingDecoder(self.0.new_decoder_without_bom_handling())
    }

    /// Returns the bytes of a text, or the first character that the encoding cannot represent.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        if self.0 == encoding_rs::UTF_16LE {
            return Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
        }
        if self.0 == encoding_rs::UTF_16BE {
            return Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
        }
        let mut encoder = self.0.new_encoder();
        let room = encoder.max_buffer_length_from_utf8_without_replacement(text.len());
        let mut bytes = vec![0; room.unwrap_or(text.len().saturating_mul(4)).max(16)];
        let (result, _, written) =
            encoder.encode_from_utf8_without_replacement(text, &mut bytes, true);
        match result {
            EncoderResult::InputEmpty => {
                bytes.truncate(written);
                Ok(bytes)
            }
            EncoderResult::Unmappable(c) => Err(c),
            // Unreachable: the buffer has the maximal length.
            EncoderResult::OutputFull => Err(char::REPLACEMENT_CHARACTER),
        }
    }
}

/// Decodes a text chunk by chunk.
pub(crate) struct EncodingDecoder(Decoder);

impl EncodingDecoder {
    /// Appends the characters that `bytes` complete; `None` if they are invalid.
    pub(crate) fn take(&mut self, bytes: &[u8], last: bool, text: &mut String) -> Option<()> {
        let room = self
            .0
            .max_utf8_buffer_length_without_replacement(bytes.len());
        text.reserve(room?);
        let (result, _) = self
            .0
            .decode_to_string_without_replacement(bytes, text, last);
        match result {
            DecoderResult::InputEmpty => Some(()),
            DecoderResult::OutputFull | DecoderResult::Malformed(..) => None,
        }
    }
}
