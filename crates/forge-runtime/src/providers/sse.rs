//! Server-sent events, out of bytes that come in pieces of any size.
//!
//! Every line end of the specification is known, also one that is cut in two; each byte is
//! looked at once; and an event without an end is an error before it is a problem.

use serde::de::IgnoredAny;

/// An item of an event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SseFrame {
    /// An event's data. Its name is dropped: on every wire the data contain their type.
    Data(String),
    /// A comment, or an event without data: a sign of life.
    Comment,
}

/// The reason why the stream cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SseError {
    /// An event is longer than this.
    TooLong(usize),
    /// Data that are not UTF-8.
    NotText,
}

/// A reader of events.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    max_bytes: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    has_name: bool,
    /// The last byte ended a line and was a carriage return: a line feed belongs to it.
    after_return: bool,
    first_line: bool,
}

impl SseParser {
    pub(super) fn new(max_bytes: usize) -> Self {
        SseParser {
            max_bytes,
            first_line: true,
            ..SseParser::default()
        }
    }

    /// Takes the next bytes, and adds completed frames to `frames`.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        frames: &mut Vec<SseFrame>,
    ) -> Result<(), SseError> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let line = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + self.data.len() + line.len() > self.max_bytes {
                return Err(SseError::TooLong(self.max_bytes));
            }
            self.line.extend_from_slice(line);
            let Some(end) = end else {
                return Ok(());
            };
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let mut line = std::mem::take(&mut self.line);
            self.take(&line, frames)?;
            line.clear();
            self.line = line;
        }
        Ok(())
    }

    /// Ends the input. Some servers leave out the empty line after the last event, or its line end
    /// as well. Without a line end an event counts if its data are complete; otherwise it was cut.
    pub(super) fn close(&mut self, frames: &mut Vec<SseFrame>) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take(&line, frames)?;
        }
        let is_whole = || {
            self.data.trim_ascii() == b"[DONE]"
                || serde_json::from_slice::<IgnoredAny>(&self.data).is_ok()
        };
        if self.has_data && (line.is_empty() || is_whole()) {
            self.take(b"", frames)?;
        }
        Ok(())
    }

    fn take(&mut self, line: &[u8], frames: &mut Vec<SseFrame>) -> Result<(), SseError> {
        let line = match std::mem::take(&mut self.first_line) {
            true => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            false => line,
        };
        if line.is_empty() {
            let named = std::mem::take(&mut self.has_name);
            if std::mem::take(&mut self.has_data) {
                let data = std::mem::take(&mut self.data);
                let data = String::from_utf8(data).map_err(|_| SseError::NotText)?;
                frames.push(SseFrame::Data(data));
            } else if named {
                frames.push(SseFrame::Comment);
            }
            return Ok(());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"" => frames.push(SseFrame::Comment),
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.has_name = true,
            // `id`, `retry`, and unknown fields.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<SseFrame>, SseError> {
        let mut frames = Vec::new();
        let mut reader = SseParser::new(64);
        for piece in pieces {
            reader.feed(piece, &mut frames)?;
        }
        reader.close(&mut frames)?;
        Ok(frames)
    }

    fn data(text: &str) -> SseFrame {
        SseFrame::Data(text.to_owned())
    }

    #[test]
    fn what_bytes_hold() {
        let rows: &[(&[u8], Vec<SseFrame>)] = &[
            (b"data: a\n\ndata: b\n\n", vec![data("a"), data("b")]),
            (b"event: x\r\ndata: a\r\n\r\n", vec![data("a")]),
            (
                b"event: x\rdata: a\r\rdata:b\r\r",
                vec![data("a"), data("b")],
            ),
            (b"data: a\ndata:  b\n\n", vec![data("a\n b")]),
            (
                b": still here\n\nevent: ping\n\ndata\n\n",
                vec![SseFrame::Comment, SseFrame::Comment, data("")],
            ),
            (b"\xef\xbb\xbfdata: a\n\n", vec![data("a")]),
            (b"id: 1\nretry: 2\nnonsense\n\n\n\n", vec![]),
            // Without the last empty line, or without the last line end.
            (b"data: {}\n", vec![data("{}")]),
            (b"data: {\"a\": 1}", vec![data("{\"a\": 1}")]),
            (b"data: {\ndata: }", vec![data("{\n}")]),
            (b"data: {\"a\":", vec![]),
            (b"data: a\n", vec![data("a")]),
            (b"data: {\"a\":\ndata: 1", vec![]),
            (b"data: [DONE]", vec![data("[DONE]")]),
            (b"data: [DONE]\r\n", vec![data("[DONE]")]),
            ("data: ü🦀\n\n".as_bytes(), vec![data("ü🦀")]),
        ];
        for (bytes, frames) in rows {
            assert_eq!(read(&[bytes]).as_ref(), Ok(frames), "{bytes:?}");
            let each: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(read(&each).as_ref(), Ok(frames), "{bytes:?} byte by byte");
            for at in 0..bytes.len() {
                let (one, two) = bytes.split_at(at);
                assert_eq!(
                    read(&[one, two]).as_ref(),
                    Ok(frames),
                    "{bytes:?} cut at {at}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_stream() {
        assert_eq!(read(&[b"data: \xff\n\n"]), Err(SseError::NotText));
        assert_eq!(read(&[&[b'x'; 65]]), Err(SseError::TooLong(64)));
        let lines: Vec<&[u8]> = vec![b"data: 0123456789\n"; 7];
        assert_eq!(read(&lines), Err(SseError::TooLong(64)));
    }
}
