//! Lines that match a regular expression, in the files below a directory.
//!
//! Each file is opened by its name in an open directory and searched through that handle, in
//! bounded pieces that end at a line. The expressions are those of the `regex` crate, which take
//! linear time on any text (`grep-regex` and `grep-searcher` are the parts that ripgrep is made of).

use std::io;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkMatch};

use crate::backend::{AnyFile, Contents as _, Directory as _, Kind, Meta, now};
use crate::error::{Error, Reason, Verb};
use crate::limits::HardLinks;
use crate::mount::Mount;
use crate::ops::clip::clip;
use crate::ops::descend::{At, Descent, Page};
use crate::ops::walk::{Cancel, Cut, Ignored, Skipped, WalkOptions, parse_glob};
use crate::path::SandboxPath;
use crate::resolve::Place;
use crate::sandbox::FileSandbox;
use crate::walk::{Found, Last};

/// What to search for, and how far.
///
/// ```
/// let options = file_sandbox::SearchOptions::new().files("**/*.rs").ignore_case(true).max_hits(50);
/// ```
#[derive(Clone, Debug)]
pub struct SearchOptions {
    files: Option<String>,
    literal: bool,
    ignore_case: bool,
    max_hits: usize,
    max_line_chars: usize,
    max_answer_bytes: usize,
    max_read_bytes: u64,
    walk: WalkOptions,
}

impl SearchOptions {
    /// At most 1 000 lines of 300 characters, 256 KiB in all, out of 1 GiB read; in files that no
    /// `.gitignore` names; for 30 seconds.
    #[must_use]
    pub fn new() -> Self {
        Self {
            files: None,
            literal: false,
            ignore_case: false,
            max_hits: 1_000,
            max_line_chars: 300,
            max_answer_bytes: 256 * 1024,
            max_read_bytes: 1 << 30,
            walk: WalkOptions::new().gitignore(true),
        }
    }

    /// Searches only files whose path below the directory matches, as in
    /// [`glob`](FileSandbox::glob).
    #[must_use]
    pub fn files(mut self, pattern: impl Into<String>) -> Self {
        self.files = Some(pattern.into());
        self
    }

    /// Takes the pattern for a plain text.
    #[must_use]
    pub fn literal(mut self, yes: bool) -> Self {
        self.literal = yes;
        self
    }

    /// Matches in any case.
    #[must_use]
    pub fn ignore_case(mut self, yes: bool) -> Self {
        self.ignore_case = yes;
        self
    }

    /// Searches ignored files too. An ignored file or directory that is itself asked for is
    /// searched anyway.
    #[must_use]
    pub fn gitignore(mut self, yes: bool) -> Self {
        self.walk = self.walk.gitignore(yes);
        self
    }

    /// Stops after this many lines.
    #[must_use]
    pub fn max_hits(mut self, lines: usize) -> Self {
        self.max_hits = lines;
        self
    }

    /// Shows this many characters of a longer line, around the match.
    #[must_use]
    pub fn max_line_chars(mut self, chars: usize) -> Self {
        self.max_line_chars = chars;
        self
    }

    /// Stops when the lines found have this many bytes in all.
    #[must_use]
    pub fn max_answer_bytes(mut self, bytes: usize) -> Self {
        self.max_answer_bytes = bytes;
        self
    }

    /// Stops when this many bytes have been read.
    #[must_use]
    pub fn max_read_bytes(mut self, bytes: u64) -> Self {
        self.max_read_bytes = bytes;
        self
    }

    /// Descends through at most this many directories.
    #[must_use]
    pub fn max_depth(mut self, directories: usize) -> Self {
        self.walk = self.walk.max_depth(directories);
        self
    }

    /// Stops after this time; `None` for never.
    #[must_use]
    pub fn time_limit(mut self, limit: Option<std::time::Duration>) -> Self {
        self.walk = self.walk.time_limit(limit);
        self
    }

    /// Stops when somebody says so.
    #[must_use]
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.walk = self.walk.cancel(cancel);
        self
    }
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The answer to a search.
///
/// ```
/// # use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath, SearchOptions};
/// let files = FileSandbox::new(vec![Mount::memory(SandboxPath::parse("/a")?, Mode::ReadWrite)])?;
/// files.write(&SandboxPath::parse("/a/b/c.md")?, "one\ntwo 2\nthree", Default::default())?;
/// let found = files.search(&SandboxPath::root(), r"\d", SearchOptions::new())?;
/// assert_eq!(found.hits[0].path.as_str(), "/a/b/c.md");
/// assert_eq!((found.hits[0].line, found.hits[0].text.as_str()), (2, "two 2"));
/// assert!(!found.more);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Matches {
    /// The lines found, by path and line.
    pub hits: Vec<Hit>,
    /// Whether there may be more than these.
    pub more: bool,
    /// Why the search ended before its end.
    pub cut: Option<Cut>,
    /// Files and directories that could not be searched, at most 100 of them.
    pub skipped: Vec<Skipped>,
    /// What ignore rules kept out.
    pub ignored: Ignored,
    /// Files that were searched.
    pub files: u64,
    /// Files that hold no text, and were left alone.
    pub binary: u64,
    /// Files that the mount does not let be read, for their suffix or their hard links.
    pub not_allowed: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

/// One line of [`Matches`].
///
/// ```
/// fn line(hit: &file_sandbox::Hit) -> String {
///     let more = if hit.clipped { " […]" } else { "" };
///     format!("{}:{}: {}{more}", hit.path, hit.line, hit.text)
/// }
/// # let _ = line;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hit {
    /// The file.
    pub path: SandboxPath,
    /// The number of the line, from 1.
    pub line: u64,
    /// Where in the line the first match begins, in characters from 1.
    pub column: u64,
    /// The line without its end, or the part of it around the first match.
    pub text: String,
    /// Whether `text` is only a part.
    pub clipped: bool,
}

/// A longer expression is no question.
const MAX_PATTERN_BYTES: usize = 4096;
/// Of the compiled expression, and of the tables made of it while searching.
const MAX_REGEX_BYTES: usize = 4 << 20;
/// How much of a file is searched at once.
const PIECE_BYTES: usize = 1 << 20;
/// The longest line that is searched.
const MAX_LINE_BYTES: usize = 8 << 20;

impl FileSandbox {
    /// Searches a file, or the files below a directory, line by line. Links are not followed,
    /// except in `path` itself.
    ///
    /// # Errors
    /// `INVALID_PATH` for an expression or a pattern that cannot be read, and those of finding the
    /// place. What cannot be read further down is no error but in `skipped`.
    pub fn search(
        &self,
        path: &SandboxPath,
        pattern: &str,
        options: SearchOptions,
    ) -> Result<Matches, Error> {
        now(self.search_at(path, pattern, &options))
    }

    async fn search_at(
        &self,
        path: &SandboxPath,
        pattern: &str,
        options: &SearchOptions,
    ) -> Result<Matches, Error> {
        let mut search = Search::new(pattern, options)?;
        let glob = options.files.as_deref().map(parse_glob).transpose()?;
        if self.is_file(path).await? {
            let opened = self.open_file(path).await?;
            let nowhere = At::Virtual(path.clone());
            let mut descent = Descent::new(self, nowhere, None, &options.walk).await;
            let piece = search.file(path, &opened.file, &opened.meta, &mut descent);
            if let Err(why) = piece.await {
                descent.skip("", why);
            }
            return Ok(search.finish(descent));
        }
        let at = self.directory(path).await?;
        let mut descent = Descent::new(self, at, glob.as_ref(), &options.walk).await;
        loop {
            let page = descent.next().await;
            let page = page.map_err(|fault| self.system(path, Verb::List, fault))?;
            let Some(page) = page else { break };
            self.search_page(path, &page, &mut search, &mut descent)
                .await;
        }
        Ok(search.finish(descent))
    }

    async fn is_file(&self, path: &SandboxPath) -> Result<bool, Error> {
        Ok(match self.locate(path, Last::Follow, Verb::Read).await? {
            Place::Virtual(_) => false,
            Place::In(spot) => match &spot.found {
                Found::Entry { meta, .. } => meta.kind != Kind::Directory,
                Found::Root | Found::Missing { .. } => false,
            },
        })
    }

    async fn search_page(
        &self,
        path: &SandboxPath,
        page: &Page<'_>,
        search: &mut Search<'_>,
        descent: &mut Descent<'_>,
    ) {
        let (Some(dir), At::In { mount, .. }) = (&page.dir, &page.at) else {
            return;
        };
        let mount = &self.table.mounts[*mount];
        for child in &page.children {
            if !child.hit || child.kind != Kind::File {
                continue;
            }
            if descent.is_over() {
                return;
            }
            let name = format!("{}{}", page.prefix, child.name);
            if !mount.limits().allows_name(&child.name) {
                search.answer.not_allowed += 1;
                continue;
            }
            let opened = async {
                let file = dir.open_file(child.raw()).await?;
                let meta = file.meta().await?;
                Ok::<_, crate::backend::Fault>((file, meta))
            };
            let (file, meta) = match opened.await {
                Ok(opened) => opened,
                Err(fault) => {
                    descent.skip(&name, &fault.into_io().kind().to_string());
                    continue;
                }
            };
            match refusal(mount, &meta) {
                Some(Refusal::Silent) => search.answer.not_allowed += 1,
                Some(Refusal::Told(why)) => descent.skip(&name, why),
                None => {
                    let place = path.child(&name);
                    if let Err(why) = search.file(&place, &file, &meta, descent).await {
                        descent.skip(&name, why);
                    }
                }
            }
        }
    }
}

enum Refusal {
    Silent,
    Told(&'static str),
}

/// What reading would refuse, of the open file.
fn refusal(mount: &Mount, meta: &Meta) -> Option<Refusal> {
    if meta.kind != Kind::File {
        return Some(Refusal::Told("it was exchanged"));
    }
    if mount.limits().hard_link_policy() == HardLinks::Deny && meta.links > 1 {
        return Some(Refusal::Silent);
    }
    match mount.limits().file_byte_limit() {
        Some(limit) if meta.size > limit => Some(Refusal::Told("file too large")),
        _ => None,
    }
}

struct Search<'o> {
    options: &'o SearchOptions,
    matcher: RegexMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
    answer_bytes: usize,
    answer: Matches,
}

impl<'o> Search<'o> {
    fn new(pattern: &str, options: &'o SearchOptions) -> Result<Self, Error> {
        let refused = |why: String| Err(Error::new(pattern, Reason::Regex { why }));
        if pattern.len() > MAX_PATTERN_BYTES {
            return refused(format!("it is longer than {MAX_PATTERN_BYTES} bytes"));
        }
        let matcher = RegexMatcherBuilder::new()
            .multi_line(true)
            .crlf(true)
            .fixed_strings(options.literal)
            .case_insensitive(options.ignore_case)
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build(pattern);
        let matcher = match matcher {
            Ok(matcher) => matcher,
            Err(error) => return refused(words(&error)),
        };
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .build();
        Ok(Self {
            options,
            matcher,
            searcher,
            buffer: Vec::new(),
            answer_bytes: 0,
            answer: Matches::default(),
        })
    }

    /// Searches an open file, as large as it was when it was opened.
    ///
    /// # Errors
    /// Why not all of it was searched.
    async fn file(
        &mut self,
        path: &SandboxPath,
        file: &AnyFile,
        meta: &Meta,
        descent: &mut Descent<'_>,
    ) -> Result<(), &'static str> {
        let first_hit = self.answer.hits.len();
        self.answer.files += 1;
        let left = self.options.max_read_bytes - self.answer.bytes;
        // A file that gives no size, as some file systems have them, ends where it ends.
        let size = if meta.size == 0 { u64::MAX } else { meta.size };
        let end = size.min(left);
        let (mut offset, mut kept, mut lines) = (0, 0, 0);
        loop {
            let (filled, at_end) = self.fill(file, kept, offset, end).await?;
            self.answer.bytes += (filled - kept) as u64;
            offset += (filled - kept) as u64;
            let piece_end = if at_end {
                filled
            } else {
                last_line_end(&self.buffer[..filled])
            };
            let wide = lines == 0 && is_utf16(&self.buffer[..filled]);
            if wide && !at_end {
                return Err("it is UTF-16, and too large to be searched");
            }
            let piece = &self.buffer[..piece_end];
            if !wide && piece.contains(&0) {
                self.answer.hits.truncate(first_hit);
                self.answer.files -= 1;
                self.answer.binary += 1;
                return Ok(());
            }
            let sink = Collect {
                matcher: &self.matcher,
                options: self.options,
                path,
                lines,
                answer_bytes: &mut self.answer_bytes,
                hits: &mut self.answer.hits,
                full: None,
            };
            let full = run(&mut self.searcher, &self.matcher, piece, sink)?;
            if let Some(cut) = full {
                descent.cut(cut);
            }
            if at_end && offset < size && offset == end {
                descent.cut(Cut::Bytes);
            }
            if at_end || descent.is_over() {
                return Ok(());
            }
            lines += newlines(piece);
            kept = filled - piece_end;
            if kept >= MAX_LINE_BYTES {
                return Err("a line is too long to be searched");
            }
            self.buffer.copy_within(piece_end..filled, 0);
        }
    }

    /// Reads on behind what is kept; says how much the buffer holds then, and whether that is all.
    async fn fill(
        &mut self,
        file: &AnyFile,
        kept: usize,
        mut offset: u64,
        end: u64,
    ) -> Result<(usize, bool), &'static str> {
        let room = usize::try_from(end - offset).unwrap_or(PIECE_BYTES);
        let room = room.min(PIECE_BYTES);
        if self.buffer.len() < kept + room {
            self.buffer.resize(kept + room, 0);
        }
        let mut filled = kept;
        while filled < kept + room {
            let buffer = &mut self.buffer[filled..kept + room];
            let got = file.read_at(buffer, offset).await;
            match got.map_err(|_| "it cannot be read")? {
                0 => return Ok((filled, true)),
                got => {
                    filled += got;
                    offset += got as u64;
                }
            }
        }
        Ok((filled, offset >= end))
    }

    fn finish(self, descent: Descent<'_>) -> Matches {
        let report = descent.report;
        let mut answer = self.answer;
        answer
            .hits
            .sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
        Matches {
            more: report.cut.is_some() || report.more_skipped,
            cut: report.cut,
            skipped: report.skipped,
            ignored: report.ignored,
            ..answer
        }
    }
}

fn run(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    piece: &[u8],
    mut sink: Collect<'_>,
) -> Result<Option<Cut>, &'static str> {
    searcher
        .search_slice(matcher, piece, &mut sink)
        .map_err(|_| "it cannot be searched")?;
    Ok(sink.full)
}

/// Takes the lines of one piece of a file.
struct Collect<'s> {
    matcher: &'s RegexMatcher,
    options: &'s SearchOptions,
    path: &'s SandboxPath,
    /// Lines before this piece.
    lines: u64,
    answer_bytes: &'s mut usize,
    hits: &'s mut Vec<Hit>,
    full: Option<Cut>,
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.hits.len() == self.options.max_hits {
            self.full = Some(Cut::Entries);
            return Ok(false);
        }
        let line = found.bytes();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // An empty match at the end of a line may lie behind it.
        let at = self.matcher.find(line).ok().flatten();
        let at = at.map_or(0..0, |at| at.start()..at.end());
        let clipped = clip(line, at, self.options.max_line_chars);
        if *self.answer_bytes + clipped.text.len() > self.options.max_answer_bytes {
            self.full = Some(Cut::Bytes);
            return Ok(false);
        }
        *self.answer_bytes += clipped.text.len();
        self.hits.push(Hit {
            path: self.path.clone(),
            line: self.lines + found.line_number().unwrap_or(0),
            column: clipped.column,
            text: clipped.text,
            clipped: clipped.clipped,
        });
        Ok(true)
    }
}

/// Where the last whole line ends.
fn last_line_end(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1)
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

/// The last line of an error of the regex crate is its point; those before it draw the place.
fn words(error: &grep_regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    let last = last.strip_prefix("error: ").unwrap_or(last);
    last.trim_end_matches('.').to_owned()
}
