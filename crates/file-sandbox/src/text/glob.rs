//! Patterns over names: `*`, `?`, `[a-z]`, `{a,b}` inside a name and `**` for any directories.
//!
//! A pattern is a small automaton over whole names. A walk carries its state from a directory into
//! its children, so that a directory that cannot lead to a match is never opened, and matching is
//! linear in the length of a path for every pattern.

/// A pattern, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    alternatives: Vec<Vec<GlobPart>>,
}

/// The progress of each alternative: bit `i` is set when its first `i` parts have matched.
#[derive(Clone, Debug)]
pub(crate) struct GlobState(Vec<u64>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobPart {
    /// `**`: any number of names, also none.
    Any,
    Name(Vec<GlobToken>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobToken {
    Star,
    One,
    Char(char),
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// Bits of a `GlobState`, less the one for "all matched".
const MAX_PARTS: usize = 63;
const MAX_ALTERNATIVES: usize = 64;
const MAX_BYTES: usize = 1024;

impl Glob {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("it is empty");
        }
        if text.len() > MAX_BYTES {
            return Err("it is longer than 1024 bytes");
        }
        if text.starts_with('/') {
            return Err("it is not relative");
        }
        let mut alternatives = Vec::new();
        for text in expand_braces(text)? {
            let parts: Vec<GlobPart> = text
                .split('/')
                .filter(|name| !name.is_empty() && *name != ".")
                .map(GlobPart::parse)
                .collect::<Result<_, _>>()?;
            if parts.is_empty() {
                return Err("it names nothing");
            }
            if parts.len() > MAX_PARTS {
                return Err("it has more than 63 parts");
            }
            alternatives.push(parts);
        }
        Ok(Self { alternatives })
    }

    /// Returns a pattern that begins at any depth.
    pub(crate) fn anywhere(mut self) -> Result<Self, &'static str> {
        for parts in &mut self.alternatives {
            if parts.len() == MAX_PARTS {
                return Err("it has more than 62 parts");
            }
            parts.insert(0, GlobPart::Any);
        }
        Ok(self)
    }

    pub(crate) fn start(&self) -> GlobState {
        GlobState(
            self.alternatives
                .iter()
                .map(|parts| past_any(parts, 1))
                .collect(),
        )
    }

    /// Returns the state after one more name.
    pub(crate) fn step(&self, state: &GlobState, name: &str) -> GlobState {
        let next = |(parts, bits): (&Vec<GlobPart>, &u64)| {
            let mut next = 0;
            for (i, part) in parts.iter().enumerate() {
                if bits & (1 << i) == 0 {
                    continue;
                }
                match part {
                    GlobPart::Any => next |= 1 << i,
                    GlobPart::Name(tokens) if matches(tokens, name) => next |= 1 << (i + 1),
                    GlobPart::Name(_) => {}
                }
            }
            past_any(parts, next)
        };
        GlobState(self.alternatives.iter().zip(&state.0).map(next).collect())
    }

    /// `true` if one more name completes a match.
    pub(crate) fn accepts_child(&self, state: &GlobState, name: &str) -> bool {
        let hit = |(parts, bits): (&Vec<GlobPart>, &u64)| {
            // The last part has to take the name, and a `**` at the end takes any.
            let ends = parts
                .iter()
                .enumerate()
                .filter(|(i, _)| bits & (1 << i) != 0);
            ends.into_iter().any(|(i, part)| {
                let is_end = parts[i + 1..].iter().all(|part| *part == GlobPart::Any);
                is_end
                    && match part {
                        GlobPart::Any => true,
                        GlobPart::Name(tokens) => matches(tokens, name),
                    }
            })
        };
        self.alternatives.iter().zip(&state.0).any(hit)
    }

    /// `true` if the names so far are a match.
    pub(crate) fn accepts(&self, state: &GlobState) -> bool {
        let done = |(parts, bits): (&Vec<GlobPart>, &u64)| bits & (1 << parts.len()) != 0;
        self.alternatives.iter().zip(&state.0).any(done)
    }

    /// `true` if a match is possible below the names so far.
    pub(crate) fn may_go_on(&self, state: &GlobState) -> bool {
        let going = |(parts, bits): (&Vec<GlobPart>, &u64)| bits & ((1 << parts.len()) - 1) != 0;
        self.alternatives.iter().zip(&state.0).any(going)
    }
}

impl GlobPart {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "**" => Ok(Self::Any),
            ".." => Err("'..' is not allowed here"),
            _ => Ok(Self::Name(tokens(text)?)),
        }
    }
}

/// A `**` may match nothing, so reaching it is also being past it.
fn past_any(parts: &[GlobPart], mut bits: u64) -> u64 {
    for (i, part) in parts.iter().enumerate() {
        if bits & (1 << i) != 0 && *part == GlobPart::Any {
            bits |= 1 << (i + 1);
        }
    }
    bits
}

fn tokens(text: &str) -> Result<Vec<GlobToken>, &'static str> {
    let mut tokens = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' if tokens.last() == Some(&GlobToken::Star) => continue,
            '*' => GlobToken::Star,
            '?' => GlobToken::One,
            '[' => class(&mut chars)?,
            c => GlobToken::Char(c),
        });
    }
    Ok(tokens)
}

fn class(chars: &mut std::str::Chars<'_>) -> Result<GlobToken, &'static str> {
    const UNCLOSED: &str = "'[' is not closed";
    let mut negated = false;
    let mut ranges = Vec::new();
    let mut c = chars.next().ok_or(UNCLOSED)?;
    if c == '!' || c == '^' {
        negated = true;
        c = chars.next().ok_or(UNCLOSED)?;
    }
    loop {
        let low = c;
        c = chars.next().ok_or(UNCLOSED)?;
        if c == '-' {
            c = chars.next().ok_or(UNCLOSED)?;
            if c == ']' {
                ranges.extend([(low, low), ('-', '-')]);
                break;
            }
            ranges.push((low, c));
            c = chars.next().ok_or(UNCLOSED)?;
        } else {
            ranges.push((low, low));
        }
        if c == ']' {
            break;
        }
    }
    Ok(GlobToken::Class { negated, ranges })
}

/// Matches one name against one part, with a single backtracking point: linear except for a name
/// full of near-misses, and a name has at most 255 bytes.
fn matches(tokens: &[GlobToken], name: &str) -> bool {
    let (mut t, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while let Some(c) = name[n..].chars().next() {
        match tokens.get(t) {
            Some(GlobToken::Star) => {
                back = Some((t + 1, n));
                t += 1;
                continue;
            }
            Some(token) if token.takes(c) => {
                t += 1;
                n += c.len_utf8();
                continue;
            }
            _ => {}
        }
        match &mut back {
            Some((after_star, from)) => {
                *from += name[*from..].chars().next().map_or(1, char::len_utf8);
                (t, n) = (*after_star, *from);
            }
            None => return false,
        }
    }
    tokens[t..].iter().all(|token| *token == GlobToken::Star)
}

impl GlobToken {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Star => false,
            Self::One => true,
            Self::Char(own) => *own == c,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

/// `a{b,c}d` as `abd` and `acd`; nested braces too, at most 64 in all.
fn expand_braces(text: &str) -> Result<Vec<String>, &'static str> {
    let mut done = Vec::new();
    let mut todo = vec![text.to_owned()];
    while let Some(text) = todo.pop() {
        if done.len() + todo.len() >= MAX_ALTERNATIVES {
            return Err("it has more than 64 alternatives");
        }
        let Some(open) = text.rfind('{') else {
            done.push(text);
            continue;
        };
        // The last opening brace is an innermost one, so its group contains no other.
        let close = text[open..].find('}').ok_or("'{' is not closed")? + open;
        for choice in text[open + 1..close].split(',').rev() {
            todo.push(format!("{}{choice}{}", &text[..open], &text[close + 1..]));
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hits(pattern: &str, path: &str) -> bool {
        let glob = Glob::parse(pattern).expect(pattern);
        let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
        let above = above
            .split('/')
            .filter(|name| !name.is_empty())
            .fold(glob.start(), |s, name| glob.step(&s, name));
        let hit = glob.accepts(&glob.step(&above, last));
        assert_eq!(glob.accepts_child(&above, last), hit, "{pattern} {path}");
        hit
    }

    #[test]
    fn table() {
        let rows = [
            ("**/*", "a", true),
            ("**/*", "a/b/c", true),
            ("**", "a/b", true),
            ("*", "a", true),
            ("*", "a/b", false),
            ("*.rs", "a.rs", true),
            ("*.rs", ".rs", true),
            ("*.rs", "a.rs.bak", false),
            ("**/*.rs", "a.rs", true),
            ("**/*.rs", "x/y/a.rs", true),
            ("src/**/a.rs", "src/a.rs", true),
            ("src/**/a.rs", "src/x/y/a.rs", true),
            ("src/**/a.rs", "src2/a.rs", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a?c", "aüc", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[a-]x", "-x", true),
            ("*.{md,txt}", "n.txt", true),
            ("*.{md,txt}", "n.pdf", false),
            ("{a,b{c,d}}", "bd", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxcxxb", false),
            ("./a/*", "a/b", true),
            ("**/", "a", true),
        ];
        for (pattern, path, hit) in rows {
            assert_eq!(hits(pattern, path), hit, "{pattern} {path}");
        }
    }

    #[test]
    fn refused() {
        let many = "{a,b}".repeat(9);
        for pattern in ["", "/a", "..", "a/../b", "[a", "{a", ".", many.as_str()] {
            assert!(Glob::parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_dead_directory_is_known() {
        let glob = Glob::parse("src/*.rs").unwrap();
        let docs = glob.step(&glob.start(), "docs");
        assert!(!glob.may_go_on(&docs) && !glob.accepts(&docs));
        let src = glob.step(&glob.start(), "src");
        assert!(glob.may_go_on(&src) && !glob.accepts(&src));
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern_or_an_error(text in "[a*?\\[\\]{},/!.-]{0,24}", path in "[a./-]{1,12}") {
            if let Ok(glob) = Glob::parse(&text) {
                let state = path.split('/').fold(glob.start(), |s, name| glob.step(&s, name));
                let hit = glob.accepts(&glob.step(&state, "a"));
                prop_assert_eq!(glob.accepts_child(&state, "a"), hit);
            }
        }
    }
}
