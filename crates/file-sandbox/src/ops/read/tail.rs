//! The last lines of a file, read from its end.

use crate::backend::BackendFile as _;
use crate::error::{Error, ErrorReason, Verb};
use crate::ops::file_hash::hash_of;
use crate::ops::read::{ReadOptions, TextSlice, TotalChars};
use crate::path::SandboxPath;
use crate::resolve::OpenedFile;
use crate::sandbox::FileSandbox;
use crate::text::TextEncoding;

/// The most bytes read of a file, including those of its start.
const TAIL_BYTES: usize = 1024 * 1024 - 64;
/// Bytes at a time.
const CHUNK_BYTES: u64 = 64 * 1024;

impl FileSandbox {
    pub(super) async fn read_tail(
        &self,
        path: &SandboxPath,
        opened: &OpenedFile<'_>,
        lines: usize,
        options: &ReadOptions,
    ) -> Result<TextSlice, Error> {
        let refuse = || path.error(ErrorReason::NotText);
        let failed = |fault| self.backend_error(path, Verb::Read, fault);
        let mask = self.mask.as_ref();
        let size = opened.meta.size;
        let mut head = [0; 4];
        let got = opened.file.read_at(&mut head, 0).await.map_err(failed)?;
        let known = TextEncoding::by_bom(&head[..got]);
        let unit = unit_of(known);
        let (bytes, start) = self.read_backwards(path, opened, lines, unit).await?;
        let (encoding, text) = decode_tail(&bytes, start == 0, known).ok_or_else(refuse)?;
        let content = last_lines(&text, lines, options.max_chars);
        let mut shown = text.len() - content.len();
        if let Some(mask) = mask {
            // Without the text before it, a part of a masked text is not known as such.
            let most = text.len().saturating_sub(TAIL_BYTES);
            let unknown = if start == 0 {
                0
            } else {
                mask.margin().max(most)
            };
            shown = shown.max(text.ceil_char_boundary(unknown.min(text.len())));
        }
        let content = &text[shown..];
        let more = start > 0 || shown > 0;
        let chars = content.chars().count() as u64;
        let whole = text.chars().count() as u64;
        let hash = match options.hash {
            true => Some(
                hash_of(&opened.file, size, &self.cancel)
                    .await
                    .map_err(failed)?,
            ),
            false => None,
        };
        Ok(TextSlice {
            content: match mask {
                Some(mask) => mask.part(&text, shown..text.len()),
                None => content.to_owned(),
            },
            truncated: more,
            total_chars: if start == 0 {
                TotalChars::Exact(whole)
            } else {
                TotalChars::AtLeast(whole)
            },
            offset: 0,
            chars,
            first_line: (!more).then_some(1),
            encoding,
            next_byte: None,
            hash,
        })
    }

    /// Reads from the end of a file, chunk by chunk, until it has enough lines, and before them as
    /// much as a mask looks. Returns the bytes and their position.
    async fn read_backwards(
        &self,
        path: &SandboxPath,
        opened: &OpenedFile<'_>,
        lines: usize,
        unit: usize,
    ) -> Result<(Vec<u8>, u64), Error> {
        let failed = |fault| self.backend_error(path, Verb::Read, fault);
        let size = opened.meta.size;
        let mut start = size;
        let mut bytes: Vec<u8> = Vec::new();
        // The line in which the bytes begin is not whole, and the text of two bytes is one.
        let margin = self
            .mask
            .as_ref()
            .map_or(0, |mask| 2 * mask.margin() as u64);
        let most = margin.saturating_add(TAIL_BYTES as u64);
        let floor = size.saturating_sub(most).next_multiple_of(2);
        let floor = if size <= most { 0 } else { floor };
        let mut enough = None;
        while start > enough.unwrap_or(floor) {
            if enough.is_none() && newlines(&bytes, unit) > lines {
                enough = Some(start.saturating_sub(margin).max(floor));
                continue;
            }
            self.check_cancelled(path, Verb::Read)?;
            let from = start.saturating_sub(CHUNK_BYTES).max(floor) & !1;
            let room = usize::try_from(start - from).unwrap_or(0);
            let mut part = vec![0; room];
            let mut filled = 0;
            while filled < room {
                let at = from + filled as u64;
                let got = opened.file.read_at(&mut part[filled..], at).await;
                match got.map_err(failed)? {
                    0 => break,
                    got => filled += got,
                }
            }
            part.truncate(filled);
            part.extend_from_slice(&bytes);
            (bytes, start) = (part, from);
        }
        Ok((bytes, start))
    }
}

/// Decodes the end of a file; `None` if it is not text. `known` is the encoding of the mark, and its
/// length.
fn decode_tail(
    bytes: &[u8],
    is_whole: bool,
    known: Option<(TextEncoding, usize)>,
) -> Option<(TextEncoding, String)> {
    let body = match known {
        // The first line of the bytes read may have begun before.
        _ if !is_whole => &bytes[line_start(bytes, unit_of(known))..],
        Some((_, bom)) => &bytes[bom.min(bytes.len())..],
        None => bytes,
    };
    let encoding = match known {
        Some((encoding, _)) => encoding,
        None if body.contains(&0) => return None,
        None if std::str::from_utf8(body).is_ok() => TextEncoding::UTF_8,
        None => TextEncoding::guess(body, true)?,
    };
    let mut text = String::new();
    encoding.decoder().take(body, true, &mut text)?;
    (!text.contains('\0')).then_some((encoding, text))
}

/// Returns the number of bytes of a code unit: 2 in UTF-16, which has a mark.
fn unit_of(known: Option<(TextEncoding, usize)>) -> usize {
    if known.is_some() { 2 } else { 1 }
}

/// Line ends among these bytes.
fn newlines(bytes: &[u8], unit: usize) -> usize {
    match unit {
        1 => bytes.iter().filter(|byte| **byte == b'\n').count(),
        _ => bytes
            .chunks_exact(2)
            .filter(|pair| is_newline(pair))
            .count(),
    }
}

/// Returns the start of the first whole line.
fn line_start(bytes: &[u8], unit: usize) -> usize {
    let found = match unit {
        1 => bytes.iter().position(|byte| *byte == b'\n'),
        _ => bytes.chunks_exact(2).position(is_newline).map(|n| n * 2),
    };
    // Without any, all of it is the end of one line, which may begin within a character.
    match found {
        Some(newline) => newline + unit,
        None if unit == 1 => bytes
            .iter()
            .take(4)
            .take_while(|byte| (0x80..0xc0).contains(*byte))
            .count(),
        None => 0,
    }
}

/// In either byte order: U+0A00 is not a character.
fn is_newline(pair: &[u8]) -> bool {
    pair == [b'\n', 0] || pair == [0, b'\n']
}

/// The last lines, of at most so many characters.
fn last_lines(text: &str, lines: usize, max_chars: u64) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let start = match lines.checked_sub(1) {
        None => text.len(),
        Some(before) => body
            .rmatch_indices('\n')
            .nth(before)
            .map_or(0, |(newline, _)| newline + 1),
    };
    let text = &text[start..];
    let max = usize::try_from(max_chars).unwrap_or(usize::MAX);
    match max.checked_sub(1) {
        None => "",
        Some(last) => match text.char_indices().nth_back(last) {
            Some((at, _)) => &text[at..],
            None => text,
        },
    }
}
