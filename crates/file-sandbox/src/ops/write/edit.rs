//! Editing: some of a text replaced, everything else as it was.

use std::ffi::OsStr;

use crate::backend::{AnyDir, BackendDir as _, BackendFile as _, FileMeta, block_on_ready};
use crate::error::{CurrentContent, Error, ErrorReason, NoMatch, Verb};
use crate::hash::ContentHash;
use crate::ops::write::atomic_write::WriteMode;
use crate::ops::write::last_name;
use crate::path::SandboxPath;
use crate::resolve::content_rules::is_key;
use crate::resolve::location::MountLocation;
use crate::resolve::path_walk::{FinalLink, Lookup};
use crate::resolve::refusals::not_found;
use crate::resolve::{OpenedFile, check_size};
use crate::sandbox::FileSandbox;
use crate::text::line_endings::NormalizedText;
use crate::text::mask::TextMask;
use crate::text::replace::{self, MatchError, MatchOptions, TextChange};
use crate::text::{self, Decoded, TextEncoding};

/// One replacement: a text that is in the file once, and the new text.
///
/// The search ignores line endings. Unchanged lines retain theirs, new ones get those of the line
/// before.
///
/// ```
/// let one = file_sandbox::Replacement::new("teh", "the");
/// let every = one.clone().all(true);
/// assert_ne!(one, every);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    old: String,
    new: String,
    all: bool,
    near_line: Option<usize>,
}

impl Replacement {
    /// Replaces `old`, which must be there exactly once.
    #[must_use]
    pub fn new(old: impl Into<String>, new: impl Into<String>) -> Self {
        Self {
            old: old.into(),
            new: new.into(),
            all: false,
            near_line: None,
        }
    }

    sandbox_names::setters! {
        /// Replaces it wherever it is.
        all(yes: bool) = yes;
        /// Of several, means the one that begins nearest to this line, counted from 1.
        near_line(line: impl Into<Option<usize>>) = line.into();
    }
}

/// Options of an edit.
///
/// ```
/// let options = file_sandbox::EditOptions::new().preview(true);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    preview: bool,
    fuzzy: bool,
    durable: bool,
    in_place: bool,
    if_match: Option<ContentHash>,
}

impl EditOptions {
    /// Exact, and written.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    sandbox_names::setters! {
        /// Returns the result without changing the file.
        preview(yes: bool) = yes;
        /// If the exact text is missing, replaces whole lines that differ from it only in spaces and
        /// look-alike characters, if exactly one match exists. The answer says so.
        fuzzy(yes: bool) = yes;
        /// As in [`WriteOptions::durable`](crate::WriteOptions::durable).
        durable(yes: bool) = yes;
        /// As in [`WriteOptions::in_place`](crate::WriteOptions::in_place).
        in_place(yes: bool) = yes;
        /// Edits only if the file has this content.
        if_match(hash: impl Into<Option<ContentHash>>) = hash.into();
    }
}

/// The result of an edit.
///
/// ```
/// # use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, Replacement, SandboxPath};
/// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
/// let files = FileSandbox::new(vec![data])?;
/// let path = files.path("/data/a.txt")?;
/// files.write(&path, "one\r\ntwo\r\n", Default::default())?;
///
/// let edited = files.edit(&path, &[Replacement::new("two\n", "2\nthree\n")], Default::default())?;
/// assert_eq!(edited.replaced, 1);
/// assert_eq!(edited.diff, "@@ -1,2 +1,3 @@\n one\n-two\n+2\n+three\n");
/// assert_eq!(files.read(&path, Default::default())?.content, "one\r\n2\r\nthree\r\n");
///
/// let denied = files.edit(&path, &[Replacement::new("e", "E")], Default::default()).unwrap_err();
/// assert_eq!(denied.kind(), ErrorKind::NotUnique);
/// # Ok::<(), file_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditOutcome {
    /// The file, with all links resolved.
    pub path: SandboxPath,
    /// The number of replaced matches.
    pub replaced: usize,
    /// The changes, as a unified diff without file names.
    pub diff: String,
    /// `true` if the diff was too long and its end is missing.
    pub diff_cut: bool,
    /// Lines at which a text was found by likeness only.
    pub fuzzy_lines: Vec<usize>,
    /// The encoding that the file had and has.
    pub encoding: TextEncoding,
    /// Of the file after the edit, for the next [`EditOptions::if_match`].
    pub hash: ContentHash,
}

/// Largest file that [`FileSandbox::edit`] edits, in bytes.
///
/// ```
/// assert_eq!(file_sandbox::MAX_EDITED_BYTES, 8 << 20);
/// ```
pub const MAX_EDITED_BYTES: u64 = 8 * 1024 * 1024;
const MAX_DIFF_BYTES: usize = 64 * 1024;
const MAX_REPLACEMENTS: usize = 1_000;

impl FileSandbox {
    /// Replaces texts in a file: all of them or, if one has no single match, none. All are found in
    /// the original file. Other bytes are unchanged: encoding, byte order mark, the ending of each
    /// line.
    ///
    /// # Errors
    /// `NO_MATCH` with the nearest text, `NOT_UNIQUE` with the places, `STALE`, `TOO_LARGE` above 8
    /// MiB, `NOT_TEXT` also for text that the file's encoding cannot represent, `INVALID_PATH` for
    /// replacements that overlap or replace nothing, and those of reading and writing.
    pub fn edit(
        &self,
        path: &SandboxPath,
        replacements: &[Replacement],
        options: EditOptions,
    ) -> Result<EditOutcome, Error> {
        self.retry_on_change(|| block_on_ready(self.edit_at(path, replacements, &options)))
    }

    async fn edit_at(
        &self,
        path: &SandboxPath,
        replacements: &[Replacement],
        options: &EditOptions,
    ) -> Result<EditOutcome, Error> {
        let verb = Verb::Edit;
        let (location, old) = self.locate_for_edit(path).await?;
        let (_lock, old) = self
            .lock_unless(options.preview, (path, &location), verb, old)
            .await?;
        let (Lookup::Entry { parent, .. }, Some(old)) = (&location.found, old) else {
            return Err(not_found(path, Vec::new()));
        };
        let name = last_name(path, &location)?;
        let opened = self
            .open_for_edit(path, &location, (parent, &name), &old)
            .await?;
        let bytes = self.read_all(path, &opened, MAX_EDITED_BYTES, verb).await?;
        let hash = ContentHash::of(&bytes);
        if options.if_match.is_some_and(|expected| expected != hash) {
            let now = CurrentContent::Has(hash);
            return Err(path.error(ErrorReason::Stale { verb, now }));
        }
        let look = || self.check_cancelled(path, verb);
        let common = MatchOptions::common(options.fuzzy, self.mask.as_ref());
        let wanted = WantedChanges {
            path,
            hash,
            replacements,
            common,
            look: &look,
        };
        let mut work = PendingEdit::new(&bytes, &wanted)?;
        let new_bytes = work.finish(&bytes)?;
        look()?;
        let size = new_bytes.len() as u64;
        check_size(path, location.mount, verb, size)?;
        let _room = self
            .check_quota((path, &location), verb, Some(old), size)
            .await?;
        let edited = work.outcome(location.path(), &new_bytes, self.mask.as_ref());
        if options.preview || new_bytes == bytes {
            return Ok(edited);
        }
        let how = WriteMode {
            durable: location.is_durable(options.durable),
            in_place: options.in_place,
            old: Some(old),
            content: Some(hash),
            ..WriteMode::default()
        };
        self.put_bytes((path, location), verb, &new_bytes, how)
            .await?;
        Ok(edited)
    }

    /// Finds and checks the place of a file to edit.
    async fn locate_for_edit(
        &self,
        path: &SandboxPath,
    ) -> Result<(MountLocation<'_>, Option<FileMeta>), Error> {
        let verb = Verb::Edit;
        let location = self
            .locate_for_change(path, FinalLink::Follow, verb)
            .await?;
        if matches!(location.found, Lookup::Missing { .. }) {
            self.check_suffix(path, &location)?;
            return Err(self.missing_error(path, &location).await);
        }
        let old = self.check_file_target(path, &location, verb)?;
        Ok((location, old))
    }

    /// Opens the file of an edit, and checks that it is still the locked one and not a key.
    async fn open_for_edit<'s>(
        &'s self,
        path: &SandboxPath,
        location: &MountLocation<'s>,
        (parent, name): (&AnyDir, &OsStr),
        old: &FileMeta,
    ) -> Result<OpenedFile<'s>, Error> {
        let verb = Verb::Edit;
        self.check_links_for_read(path, location, old)?;
        let file = parent.open_file(name).await;
        let file = file.map_err(|fault| self.backend_error(path, verb, fault))?;
        let meta = file.meta().await;
        let meta = meta.map_err(|fault| self.backend_error(path, verb, fault))?;
        if meta.id != old.id || location.by_content.is_some() && is_key(&file).await {
            return Err(path.error(ErrorReason::Changed { verb }));
        }
        let mount = location.mount;
        Ok(OpenedFile { file, meta, mount })
    }
}

/// The changes that a caller wants in a file.
struct WantedChanges<'p> {
    path: &'p SandboxPath,
    /// Of the present content.
    hash: ContentHash,
    replacements: &'p [Replacement],
    common: MatchOptions<'p>,
    /// Fails after a cancellation.
    look: &'p dyn Fn() -> Result<(), Error>,
}

/// An edit in the making.
struct PendingEdit<'p> {
    path: &'p SandboxPath,
    decoded: Decoded,
    /// `true` if the text is UTF-8 with invalid bytes, which private characters represent.
    has_invalid_bytes: bool,
    changes: Vec<TextChange>,
}

impl<'p> PendingEdit<'p> {
    fn new(bytes: &[u8], wanted: &WantedChanges<'p>) -> Result<Self, Error> {
        let (path, replacements) = (wanted.path, wanted.replacements);
        if replacements.is_empty() || replacements.len() > MAX_REPLACEMENTS {
            let why = if replacements.is_empty() {
                "to replace is missing"
            } else {
                "to replace is one of more than 1000"
            };
            let which = None;
            return Err(path.error(ErrorReason::Edits { which, why }));
        }
        let decoded = Decoded::of(bytes);
        let decoded = decoded.ok_or_else(|| path.error(ErrorReason::NotText))?;
        let guessed = decoded.encoding.is_guessed();
        let first = wanted.find_in(&decoded.text);
        // UTF-8 with an invalid byte is guessed to be another encoding; then its letters are found
        // only if it is decoded as UTF-8.
        if guessed
            && first.is_err()
            && let Some(decoded) = Decoded::with_invalid_bytes(bytes)
            && let Ok(changes) = wanted.find_in(&decoded.text)
        {
            let has_invalid_bytes = true;
            return Ok(Self {
                path,
                decoded,
                has_invalid_bytes,
                changes,
            });
        }
        let (changes, has_invalid_bytes) = (first?, false);
        Ok(Self {
            path,
            decoded,
            has_invalid_bytes,
            changes,
        })
    }

    /// Returns the bytes of the new file.
    fn finish(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let encoding = self.decoded.encoding;
        let text = replace::apply(&self.decoded.text, &self.changes).ok_or_else(|| {
            let which = None;
            let why = "to replace overlaps another one";
            self.path.error(ErrorReason::Edits { which, why })
        })?;
        let refuse = |lost| {
            let (verb, encoding) = (Verb::Edit, encoding.name());
            let reason = ErrorReason::Encoding {
                verb,
                encoding,
                lost,
            };
            self.path.error(reason)
        };
        if self.has_invalid_bytes {
            let bad = |c: &char| text::is_invalid_byte(*c);
            if let Some(c) = self.changes.iter().flat_map(|c| c.new.chars()).find(bad) {
                return Err(refuse(Some(c)));
            }
            return Ok(text::restore_invalid_bytes(&text));
        }
        if encoding.is_utf8() {
            return Ok(text.into_bytes());
        }
        // A file with text that does not encode to equal bytes cannot be edited without changing other
        // bytes.
        let bom = &bytes[..self.decoded.bom];
        if encoding.encode(&self.decoded.text).ok().as_deref() != Some(&bytes[bom.len()..]) {
            return Err(refuse(None));
        }
        let body = encoding.encode(&text).map_err(|c| refuse(Some(c)))?;
        Ok([bom, &body].concat())
    }

    /// Describes the edit, which makes a file of `new_bytes`.
    fn outcome(&self, path: SandboxPath, new_bytes: &[u8], mask: Option<&TextMask>) -> EditOutcome {
        let (diff, whole) = replace::diff(&self.decoded.text, &self.changes, mask, MAX_DIFF_BYTES);
        let fuzzy = self.changes.iter().filter(|change| change.fuzzy);
        EditOutcome {
            path,
            replaced: self.changes.len(),
            diff,
            diff_cut: !whole,
            fuzzy_lines: fuzzy.map(|change| change.line).collect(),
            encoding: self.decoded.encoding,
            hash: ContentHash::of(new_bytes),
        }
    }
}

impl WantedChanges<'_> {
    /// Finds the text of every replacement.
    fn find_in(&self, text: &str) -> Result<Vec<TextChange>, Error> {
        let (path, hash, replacements) = (self.path, self.hash, self.replacements);
        let view = NormalizedText::of(text);
        let mut changes = Vec::new();
        for (i, replacement) in replacements.iter().enumerate() {
            (self.look)()?;
            let which = (replacements.len() > 1).then_some(i + 1);
            if replacement.old.is_empty() {
                let why = "to replace is empty";
                return Err(path.error(ErrorReason::Edits { which, why }));
            }
            let how = MatchOptions {
                all: replacement.all,
                near_line: replacement.near_line,
                ..self.common
            };
            let found = replace::find_changes(&view, &replacement.old, &replacement.new, how);
            changes.extend(found.map_err(|lost| {
                let reason = match lost {
                    MatchError::Nowhere(nearest) => ErrorReason::NoMatch(Box::new(NoMatch {
                        which,
                        nearest,
                        hash,
                    })),
                    MatchError::Several {
                        total,
                        places,
                        fuzzy,
                    } => ErrorReason::NotUnique {
                        which,
                        total,
                        places,
                        fuzzy,
                    },
                };
                path.error(reason)
            })?);
        }
        Ok(changes)
    }
}
