//! Results that are too long for a model: the beginning and the end are shown, and the whole is
//! stored for a while behind a handle that cannot be guessed.
//!
//! Stored results are in this process's memory, never on a disk, with their secrets already
//! replaced. One store belongs to one toolbox, and to its successor when a configuration changes,
//! so a handle of another worker, or of another run, opens nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Map, Value};

/// Most characters of one result, unless the toolbox says otherwise: a whole `read_file` at its own
/// default limit fits, with its note.
pub(crate) const MAX_RESULT_CHARS: usize = 256 * 1024;

/// Room below a limit for the note that a reply ends with.
const NOTE_CHARS: usize = 200;

/// Bytes kept in all.
const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;

/// Results kept in all, however short.
const MAX_KEPT: usize = 1024;

/// How long a result is kept.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// A result that was cut.
///
/// ```
/// let cut = forge_tools::Truncation { total_bytes: 300_000, output_id: None };
/// assert_eq!(serde_json::json!(cut)["total_bytes"], 300_000);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Truncation {
    /// Bytes of the whole text.
    pub total_bytes: usize,
    /// The handle with which `read_output` gives the whole text; `None` if it was not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_id: Option<String>,
}

/// The stored results of one toolbox and its successors.
#[derive(Debug)]
pub(crate) struct OutputStore {
    limit: usize,
    kept: Mutex<StoredOutputs>,
}

/// Shared by a toolbox and the one that takes its place.
type StoredOutputs = Arc<Mutex<VecDeque<StoredOutput>>>;

#[derive(Debug)]
struct StoredOutput {
    id: String,
    text: Arc<str>,
    since: Instant,
}

impl Default for OutputStore {
    fn default() -> Self {
        OutputStore::new(MAX_RESULT_CHARS)
    }
}

impl OutputStore {
    /// A store for results above `limit` characters.
    pub(crate) fn new(limit: usize) -> Self {
        OutputStore {
            // Below this, nothing but the note would be left.
            limit: limit.max(4 * NOTE_CHARS),
            kept: Mutex::default(),
        }
    }

    /// Continues with the results of `earlier`: its handles stay valid, and calls that still end
    /// there are stored for both.
    pub(crate) fn follow(&self, earlier: &OutputStore) {
        let shelf = earlier.shelf();
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = shelf;
    }

    fn shelf(&self) -> StoredOutputs {
        Arc::clone(&self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Most characters of kept text that one reply can hold.
    pub(crate) fn page(&self) -> usize {
        self.limit - NOTE_CHARS
    }

    /// Returns the text of a handle; `None` if it is unknown or too old.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<str>> {
        self.get_at(id, Instant::now())
    }

    fn get_at(&self, id: &str, now: Instant) -> Option<Arc<str>> {
        let shelf = self.shelf();
        let mut kept = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        drop_old(&mut kept, now);
        kept.iter()
            .find(|kept| kept.id == id)
            .map(|kept| Arc::clone(&kept.text))
    }

    /// Keeps a text from which secrets are gone; none if it cannot be kept.
    pub(crate) fn keep(&self, text: &str, now: Instant) -> Option<String> {
        if text.len() > MAX_KEPT_BYTES {
            return None;
        }
        let id = random_id()?;
        let shelf = self.shelf();
        let mut kept = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        drop_old(&mut kept, now);
        let mut bytes: usize = kept.iter().map(|kept| kept.text.len()).sum();
        while bytes + text.len() > MAX_KEPT_BYTES || kept.len() >= MAX_KEPT {
            match kept.pop_front() {
                Some(oldest) => bytes -= oldest.text.len(),
                None => break,
            }
        }
        kept.push_back(StoredOutput {
            id: id.clone(),
            text: text.into(),
            since: now,
        });
        Some(id)
    }

    /// Truncates a result that is too long: its text, and its structure to an equal size. The whole
    /// text is stored if `readable`: the worker has a tool to read it with.
    pub(crate) fn cut(
        &self,
        text: &mut String,
        structured: Option<&mut Value>,
        readable: bool,
    ) -> Option<Truncation> {
        // Bytes are never fewer than characters.
        let text_fits = text.len() <= self.limit || text.chars().nth(self.limit).is_none();
        // A tool that truncated its result itself has stored more of it already.
        let kept = structured
            .as_deref()
            .and_then(|facts| facts["output_id"].as_str())
            .filter(|id| self.get(id).is_some())
            .map(str::to_owned);
        let too_large = structured.filter(|facts| size(facts) > self.limit);
        if text_fits && too_large.is_none() {
            return None;
        }
        let cut = Truncation {
            total_bytes: text.len(),
            output_id: match kept {
                Some(id) => Some(id),
                None if readable => self.keep(text, Instant::now()),
                None => None,
            },
        };
        if !text_fits {
            let kept = cut.output_id.as_deref();
            let kept = kept.and_then(|id| Some((id, self.get(id)?.chars().count())));
            *text = head_and_tail(text, self.limit, kept);
        }
        if let Some(facts) = too_large {
            shrink(facts, self.limit);
            if let Value::Object(facts) = facts {
                mark(facts, &cut);
            }
        }
        Some(cut)
    }
}

/// A structured result says of itself that it was cut, as the text does.
fn mark(facts: &mut Map<String, Value>, cut: &Truncation) {
    facts.insert("truncated".to_owned(), true.into());
    facts.insert("total_bytes".to_owned(), cut.total_bytes.into());
    if let Some(id) = &cut.output_id {
        facts.insert("output_id".to_owned(), id.as_str().into());
    }
}

fn drop_old(kept: &mut VecDeque<StoredOutput>, now: Instant) {
    while kept
        .front()
        .is_some_and(|oldest| now.saturating_duration_since(oldest.since) >= MAX_AGE)
    {
        kept.pop_front();
    }
}

/// 128 bits of the system's randomness in hex; none if it has none, and then nothing is kept.
fn random_id() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(sandbox_names::hex(bytes))
}

/// The beginning and the end of `text`, at most `limit` characters with the note between them.
/// `kept` names the handle, and how many characters it reads.
fn head_and_tail(text: &str, limit: usize, kept: Option<(&str, usize)>) -> String {
    let part = limit.saturating_sub(NOTE_CHARS) / 2;
    let (head, tail) = (head(text, part), tail(text, part));
    let missing = text.len() - head.len() - tail.len();
    let how = match kept {
        Some((id, count)) => {
            format!("; read_output with output_id \"{id}\" reads all of it: {count} characters")
        }
        None => String::new(),
    };
    let start = if head.is_empty() || head.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!(
        "{head}{start}[cut here: {missing} of {} bytes are not shown{how}]\n{tail}",
        text.len()
    )
}

/// The first `chars` characters, shorter by up to a quarter where a line ends there.
fn head(text: &str, chars: usize) -> &str {
    let end = byte_at(text, chars);
    let from = byte_at(text, chars - chars / 4);
    match text[from..end].rfind('\n') {
        Some(newline) => &text[..=from + newline],
        None => &text[..end],
    }
}

/// The last `chars` characters, shorter by up to a quarter where a line begins there.
fn tail(text: &str, chars: usize) -> &str {
    let back = |chars: usize| match chars.checked_sub(1) {
        Some(nth) => text.char_indices().nth_back(nth).map_or(0, |(at, _)| at),
        None => text.len(),
    };
    let (start, to) = (back(chars), back(chars - chars / 4));
    match text[start..to].find('\n') {
        Some(newline) => &text[start + newline + 1..],
        None => &text[start..],
    }
}

/// Where character number `chars` begins.
pub(crate) fn byte_at(text: &str, chars: usize) -> usize {
    text.char_indices()
        .nth(chars)
        .map_or(text.len(), |(at, _)| at)
}

/// About the characters that a value takes as JSON; an estimate that is never far below.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields
                .iter()
                .map(|(name, value)| name.len() + 4 + size(value))
                .sum::<usize>()
        }
    }
}

/// Makes `value` about `budget` characters long and keeps its shape: of a text and of a list the
/// beginning and the end, of an object every field, the small ones whole.
fn shrink(value: &mut Value, budget: usize) {
    if size(value) <= budget {
        return;
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => {
            let cut = head_and_tail(text, budget.max(2 * NOTE_CHARS), None);
            if cut.len() < text.len() {
                *text = cut;
            }
        }
        Value::Array(items) => {
            let part = budget / 2;
            let fitting = |sizes: &mut dyn Iterator<Item = usize>| {
                let mut used = 0;
                sizes
                    .take_while(|size| {
                        used += size + 1;
                        used <= part
                    })
                    .count()
            };
            let first = fitting(&mut items.iter().map(size));
            let last = fitting(&mut items[first..].iter().rev().map(size));
            let gone = first..items.len() - last;
            // A list of one long item keeps its shape, too.
            if first + last == 0 {
                items.truncate(1);
                items.iter_mut().for_each(|item| shrink(item, budget));
            } else {
                items.drain(gone);
            }
        }
        Value::Object(fields) => {
            let mut by_size: Vec<(usize, String)> = fields
                .iter()
                .map(|(name, value)| (name.len() + 4 + size(value), name.clone()))
                .collect();
            by_size.sort();
            let (mut left, mut waiting) = (budget, by_size.len());
            for (size, name) in by_size {
                let share = left / waiting;
                if let Some(field) = fields.get_mut(&name) {
                    shrink(field, share.saturating_sub(name.len() + 4));
                }
                left -= size.min(share);
                waiting -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn both_ends_are_shown_in_whole_lines() {
        let store = OutputStore::new(800);
        let whole: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let mut text = whole.clone();
        let cut = store.cut(&mut text, None, true).unwrap();
        let id = cut.output_id.unwrap();
        assert_eq!(cut.total_bytes, whole.len());
        assert!(text.starts_with("line 0\nline 1\n"));
        assert!(text.ends_with("]\n") || text.ends_with("line 999\n"));
        assert_eq!(text.lines().filter(|line| line.contains(&id)).count(), 1);
        assert!(
            text.lines()
                .all(|line| line.starts_with("line ") || line.starts_with("[cut here: ")),
            "{text}"
        );
        assert_eq!(*store.get(&id).unwrap(), *whole);
        assert!(store.get("0123456789abcdef0123456789abcdef").is_none());
        assert!(
            OutputStore::new(800).get(&id).is_none(),
            "of another toolbox"
        );
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes_number_and_time() {
        let store = OutputStore::default();
        let now = Instant::now();
        let third = "x".repeat(MAX_KEPT_BYTES / 3);
        let ids: Vec<String> = (0..4).map(|_| store.keep(&third, now).unwrap()).collect();
        assert!(store.get_at(&ids[0], now).is_none(), "the oldest is out");
        assert!(ids[1..].iter().all(|id| store.get_at(id, now).is_some()));
        assert!(
            store.keep(&"x".repeat(MAX_KEPT_BYTES + 1), now).is_none(),
            "nothing else is lost for what never fits"
        );
        assert!(store.get_at(&ids[3], now + MAX_AGE).is_none(), "an hour");
        for _ in 0..2 * MAX_KEPT {
            store.keep("x", now).unwrap();
        }
        assert_eq!(store.shelf().lock().unwrap().len(), MAX_KEPT);
    }

    proptest! {
        #[test]
        fn a_cut_text_is_short_and_its_ends_are_the_ends(
            text in "(\\PC|\n){0,3000}",
            limit in 800_usize..2000,
        ) {
            let store = OutputStore::new(limit);
            let mut shown = text.clone();
            let cut = store.cut(&mut shown, None, true);
            prop_assert!(shown.chars().count() <= limit);
            match cut {
                None => prop_assert_eq!(shown, text),
                Some(cut) => {
                    let id = cut.output_id.unwrap();
                    let (head, rest) = shown.split_once("[cut here: ").unwrap();
                    let tail = &rest[rest.find(&format!("{id}\" reads all of it: ")).unwrap()..];
                    let (count, tail) = tail.split_once(" characters]\n").unwrap();
                    let whole = format!(" {}", text.chars().count());
                    prop_assert!(count.ends_with(&whole), "{}", count);
                    let missing: usize = rest.split(' ').next().unwrap().parse().unwrap();
                    let ends = head.len() + tail.len();
                    // A line that is not whole gets an end before the mark.
                    prop_assert!((text.len()..=text.len() + 1).contains(&(ends + missing)));
                    prop_assert!(text.starts_with(head.trim_end_matches('\n')));
                    prop_assert!(text.ends_with(tail));
                    prop_assert!(head.len() + tail.len() >= limit / 4);
                }
            }
        }

        #[test]
        fn a_cut_structure_keeps_its_shape_and_is_short(
            long in 0_usize..20_000, items in 0_usize..2000, number in any::<i64>(),
        ) {
            let store = OutputStore::new(2000);
            let whole = json!({
                "exit_code": number,
                "stdout": "o".repeat(long),
                "lines": (0..items).map(|n| format!("{n}")).collect::<Vec<_>>(),
                "hits": (0..items).map(|n| json!({"line": n, "text": "t"})).collect::<Vec<_>>(),
            });
            let mut facts = whole.clone();
            let cut = store.cut(&mut "short".to_owned(), Some(&mut facts), true);
            match cut {
                None => prop_assert_eq!(facts, whole),
                Some(_) => {
                    prop_assert!(facts.to_string().len() <= 3000, "{}", facts.to_string().len());
                    prop_assert_eq!(&facts["exit_code"], &whole["exit_code"]);
                    prop_assert_eq!(&facts["truncated"], &json!(true));
                    prop_assert!(facts["stdout"].is_string() && facts["hits"].is_array());
                }
            }
        }
    }
}
