//! Regular expressions of the profile language, as far as we use them: bytes, classes, groups with
//! alternatives, `*`, `+`, `?`, `^` at the start and `$` at an end. They match anywhere unless
//! anchored. Run without backtracking, in time linear in the text.

use crate::Error;

/// A compiled expression: a machine of states, 0 being the start.
#[derive(Clone, Debug)]
pub(crate) struct Regex {
    states: Vec<State>,
    anchored: bool,
}

#[derive(Clone, Debug)]
enum State {
    /// Takes one byte out of a set, then goes on.
    Byte(Box<[bool; 256]>, usize),
    /// Goes on in two ways.
    Split(usize, usize),
    /// Goes on at the end of the text only.
    End(usize),
    Match,
}

impl Regex {
    pub(crate) fn new(text: &str) -> Result<Regex, Error> {
        let (anchored, body) = match text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut parser = Parser {
            text,
            bytes: body.as_bytes(),
            at: 0,
        };
        let tree = parser.alternatives()?;
        if parser.at != parser.bytes.len() {
            return Err(parser.unknown());
        }
        // Built from the end: every state knows where it goes on.
        let mut states = vec![State::Match];
        let start = compile(&tree, 0, &mut states);
        states.push(State::Split(start, start));
        Ok(Regex { states, anchored })
    }

    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let start = self.states.len() - 1;
        let mut now = vec![false; self.states.len()];
        for at in 0..=text.len() {
            if at == 0 || !self.anchored {
                self.enter(start, at == text.len(), &mut now);
            }
            if now[0] {
                return true;
            }
            let Some(byte) = text.get(at) else { break };
            let mut next = vec![false; self.states.len()];
            for (state, _) in now.iter().enumerate().filter(|(_, active)| **active) {
                if let State::Byte(set, to) = &self.states[state]
                    && set[usize::from(*byte)]
                {
                    self.enter(*to, at + 1 == text.len(), &mut next);
                }
            }
            now = next;
        }
        now[0]
    }

    /// Marks a state and everything that it goes on to without taking a byte.
    fn enter(&self, state: usize, at_end: bool, active: &mut [bool]) {
        let mut open = vec![state];
        while let Some(state) = open.pop() {
            if std::mem::replace(&mut active[state], true) {
                continue;
            }
            match &self.states[state] {
                State::Split(one, other) => open.extend([*one, *other]),
                State::End(to) if at_end => open.push(*to),
                State::End(_) | State::Byte(..) | State::Match => {}
            }
        }
    }
}

enum Tree {
    Byte(Box<[bool; 256]>),
    End,
    Sequence(Vec<Tree>),
    Any(Vec<Tree>),
    Repeat(Box<Tree>, Times),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    Optional,
    Any,
    Some,
}

fn compile(tree: &Tree, then: usize, states: &mut Vec<State>) -> usize {
    let add = |state: State, states: &mut Vec<State>| {
        states.push(state);
        states.len() - 1
    };
    match tree {
        Tree::Byte(set) => add(State::Byte(set.clone(), then), states),
        Tree::End => add(State::End(then), states),
        Tree::Sequence(parts) => parts
            .iter()
            .rev()
            .fold(then, |then, part| compile(part, then, states)),
        Tree::Any(parts) => {
            let starts: Vec<usize> = parts.iter().map(|p| compile(p, then, states)).collect();
            let first = starts[0];
            starts[1..]
                .iter()
                .fold(first, |one, other| add(State::Split(one, *other), states))
        }
        Tree::Repeat(part, Times::Optional) => {
            let start = compile(part, then, states);
            add(State::Split(start, then), states)
        }
        Tree::Repeat(part, times) => {
            let again = add(State::Split(then, then), states);
            let start = compile(part, again, states);
            states[again] = State::Split(start, then);
            if *times == Times::Any { again } else { start }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn alternatives(&mut self) -> Result<Tree, Error> {
        let mut parts = vec![self.sequence()?];
        while self.peek() == Some(b'|') {
            self.at += 1;
            parts.push(self.sequence()?);
        }
        Ok(Tree::Any(parts))
    }

    fn sequence(&mut self) -> Result<Tree, Error> {
        let mut parts = Vec::new();
        while let Some(byte) = self.peek() {
            let one = match byte {
                b'|' | b')' => break,
                b'(' => {
                    self.at += 1;
                    let inner = self.alternatives()?;
                    if self.peek() != Some(b')') {
                        return Err(self.unknown());
                    }
                    self.at += 1;
                    inner
                }
                b'[' => self.class()?,
                b'$' => {
                    self.at += 1;
                    if !matches!(self.peek(), None | Some(b')' | b'|')) {
                        return Err(self.unknown());
                    }
                    Tree::End
                }
                // Readers differ about escapes, counts, and whether a dot takes a line end.
                b'.' | b'\\' | b'^' | b'{' | b'}' | b']' | b'*' | b'+' | b'?' => {
                    return Err(self.unknown());
                }
                _ => {
                    self.at += 1;
                    let mut set = [false; 256];
                    set[usize::from(byte)] = true;
                    Tree::Byte(Box::new(set))
                }
            };
            let times = match self.peek() {
                Some(b'*') => Some(Times::Any),
                Some(b'+') => Some(Times::Some),
                Some(b'?') => Some(Times::Optional),
                _ => None,
            };
            parts.push(match times {
                Some(times) => {
                    self.at += 1;
                    Tree::Repeat(Box::new(one), times)
                }
                None => one,
            });
        }
        Ok(Tree::Sequence(parts))
    }

    fn class(&mut self) -> Result<Tree, Error> {
        self.at += 1;
        let negated = self.peek() == Some(b'^');
        if negated {
            self.at += 1;
        }
        let mut set = [false; 256];
        let mut empty = true;
        loop {
            let first = self.peek().ok_or_else(|| self.unknown())?;
            match first {
                b']' if !empty => break,
                b']' | b'[' | b'\\' | b'^' => return Err(self.unknown()),
                _ => {}
            }
            self.at += 1;
            let mut last = first;
            let is_range = self.peek() == Some(b'-')
                && self.bytes.get(self.at + 1).is_some_and(|b| *b != b']');
            if is_range {
                last = self.bytes[self.at + 1];
                self.at += 2;
            }
            if last < first {
                return Err(self.unknown());
            }
            for byte in first..=last {
                set[usize::from(byte)] = true;
            }
            empty = false;
        }
        self.at += 1;
        if negated {
            set.iter_mut().for_each(|one| *one = !*one);
        }
        Ok(Tree::Byte(Box::new(set)))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn unknown(&self) -> Error {
        Error::Unknown {
            what: "regular expression",
            text: self.text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for (regex, text, want) in [
            ("abc", "xabcx", true),
            ("^abc", "xabc", false),
            ("abc$", "abcx", false),
            ("^abc$", "abc", true),
            ("", "anything", true),
            ("^a[^/]*c$", "ac", true),
            ("^a[^/]*c$", "abbc", true),
            ("^a[^/]*c$", "ab/c", false),
            ("^a[^/]+c$", "ac", false),
            ("^(/[^/]+)+$", "/a/b", true),
            ("^(/[^/]+)+$", "/a//b", false),
            ("^/p(/[^/]+)*/x(/|$)", "/p/x", true),
            ("^/p(/[^/]+)*/x(/|$)", "/p/a/x/y", true),
            ("^/p(/[^/]+)*/x(/|$)", "/px/x", false),
            ("^/p(/[^/]+)*/x(/|$)", "/p/xy", false),
            ("^[gG][iI][tT]$", "GiT", true),
            ("^[!-#]$", "\"", true),
            ("^[a-]$", "-", true),
            ("^(a|b|)$", "", true),
            ("^[.]$", "x", false),
        ] {
            let compiled = Regex::new(regex).unwrap();
            assert_eq!(compiled.matches(text.as_bytes()), want, "{regex} {text}");
        }
        for bad in [
            "a{2}", r"\.", "a.c", "a**", "(a", "a)", "[", "[]", "*a", "a^b", "a$b", "[b-a]", r"[\]",
        ] {
            assert!(Regex::new(bad).is_err(), "{bad}");
        }
    }
}
