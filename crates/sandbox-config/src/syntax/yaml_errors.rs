//! Errors of the YAML parser, in our words: its own are for programmers.

use std::sync::Arc;

use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;

use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::text::{SourceText, Span};

/// Deep enough for every documented key (shell.rules[].examples.match[] is 5 deep) and for `x-`
/// keys of other programs; small enough for a recursive visitor on a 2 MiB stack.
pub(crate) const MAX_DEPTH: usize = 32;

/// A project with 10 000 zones has about 80 000 nodes.
pub(crate) const MAX_NODES: usize = 400_000;

/// Values that aliases expand to. A person repeats a list or two; a bomb of 400 000 cost a quarter
/// of a second before it was refused.
pub(crate) const MAX_REPLAYED: usize = 20_000;

pub(crate) fn clamp(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(crate) fn complaint(text: &Arc<SourceText>, error: &Error) -> Diagnostic {
    let error = error.without_snippet();
    let location = error.location();
    let span = text.inside(
        location.map_or(1, |at| clamp(at.line())),
        location.map_or(1, |at| clamp(at.column())),
    );
    in_our_words(error)
        .unwrap_or_else(|| in_its_words(error, &span))
        .at(&span)
}

fn in_our_words(error: &Error) -> Option<Diagnostic> {
    let (message, help) = match error {
        // The error behind an alias.
        Error::AliasError { error, .. } => return in_our_words(error),
        Error::MergeKeyNotAllowed { .. } => (
            "merge keys (`<<`) are not read",
            "write the keys out: a rule that is merged in from elsewhere is easily missed in review",
        ),
        Error::MultipleDocuments { .. } => (
            "a second document starts here",
            "one file holds one document: remove the `---` or split the file",
        ),
        Error::NullIntoString { .. } => ("a key is empty", "write a word before the `:`"),
        Error::UnsupportedTag { tag, .. } => {
            let message = format!("the tag `{tag}` is not read");
            let help = "write the value itself: nothing is included or computed";
            return Some(DiagnosticCode::Syntax.error(message).help(help));
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            ("an anchor holds an alias of itself", "write the value out")
        }
        Error::Budget {
            breach: BudgetBreach::Depth { .. },
            ..
        } => return Some(too_deep()),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => return Some(too_much()),
        // The parser's own guard, which answers before the budget in `[[[[…`.
        other if other.to_string().starts_with("recursion limit exceeded") => {
            return Some(too_deep());
        }
        _ => return None,
    };
    Some(DiagnosticCode::Syntax.error(message).help(help))
}

fn too_deep() -> Diagnostic {
    let message = format!("nested more than {MAX_DEPTH} levels deep");
    DiagnosticCode::TooComplex
        .error(message)
        .help("no key of ours is deeper than 6")
}

fn too_much() -> Diagnostic {
    DiagnosticCode::TooComplex
        .error("more values than a config file holds")
        .help(format!(
            "at most {MAX_NODES} values, {MAX_REPLAYED} of them behind aliases, each alias counted \
         with all that its anchor holds, and 1 000 aliases of one anchor"
        ))
}

fn in_its_words(error: &Error, span: &Span) -> Diagnostic {
    let rendered = error.to_string();
    let first_line = rendered.lines().next().unwrap_or("not YAML");
    // The place is shown below; saying it twice invites two truths.
    let message = first_line
        .rsplit_once(" at line ")
        .map_or(first_line, |(message, _)| message);
    let diagnostic = match message {
        "expected string scalar" => DiagnosticCode::Syntax.error("a key must be a string"),
        _ => DiagnosticCode::Syntax.error(message),
    };
    let line = span.text.line(span.line);
    let mut indentation = line.chars().take_while(|c| c.is_whitespace());
    if indentation.any(|c| c == '\t') {
        diagnostic.help("YAML indents with spaces; the indentation of this line has a tab")
    } else if span.column > MAX_KEY && message.starts_with("mapping values") {
        diagnostic.help(format!("a key has at most {MAX_KEY} characters"))
    } else if message.starts_with("mapping values") {
        let colons = line.matches(": ").count() + usize::from(line.trim_end().ends_with(':'));
        diagnostic.help(match colons {
            0 | 1 => "this line is indented deeper than the one above, which has a value already",
            _ => "quote a value that contains `: `",
        })
    } else if message.contains("<document start>") {
        diagnostic.help("the file is YAML, not TOML or JSON Lines: one `key: value` a line, a section's keys indented below it")
    } else {
        diagnostic
    }
}

/// YAML's own bound for a key without `?`.
const MAX_KEY: u32 = 1024;
