//! Lines of bounded length from a byte stream. Standard readers grow their buffer until
//! a newline comes, so a client that never sends one would decide how much memory this
//! process takes.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Lines of bounded length. [`next`](Self::next) may be dropped at any time without
/// losing a byte.
pub(super) struct LineReader<R> {
    input: BufReader<R>,
    max_bytes: usize,
    line: Vec<u8>,
    /// Inside the rest of a line that was too long.
    skipping: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Without its end.
    Whole(Vec<u8>),
    /// Dropped, its rest still to come.
    TooLong,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R, max_bytes: usize) -> Self {
        LineReader {
            input: BufReader::new(input),
            max_bytes,
            line: Vec::new(),
            skipping: false,
        }
    }

    /// The next line that is not blank, without its end; `None` when there is no more.
    /// A last line without an end is a line.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                let last = std::mem::take(&mut self.line);
                return Ok((!is_blank(&last)).then_some(Line::Whole(last)));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let taken = part.len() + usize::from(end.is_some());
            let fits = self.line.len() + part.len() <= self.max_bytes;
            if !self.skipping && fits {
                self.line.extend_from_slice(part);
            }
            self.input.consume(taken);

            if self.skipping {
                self.skipping = end.is_none();
            } else if !fits {
                self.line = Vec::new();
                self.skipping = end.is_none();
                return Ok(Some(Line::TooLong));
            } else if end.is_some() {
                let line = std::mem::take(&mut self.line);
                if !is_blank(&line) {
                    return Ok(Some(Line::Whole(line)));
                }
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

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn rows() {
        let rows: &[(&str, &[Line])] = &[
            ("", &[]),
            ("\n \r\n\n", &[]),
            ("ab\ncd\n", &[whole("ab"), whole("cd")]),
            ("ab\r\ncd", &[whole("ab\r"), whole("cd")]),
            ("12345678\n", &[whole("12345678")]),
            ("123456789\nab\n", &[Line::TooLong, whole("ab")]),
            ("123456789", &[Line::TooLong]),
            (
                "1234567890123456789012345\n\nab\n123456789\n",
                &[Line::TooLong, whole("ab"), Line::TooLong],
            ),
        ];
        run(async {
            for (input, expected) in rows {
                // However the bytes arrive.
                for chunk in [1, 3, 64] {
                    let mut reader = LineReader::new(input.as_bytes(), 8);
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
            let mut lines = LineReader::new(reader, 8);
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
    fn a_line_without_end_is_not_kept() {
        run(async {
            let mut reader = LineReader::new(tokio::io::repeat(b'x'), 8);
            assert_eq!(reader.next().await.unwrap(), Some(Line::TooLong));
            assert_eq!(reader.line.capacity(), 0);
        });
    }
}
