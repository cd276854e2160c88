//! Recorded answers: `fixtures/providers/WIRE/NAME.http` is one whole, and `NAME.expect` what is
//! to come of it, one event a line.

use std::path::Path;

use forge_runtime::Wire;
use serde_json::Value;

pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) wire: Wire,
    /// Status and headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) expected: Vec<Value>,
}

impl Fixture {
    /// All of them.
    pub(crate) fn all() -> Vec<Fixture> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/providers");
        let mut all = Vec::new();
        for wire in Wire::ALL {
            for entry in std::fs::read_dir(root.join(wire.to_string())).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|end| end == "http") {
                    all.push(Fixture::read(wire, &path));
                }
            }
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        assert!(all.len() > 80, "fixtures are missing: {}", all.len());
        all
    }

    /// One of them.
    pub(crate) fn named(name: &str) -> Fixture {
        let mut all = Fixture::all().into_iter();
        all.find(|fixture| fixture.name == name).unwrap()
    }

    fn read(wire: Wire, path: &Path) -> Fixture {
        let bytes = std::fs::read(path).unwrap();
        let end = bytes.windows(2).position(|two| two == b"\n\n").unwrap();
        let expected = std::fs::read_to_string(path.with_extension("expect")).unwrap();
        Fixture {
            name: format!("{wire}/{}", path.file_stem().unwrap().to_str().unwrap()),
            wire,
            head: String::from_utf8(bytes[..end].to_vec()).unwrap(),
            body: bytes[end + 2..].to_vec(),
            expected: expected
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.head.contains("text/event-stream")
    }

    /// The answer as bytes, its end marked in one of the ways that HTTP has.
    pub(crate) fn response(&self, framing: Framing) -> Vec<u8> {
        let head = self.head.replace('\n', "\r\n");
        let (header, body) = match framing {
            Framing::Length => (
                format!("content-length: {}", self.body.len()),
                self.body.clone(),
            ),
            Framing::Chunks(size) => ("transfer-encoding: chunked".to_owned(), self.chunks(size)),
            Framing::Close => ("x-nothing: here".to_owned(), self.body.clone()),
        };
        let head = format!("{head}\r\nconnection: close\r\n{header}\r\n\r\n");
        [head.into_bytes(), body].concat()
    }

    fn chunks(&self, size: usize) -> Vec<u8> {
        let mut body = Vec::new();
        for chunk in self.body.chunks(size) {
            body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        body
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Framing {
    Length,
    Chunks(usize),
    Close,
}
