//! The body of an answer: its decoded bytes, independent of wrong headers. Servers and gateways
//! compress without being asked, and call a stream JSON or the reverse.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::GzDecoder;
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use tokio::time::timeout;

use crate::model::ModelError;

/// Compressed bytes that are unpacked at once. Each of them can become a thousand.
const UNPACKED_AT_ONCE: usize = 4 * 1024;
/// Longest run of leading whitespace that is inspected.
const MAX_BEGINNING: usize = 1024;

/// The format of an answer: a stream of events, or one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFormat {
    Events,
    OnePiece,
}

impl BodyFormat {
    /// Returns the format of a body that begins with `beginning`: by its content, and by its type
    /// where the content leaves it open. `None` if it is neither.
    fn of(beginning: &[u8], content_type: &str, asked_for: BodyFormat) -> Option<BodyFormat> {
        const FIELDS: [&[u8]; 5] = [b":", b"data:", b"event:", b"id:", b"retry:"];
        let text = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
        let text = text.trim_ascii_start();
        let is_field = |field: &[u8]| text.starts_with(field) || field.starts_with(text);
        match text.first() {
            Some(b'{') => Some(BodyFormat::OnePiece),
            Some(_) if FIELDS.into_iter().any(is_field) => Some(BodyFormat::Events),
            Some(_) | None => match content_type {
                "text/event-stream" => Some(BodyFormat::Events),
                "application/json" => Some(BodyFormat::OnePiece),
                "" => Some(asked_for),
                _ => None,
            },
        }
    }
}

/// A body that is read piece by piece.
pub(super) struct BodyReader {
    response: Response,
    unpacker: Option<GzDecoder<Vec<u8>>>,
    /// Received bytes that are not unpacked yet.
    packed: Bytes,
    /// Bytes that `form` has inspected and `chunk` has still to return.
    beginning: Bytes,
    idle_ms: u64,
}

impl BodyReader {
    pub(super) fn new(response: Response, idle_ms: u64) -> Result<Self, ModelError> {
        let encoding = header(response.headers(), CONTENT_ENCODING.as_str());
        let unpacker = match encoding.as_str() {
            "" | "identity" => None,
            "gzip" | "x-gzip" => Some(GzDecoder::new(Vec::new())),
            other => {
                return Err(ModelError::Malformed(format!(
                    "it is encoded as `{}`, which nobody asked for",
                    crate::shortened::shortened(other, 40)
                )));
            }
        };
        Ok(BodyReader {
            response,
            unpacker,
            packed: Bytes::new(),
            beginning: Bytes::new(),
            idle_ms,
        })
    }

    /// The type that the server gives it, in small letters and without parameters.
    pub(super) fn content_type(&self) -> String {
        let whole = header(self.response.headers(), CONTENT_TYPE.as_str());
        whole.split(';').next().unwrap_or("").trim().to_owned()
    }

    /// Inspects the beginning of the body. `None` if it is not an answer.
    pub(super) async fn form(
        &mut self,
        asked_for: BodyFormat,
    ) -> Result<Option<BodyFormat>, ModelError> {
        let mut beginning = Vec::new();
        while beginning.trim_ascii().is_empty() && beginning.len() < MAX_BEGINNING {
            match self.chunk().await? {
                Some(more) => beginning.extend_from_slice(&more),
                None => break,
            }
        }
        let form = BodyFormat::of(&beginning, &self.content_type(), asked_for);
        self.beginning = beginning.into();
        Ok(form)
    }

    /// The next bytes; `None` at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, ModelError> {
        if !self.beginning.is_empty() {
            return Ok(Some(std::mem::take(&mut self.beginning)));
        }
        loop {
            if self.packed.is_empty() {
                match self.received().await? {
                    Some(bytes) if self.unpacker.is_none() => return Ok(Some(bytes)),
                    Some(bytes) => self.packed = bytes,
                    None => return self.end(),
                }
            }
            let unpacked = self.unpack()?;
            if !unpacked.is_empty() {
                return Ok(Some(unpacked));
            }
        }
    }

    /// Unpacks the next received bytes.
    fn unpack(&mut self) -> Result<Bytes, ModelError> {
        let Some(unpacker) = &mut self.unpacker else {
            return Ok(std::mem::take(&mut self.packed));
        };
        let packed = self
            .packed
            .split_to(self.packed.len().min(UNPACKED_AT_ONCE));
        let mut rest = &packed[..];
        while !rest.is_empty() {
            match unpacker.write(rest) {
                // Bytes after the end are ignored.
                Ok(0) => {
                    self.packed.clear();
                    break;
                }
                Ok(count) => rest = &rest[count..],
                Err(_) => return Err(not_gzip()),
            }
        }
        unpacker.flush().map_err(|_| not_gzip())?;
        Ok(std::mem::take(unpacker.get_mut()).into())
    }

    fn end(&mut self) -> Result<Option<Bytes>, ModelError> {
        let Some(mut unpacker) = self.unpacker.take() else {
            return Ok(None);
        };
        match unpacker.try_finish() {
            Ok(()) => {
                let last = std::mem::take(unpacker.get_mut());
                Ok((!last.is_empty()).then(|| last.into()))
            }
            Err(_) => Err(ModelError::Cut),
        }
    }

    async fn received(&mut self) -> Result<Option<Bytes>, ModelError> {
        let idle_ms = self.idle_ms;
        match timeout(Duration::from_millis(idle_ms), self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(_)) => Err(ModelError::Cut),
            Err(_) => Err(silent(format!("nothing came for {idle_ms} ms"))),
        }
    }
}

fn header(headers: &HeaderMap, name: &str) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or("").trim().to_ascii_lowercase()
}

pub(super) fn silent(why: String) -> ModelError {
    ModelError::Unreachable(why)
}

fn not_gzip() -> ModelError {
    ModelError::Malformed("it is not the gzip that it is called".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_body_says_itself() {
        let rows = [
            ("data: {}", "application/json", Some(BodyFormat::Events)),
            ("event: ping", "application/json", Some(BodyFormat::Events)),
            ("\n\n: hello", "text/plain", Some(BodyFormat::Events)),
            ("d", "application/octet-stream", Some(BodyFormat::Events)),
            (
                " {\"a\": 1}",
                "text/event-stream",
                Some(BodyFormat::OnePiece),
            ),
            ("\u{feff}{", "text/plain", Some(BodyFormat::OnePiece)),
            ("", "text/event-stream", Some(BodyFormat::Events)),
            ("", "application/json", Some(BodyFormat::OnePiece)),
            ("nonsense", "application/json", Some(BodyFormat::OnePiece)),
            ("nonsense", "", Some(BodyFormat::Events)),
            ("<!doctype html>", "text/html", None),
            ("database is down", "text/plain", None),
        ];
        for (beginning, content_type, form) in rows {
            let found = BodyFormat::of(beginning.as_bytes(), content_type, BodyFormat::Events);
            assert_eq!(found, form, "{beginning:?} as {content_type}");
        }
    }
}
