//! Lists, strings, regular expressions and symbols. The profile language is Scheme; this is the
//! part of its syntax that has no surprises. Only printable ASCII and line ends are taken, so no
//! two readers can decode the bytes differently.

use crate::Error;
use std::fmt;

/// Bound on a profile.
const MAX_BYTES: usize = 4 << 20;
/// Bound on lists in lists.
const MAX_DEPTH: usize = 16;

/// One piece of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    List(Vec<Node>),
    Symbol(String),
    Text(String),
    Regex(String),
}

pub(crate) fn parse(text: &str) -> Result<Vec<Node>, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::Syntax {
            what: "far too long",
            at: MAX_BYTES,
        });
    }
    let foreign = |byte: &u8| !(byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n'));
    if let Some(at) = text.as_bytes().iter().position(foreign) {
        return Err(Error::Syntax {
            what: "a character that is not printable ASCII",
            at,
        });
    }
    let mut reader = Reader {
        bytes: text.as_bytes(),
        at: 0,
    };
    let mut out = Vec::new();
    while let Some(node) = reader.node(0)? {
        match node {
            Node::List(_) => out.push(node),
            Node::Symbol(_) | Node::Text(_) | Node::Regex(_) => {
                return Err(reader.wrong("something outside of every list"));
            }
        }
    }
    Ok(out)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next piece, or nothing at the end of the text.
    fn node(&mut self, depth: usize) -> Result<Option<Node>, Error> {
        self.skip_blank();
        let Some(first) = self.peek() else {
            return Ok(None);
        };
        match first {
            b'(' => {
                if depth >= MAX_DEPTH {
                    return Err(self.wrong("lists in lists without end"));
                }
                self.at += 1;
                let mut items = Vec::new();
                loop {
                    self.skip_blank();
                    match self.peek() {
                        Some(b')') => {
                            self.at += 1;
                            return Ok(Some(Node::List(items)));
                        }
                        Some(_) => items.extend(self.node(depth + 1)?),
                        None => return Err(self.wrong("a list that is not closed")),
                    }
                }
            }
            b')' => Err(self.wrong("a list that was not opened")),
            b'"' => {
                self.at += 1;
                self.text().map(Node::Text).map(Some)
            }
            b'#' => {
                self.at += 1;
                if self.peek() != Some(b'"') {
                    return Err(self.wrong("# without a string"));
                }
                self.at += 1;
                self.text().map(Node::Regex).map(Some)
            }
            _ => {
                let start = self.at;
                while self.peek().is_some_and(is_symbol) {
                    self.at += 1;
                }
                if start == self.at {
                    return Err(self.wrong("a character that starts nothing"));
                }
                let symbol = self.bytes[start..self.at].iter().map(|b| char::from(*b));
                Ok(Some(Node::Symbol(symbol.collect())))
            }
        }
    }

    /// Up to the closing quote. Escapes are refused, not guessed: readers differ about them.
    fn text(&mut self) -> Result<String, Error> {
        let mut out = String::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => return Err(self.wrong("an escape")),
                b'\n' => return Err(self.wrong("a line end in a string")),
                _ => out.push(char::from(byte)),
            }
            self.at += 1;
        }
        Err(self.wrong("a string that is not closed"))
    }

    fn skip_blank(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\n' => self.at += 1,
                b';' => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn wrong(&self, what: &'static str) -> Error {
        Error::Syntax { what, at: self.at }
    }
}

fn is_symbol(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'*' | b'_' | b'-' | b'.')
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Symbol(symbol) => f.write_str(symbol),
            Node::Text(text) => write!(f, "\"{text}\""),
            Node::Regex(text) => write!(f, "#\"{text}\""),
            Node::List(items) => {
                f.write_str("(")?;
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        f.write_str(" ")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str(")")
            }
        }
    }
}
