//! Pulling: copies files of a branch to the worker, and keeps local edits.
//!
//! Everything that can be refused is refused before anything is written. Each write is noted before
//! it is made, so that after any end of a pull the next one tells its own files from edited ones.

use std::collections::{BTreeMap, HashSet};

use file_sandbox::{ContentHash, EntryKind, ErrorKind, FileSandbox, SandboxPath, WriteOptions};
use forge_tools::escape_controls;

use super::error::{GitError, GitErrorKind, unless};
use super::merge::merge;
use super::names::ObjectId;
use super::pull_index::{PullDestination, PullIndex, PulledEntry};
use super::repo_path::RepoPath;
use super::repositories::{GitRepositories, TreeEntry, TreeKind};
use super::service::{
    GitLimits, GitService, PullOutcome, PullReport, PullRequest, PulledFile, spawn_blocking,
};
use super::store::StagedStore;

/// Longest file that is merged line by line; of a longer one, one side is taken.
const MAX_MERGE_BYTES: u64 = 4 << 20;
/// Most paths that are named as having been pulled before something failed.
const MAX_NAMED: usize = 20;

/// The requested part of a branch.
struct BranchSelection {
    files: BTreeMap<RepoPath, ObjectId>,
    skipped: Vec<(String, &'static str)>,
    /// The requested paths that are missing.
    missing: Vec<RepoPath>,
}

/// A file that is to be pulled, with its present content.
struct PullTarget {
    from: RepoPath,
    to: SandboxPath,
    local: Option<ContentHash>,
}

impl<R: GitRepositories> GitService<R> {
    pub(super) async fn pull_files(
        &self,
        files: &FileSandbox,
        request: PullRequest,
    ) -> Result<PullReport, GitError> {
        if request.paths.is_empty() {
            return Err(GitErrorKind::Invalid.error("No path is named."));
        }
        let (head, tree) = self.branch(&request.repo, &request.branch).await?;
        let Some(commit) = head else {
            return Err(GitErrorKind::NotFound.error(format!(
                "{} has no branch '{}'.",
                request.repo, request.branch
            )));
        };
        let (asked, there, rules) = (request.clone(), files.clone(), self.rules.clone());
        let (wanted, targets) = spawn_blocking(move || {
            let wanted = wanted(&tree, &asked.paths, rules.limits)?;
            check_missing(&wanted, &asked, &rules.store)?;
            let targets = targets(&there, &asked, &wanted)?;
            Ok((wanted, targets))
        })
        .await?;
        let ids: Vec<ObjectId> = wanted.files.values().cloned().collect();
        let limits = self.rules.limits;
        let contents = self
            .repositories
            .contents(&request.repo, &ids, limits.total_bytes)
            .await?;
        let (files, store) = (files.clone(), self.rules.store.clone());
        spawn_blocking(move || {
            for (target, theirs) in targets.iter().zip(&contents) {
                let bytes = theirs.len() as u64;
                if bytes > limits.file_bytes {
                    return Err(GitErrorKind::TooLarge.error(format!(
                        "'{}' has more than {} bytes.",
                        target.from, limits.file_bytes
                    )));
                }
                files.check_file_size(&target.to, bytes)?;
            }
            let pull = Pull {
                files: &files,
                store: &store,
                request: &request,
            };
            let (files, gone) = pull.write(targets, contents, &wanted)?;
            Ok(PullReport {
                commit,
                files,
                gone,
                skipped: wanted.skipped,
            })
        })
        .await
    }
}

/// The files of the branch that were asked for, by path.
fn wanted(
    tree: &[TreeEntry],
    paths: &[RepoPath],
    limits: GitLimits,
) -> Result<BranchSelection, GitError> {
    let asked: HashSet<&str> = paths.iter().map(RepoPath::as_str).collect();
    let mut found: HashSet<&str> = HashSet::new();
    let (mut files, mut skipped) = (BTreeMap::new(), Vec::new());
    for entry in tree {
        let path = entry.path.as_str();
        let above = path.match_indices('/').map(|(end, _)| &path[..end]);
        let mut is_wanted = false;
        for part in above.chain([path]).filter(|part| asked.contains(part)) {
            found.insert(part);
            is_wanted = true;
        }
        if !is_wanted {
            continue;
        }
        let mut skip = |why| {
            if skipped.len() < limits.files {
                skipped.push((escape_controls(path), why));
            }
        };
        match (entry.kind, RepoPath::parse(path)) {
            (TreeKind::Link, _) => skip("a symbolic link"),
            (TreeKind::Submodule, _) => skip("another repository"),
            (TreeKind::File | TreeKind::Executable, Err(_)) => {
                skip("its name is not safe as a path");
            }
            (TreeKind::File | TreeKind::Executable, Ok(path)) => {
                files.insert(path, entry.id.clone());
            }
        }
        if files.len() > limits.files {
            return Err(GitErrorKind::TooLarge
                .error(format!("That is more than {} files.", limits.files))
                .hint("Name the directories or files that you need."));
        }
    }
    let missing = paths.iter().filter(|path| !found.contains(path.as_str()));
    Ok(BranchSelection {
        missing: missing.cloned().collect(),
        files,
        skipped,
    })
}

/// Checks that a requested path that is missing in the branch was pulled before.
fn check_missing(
    wanted: &BranchSelection,
    request: &PullRequest,
    store: &StagedStore,
) -> Result<(), GitError> {
    if wanted.missing.is_empty() {
        return Ok(());
    }
    let known = store.index(&place(request))?.files;
    let was_there = |asked: &&RepoPath| known.keys().any(|path| path.is_at_or_below(asked));
    let never = wanted.missing.iter().filter(|asked| !was_there(asked));
    let missing: Vec<String> = never
        .map(|path| format!("File not found: {path}"))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(GitErrorKind::NotFound
            .error(missing.join("\n"))
            .hint("Paths begin at the top of the repository.")),
    }
}

fn place(request: &PullRequest) -> PullDestination {
    PullDestination {
        repo: request.repo.clone(),
        branch: request.branch.clone(),
        into: request.into.clone(),
    }
}

fn targets(
    files: &FileSandbox,
    request: &PullRequest,
    wanted: &BranchSelection,
) -> Result<Vec<PullTarget>, GitError> {
    let mut targets = Vec::with_capacity(wanted.files.len());
    for from in wanted.files.keys() {
        let to = request.into.join(from.as_str())?;
        files.check_write(&to)?;
        let local = match unless(files.stat(&to), &[ErrorKind::NotFound])? {
            None => None,
            Some(stat) if stat.kind == EntryKind::File => Some(files.hash(&to)?),
            Some(stat) => {
                let (path, kind) = (escape_controls(to.as_str()), stat.kind.as_str());
                return Err(GitErrorKind::Refused
                    .error(format!("'{path}' is a {kind}, and a file in the branch."))
                    .hint("Move it away, or pull to another directory."));
            }
        };
        targets.push(PullTarget {
            from: from.clone(),
            to,
            local,
        });
    }
    Ok(targets)
}

struct Pull<'a> {
    files: &'a FileSandbox,
    store: &'a StagedStore,
    request: &'a PullRequest,
}

impl Pull<'_> {
    fn write(
        &self,
        targets: Vec<PullTarget>,
        contents: Vec<Vec<u8>>,
        wanted: &BranchSelection,
    ) -> Result<(Vec<PulledFile>, Vec<SandboxPath>), GitError> {
        let place = place(self.request);
        let index = self.store.index(&place)?;
        let gone = self.gone(&index, wanted)?;
        let bases = self.begin(&index, &targets, &contents)?;
        let (all, mut pulled, mut failed) =
            (targets.len(), Vec::with_capacity(targets.len()), None);
        let mut done = Vec::with_capacity(targets.len());
        for ((target, theirs), base) in targets.into_iter().zip(contents).zip(bases) {
            match self.put(&target, &theirs, base) {
                Ok((outcome, bytes)) => {
                    let row = PulledEntry {
                        base: Some(ContentHash::of(&theirs)),
                        next: None,
                        bytes: theirs.len() as u64,
                    };
                    done.push((target.from, row));
                    pulled.push(PulledFile {
                        path: target.to,
                        outcome,
                        bytes,
                    });
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        self.store.note(&place, &done)?;
        // Storing too much is not a reason to fail.
        let _next_time = self.store.sweep_pulled(&place);
        match failed {
            None => Ok((pulled, gone)),
            Some(error) => Err(error.after(&before(&pulled, all))),
        }
    }

    /// Notes the contents that are about to be written; returns the base of each target.
    fn begin(
        &self,
        index: &PullIndex,
        targets: &[PullTarget],
        contents: &[Vec<u8>],
    ) -> Result<Vec<Option<ContentHash>>, GitError> {
        let mut bases = Vec::with_capacity(targets.len());
        let mut begun = Vec::with_capacity(targets.len());
        for (target, theirs) in targets.iter().zip(contents) {
            let hash = ContentHash::of(theirs);
            self.store.keep_pulled(hash, theirs)?;
            let row = index.files.get(&target.from);
            let base = match (&target.local, row) {
                (Some(local), Some(row)) => row.base_of(local),
                (None, _) | (_, None) => None,
            };
            let about_to = PulledEntry {
                base: base.or(row.and_then(PulledEntry::last)),
                next: Some(hash),
                bytes: theirs.len() as u64,
            };
            bases.push(base);
            begun.push((target.from.clone(), about_to));
        }
        self.store.note(&index.place, &begun)?;
        Ok(bases)
    }

    /// Returns the files that were pulled here, still exist, and are no longer in the branch.
    fn gone(
        &self,
        index: &PullIndex,
        wanted: &BranchSelection,
    ) -> Result<Vec<SandboxPath>, GitError> {
        let mut gone = Vec::new();
        let asked = &self.request.paths;
        for path in index.files.keys() {
            let is_asked = asked.iter().any(|asked| path.is_at_or_below(asked));
            if !is_asked || wanted.files.contains_key(path) {
                continue;
            }
            let to = self.request.into.join(path.as_str())?;
            if self.files.exists(&to).unwrap_or(false) {
                gone.push(to);
            }
        }
        Ok(gone)
    }

    /// Writes one file; returns its outcome and its length.
    fn put(
        &self,
        target: &PullTarget,
        theirs: &[u8],
        base: Option<ContentHash>,
    ) -> Result<(PullOutcome, u64), GitError> {
        let (to, bytes) = (&target.to, theirs.len() as u64);
        let Some(local) = target.local else {
            let new = WriteOptions::new().create_new(true);
            self.files.write_bytes(to, theirs, new)?;
            return Ok((PullOutcome::Created, bytes));
        };
        let hash = ContentHash::of(theirs);
        if local == hash {
            return Ok((PullOutcome::Unchanged, bytes));
        }
        // Only over the content that was read.
        let over = WriteOptions::new().if_match(local);
        if base == Some(local) {
            self.files.write_bytes(to, theirs, over)?;
            return Ok((PullOutcome::Updated, bytes));
        }
        let size = self.files.stat(to)?.size;
        if base == Some(hash) {
            return Ok((PullOutcome::Kept, size));
        }
        if size > MAX_MERGE_BYTES || bytes > MAX_MERGE_BYTES {
            return Ok((PullOutcome::Conflict, size));
        }
        let base = match base {
            Some(base) => self.store.pulled(base)?,
            None => None,
        };
        let ours = self.files.read_bytes(to, MAX_MERGE_BYTES)?;
        let base = base.unwrap_or_default();
        let (Some(base), Some(ours), Some(theirs)) = (text(&base), text(&ours), text(theirs))
        else {
            return Ok((PullOutcome::Conflict, size));
        };
        let merged = merge(base, ours, theirs, self.request.branch.as_str());
        if merged.text != ours {
            self.files.write_bytes(to, merged.text.as_bytes(), over)?;
        }
        let outcome = match merged.conflicts {
            0 => PullOutcome::Merged,
            _ => PullOutcome::Conflict,
        };
        Ok((outcome, merged.text.len() as u64))
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    let is_text = !bytes.contains(&0);
    is_text.then(|| std::str::from_utf8(bytes).ok()).flatten()
}

/// Describes the work that was done before a failure.
fn before(pulled: &[PulledFile], all: usize) -> String {
    if pulled.is_empty() {
        return "No file was pulled before that.".to_owned();
    }
    let names: Vec<String> = pulled
        .iter()
        .take(MAX_NAMED)
        .map(|file| escape_controls(file.path.as_str()))
        .collect();
    let more = match pulled.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (count, names) = (pulled.len(), names.join(", "));
    format!("{count} of {all} files were pulled before that: {names}{more}.")
}
