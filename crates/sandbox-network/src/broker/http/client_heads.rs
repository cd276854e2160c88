//! The heads of a client's requests as the client sent them. hyper leaves out a `Content-Length` that
//! stands beside `Transfer-Encoding`, so that a request with two lengths looks like a valid one.

use std::sync::Mutex;

use hyper::header::{self, HeaderMap, HeaderValue};

use super::super::lock;
use super::super::proxy::MAX_HEADERS;

/// The bytes that hyper has read from a client since the end of the last request's body.
#[derive(Debug, Default)]
pub(super) struct ClientHeads(Mutex<UnreadHead>);

#[derive(Debug, Default)]
struct UnreadHead {
    /// Bytes of a body that are still to come.
    body: u64,
    /// At most the bytes that hyper holds unparsed: it reads no further than `max_buf_size`.
    bytes: Vec<u8>,
    /// `true` after a request whose body has no known length. It is the last one.
    is_last: bool,
}

impl ClientHeads {
    /// Notes bytes that hyper reads.
    pub(super) fn add(&self, bytes: &[u8]) {
        let mut unread = lock(&self.0);
        let of_body = bytes
            .len()
            .min(usize::try_from(unread.body).unwrap_or(usize::MAX));
        unread.body -= of_body as u64;
        if !unread.is_last {
            unread.bytes.extend_from_slice(&bytes[of_body..]);
        }
    }

    /// Adds to a request's headers the length that hyper has left out. `true` if a further request may
    /// follow: its head begins where this one's body ends. `false` after a body in chunks, whose end
    /// only hyper knows, and for a request that `is_last` because it changes the protocol.
    pub(super) fn complete(&self, headers: &mut HeaderMap, is_last: bool) -> bool {
        let mut unread = lock(&self.0);
        let mut parsed = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut parsed);
        let end = match request.parse(&unread.bytes) {
            Ok(httparse::Status::Complete(end)) => Some(end),
            Ok(httparse::Status::Partial) | Err(_) => None,
        };
        let is_length = |name: &str| name.eq_ignore_ascii_case("content-length");
        let has_length = request.headers.iter().any(|header| is_length(header.name));
        // Without a head that can be read again, the request counts as one with two lengths.
        let has_length = has_length || end.is_none();
        let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
        if is_chunked && has_length {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.map_or(Some(0), |value| value.to_str().ok()?.trim().parse().ok());
        let (Some(end), Some(length), false) = (end, length, is_chunked || is_last) else {
            *unread = UnreadHead {
                is_last: true,
                ..UnreadHead::default()
            };
            return false;
        };
        // Hyper may have read more: the body, and requests behind it.
        let come = (unread.bytes.len() - end) as u64;
        let of_body = usize::try_from(length.min(come)).unwrap_or(0);
        unread.bytes.drain(..end + of_body);
        unread.body = length - of_body as u64;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    /// The headers are those that hyper hands on.
    #[test]
    fn two_lengths_are_found_wherever_a_head_begins() {
        let first = "\r\nPOST /1 HTTP/1.1\r\ncontent-length: 30\r\n\r\n";
        let body = "Content-Length: 9\r\n\r\nGET / x\r\n";
        let get = "GET /2 HTTP/1.1\r\nX: Content-Length\r\n\r\n";
        let two = "POST /3 HTTP/1.1\nTransfer-Encoding: chunked\nCONTENT-length: 3\n\n";
        let all = [first, body, get, two].concat();
        for step in [1, 7, all.len()] {
            let heads = ClientHeads::default();
            let mut parts = all.as_bytes().chunks(step);
            let mut read = 0;
            let mut read_to = |end: usize| {
                while read < end {
                    let part = parts.next().unwrap();
                    heads.add(part);
                    read += part.len();
                }
            };
            read_to(first.len());
            let mut of_first = headers(&[("content-length", "30")]);
            assert_eq!(body.len(), 30);
            assert!(heads.complete(&mut of_first, false));
            assert_eq!(of_first, headers(&[("content-length", "30")]));
            read_to(first.len() + body.len() + get.len());
            let mut of_get = headers(&[("x", "Content-Length")]);
            assert!(heads.complete(&mut of_get, false));
            assert!(!of_get.contains_key(header::CONTENT_LENGTH));
            read_to(all.len());
            let mut of_two = headers(&[("transfer-encoding", "chunked")]);
            assert!(!heads.complete(&mut of_two, false));
            assert!(of_two.contains_key(header::CONTENT_LENGTH), "{step}");
        }
    }

    #[test]
    fn a_body_in_chunks_is_the_last_and_has_one_length() {
        let heads = ClientHeads::default();
        heads.add(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n");
        let mut all = headers(&[("transfer-encoding", "chunked")]);
        assert!(!heads.complete(&mut all, false));
        assert!(!all.contains_key(header::CONTENT_LENGTH));
        heads.add(&[0; 1 << 20]);
        assert!(lock(&heads.0).bytes.is_empty());
    }

    #[test]
    fn nothing_is_kept_after_the_last_request() {
        let heads = ClientHeads::default();
        heads.add(b"GET / HTTP/1.1\r\n\r\n");
        assert!(!heads.complete(&mut headers(&[]), true));
        heads.add(&[0; 1 << 20]);
        assert!(lock(&heads.0).bytes.is_empty());
    }
}
