//! The files and commands that a tool may touch, handed over by the executor alone.
//!
//! Tools are constructed with nothing. [`ReadOnlyContext`] (look, do not touch) and [`ToolContext`]
//! (touch) have no public constructor, so a tool that reaches for a file or a
//! process without going through the executor does not compile.

mod scripts;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use file_sandbox::{
    AppendOptions, ContentHash, EditOptions, EntryKind, ErrorKind, FileSandbox, MAX_EDITED_BYTES,
    Mode, ReadOptions, Replacement, SandboxPath, WriteOptions,
};

use crate::call_result::{CallFailure, FailureCode};
use crate::change::{FileChange, ReviewedState};
use crate::gate::Intent;
use crate::mount_access::MountAccess;
use crate::params::Arguments;
use crate::processes::Processes;
use crate::redact::Redactor;
use crate::tree_digest::TreeDigest;

/// A file above this is not compared: its difference could not be shown.
const MAX_PREVIEW_CHARS: u64 = 1024 * 1024;

/// Most paths of one call that are remembered.
const MAX_PATHS: usize = 64;

/// A file above this is not hashed to be shown: the person waits for it.
const MAX_HASHED_BYTES: u64 = 256 * 1024 * 1024;

/// The person agreed to another change than this would be by now.
pub(crate) fn changed_since_shown(path: &SandboxPath) -> CallFailure {
    let shown = crate::escape_controls(path.asked());
    let mut failure = CallFailure::new(
        FailureCode::File(file_sandbox::ErrorKind::Stale),
        format!("'{shown}' changed while a person was asked about it; nothing was done."),
    )
    .hint("Look at it again before you repeat the call.");
    failure.path = Some(path.asked().to_owned());
    failure
}

/// A name is taken where nothing is to be replaced.
fn there_already(path: &SandboxPath) -> CallFailure {
    let shown = crate::escape_controls(path.asked());
    let code = FailureCode::File(ErrorKind::Exists);
    let mut failure = CallFailure::new(code, format!("'{shown}' already exists."))
        .hint("Pass overwrite to replace it, or take another name.");
    failure.path = Some(path.asked().to_owned());
    failure
}

/// The read-only view for [`Invocation::intents`](crate::Invocation::intents).
///
/// See the example of [`Tool`](crate::Tool), where `intents` takes one:
///
/// ```
/// fn exists(view: &forge_tools::ReadOnlyContext<'_>, path: &str) -> bool {
///     view.path(path).is_ok()
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ReadOnlyContext<'a> {
    pub(crate) context: &'a ToolContext,
}

impl ReadOnlyContext<'_> {
    /// Parses a path. Whether the worker may touch it is the executor's question, for
    /// every intent alike.
    ///
    /// # Errors
    ///
    /// The worker holds no files, or the text is not a path.
    pub fn path(&self, text: &str) -> Result<SandboxPath, CallFailure> {
        self.context.path(text)
    }

    /// Returns the targets of the worker's mounts, each with its mode.
    ///
    /// # Errors
    ///
    /// The worker holds no files.
    pub fn mounts(&self) -> Result<Vec<(SandboxPath, Mode)>, CallFailure> {
        let mounts = self.context.files()?.mounts().iter();
        Ok(mounts
            .map(|mount| (mount.target().clone(), mount.mode()))
            .collect())
    }

    /// Reads a whole file of at most `max_bytes`. Blocks.
    ///
    /// # Errors
    ///
    /// The worker holds no files, or the file cannot be read.
    pub fn read_bytes(&self, path: &SandboxPath, max_bytes: u64) -> Result<Vec<u8>, CallFailure> {
        Ok(self.context.files()?.read_bytes(path, max_bytes)?)
    }

    /// Checks that the worker may write a file at `path`. Blocks.
    ///
    /// # Errors
    ///
    /// The worker holds no files, or may not write that file.
    pub fn check_write(&self, path: &SandboxPath) -> Result<(), CallFailure> {
        Ok(self.context.files()?.check_write(path)?)
    }

    /// The worker's redactor, for texts that a tool shows to a person.
    pub fn redactor(&self) -> &Redactor {
        &self.context.redactor
    }

    /// The redactor of a question about this call; see [`Redactor::for_question`].
    fn for_question(&self, sources: &[&str]) -> Redactor {
        let written = self.context.written.to_json();
        self.redactor().for_question(&written, sources)
    }

    /// Returns the change that an edit would make to a file, for
    /// [`Invocation::preview`](crate::Invocation::preview). `None` if the edit would fail. Blocks.
    pub fn edit(
        &self,
        path: &str,
        replacements: &[Replacement],
        options: EditOptions,
    ) -> Option<FileChange> {
        let files = self.context.files().ok()?;
        let path = self.context.path(path).ok()?;
        // Hashed before the content is read: a change in between is then detected.
        let seen = ReviewedState::Bytes(files.hash(&path).ok()?);
        let text = files.read(&path, ReadOptions::new().max_chars(MAX_EDITED_BYTES));
        let before = match text {
            Ok(text) => text.content,
            Err(_) => {
                String::from_utf8_lossy(&files.read_bytes(&path, MAX_EDITED_BYTES).ok()?).into()
            }
        };
        let redactor = Arc::new(self.for_question(&[path.as_str(), &before]));
        let files = files.with_mask(redactor.mask());
        let edited = files
            .edit(&path, replacements, options.preview(true))
            .ok()?;
        let change = if edited.diff_cut {
            FileChange::unseen(path.as_str())
        } else {
            FileChange::of_diff(path.as_str(), edited.diff).redacted(&redactor)
        };
        Some(change.based_on(path.as_str(), seen))
    }

    /// Returns the change that writing `after` would make to the file at `path`, for
    /// [`Invocation::preview`](crate::Invocation::preview). `None` if nothing would change. If the present
    /// content is binary or too long, an approver that shows questions cannot agree. Blocks.
    pub fn change(
        &self,
        path: &str,
        after: impl FnOnce(&str) -> Option<String>,
    ) -> Option<FileChange> {
        let files = self.context.files().ok()?;
        let path = self.context.path(path).ok()?;
        let (before, seen) = match files.exists(&path) {
            Ok(true) => match self.text(&path) {
                Some((text, hash)) => (Some(text), ReviewedState::Bytes(hash)),
                None => return Some(FileChange::unseen(path.as_str())),
            },
            Ok(false) => (None, ReviewedState::Missing),
            Err(_) => return None,
        };
        let after = after(before.as_deref().unwrap_or_default())?;
        let sources = [path.as_str(), before.as_deref().unwrap_or_default()];
        let redactor = self.for_question(&sources);
        let change = FileChange::between(path.as_str(), before.as_deref(), &after, &redactor);
        Some(change.based_on(path.as_str(), seen))
    }

    /// Returns the change that appending `content` would make to the file at `path`, with the line
    /// ends that it would have there. `None` if it would fail. Blocks.
    pub(crate) fn addition(&self, path: &str, content: &str) -> Option<FileChange> {
        let files = self.context.files().ok()?;
        let place = self.context.path(path).ok()?;
        let preview = AppendOptions::new().preview(true);
        let appended = files.append_text(&place, content, preview).ok()?;
        let change = self.change(path, |before| Some(format!("{before}{}", appended.added)))?;
        // Of the unchanged file: otherwise its line ends may differ from those that were read.
        let again = match change.seen() {
            [(_, ReviewedState::Bytes(hash))] => AppendOptions::new().preview(true).if_match(*hash),
            _ => AppendOptions::new().preview(true).create_new(true),
        };
        match files.append_text(&place, content, again) {
            Ok(same) if same.added == appended.added => Some(change),
            _ if change.is_whole() => None,
            _ => Some(change),
        }
    }

    /// Returns the change of the file at `to` when the file at `from` replaces it; `None` if no
    /// file is replaced. Binary or overlong content is shown by size and hash. Blocks.
    pub(crate) fn replacement(&self, from: &SandboxPath, to: &SandboxPath) -> Option<FileChange> {
        let files = self.context.files().ok()?;
        let is_file = |path| {
            files
                .stat(path)
                .is_ok_and(|stat| stat.kind == EntryKind::File)
        };
        if !is_file(from) || !is_file(to) {
            return None;
        }
        let unseen = || FileChange::unseen(to.as_str());
        if let (Some((new, source)), Some((old, target))) = (self.text(from), self.text(to)) {
            let redactor = self.for_question(&[to.as_str(), &old, &new]);
            return Some(
                FileChange::between(to.as_str(), Some(&old), &new, &redactor)
                    .based_on(from.as_str(), ReviewedState::Bytes(source))
                    .based_on(to.as_str(), ReviewedState::Bytes(target)),
            );
        }
        let told = |path| {
            let bytes = files.stat(path).ok()?.size;
            let hash = (bytes <= MAX_HASHED_BYTES).then(|| files.hash(path).ok())??;
            Some((format!("({bytes} bytes, SHA-256 {hash})"), hash))
        };
        let (Some((old, target)), Some((new, source))) = (told(to), told(from)) else {
            return Some(unseen());
        };
        let rows = match old == new {
            true => String::new(),
            false => format!("-{old}\n+{new}\n"),
        };
        Some(
            FileChange::of_diff(to.as_str(), rows)
                .based_on(from.as_str(), ReviewedState::Bytes(source))
                .based_on(to.as_str(), ReviewedState::Bytes(target)),
        )
    }

    /// Returns the loss when the file or directory at `path` is deleted: the text of a file, or the
    /// number of files and bytes, and the first names. `None` if nothing is at `path`. Blocks.
    pub(crate) fn removal(&self, path: &SandboxPath) -> Option<FileChange> {
        let files = self.context.files().ok()?;
        let stat = files.stat(path).ok()?;
        let shown = path.as_str();
        if stat.is_link {
            let rows = "-(a link; what it leads to stays)\n";
            return Some(FileChange::removed(shown, None, rows));
        }
        match self.text(path).filter(|_| stat.kind == EntryKind::File) {
            Some((text, hash)) if !text.is_empty() => {
                let text = self.redactor().redact_blocks(&text);
                let change = FileChange::removed(shown, Some(&text), "");
                Some(change.based_on(shown, ReviewedState::Bytes(hash)))
            }
            Some(_) | None => match self.summary(path) {
                Some((rows, seen)) => {
                    let rows: String = rows.lines().map(|row| format!("-{row}\n")).collect();
                    Some(FileChange::removed(shown, None, &rows).based_on(shown, seen))
                }
                None => Some(FileChange::unseen(shown)),
            },
        }
    }

    /// Returns the moved or copied content where nothing is replaced; `None` where nothing exists.
    /// Blocks.
    pub(crate) fn relocation(&self, from: &SandboxPath, to: &SandboxPath) -> Option<FileChange> {
        let stat = self.context.files().ok()?.stat(from).ok()?;
        // A link is moved as a link, and copied as its target.
        if stat.is_link && stat.kind == EntryKind::Directory {
            return None;
        }
        Some(match self.summary(from) {
            Some((rows, seen)) => {
                let rows: String = rows.lines().map(|row| format!(" {row}\n")).collect();
                FileChange::used(from.as_str(), to.as_str(), &rows).based_on(from.as_str(), seen)
            }
            None => FileChange::unseen(from.as_str()),
        })
    }

    /// The size and hash of a file that a call hands to a worker, for
    /// [`Invocation::preview`](crate::Invocation::preview). `None` if the text is not a path. Blocks.
    pub fn attachment(&self, path: &str) -> Option<FileChange> {
        let path = self.context.path(path).ok()?;
        Some(match self.summary(&path) {
            Some((row, seen)) => FileChange::used(
                path.as_str(),
                "(copied to the worker)",
                &format!(" {row}\n"),
            )
            .based_on(path.as_str(), seen),
            None => FileChange::unseen(path.as_str()),
        })
    }

    /// Summarises a file or directory in a few rows, with the state to recognise it by.
    fn summary(&self, path: &SandboxPath) -> Option<(String, ReviewedState)> {
        let files = self.context.files().ok()?;
        let stat = files.stat(path).ok()?;
        if stat.kind == EntryKind::Directory {
            let tree = TreeDigest::look(files, path)?;
            return Some((tree.rows(), ReviewedState::Tree(tree.hash)));
        }
        let hash = (stat.size <= MAX_HASHED_BYTES).then(|| files.hash(path).ok())??;
        let row = format!("({} bytes, SHA-256 {hash})", stat.size);
        Some((row, ReviewedState::Bytes(hash)))
    }

    /// A text that can be compared whole.
    fn text(&self, path: &SandboxPath) -> Option<(String, ContentHash)> {
        let options = ReadOptions::new().max_chars(MAX_PREVIEW_CHARS).hash(true);
        let text = self.context.files().ok()?.read(path, options).ok()?;
        let hash = text.hash.filter(|_| !text.truncated)?;
        Some((text.content, hash))
    }

    /// Checks the size of a write to `path`.
    ///
    /// # Errors
    ///
    /// It is more than one call may write.
    pub fn check_write_size(&self, path: &SandboxPath, bytes: u64) -> Result<(), CallFailure> {
        match self.context.max_write_bytes {
            Some(limit) if bytes > limit => {
                let shown = crate::escape_controls(path.asked());
                let mut failure = CallFailure::new(
                    FailureCode::File(file_sandbox::ErrorKind::TooLarge),
                    format!("Cannot write to '{shown}': file too large ({bytes} bytes)."),
                )
                .hint(format!(
                    "Maximum allowed: {limit} bytes (`{MAX_FILE_WRITE_KEY}`)"
                ));
                failure.path = Some(path.asked().to_owned());
                Err(failure)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks the size of a file that would be at `path`, for
    /// [`Invocation::check`](crate::Invocation::check). Blocks.
    ///
    /// # Errors
    ///
    /// The mount takes no file of that size.
    pub fn check_file_size(&self, path: &SandboxPath, bytes: u64) -> Result<(), CallFailure> {
        match self.context.files.as_ref() {
            Some(files) => Ok(files.check_file_size(path, bytes)?),
            None => Ok(()),
        }
    }

    /// Checks that `path` exists, for [`Invocation::check`](crate::Invocation::check): a question about a
    /// missing file is never asked. Where existence is secret, it is asked. Blocks.
    pub(crate) fn check_there(&self, path: &SandboxPath) -> Result<(), CallFailure> {
        unless_blocked(self.context.files()?.stat(path))
    }

    /// Fails if the file at `path` may not be removed: a root, or a directory with a protected name
    /// in it. Blocks.
    pub(crate) fn check_removal(
        &self,
        path: &SandboxPath,
        recursive: bool,
    ) -> Result<(), CallFailure> {
        let files = self.context.files()?;
        // A worker that may not read there does not learn the names either.
        match files.stat(path) {
            Err(error) if error.kind() == ErrorKind::ReadBlocked => Ok(()),
            Ok(_) | Err(_) => Ok(files.check_removal(path, recursive)?),
        }
    }

    /// Fails as the write would on the present file. Blocks.
    pub(crate) fn check_written(
        &self,
        path: &SandboxPath,
        options: &WriteOptions,
    ) -> Result<(), CallFailure> {
        let files = self.context.files()?;
        match files.stat(path) {
            Err(error) if error.kind() == ErrorKind::ReadBlocked => Ok(()),
            Ok(_) | Err(_) => Ok(files.check_write_with(path, options)?),
        }
    }

    /// Fails as the edit would on the present file: the text is missing, or not unique. Blocks.
    pub(crate) fn check_edit(
        &self,
        path: &SandboxPath,
        replacements: &[Replacement],
        options: EditOptions,
    ) -> Result<(), CallFailure> {
        let files = self.context.files()?;
        unless_blocked(files.edit(path, replacements, options.preview(true)))
    }

    /// Fails as the addition would on the present file: its content is binary. Blocks.
    pub(crate) fn check_addition(
        &self,
        path: &SandboxPath,
        content: &str,
    ) -> Result<(), CallFailure> {
        let preview = AppendOptions::new().preview(true);
        unless_blocked(self.context.files()?.append_text(path, content, preview))
    }

    /// Whether nothing is at `path` yet. Blocks.
    pub(crate) fn check_free(&self, path: &SandboxPath) -> Result<(), CallFailure> {
        match self.context.files()?.exists(path) {
            Ok(true) => Err(there_already(path)),
            Ok(false) | Err(_) => Ok(()),
        }
    }

    /// Returns the size of the file at `path`; `None` if it is missing or cannot be read.
    pub(crate) fn file_size(&self, path: &SandboxPath) -> Option<u64> {
        let stat = self.context.files.as_ref()?.stat(path).ok()?;
        (stat.kind == EntryKind::File).then_some(stat.size)
    }

    /// Whether the worker can run commands.
    ///
    /// # Errors
    ///
    /// It cannot.
    pub fn commands(&self) -> Result<(), CallFailure> {
        self.context.processes().map(drop)
    }

    /// A command line as it would run now: in a session, where the one before it ended.
    ///
    /// # Errors
    ///
    /// The worker cannot run commands.
    pub fn begin(&self, line: crate::CommandLine) -> Result<crate::CommandLine, CallFailure> {
        Ok(self.context.processes()?.begin(line))
    }

    /// Whether the worker may start the programs of a command line.
    ///
    /// # Errors
    ///
    /// It may not, or cannot run commands.
    pub fn check_programs(&self, line: &crate::CommandLine) -> Result<(), CallFailure> {
        self.context.processes()?.check_programs(line)
    }
}

/// The setting that a refusal of a large write names.
pub const MAX_FILE_WRITE_KEY: &str = "limits.max_file_write_mb";

/// The context of [`Invocation::run`](crate::Invocation::run).
///
/// Only this crate can make one:
///
/// ```compile_fail
/// let context = forge_tools::ToolContext { files: None };
/// ```
#[derive(Debug, Clone, Default)]
pub struct ToolContext {
    /// The files that the worker may read without approval, and for one call those that were
    /// judged.
    pub(crate) files: Option<FileSandbox>,
    /// All of it, to see whether a file is still the one that a person was shown.
    whole: Option<FileSandbox>,
    pub(crate) processes: Option<Processes>,
    /// The questions about hosts that the command of this call wants to reach.
    pub(crate) host_questions: Option<crate::question_clock::AskingCommand>,
    pub(crate) max_write_bytes: Option<u64>,
    pub(crate) caller: crate::call_result::Caller,
    /// Results that were too long to be shown whole.
    pub(crate) outputs: std::sync::Arc<crate::output_store::OutputStore>,
    /// Where the command begins that was judged, in a session.
    pub(crate) session: Option<std::sync::Arc<crate::shell_session::ShellState>>,
    /// `true` if the worker has a tool to read them with.
    pub(crate) reads_outputs: bool,
    /// Replaces secrets in the text that a tool truncates by itself.
    pub(crate) redactor: std::sync::Arc<crate::redact::Redactor>,
    /// The arguments of the call as the model wrote them.
    pub(crate) written: Arc<Arguments>,
    /// Excludes other calls from these paths, as long as any copy of this is at work.
    pub(crate) writing: Option<std::sync::Arc<crate::path_locks::PathLockGuard>>,
    /// Set when the caller no longer waits for the call.
    pub(crate) cancel: file_sandbox::CancellationToken,
    pub(crate) progress: Option<crate::progress::Progress>,
    /// The record of the call, which its command closes if the caller has gone.
    pub(crate) call: Option<Arc<dyn crate::call::ending::CommandCall>>,
    /// The state of files when a person was shown their changes.
    pub(crate) seen: Vec<(String, ReviewedState)>,
    /// The paths of this call, as they were understood when it was judged.
    paths: Arc<Mutex<Vec<(String, SandboxPath)>>>,
}

/// The facts of a judged call that the process which runs it needs; see
/// [`RemoteFileTools`](crate::RemoteFileTools).
#[derive(Debug, Clone, Default)]
pub struct ContextSnapshot {
    /// The paths of the call as they were requested, each with its meaning when the call was
    /// judged.
    pub paths: Vec<(String, SandboxPath)>,
    /// The targets of the mounts that the call may not read.
    pub closed: Vec<String>,
    /// The files whose changes a person was shown, and their states at that time.
    pub seen: Vec<(String, ReviewedState)>,
}

impl ToolContext {
    /// Makes the context of one call.
    pub(crate) fn for_call(&self) -> Self {
        self.for_call_until(file_sandbox::CancellationToken::new())
    }

    /// Makes the context of one call whose work, on files too, ends when `cancel` is set.
    pub(crate) fn for_call_until(&self, cancel: file_sandbox::CancellationToken) -> Self {
        let files = self.files.as_ref();
        ToolContext {
            paths: Arc::default(),
            files: files.map(|files| files.with_cancel(&cancel)),
            cancel,
            ..self.clone()
        }
    }

    /// Opens the mounts that these intents read, which were agreed to, and no others. This is the
    /// only thing that opens one: a tool that reads more than it says is refused by the files.
    pub(crate) fn may_read(&mut self, reach: &MountAccess, intents: &[Intent]) {
        let ending = |files: FileSandbox| files.with_cancel(&self.cancel);
        self.files = reach.open_for(intents).map(ending);
        self.whole = reach.whole().cloned().map(ending);
    }

    /// Makes the context for previews to a person, with all files.
    pub(crate) fn for_person(&self, reach: &MountAccess) -> Self {
        ToolContext {
            files: reach.whole().map(|files| files.with_cancel(&self.cancel)),
            ..self.clone()
        }
    }

    /// The read-only view of this call, for work that [`Invocation::intents`](crate::Invocation::intents) and
    /// [`Invocation::run`](crate::Invocation::run) share.
    pub fn view(&self) -> ReadOnlyContext<'_> {
        ReadOnlyContext { context: self }
    }

    /// Returns the facts of this call that another process needs to run it.
    pub fn snapshot(&self) -> ContextSnapshot {
        let mounts = self.files.as_ref().map(FileSandbox::mounts);
        let closed = mounts.unwrap_or_default().iter();
        let closed = closed.filter(|mount| mount.is_closed());
        ContextSnapshot {
            paths: self.lock_paths().clone(),
            closed: closed
                .map(|mount| mount.target().as_str().to_owned())
                .collect(),
            seen: self.seen.clone(),
        }
    }

    /// Makes the context of a call that another process has judged: its paths keep the meanings
    /// that were judged, and its closed mounts serve nothing but the check whether a file is the
    /// one that a person was shown.
    pub(crate) fn restore(
        &self,
        snapshot: ContextSnapshot,
        cancel: file_sandbox::CancellationToken,
    ) -> Self {
        let ContextSnapshot {
            paths,
            closed,
            seen,
        } = snapshot;
        let mut context = self.for_call_until(cancel);
        *context.lock_paths() = paths;
        context.seen = seen;
        context.whole.clone_from(&context.files);
        let files = context.files.as_mut().filter(|_| !closed.is_empty());
        if let Some(files) = files {
            *files = files
                .without_reading(|mount| closed.iter().any(|at| at == mount.target().as_str()));
        }
        context
    }

    fn lock_paths(&self) -> MutexGuard<'_, Vec<(String, SandboxPath)>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The whole of the files, of which nothing may be told.
    pub(crate) fn whole(&self) -> Result<&FileSandbox, CallFailure> {
        match &self.whole {
            Some(files) => Ok(files),
            None => self.files(),
        }
    }

    /// The worker's files.
    ///
    /// # Errors
    ///
    /// The worker holds none.
    pub fn files(&self) -> Result<&FileSandbox, CallFailure> {
        self.files.as_ref().ok_or_else(|| {
            FailureCode::NoFiles
                .failure("This worker has no file access. Work from the text you were given.")
        })
    }

    /// Returns the state of the file at `path` when a person agreed to the call; `None` if no
    /// person was shown it.
    pub fn seen(&self, path: &SandboxPath) -> Option<ReviewedState> {
        let found = self.seen.iter().find(|(seen, _)| seen == path.as_str());
        found.map(|(_, seen)| *seen)
    }

    /// Whether the file at `path` is as it was when a person agreed.
    ///
    /// # Errors
    ///
    /// It is not; then nothing may be done with it.
    pub(crate) fn check_seen(&self, path: &SandboxPath) -> Result<(), CallFailure> {
        let same = match self.seen(path) {
            None => true,
            Some(ReviewedState::Missing) => !self.whole()?.exists(path)?,
            Some(ReviewedState::Bytes(hash)) => {
                self.whole()?.hash(path).is_ok_and(|now| now == hash)
            }
            Some(ReviewedState::Tree(hash)) => {
                TreeDigest::look(self.whole()?, path).is_some_and(|now| now.hash == hash)
            }
        };
        if same {
            Ok(())
        } else {
            Err(changed_since_shown(path))
        }
    }

    /// Whether everything that a person was shown is as it was.
    ///
    /// # Errors
    ///
    /// Something is not; then nothing may be done.
    pub(crate) fn check_all_seen(&self) -> Result<(), CallFailure> {
        for (path, _) in &self.seen {
            self.check_seen(&SandboxPath::parse(path)?)?;
        }
        Ok(())
    }

    /// Parses a path of the call, as [`ReadOnlyContext::path`] does. Each path is resolved once a
    /// call: the judged file is the one that is used, even if the files change meanwhile.
    ///
    /// # Errors
    ///
    /// The worker holds no files, or the text is not a path.
    pub fn path(&self, text: &str) -> Result<SandboxPath, CallFailure> {
        let mut paths = self.lock_paths();
        if let Some((_, path)) = paths.iter().find(|(known, _)| known == text) {
            return Ok(path.clone());
        }
        let path = self.meaning(text)?;
        if paths.len() < MAX_PATHS {
            paths.push((text.to_owned(), path.clone()));
        }
        Ok(path)
    }

    fn meaning(&self, text: &str) -> Result<SandboxPath, CallFailure> {
        let files = self.files()?;
        let path = files.path(text)?;
        // The literal path wins. Only where it does not exist, a path that a command printed is
        // tried: the host's name of a file in a mount, or a name below the working directory.
        if !text.starts_with('/') || matches!(files.exists(&path), Ok(true)) {
            return Ok(path);
        }
        let in_working_directory = || {
            let below = match text.strip_prefix("/work")? {
                "" => "/",
                below => below.starts_with('/').then_some(below)?,
            };
            let path = files.path(below).ok()?;
            (path.is_root() || files.mode_at(&path).is_some()).then_some(path)
        };
        Ok(files
            .path_of_host(Path::new(text))
            .or_else(in_working_directory)
            .unwrap_or(path))
    }

    /// The worker's way to run commands.
    ///
    /// # Errors
    ///
    /// The worker holds none.
    pub fn processes(&self) -> Result<&Processes, CallFailure> {
        self.processes
            .as_ref()
            .ok_or_else(|| FailureCode::NoCommands.failure("This worker cannot run commands."))
    }

    sandbox_names::getters! {
        /// The progress counter of the tool, if a client listens.
        pub progress: Option<&crate::progress::Progress> = progress.as_ref();
        /// The worker that the call is made for.
        pub caller: &crate::call_result::Caller = &caller;
    }
}

/// Takes a refusal to read for no answer: a worker that may not read there does not learn the names
/// either.
fn unless_blocked<T>(checked: Result<T, file_sandbox::Error>) -> Result<(), CallFailure> {
    match checked {
        Err(error) if error.kind() != ErrorKind::ReadBlocked => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}
