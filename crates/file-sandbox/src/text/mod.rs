//! Detects the encoding of a file, and decodes its text so that every character maps back to its
//! bytes.
//!
//! An edit must leave every byte that it does not touch as it was (GBK rewritten as UTF-8, bytes
//! turned into U+FFFD: the oldest complaints about such tools). So a text has the byte position of
//! each of its characters, and a file whose text does not encode to equal bytes can be read, but
//! not edited.

pub(crate) mod escape;
pub(crate) mod glob;
pub(crate) mod line_endings;
pub(crate) mod mask;
#[cfg(feature = "edit")]
pub(crate) mod replace;

use std::fmt;

#[cfg(feature = "encodings")]
#[path = "encodings.rs"]
mod codec;
#[cfg(not(feature = "encodings"))]
#[path = "utf8_only.rs"]
mod codec;

use codec::Codec;
pub(crate) use codec::EncodingDecoder;

/// The character encoding of a text file.
///
/// ```
/// use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
///
/// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
/// let files = FileSandbox::new(vec![data])?;
/// let path = files.path("/data/a.txt")?;
/// files.write_bytes(&path, b"\xff\xfeh\0i\0", Default::default())?;
/// let text = files.read(&path, Default::default())?;
/// assert_eq!((text.content.as_str(), text.encoding.name()), ("hi", "UTF-16LE"));
/// # Ok::<(), file_sandbox::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TextEncoding {
    coding: Codec,
    bom: bool,
}

impl TextEncoding {
    /// UTF-8 without a mark.
    pub const UTF_8: Self = Self {
        coding: Codec::UTF_8,
        bom: false,
    };

    /// Its name in the Encoding Standard, such as `UTF-8` or `windows-1252`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.coding.name()
    }

    /// `true` if it was guessed from the bytes, because no mark names it.
    #[must_use]
    pub fn is_guessed(self) -> bool {
        !self.bom && self.coding != Codec::UTF_8
    }

    pub(crate) fn is_utf8(self) -> bool {
        self.coding == Codec::UTF_8
    }

    /// Returns the encoding of the byte order mark, and the mark's length.
    pub(crate) fn by_bom(start: &[u8]) -> Option<(Self, usize)> {
        let (coding, length) = Codec::for_bom(start)?;
        // UTF-8 with a mark is text with U+FEFF at its start, which reads back as written.
        (coding != Codec::UTF_8).then_some((Self { coding, bom: true }, length))
    }

    /// Guesses the encoding of bytes that are not UTF-8; `None` if they are not text.
    pub(crate) fn guess(bytes: &[u8], whole: bool) -> Option<Self> {
        if bytes.iter().any(|byte| is_binary(*byte)) {
            return None;
        }
        let coding = Codec::guess(bytes, whole)?;
        Some(Self { coding, bom: false })
    }

    pub(crate) fn decoder(self) -> EncodingDecoder {
        self.coding.decoder()
    }

    /// Returns the bytes of a text, or the first character that the encoding cannot represent.
    pub(crate) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        match self.is_utf8() {
            true => Ok(text.as_bytes().to_vec()),
            false => self.coding.encode(text),
        }
    }
}

impl fmt::Display for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if self.bom {
            f.write_str(" with BOM")?;
        }
        Ok(())
    }
}

impl fmt::Debug for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextEncoding({self})")
    }
}

/// A whole file as text.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) encoding: TextEncoding,
    /// Bytes of the mark, before the text.
    pub(crate) bom: usize,
    pub(crate) text: String,
}

impl Decoded {
    /// Decodes a file; `None` if it is not text.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        if let Some((encoding, bom)) = TextEncoding::by_bom(bytes) {
            let text = decode_all(encoding, &bytes[bom..])?;
            return Some(Self {
                encoding,
                bom,
                text,
            });
        }
        if bytes.contains(&0) {
            return None;
        }
        if let Ok(text) = std::str::from_utf8(bytes) {
            let (encoding, bom) = (TextEncoding::UTF_8, 0);
            return Some(Self {
                encoding,
                bom,
                text: text.to_owned(),
            });
        }
        let encoding = TextEncoding::guess(bytes, true)?;
        let text = decode_all(encoding, bytes)?;
        Some(Self {
            encoding,
            bom: 0,
            text,
        })
    }
}

/// First character for invalid bytes in a text that is UTF-8 otherwise: the end of a private use
/// plane, from which they are restored.
const INVALID_BYTE_BASE: u32 = 0x10_ff00;

impl Decoded {
    /// A file that is UTF-8 but for some bytes, each of which becomes a character of its own.
    pub(crate) fn with_invalid_bytes(bytes: &[u8]) -> Option<Self> {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            if chunk.valid().chars().any(is_invalid_byte) {
                return None;
            }
            text.push_str(chunk.valid());
            for byte in chunk.invalid() {
                text.push(char::from_u32(INVALID_BYTE_BASE + u32::from(*byte))?);
            }
        }
        Some(Self {
            encoding: TextEncoding::UTF_8,
            bom: 0,
            text,
        })
    }
}

/// The bytes of a text made by [`Decoded::with_invalid_bytes`].
pub(crate) fn restore_invalid_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u8::try_from(u32::from(c).wrapping_sub(INVALID_BYTE_BASE)) {
            Ok(byte) if byte >= 0x80 => bytes.push(byte),
            _ => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

pub(crate) fn is_invalid_byte(c: char) -> bool {
    u32::from(c) >= INVALID_BYTE_BASE + 0x80
}

fn decode_all(encoding: TextEncoding, bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    let mut decode = encoding.decoder();
    decode.take(bytes, true, &mut text)?;
    (!text.contains('\0')).then_some(text)
}

/// `true` for control characters that do not occur in text of any byte encoding.
fn is_binary(byte: u8) -> bool {
    matches!(byte, 0..=8 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        let rows: [(&[u8], &str, &str); 7] = [
            (b"plain", "UTF-8", "plain"),
            ("\u{feff}bom".as_bytes(), "UTF-8", "\u{feff}bom"),
            (b"\xff\xfeh\0i\0", "UTF-16LE with BOM", "hi"),
            (b"\xfe\xff\0h\0i", "UTF-16BE with BOM", "hi"),
            (
                b"d\xe9j\xe0 vu \xe0 la fen\xeatre",
                "windows-1252",
                "déjà vu à la fenêtre",
            ),
            (
                b"\x82\xb1\x82\xf1\x82\xc9\x82\xbf\x82\xcd\x90\xa2\x8a\x45",
                "Shift_JIS",
                "こんにちは世界",
            ),
            (
                b"\xc4\xe3\xba\xc3\xca\xc0\xbd\xe7\xa3\xac\xd5\xe2\xca\xc7\xd2\xbb\xb8\xf6\xb2\xe2\xca\xd4\xa1\xa3",
                "GBK",
                "你好世界，这是一个测试。",
            ),
        ];
        for (bytes, name, text) in rows {
            let decoded = Decoded::of(bytes).expect(name);
            assert_eq!(decoded.encoding.to_string(), name);
            assert_eq!(decoded.text, text);
            let back = decoded.encoding.encode(text).expect(name);
            assert_eq!(back, &bytes[decoded.bom..], "{name}");
        }
    }

    #[test]
    fn what_is_no_text() {
        for bytes in [
            &b"a\0b"[..],
            b"\x89PNG\r\n\x1a\n\xff",
            b"\xff\xfea\0\0\0",
            b"\xff\xfea",
        ] {
            assert!(Decoded::of(bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn a_character_without_bytes() {
        let latin = Decoded::of(b"caf\xe9 cr\xe8me").expect("text").encoding;
        assert_eq!(latin.encode("日"), Err('日'));
    }
}
