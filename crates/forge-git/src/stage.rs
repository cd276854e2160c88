//! Staging: checks the files, compares them with the branch, and copies their present state.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use file_sandbox::{ContentHash, EntryKind, ErrorKind, FileSandbox, SandboxPath};
use forge_tools::{Redactor, escape_controls};

use super::collisions::check_collisions;
use super::difference::difference;
use super::error::{GitError, GitErrorKind, refused, unless};
use super::names::ObjectId;
use super::push::{MAX_SHOWN_BYTES, question};
use super::repo_path::RepoPath;
use super::repositories::{GitRepositories, TreeEntry, TreeKind};
use super::secrets::{SecretPolicy, complaints};
use super::service::{GitService, StageRequest, StagingRules, below, spawn_blocking};
use super::staged::{FileOperation, StagedCommit, StagedFile};

const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// After this long the differences of one call are larger than they had to be.
const DIFF_TIME: Duration = Duration::from_secs(2);
/// The bit of a file's mode that git keeps.
const OWNER_EXECUTES: u32 = 0o100;
pub(super) const WHO_READS_IT: &str =
    "What is pushed is read by others, and stays in the history of the repository.";

/// A file to be staged, read.
struct LoadedFile {
    path: RepoPath,
    /// `None` if the file is missing.
    content: Option<Vec<u8>>,
    /// `true` if it may be executed here.
    executable: bool,
}

impl LoadedFile {
    fn read(
        files: &FileSandbox,
        asked: &SandboxPath,
        path: RepoPath,
        max_bytes: u64,
    ) -> Result<LoadedFile, GitError> {
        let Some(stat) = unless(files.stat(asked), &[ErrorKind::NotFound])? else {
            // A worker that could not have removed the file does not stage its removal just because
            // it cannot see it: it may be hidden.
            files.check_write(asked).map_err(|error| match error.kind() {
                ErrorKind::ReadOnly => GitError::new(
                    GitErrorKind::File(error.kind()),
                    format!(
                        "Cannot stage '{asked}': no such file can be read, and a file of this name \
                         may not be taken away."
                    ),
                ),
                _ => error.into(),
            })?;
            return Ok(LoadedFile {
                path,
                content: None,
                executable: false,
            });
        };
        if stat.kind != EntryKind::File {
            let (name, kind) = (escape_controls(asked.asked()), stat.kind.as_str());
            let error = GitErrorKind::Invalid.error(format!("'{name}' is a {kind}."));
            return Err(error.hint("Name the files themselves."));
        }
        Ok(LoadedFile {
            path,
            content: Some(files.read_bytes(asked, max_bytes)?),
            executable: stat
                .unix_mode
                .is_some_and(|mode| mode & OWNER_EXECUTES != 0),
        })
    }
}

impl<R: GitRepositories> GitService<R> {
    pub(super) async fn stage_files(
        &self,
        files: &FileSandbox,
        request: StageRequest,
    ) -> Result<StagedCommit, GitError> {
        let message = self.rules.message(&request.message)?;
        let (there, asked, rules) = (files.clone(), request.clone(), self.rules.clone());
        let read = spawn_blocking(move || {
            let read = rules.read(&there, &asked)?;
            refuse_secrets_in_words(&read, &asked, &rules.redactor)?;
            refuse_secrets(&read, &asked.secrets, &rules.redactor)?;
            Ok(read)
        })
        .await?;
        let (base, tree) = self.branch(&request.repo, &request.branch).await?;
        let (read, entries) = spawn_blocking(move || {
            let entries = in_branch(&read, &tree)?;
            Ok((read, entries))
        })
        .await?;
        let known: Vec<ObjectId> = entries
            .iter()
            .flatten()
            .map(|entry| entry.id.clone())
            .collect();
        check_new_names(&read, &entries)?;
        let before = self
            .repositories
            .contents(&request.repo, &known, self.rules.limits.total_bytes)
            .await?;
        let rules = self.rules.clone();
        spawn_blocking(move || {
            let (staged, contents) = compare_all(read, entries, before, &rules.redactor)?;
            if staged.is_empty() {
                return Err(GitErrorKind::Invalid
                    .error(format!(
                        "The files are as in branch '{}' already.",
                        request.branch
                    ))
                    .hint("Nothing is staged; there is nothing to do."));
            }
            let store = &rules.store;
            let (id, created_at_ns) = store.next_id()?;
            let commit = StagedCommit {
                id,
                repo: request.repo,
                branch: request.branch,
                message,
                created_at_ns,
                base,
                files: staged,
                pushing: None,
            };
            check_can_be_shown(&commit)?;
            store.put(&commit, &contents)?;
            Ok(commit)
        })
        .await
    }
}

/// A commit that cannot be shown whole cannot be agreed to.
fn check_can_be_shown(commit: &StagedCommit) -> Result<(), GitError> {
    let Some(why) = question(commit).truncation_reason_within(MAX_SHOWN_BYTES) else {
        return Ok(());
    };
    let why = format!("Nothing is staged, since nobody could push it: {why}.");
    let error = GitErrorKind::TooLarge.error(why);
    Err(error.hint("Stage fewer files at once, each a commit of its own."))
}

/// Returns the entry of the branch at each path, if each is allowed.
fn in_branch(read: &[LoadedFile], tree: &[TreeEntry]) -> Result<Vec<Option<TreeEntry>>, GitError> {
    let paths: Vec<(&RepoPath, bool)> = read
        .iter()
        .map(|file| (&file.path, file.content.is_some()))
        .collect();
    check_collisions(&paths, tree)?;
    let at: HashMap<&str, &TreeEntry> = tree
        .iter()
        .map(|entry| (entry.path.as_str(), entry))
        .collect();
    let entry = |(path, _): (&RepoPath, bool)| {
        let entry = at.get(path.as_str()).copied();
        check_kind(path, entry)?;
        Ok(entry.cloned())
    };
    paths.into_iter().map(entry).collect()
}

impl StagingRules {
    fn message(&self, text: &str) -> Result<String, GitError> {
        let text = text.trim();
        let bad = |c: char| c.is_control() && c != '\n' && c != '\t';
        if text.is_empty() || text.len() > MAX_MESSAGE_BYTES || text.contains(bad) {
            return Err(GitErrorKind::Invalid.error(
                "A message has 1 to 65536 bytes, and no control characters but ends of lines.",
            ));
        }
        Ok(match &self.trailer {
            None => format!("{text}\n"),
            Some(trailer) => format!("{text}\n\n{trailer}\n"),
        })
    }

    /// Returns the paths in the repository, each once, and says all that is wrong with their names
    /// at once.
    fn paths<'a>(
        &self,
        request: &'a StageRequest,
    ) -> Result<Vec<(&'a SandboxPath, RepoPath)>, GitError> {
        if request.files.is_empty() || request.files.len() > self.limits.files {
            return Err(GitErrorKind::TooLarge.error(format!(
                "One commit takes 1 to {} files.",
                self.limits.files
            )));
        }
        let mut paths = Vec::with_capacity(request.files.len());
        let mut complaints = Vec::new();
        for asked in &request.files {
            let path = match below(asked, &request.from) {
                Ok(path) => path,
                Err(error) => {
                    complaints.push(error.to_string());
                    continue;
                }
            };
            if let (false, Some(why)) = (self.allow_executable_config, path.runs()) {
                complaints.push(format!("'{path}' is not staged: {why}."));
            }
            if !paths.iter().any(|(_, known)| *known == path) {
                paths.push((asked, path));
            }
        }
        refused(GitErrorKind::Refused, complaints)?;
        Ok(paths)
    }

    /// Checks every name before any content is read.
    fn read(
        &self,
        files: &FileSandbox,
        request: &StageRequest,
    ) -> Result<Vec<LoadedFile>, GitError> {
        let paths = self.paths(request)?;
        let mut total = 0;
        let mut read = Vec::with_capacity(paths.len());
        for (asked, path) in paths {
            let file = LoadedFile::read(files, asked, path, self.limits.file_bytes)?;
            total += file.content.as_ref().map_or(0, |bytes| bytes.len() as u64);
            if total > self.limits.total_bytes {
                return Err(GitErrorKind::TooLarge
                    .error(format!(
                        "The files have more than {} bytes.",
                        self.limits.total_bytes
                    ))
                    .hint("Stage them as several commits."));
            }
            read.push(file);
        }
        Ok(read)
    }
}

/// New files have names that every system can check out. Files of the branch may be changed, and
/// removed all the more.
fn check_new_names(read: &[LoadedFile], entries: &[Option<TreeEntry>]) -> Result<(), GitError> {
    let new = read.iter().zip(entries).filter_map(|(file, entry)| {
        let added = entry.is_none() && file.content.is_some();
        added.then_some(&file.path)
    });
    let unfit = new.filter_map(|path| {
        let why = path.unfit_for_windows()?;
        Some(format!("'{path}' is not staged: {why}."))
    });
    refused(GitErrorKind::Refused, unfit.collect())
}

/// Whether a file is executable in the branch, if a file it is.
fn check_kind(path: &RepoPath, entry: Option<&TreeEntry>) -> Result<bool, GitError> {
    match entry.map(|entry| entry.kind) {
        None | Some(TreeKind::File) => Ok(false),
        Some(TreeKind::Executable) => Ok(true),
        Some(TreeKind::Link | TreeKind::Submodule) => Err(GitErrorKind::Refused.error(format!(
            "'{path}' is a link or another repository in the branch."
        ))),
    }
}

/// Compares the files with the branch; returns those that differ, by path, and their contents.
fn compare_all(
    read: Vec<LoadedFile>,
    entries: Vec<Option<TreeEntry>>,
    before: Vec<Vec<u8>>,
    redactor: &Redactor,
) -> Result<(Vec<StagedFile>, Vec<Vec<u8>>), GitError> {
    let mut before = before.into_iter();
    let until = Instant::now() + DIFF_TIME;
    let (mut staged, mut contents) = (Vec::new(), Vec::new());
    for (file, entry) in read.into_iter().zip(entries) {
        let old = entry.as_ref().and_then(|_| before.next());
        let compared = (file, entry.as_ref(), old);
        staged.extend(compare(compared, &mut contents, redactor, until)?);
    }
    staged.sort_by(|one, other| one.path.cmp(&other.path));
    Ok((staged, contents))
}

/// Compares one file with the branch; `None` if they are equal.
fn compare(
    (file, entry, old): (LoadedFile, Option<&TreeEntry>, Option<Vec<u8>>),
    contents: &mut Vec<Vec<u8>>,
    redactor: &Redactor,
    until: Instant,
) -> Result<Option<StagedFile>, GitError> {
    let path = file.path;
    let was_executable = check_kind(&path, entry)?;
    // A pull gives no file that right, so that it is missing here says nothing.
    let executable = file.content.is_some() && (was_executable || file.executable);
    let operation = match (&old, &file.content) {
        (None, None) => {
            return Err(GitErrorKind::NotFound
                .error(format!("File not found: {path}"))
                .hint("It is neither among your files nor in the branch."));
        }
        (None, Some(_)) => FileOperation::Create,
        (Some(_), None) => FileOperation::Delete,
        (Some(old), Some(new)) if old == new && executable == was_executable => return Ok(None),
        (Some(_), Some(_)) => FileOperation::Update,
    };
    let mode = match operation {
        FileOperation::Create if executable => "new file mode 100755\n",
        FileOperation::Update if executable != was_executable => {
            "old mode 100644\nnew mode 100755\n"
        }
        FileOperation::Create | FileOperation::Update | FileOperation::Delete => "",
    };
    let (before, after) = (old.as_deref(), file.content.as_deref());
    let diff = difference(&path, before, after, redactor, until);
    let diff = diff.ok_or_else(|| {
        GitErrorKind::TooLarge
            .error(format!(
                "'{path}' has more lines than a person is shown before a push."
            ))
            .hint("Nothing is staged, since nobody could agree to it.")
    })?;
    let diff = format!("{mode}{diff}");
    let content = file.content.as_deref().map(ContentHash::of);
    let bytes = file.content.as_ref().map_or(0, |bytes| bytes.len() as u64);
    contents.extend(file.content);
    Ok(Some(StagedFile {
        path,
        operation,
        diff,
        bytes,
        content,
        base: entry.map(|entry| entry.id.clone()),
        base_executable: was_executable,
        executable,
    }))
}

/// The words and names of a commit are pushed as well. A key in them is never an example that a
/// person could agree to: it can be left out.
fn refuse_secrets_in_words(
    files: &[LoadedFile],
    request: &StageRequest,
    redactor: &Redactor,
) -> Result<(), GitError> {
    let paths = files
        .iter()
        .map(|file| ("path of a file", file.path.as_str()));
    let words = [
        ("message", request.message.as_str()),
        ("name of the branch", request.branch.as_str()),
    ];
    let mut found = Vec::new();
    for (what, text) in words.into_iter().chain(paths) {
        if let Some((kind, _)) = redactor.kinds(text).first() {
            found.push(format!("The {what} has what looks like a secret ({kind})."));
        }
    }
    refused(GitErrorKind::Secrets, found)
        .map_err(|error| error.hint("Leave it out: whoever can read the repository reads it."))
}

fn refuse_secrets(
    files: &[LoadedFile],
    secrets: &SecretPolicy,
    redactor: &Redactor,
) -> Result<(), GitError> {
    let mut found = Vec::new();
    for file in files {
        if let Some(content) = &file.content
            && !secrets.allow(content)
        {
            found.extend(complaints(redactor, &file.path, content));
        }
    }
    refused(GitErrorKind::Secrets, found).map_err(|error| error.hint(WHO_READS_IT))
}
