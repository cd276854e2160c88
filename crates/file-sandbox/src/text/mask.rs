//! Texts that are not shown. An operation that shows a part of a text looks for them in that part
//! and around it: a half of one is not known as such.

use std::ops::Range;
use std::sync::Arc;

/// Finds texts that are not shown, in order and apart, each with the text shown instead.
type Find = dyn Fn(&str) -> Vec<(Range<usize>, String)> + Send + Sync;

/// Replaces texts of which no part may be shown, wherever an operation cuts the text of a file.
///
/// An operation replaces those that its cut would divide or whose recognition depends on text that
/// the cut leaves out. The caller recognizes the rest in the result.
///
/// ```
/// use file_sandbox::{FileSandbox, Mode, Mount, ReadOptions, SandboxPath, TextMask};
///
/// let mask = TextMask::new(7, |text| {
///     let found = text.match_indices("hunter2");
///     found.map(|(at, word)| (at..at + word.len(), "[hidden]".to_owned())).collect()
/// });
/// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
/// let files = FileSandbox::new(vec![data])?.with_mask(mask);
/// let path = files.path("/data/a.txt")?;
/// files.write(&path, "it is hunter2.", Default::default())?;
/// assert_eq!(files.read(&path, ReadOptions::new().offset(8))?.content, "[hidden].");
/// # Ok::<(), file_sandbox::Error>(())
/// ```
#[derive(Clone)]
pub struct TextMask {
    margin: usize,
    find: Arc<Find>,
}

impl TextMask {
    /// Returns a mask for the texts that `find` returns, in order and without overlaps, each with
    /// the text shown instead. `margin` is the length in bytes of the longest one with the text
    /// by which it is recognized; so much is read on each side of a cut.
    pub fn new(
        margin: usize,
        find: impl Fn(&str) -> Vec<(Range<usize>, String)> + Send + Sync + 'static,
    ) -> Self {
        let find = Arc::new(find);
        Self { margin, find }
    }

    pub(crate) fn margin(&self) -> usize {
        self.margin
    }

    /// `true` if a text has something to replace.
    #[cfg(feature = "edit")]
    pub(crate) fn has_place(&self, text: &str) -> bool {
        !(self.find)(text).is_empty()
    }

    /// Returns the places where a text has something to replace.
    #[cfg(feature = "search")]
    pub(crate) fn places(&self, text: &str) -> Vec<Range<usize>> {
        (self.find)(text).into_iter().map(|(at, _)| at).collect()
    }

    /// Returns a part of a text, for a caller that replaces complete texts itself.
    pub(crate) fn part(&self, whole: &str, shown: Range<usize>) -> String {
        let alone = (self.find)(&whole[shown.clone()]);
        let is_known = |at: &Range<usize>| {
            let same = |(known, _): &(Range<usize>, String)| {
                (known.start + shown.start..known.end + shown.start) == *at
            };
            alone.iter().any(same)
        };
        self.replaced(whole, &shown, |at, _| is_known(at), false)
    }

    /// Returns whole lines of a text, for a caller that cuts between them: as many lines.
    #[cfg(feature = "edit")]
    pub(crate) fn lines(&self, whole: &str, shown: Range<usize>) -> String {
        self.replaced(whole, &shown, |_, text| !text.contains('\n'), true)
    }

    /// Returns a part of a text without any of them: as many lines.
    #[cfg(feature = "edit")]
    pub(crate) fn excerpt(&self, whole: &str, shown: Range<usize>) -> String {
        self.replaced(whole, &shown, |_, _| false, true)
    }

    /// Returns a part of a text in which only the texts are left that `is_left` accepts and that are
    /// complete in it.
    fn replaced(
        &self,
        whole: &str,
        shown: &Range<usize>,
        is_left: impl Fn(&Range<usize>, &str) -> bool,
        keeps_lines: bool,
    ) -> String {
        let start = whole.floor_char_boundary(shown.start.saturating_sub(self.margin));
        let end = whole.len().min(shown.end.saturating_add(self.margin));
        let end = whole.ceil_char_boundary(end);
        let mut text = String::with_capacity(shown.len());
        let mut from = shown.start;
        for (at, instead) in (self.find)(&whole[start..end]) {
            let at = at.start + start..at.end + start;
            let hidden = at.start.max(shown.start)..at.end.min(shown.end);
            if hidden.is_empty() || hidden == at && is_left(&at, &whole[at.clone()]) {
                continue;
            }
            text.push_str(&whole[from..hidden.start]);
            text.push_str(&instead);
            if keeps_lines {
                let lines = whole[hidden.clone()].matches('\n').count();
                text.push_str(&"\n".repeat(lines));
            }
            from = hidden.end;
        }
        text.push_str(&whole[from..shown.end]);
        text
    }
}

sandbox_names::debug!(TextMask { margin });
