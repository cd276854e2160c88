//! Lines of bounded length from a byte stream. Standard readers grow their buffer until
//! a newline comes, so a client that never sends one would decide how much memory this
//! process takes.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Lines of bounded length. [`next`](Self::next) may be dropped at any time without
/// losing a byte.
pub(super) struct BoundedLineReader<R> {
    input: BufReader<R>,
    max_bytes: usize,
    line: Vec<u8>,
    /// Both ends of a line that is too long, as far as it has come.
    too_long: Option<TruncatedLine>,
}

/// How much is kept of either end of a line that is too long: enough for an id.
const KEPT_BYTES: usize = 512;

/// Both ends of a line that is too long for the whole of it to be kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TruncatedLine {
    pub(super) head: Vec<u8>,
    pub(super) tail: Vec<u8>,
}

impl TruncatedLine {
    fn push(&mut self, more: &[u8]) {
        let room = KEPT_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&more[..more.len().min(room)]);
        let rest = &more[more.len().saturating_sub(KEPT_BYTES)..];
        self.tail.extend_from_slice(rest);
        self.tail
            .drain(..self.tail.len().saturating_sub(KEPT_BYTES));
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum JsonLine {
    /// Without its end.
    Whole(Vec<u8>),
    /// Too long, and dropped but for its ends.
    TooLong(TruncatedLine),
}

impl<R: AsyncRead + Unpin> BoundedLineReader<R> {
    pub(super) fn new(input: R, max_bytes: usize) -> Self {
        BoundedLineReader {
            input: BufReader::new(input),
            max_bytes,
            line: Vec::new(),
            too_long: None,
        }
    }

    /// Returns the next line that is not blank, without its end; `None` at the end of the input. A
    /// last line without an end is a line.
    pub(super) async fn next(&mut self) -> io::Result<Option<JsonLine>> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                if let Some(ends) = self.too_long.take() {
                    return Ok(Some(JsonLine::TooLong(ends)));
                }
                let last = std::mem::take(&mut self.line);
                return Ok((!is_blank(&last)).then_some(JsonLine::Whole(last)));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let taken = part.len() + usize::from(end.is_some());
            match &mut self.too_long {
                Some(ends) => ends.push(part),
                None if self.line.len() + part.len() <= self.max_bytes => {
                    self.line.extend_from_slice(part);
                }
                None => {
                    let mut ends = TruncatedLine::default();
                    ends.push(&std::mem::take(&mut self.line));
                    ends.push(part);
                    self.too_long = Some(ends);
                }
            }
            self.input.consume(taken);

            if end.is_none() {
                continue;
            }
            if let Some(ends) = self.too_long.take() {
                return Ok(Some(JsonLine::TooLong(ends)));
            }
            let line = std::mem::take(&mut self.line);
            if !is_blank(&line) {
                return Ok(Some(JsonLine::Whole(line)));
            }
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(test);
    }

    fn whole(text: &str) -> JsonLine {
        JsonLine::Whole(text.as_bytes().to_vec())
    }

    /// Shorter than what is kept of an end.
    fn too_long(text: &str) -> JsonLine {
        let tail = text.as_bytes().to_vec();
        let head = tail.clone();
        JsonLine::TooLong(TruncatedLine { head, tail })
    }

    #[test]
    fn rows() {
        let rows: &[(&str, &[JsonLine])] = &[
            ("", &[]),
            ("\n \r\n\n", &[]),
            ("ab\ncd\n", &[whole("ab"), whole("cd")]),
            ("ab\r\ncd", &[whole("ab\r"), whole("cd")]),
            ("12345678\n", &[whole("12345678")]),
            ("123456789\nab\n", &[too_long("123456789"), whole("ab")]),
            ("123456789", &[too_long("123456789")]),
            (
                "1234567890123456789012345\n\nab\n123456789\n",
                &[
                    too_long("1234567890123456789012345"),
                    whole("ab"),
                    too_long("123456789"),
                ],
            ),
        ];
        run(async {
            for (input, expected) in rows {
                // However the bytes arrive.
                for chunk in [1, 3, 64] {
                    let mut reader = BoundedLineReader::new(input.as_bytes(), 8);
                    reader.input = BufReader::with_capacity(chunk, input.as_bytes());
                    let mut lines = Vec::new();
                    while let Some(line) = reader.next().await.unwrap() {
                        lines.push(line);
                    }
                    assert_eq!(&lines, expected, "{chunk}");
                }
            }
        });
    }

    #[test]
    fn a_dropped_read_loses_nothing() {
        run(async {
            let (mut writer, reader) = tokio::io::duplex(64);
            let mut lines = BoundedLineReader::new(reader, 8);
            for part in ["a", "b", "c"] {
                writer.write_all(part.as_bytes()).await.unwrap();
                tokio::select! {
                    biased;
                    line = lines.next() => panic!("{line:?}"),
                    () = std::future::ready(()) => {}
                }
            }
            writer.write_all(b"\n").await.unwrap();
            assert_eq!(lines.next().await.unwrap(), Some(whole("abc")));
        });
    }

    #[test]
    fn of_a_line_that_is_too_long_the_ends_are_kept() {
        run(async {
            let input = [b"head", &[b'x'; 1_000_000][..], b"tail"].concat();
            for chunk in [100, 1_000, 100_000] {
                let mut reader = BoundedLineReader::new(&input[..], 5_000);
                reader.input = BufReader::with_capacity(chunk, &input[..]);
                let Some(JsonLine::TooLong(ends)) = reader.next().await.unwrap() else {
                    panic!("{chunk}");
                };
                assert!(ends.head.starts_with(b"head"), "{chunk}");
                assert!(ends.tail.ends_with(b"xtail"), "{chunk}");
                assert_eq!(ends.head.len(), KEPT_BYTES, "{chunk}");
                assert_eq!(ends.tail.len(), KEPT_BYTES, "{chunk}");
                assert_eq!(reader.line.capacity(), 0, "{chunk}");
            }
        });
    }
}
