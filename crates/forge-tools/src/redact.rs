//! Secrets in results and records: each becomes a placeholder, and a placeholder that comes back in
//! the text of a file becomes the secret again.
//!
//! A placeholder names the kind of the secret and a tag, which is a hash of the value under a key
//! of this process: equal values have equal tags, so a model can work with it, and guessed values
//! cannot be tested against it. The values behind the tags are in memory only.
//!
//! This is against accidents, not against a model that wants a secret it can read: its commands could
//! print it in another form. A secret that a worker must not know belongs outside its mounts, or under `hide`.

mod assigned;
mod partial_match;
mod shapes;
mod table;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use file_sandbox::TextMask;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Shorter values are words, not secrets.
const MIN_BYTES: usize = 8;

/// A shorter beginning of a value says nothing of it.
const MIN_BEGUN: usize = 4;

/// The beginning of every placeholder.
const OPEN: &str = "[redacted: ";

/// Hexadecimal digits of a tag.
const TAG: usize = 16;

/// Most values that are remembered, and their bytes in all. A value beyond is replaced as well, but
/// its placeholder cannot be written back.
const MAX_VALUES: usize = 10_000;
const MAX_VALUE_BYTES: usize = 8 * 1024 * 1024;

/// Takes secrets out of texts, and puts them back into files.
///
/// One redactor serves all toolboxes of a run, so that a worker can write a secret that another was
/// shown.
///
/// ```
/// use forge_tools::Redactor;
///
/// let redactor = Redactor::new([("DEPLOY_TOKEN", "tr0ub4dor&3")]);
/// let shown = redactor.redact("token: tr0ub4dor&3\n");
/// assert!(shown.starts_with("token: [redacted: DEPLOY_TOKEN "));
/// assert_eq!(redactor.restore(&shown).unwrap(), "token: tr0ub4dor&3\n");
/// // What is no secret is not touched.
/// assert_eq!(redactor.redact("plain"), "plain");
/// ```
#[derive(Debug)]
pub struct Redactor {
    key: [u8; 32],
    /// Kind and value, exact.
    named: Vec<(String, Secret)>,
    /// `true` if keys are found by their shape, too.
    by_shape: bool,
    seen: Mutex<SecretTable>,
}

/// A value that no `Debug` shows.
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

#[derive(Debug, Default)]
struct SecretTable {
    by_tag: HashMap<String, Secret>,
    bytes: usize,
}

/// Characters on each side of a secret that a person is shown.
const AROUND: usize = 80;

/// A secret in a text, for a person; see [`Redactor::excerpts`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretExcerpt {
    /// Its name, or the shape that it has.
    pub kind: String,
    /// Its line, counted from one.
    pub line: usize,
    /// The text around it, and a placeholder.
    pub shown: String,
}

/// A placeholder that this process does not know.
///
/// ```
/// let redactor = forge_tools::Redactor::default();
/// let error = redactor.restore("[redacted: jwt 0123456789abcdef]").unwrap_err();
/// assert_eq!(error.to_string(), "`[redacted: jwt 0123456789abcdef]` stands for no known value");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{placeholder}` stands for no known value")]
pub struct UnknownPlaceholder {
    placeholder: String,
}

impl Default for Redactor {
    /// Known shapes of keys only.
    fn default() -> Self {
        Redactor::new::<&str, &str>([])
    }
}

impl Redactor {
    /// Known shapes of keys, and these values by name (the variables of the environment that hold
    /// secrets, say). A value below eight bytes is not one.
    pub fn new<N: Into<String>, V: Into<String>>(named: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut key = [0; 32];
        // Without randomness a tag could be guessed for a guessed value, and no more than that.
        let _without = getrandom::fill(&mut key);
        let named = named
            .into_iter()
            .map(|(name, value)| (kind_of_name(&name.into()), value.into()))
            // A value that every placeholder contains would be replaced without end.
            .filter(|(kind, value)| {
                value.len() >= MIN_BYTES && !format!("{OPEN}{kind} ").contains(value.as_str())
            })
            .map(|(kind, value)| (kind, Secret(value)))
            .collect();
        Redactor {
            key,
            named,
            by_shape: true,
            seen: Mutex::default(),
        }
    }

    /// Returns the redactor of a question about a call: for the secrets of `sources`, and those
    /// behind placeholders in `written`, its arguments as JSON. It leaves values that the call contains:
    /// whatever they look like, a person would agree to a text that they have not seen.
    pub(crate) fn for_question(&self, written: &Value, sources: &[&str]) -> Redactor {
        let mut written = json_texts(written);
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for (at, _) in placeholders(&written) {
            let kind = written[at.clone()].trim_start_matches(OPEN).split(' ');
            if let Ok(value) = self.restore(&written[at]) {
                values.insert(value.into_owned(), kind.take(1).collect());
            }
        }
        for source in sources {
            let found = self.find(source).into_iter();
            values.extend(found.map(|(kind, at)| (source[at].to_owned(), kind.into_owned())));
        }
        written.retain(|letter| letter != '\r');
        values.retain(|value, _| !written.contains(&value.replace('\r', "")));
        let named = values.into_iter();
        Redactor {
            key: self.key,
            named: named.map(|(value, kind)| (kind, Secret(value))).collect(),
            by_shape: false,
            seen: Mutex::default(),
        }
    }

    /// Replaces each secret in `text` by a placeholder; borrows `text` if it has none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact_noting(text, |_, _| ())
    }

    /// Returns a mask for files: a range that begins or ends within a secret shows no part of it.
    pub fn mask(self: &Arc<Self>) -> TextMask {
        let redactor = Arc::clone(self);
        TextMask::new(self.longest(), move |text| {
            let found = redactor.find(text).into_iter();
            found
                .map(|(kind, at)| (at.clone(), redactor.placeholder(&kind, &text[at])))
                .collect()
        })
    }

    /// Returns the bytes of the longest secret, with the text by which it is recognized.
    pub(crate) fn longest(&self) -> usize {
        let named = self.named.iter().map(|(_, Secret(value))| value.len());
        named.max().unwrap_or(0).max(shapes::MAX_BYTES)
    }

    /// Replaces each secret of several lines by as many lines: a caller that shows some lines of
    /// `text` shows no part of one.
    ///
    /// ```
    /// let redactor = forge_tools::Redactor::new([("SEED_TOKEN", "apple tree\ngreen leaf")]);
    /// let lines = redactor.redact_blocks("one\napple tree\ngreen leaf\ntwo");
    /// assert!(lines.starts_with("one\n[redacted: SEED_TOKEN "));
    /// assert!(lines.ends_with("]\n\ntwo"));
    /// ```
    pub fn redact_blocks<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut blocks = self.find(text);
        blocks.retain(|(_, at)| text[at.clone()].contains('\n'));
        if blocks.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut shown, mut from) = (String::with_capacity(text.len()), 0);
        for (kind, at) in blocks {
            let secret = &text[at.clone()];
            shown.push_str(&text[from..at.start]);
            shown.push_str(&self.placeholder(&kind, secret));
            shown.push_str(&"\n".repeat(secret.matches('\n').count()));
            from = at.end;
        }
        shown.push_str(&text[from..]);
        Cow::Owned(shown)
    }

    /// Returns the places of a text, which is the rest of another, from which and to which no secret
    /// of that other text reaches.
    pub(crate) fn cuts(&self, text: &str) -> [usize; 2] {
        let margin = self.longest().min(text.len());
        let near = text.ceil_char_boundary(margin.saturating_mul(2).min(text.len()));
        let start = text.ceil_char_boundary(margin);
        let within = |(_, at): &(Cow<'_, str>, Range<usize>), cut| at.start < cut && cut < at.end;
        let first = self.find(&text[..near]);
        let first = first.iter().find(|found| within(found, start));
        let from = text.floor_char_boundary(text.len() - near);
        let end = text.floor_char_boundary(text.len() - margin) - from;
        let last = self.find(&text[from..]);
        let last = last.iter().find(|found| within(found, end));
        [
            first.map_or(start, |(_, at)| at.end),
            from + last.map_or(end, |(_, at)| at.start),
        ]
    }

    /// Replaces each secret in `text`; `note` receives the range of each placeholder, and the range
    /// of the replaced secret.
    pub(crate) fn redact_noting<'a>(
        &self,
        text: &'a str,
        mut note: impl FnMut(Range<usize>, Range<usize>),
    ) -> Cow<'a, str> {
        let found = self.find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut shown = String::with_capacity(text.len());
        let mut from = 0;
        for (kind, at) in found {
            shown.push_str(&text[from..at.start]);
            let start = shown.len();
            shown.push_str(&self.placeholder(&kind, &text[at.clone()]));
            from = at.end;
            note(start..shown.len(), at);
        }
        shown.push_str(&text[from..]);
        Cow::Owned(shown)
    }

    /// Finds a suffix of `text` that further input could complete into a known value or a key of a
    /// known shape, and returns its length; 16 KiB at most. Streaming callers hold it back.
    ///
    /// ```
    /// let redactor = forge_tools::Redactor::new([("DEPLOY_TOKEN", "tr0ub4dor&3")]);
    /// assert_eq!(redactor.partial_match_len("it is tr0ub4"), 6);
    /// assert_eq!(redactor.partial_match_len("it is tr0ub4 "), 0);
    /// assert_eq!(redactor.partial_match_len("it is gh"), 2);
    /// assert_eq!(redactor.partial_match_len("it is ghx"), 0);
    /// ```
    pub fn partial_match_len(&self, text: &str) -> usize {
        self.value_begun(text).max(self.key_begun(text))
    }

    fn key_begun(&self, text: &str) -> usize {
        let begun = partial_match::partial_match_len(text);
        let start = text.len() - begun;
        let found = match begun {
            0 => Vec::new(),
            _ => self.find(text),
        };
        // The end of a key that is whole may look like the beginning of another.
        let whole = (found.iter()).find(|(_, at)| at.start < start && start < at.end);
        whole.map_or(begun, |(_, at)| {
            partial_match::partial_match_len(&text[at.end..])
        })
    }

    fn value_begun(&self, text: &str) -> usize {
        let of = |value: &str| {
            let longest = value.len().saturating_sub(1).min(text.len());
            (MIN_BEGUN..=longest)
                .rev()
                .find(|end| value.get(..*end).is_some_and(|begun| text.ends_with(begun)))
        };
        let all = self.named.iter().filter_map(|(_, Secret(value))| of(value));
        let begun = all.max().unwrap_or(0);
        let start = text.len() - begun;
        // A value may end as it begins; a complete value is not cut in two.
        let whole = begun > 0
            && self
                .find(text)
                .iter()
                .any(|(_, at)| at.start < start && start < at.end);
        if whole { 0 } else { begun }
    }

    /// Every text in `value`, names of fields included.
    pub fn redact_json(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.redact_in_place(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(fields) => {
                if fields.keys().any(|name| !self.find(name).is_empty()) {
                    *fields = std::mem::take(fields)
                        .into_iter()
                        .map(|(name, value)| (self.redact(&name).into_owned(), value))
                        .collect();
                }
                for (name, field) in fields {
                    match field {
                        Value::String(value) if assigned::is_secret_field(name, value) => {
                            *value = self.placeholder("secret", value);
                        }
                        field => self.redact_json(field),
                    }
                }
            }
        }
    }

    pub(crate) fn redact_in_place(&self, text: &mut String) {
        if let Cow::Owned(shown) = self.redact(text) {
            *text = shown;
        }
    }

    /// `text` with the values behind its placeholders.
    ///
    /// # Errors
    ///
    /// A placeholder is of another process, or was made up.
    pub fn restore<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, UnknownPlaceholder> {
        let mut whole = String::new();
        let mut from = 0;
        for (at, tag) in placeholders(text) {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(Secret(value)) = seen.by_tag.get(tag) else {
                return Err(UnknownPlaceholder {
                    placeholder: text[at].to_owned(),
                });
            };
            whole.push_str(&text[from..at.start]);
            whole.push_str(value);
            from = at.end;
        }
        if from == 0 {
            return Ok(Cow::Borrowed(text));
        }
        whole.push_str(&text[from..]);
        Ok(Cow::Owned(whole))
    }

    /// Returns the kinds of the secrets in `text`, each with its line, counted from one.
    ///
    /// ```
    /// let redactor = forge_tools::Redactor::new([("DEPLOY_TOKEN", "tr0ub4dor&3")]);
    /// assert_eq!(redactor.kinds("a\nb tr0ub4dor&3"), [("DEPLOY_TOKEN".to_owned(), 2)]);
    /// ```
    pub fn kinds(&self, text: &str) -> Vec<(String, usize)> {
        let place = |(kind, at): (Cow<'_, str>, Range<usize>)| {
            let before = text[..at.start].bytes().filter(|byte| *byte == b'\n');
            (kind.into_owned(), before.count() + 1)
        };
        self.find(text).into_iter().map(place).collect()
    }

    /// Returns the secrets in `text`, with the surrounding text of each in its line.
    ///
    /// ```
    /// let redactor = forge_tools::Redactor::new([("DEPLOY_TOKEN", "tr0ub4dor&3")]);
    /// let excerpts = redactor.excerpts("token: tr0ub4dor&3;");
    /// assert_eq!(excerpts[0].shown, "token: [redacted: DEPLOY_TOKEN];");
    /// ```
    pub fn excerpts(&self, text: &str) -> Vec<SecretExcerpt> {
        let place = |(kind, at): (Cow<'_, str>, Range<usize>)| {
            let begin = text[..at.start].rfind('\n').map_or(0, |end| end + 1);
            let end = text[at.end..]
                .find('\n')
                .map_or(text.len(), |end| at.end + end);
            // Other secrets may be beside it: the text is truncated after their replacement.
            let before = self.redact(&text[begin..at.start]);
            let after = self.redact(&text[at.end..end]);
            let skipped = before.chars().count().saturating_sub(AROUND);
            let before: String = before.chars().skip(skipped).collect();
            let after: String = after.chars().take(AROUND).collect();
            let line = text[..at.start]
                .bytes()
                .filter(|byte| *byte == b'\n')
                .count()
                + 1;
            let lines = text[at].matches('\n').count() + 1;
            let lines = (lines > 1).then(|| format!(", {lines} lines"));
            let lines = lines.unwrap_or_default();
            SecretExcerpt {
                shown: format!("{before}{OPEN}{kind}{lines}]{after}"),
                kind: kind.into_owned(),
                line,
            }
        };
        self.find(text).into_iter().map(place).collect()
    }

    /// Where the secrets are, in order; those that overlap are one.
    fn find(&self, text: &str) -> Vec<(Cow<'_, str>, Range<usize>)> {
        if text.len() < MIN_BYTES {
            return Vec::new();
        }
        // A named value goes by its name, even if it has the shape of a key.
        let mut found: Vec<(Cow<'_, str>, Range<usize>)> = Vec::new();
        for (kind, Secret(value)) in &self.named {
            let mut from = 0;
            // Every place, also where a value overlaps with itself.
            while let Some(at) = text[from..].find(value.as_str()) {
                let start = from + at;
                found.push((Cow::Borrowed(kind), start..start + value.len()));
                from = start + value.chars().next().map_or(1, char::len_utf8);
            }
        }
        if self.by_shape {
            let shaped = shapes::find(text).into_iter();
            found.extend(shaped.map(|(kind, at)| (Cow::Borrowed(kind), at)));
        }
        found.sort_by_key(|(_, at)| (at.start, std::cmp::Reverse(at.end)));
        let mut apart: Vec<(Cow<'_, str>, Range<usize>)> = Vec::with_capacity(found.len());
        for (kind, at) in found {
            match apart.last_mut() {
                Some((_, last)) if at.start < last.end => last.end = last.end.max(at.end),
                Some(_) | None => apart.push((kind, at)),
            }
        }
        apart
    }

    fn placeholder(&self, kind: &str, value: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update(value.as_bytes());
        let tag = sandbox_names::hex(&hash.finalize()[..TAG / 2]);
        let placeholder = format!("{OPEN}{kind} {tag}]");
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.by_tag.len() < MAX_VALUES
            && seen.bytes + value.len() <= MAX_VALUE_BYTES
            && !seen.by_tag.contains_key(&tag)
        {
            seen.bytes += value.len();
            seen.by_tag.insert(tag, Secret(value.to_owned()));
        }
        placeholder
    }
}

/// Every text in `value`.
fn json_texts(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\0"),
        Value::Array(items) => items.iter().map(json_texts).collect(),
        Value::Object(fields) => fields.values().map(json_texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// The first placeholder in `text`.
pub(crate) fn first_placeholder(text: &str) -> Option<&str> {
    placeholders(text).next().map(|(at, _)| &text[at])
}

/// Every placeholder in `text` and its tag, in order.
fn placeholders(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.match_indices(OPEN).filter_map(|(start, _)| {
        let rest = &text[start + OPEN.len()..];
        let (inner, _) = rest.split_at(rest.find(']')?);
        let (kind, tag) = inner.split_once(' ')?;
        let is_tag = tag.len() == TAG
            && tag
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_kind = !kind.is_empty() && kind.bytes().all(is_kind_byte);
        let end = start + OPEN.len() + inner.len() + 1;
        (is_tag && is_kind).then_some((start..end, tag))
    })
}

fn is_kind_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Makes a name fit for a placeholder.
fn kind_of_name(name: &str) -> String {
    let kind: String = name
        .chars()
        .take(64)
        .map(|c| match u8::try_from(c) {
            Ok(byte) if is_kind_byte(byte) => c,
            Ok(_) | Err(_) => '_',
        })
        .collect();
    if kind.is_empty() {
        "secret".to_owned()
    } else {
        kind
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_that_overlap_are_taken_out_together() {
        let redactor = Redactor::new([("A", "abcabcabc"), ("B", "bcabcabcX"), ("C", "short")]);
        let text = "<abcabcabcabcX> short";
        let shown = redactor.redact(text);
        assert!(shown.starts_with("<[redacted: A "), "{shown}");
        assert!(shown.ends_with("]> short"), "{shown}");
        assert!(!shown.contains("abcabc"));
        assert_eq!(redactor.restore(&shown).unwrap(), text);
    }

    #[test]
    fn a_value_that_ends_as_it_begins_is_whole_when_it_is_there() {
        let value = "canary-4711-canary";
        let redactor = Redactor::new([("A_TOKEN", value)]);
        for end in 0..=value.len() {
            let text = format!("so {}", &value[..end]);
            let shown = &text[..text.len() - redactor.partial_match_len(&text)];
            let shown = redactor.redact(shown);
            assert!(!shown.contains("cana"), "{shown}");
            assert_eq!(shown.contains(OPEN), end == value.len(), "{shown}");
        }
        assert_eq!(redactor.partial_match_len("canary-4711-canary-4711"), 0);
        assert_eq!(redactor.partial_match_len("canary-4711-canary, cana"), 4);
    }

    #[test]
    fn tags_are_of_one_process_and_no_value_is_in_debug() {
        let one = Redactor::new([("KEY", "value-of-key")]);
        let other = Redactor::new([("KEY", "value-of-key")]);
        let shown = one.redact("value-of-key").into_owned();
        assert_ne!(shown, other.redact("value-of-key"));
        assert!(other.restore(&shown).is_err());
        assert!(!format!("{one:?}").contains("value-of-key"));
        // What only looks alike is text.
        for text in [
            "[redacted: KEY]",
            "[redacted: a b c]",
            "[redacted: ",
            "[redacted: K 01]",
        ] {
            assert_eq!(one.restore(text).unwrap(), text);
        }
    }

    #[test]
    fn a_value_that_a_placeholder_contains_is_no_secret() {
        let redactor = Redactor::new([("PASSWORD_OF_SOMEBODY", "PASSWORD_OF_SOMEBODY")]);
        assert_eq!(
            redactor.redact("PASSWORD_OF_SOMEBODY"),
            "PASSWORD_OF_SOMEBODY"
        );
    }

    proptest! {
        #[test]
        fn no_value_is_left_and_all_come_back(
            secrets in prop::collection::vec("[a-cA-Z0-9./+é-]{8,20}", 1..5),
            parts in prop::collection::vec((0_usize..6, "[a-c \n\"é\\[\\]]{0,12}"), 0..20),
        ) {
            let named = secrets.iter().enumerate().map(|(n, value)| (format!("S{n}"), value.as_str()));
            let redactor = Redactor::new(named);
            let text: String = parts
                .iter()
                .map(|(n, filler)| format!("{}{filler}", secrets.get(*n).map_or("", String::as_str)))
                .collect();
            let shown = redactor.redact(&text).into_owned();
            for secret in &secrets {
                prop_assert!(!shown.contains(secret.as_str()), "{secret} in {shown}");
            }
            prop_assert_eq!(redactor.restore(&shown).unwrap(), text.as_str());
            // Once is enough.
            prop_assert_eq!(redactor.redact(&shown), shown.as_str());
            let mut json = serde_json::json!({ &text: [&text] });
            redactor.redact_json(&mut json);
            for secret in &secrets {
                prop_assert!(!json.to_string().contains(secret.as_str()));
            }
        }

        #[test]
        fn text_without_secrets_is_untouched(text in "(\\PC|\n|-|:|sk|ghp_|Bearer ){0,200}") {
            // No run of characters here is long enough for a key of a known shape.
            prop_assume!(!text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
                .any(|word| word.len() >= 16));
            prop_assert_eq!(Redactor::default().redact(&text), text.as_str());
        }
    }
}
