//! Pushing: only commits that a person has seen whole and agreed to, and only onto the head that
//! they were compared with.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use file_sandbox::ContentHash;
use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, Caller};

use super::collisions::check_collisions;
use super::error::{GitError, GitErrorKind, GitOperation};
use super::names::{ObjectId, StagedId};
use super::repo_path::RepoPath;
use super::repositories::{GitRepositories, NewCommit, NewFile, NewHead, TreeEntry, TreeKind};
use super::service::{GitService, PushReport, spawn_blocking};
use super::staged::{StagedCommit, StagedFile};
use super::store::StagedStore;

/// A push is read without hurry, so its question may be longer than others.
pub(super) const MAX_SHOWN_BYTES: usize = 4 << 20;
/// Most paths that are named as having moved.
const MAX_NAMED: usize = 20;

/// The proof that a person has seen one staged commit whole, and agreed to its push.
///
/// Only [`ask`](Self::ask) makes one, from an answer. A tool cannot, because it has no approver.
///
/// ```compile_fail
/// # fn f(id: forge_git::StagedId) {
/// let approval = forge_git::PushApproval { id, digest: [0; 32], by: "me".into() };
/// # }
/// ```
///
/// ```compile_fail
/// let approval = forge_git::PushApproval::default();
/// ```
///
/// Nor does one serve twice:
///
/// ```compile_fail
/// fn twice(approval: forge_git::PushApproval) {
///     drop(approval.clone());
/// }
/// ```
#[derive(Debug)]
#[must_use]
pub struct PushApproval {
    id: StagedId,
    /// Of all that was shown.
    digest: [u8; 32],
    /// The preview that the person saw; `None` if no preview was shown.
    onto: Option<PushPreview>,
    by: String,
}

impl PushApproval {
    /// Shows a staged commit to the approver, and asks for its push.
    ///
    /// An approver that shows nothing (`--yes` is one) agrees to no push: commits are reviewed
    /// before they leave.
    ///
    /// # Errors
    /// The commit was not shown, it cannot be shown whole, or the answer was no. It stays staged.
    pub async fn ask(commit: &StagedCommit, approver: &dyn Approver) -> Result<Self, GitError> {
        let refused = |why: String| {
            Err(GitErrorKind::NotAgreed
                .error(format!(
                    "{} is not pushed: {why}. It stays staged.",
                    commit.id()
                ))
                .during(GitOperation::Push))
        };
        if !approver.shows() {
            return refused("nobody has looked at it".to_owned());
        }
        let request = question(commit);
        if let Some(why) = request.truncation_reason_within(MAX_SHOWN_BYTES) {
            return refused(why);
        }
        match approver.ask(&request).await {
            ApprovalAnswer::AllowOnce { by } | ApprovalAnswer::AllowForRun { by } => {
                Ok(PushApproval {
                    id: commit.id().clone(),
                    digest: commit.digest(),
                    onto: None,
                    by,
                })
            }
            ApprovalAnswer::Deny { by, reason: None } => refused(format!("{by} said no")),
            ApprovalAnswer::Deny {
                by,
                reason: Some(reason),
            } => refused(format!("{by} said no: {reason}")),
            ApprovalAnswer::Unanswered { reason } | ApprovalAnswer::Pending { reason, .. } => {
                refused(reason)
            }
        }
    }

    /// Restricts the approval to the preview that the person was shown. If the branch moves again
    /// meanwhile, nothing is pushed.
    pub fn onto(mut self, outlook: PushPreview) -> Self {
        self.onto = Some(outlook);
        self
    }

    fn check_commit(&self, commit: &StagedCommit) -> Result<(), GitError> {
        match commit.digest() == self.digest {
            true => Ok(()),
            false => Err(GitErrorKind::NotAgreed
                .error(format!("{} is no longer what was agreed to.", commit.id()))),
        }
    }

    fn check_destination(&self, commit: &StagedCommit, now: &PushPreview) -> Result<(), GitError> {
        let as_shown = self.onto.as_ref().is_none_or(|shown| shown == now);
        if as_shown || matches!(now, PushPreview::There(_)) {
            return Ok(());
        }
        Err(GitErrorKind::Moved
            .error(format!(
                "Branch '{}' has moved since {} was shown; nothing was pushed.",
                commit.branch, commit.id
            ))
            .hint("Push again: it is shown with what is there now."))
    }

    sandbox_names::getters! {
        /// The person who agreed.
        pub by: &str = &by;
    }
}

/// The question about a commit before its push.
pub(super) fn question(commit: &StagedCommit) -> ApprovalRequest {
    ApprovalRequest {
        caller: Caller::new(""),
        tool: "push".to_owned(),
        arguments: serde_json::json!({
            "repo": commit.repo().to_string(),
            "branch": commit.branch().as_str(),
            "message": commit.message(),
        }),
        intents: vec![format!("push to {}", commit.repo())],
        changes: commit.changes(),
        runner: "local",
        network: true,
        reasons: Vec::new(),
        confined: true,
        only_a_person: true,
        rules_to_allow: Vec::new(),
        host: None,
    }
}

/// The reaction to a branch that has moved.
///
/// ```
/// use forge_git::OnDivergence;
/// assert_ne!(OnDivergence::Refuse, OnDivergence::Rebase);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDivergence {
    /// Refuse, and name the move.
    Refuse,
    /// Put these changes onto the new head, if those files are untouched there.
    Rebase,
}

/// Where a push would go ([`GitService::preview_push`]).
///
/// ```
/// use forge_git::{GitService, OnDivergence, PushPreview, GitRepositories, StagedCommit};
///
/// async fn can_go<R: GitRepositories>(git: &GitService<R>, commit: &StagedCommit) -> bool {
///     matches!(git.preview_push(commit, OnDivergence::Refuse).await, Ok(PushPreview::AsStaged))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushPreview {
    /// Onto the head that it was compared with.
    AsStaged,
    /// Onto this head: the branch has moved, without other changes to these files.
    OnTop {
        /// Where the branch is now.
        head: ObjectId,
        /// Files that are there as they would become: the push does not change them.
        there: Vec<RepoPath>,
    },
    /// Nowhere: the branch has all of it, as this commit or as another author's.
    There(ObjectId),
}

impl<R: GitRepositories> GitService<R> {
    pub(super) async fn push_commit(
        &self,
        approval: &PushApproval,
        if_moved: OnDivergence,
    ) -> Result<PushReport, GitError> {
        let id = approval.id.clone();
        let commit = self.on_store(move |store| store.expect(&id)).await?;
        approval.check_commit(&commit)?;
        let outlook = self.fits(&commit, if_moved).await?;
        approval.check_destination(&commit, &outlook)?;
        let parent = match outlook {
            PushPreview::There(made) => return Ok(self.pushed(&commit, made, true).await),
            PushPreview::AsStaged => commit.base.clone(),
            PushPreview::OnTop { head, .. } => Some(head),
        };
        let staged = commit.clone();
        let files = self
            .on_store(move |store| new_files(&staged, store))
            .await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let made = self
            .repositories
            .prepare(
                &commit.repo,
                NewCommit {
                    branch: commit.branch.clone(),
                    parent: parent.clone(),
                    files,
                    message: commit.message.clone(),
                    author: self.rules.author.clone(),
                    at_s: now.map_or(0, |now| now.as_secs()),
                },
            )
            .await?;
        // After any end from here on, the next push knows the commit to look for.
        let (id, attempt) = (commit.id.clone(), made.clone());
        self.on_store(move |store| store.set_pushing(&id, &attempt))
            .await?;
        let head = NewHead {
            branch: commit.branch.clone(),
            parent,
            id: made.clone(),
        };
        self.repositories.push(&commit.repo, head).await?;
        Ok(self.pushed(&commit, made, false).await)
    }

    /// Previews a push of a staged commit in the present state, so that impossible pushes raise no
    /// question. Nothing is changed.
    ///
    /// # Errors
    /// Those of a push: the branch has moved, or is not reached.
    pub async fn preview_push(
        &self,
        commit: &StagedCommit,
        if_moved: OnDivergence,
    ) -> Result<PushPreview, GitError> {
        let fits = self.fits(commit, if_moved).await;
        fits.map_err(|error| error.during(GitOperation::Push))
    }

    async fn fits(
        &self,
        commit: &StagedCommit,
        if_moved: OnDivergence,
    ) -> Result<PushPreview, GitError> {
        let (head, tree) = self.branch(&commit.repo, &commit.branch).await?;
        if let (Some(made), Some(head)) = (&commit.pushing, &head)
            && made == head
        {
            return Ok(PushPreview::There(made.clone()));
        }
        if head == commit.base {
            self.repositories
                .check_push(&commit.repo, &commit.branch)
                .await?;
            return Ok(PushPreview::AsStaged);
        }
        let Some(head) = head else {
            return Err(gone(commit));
        };
        let (tree, since) = self.since_staged(commit, tree).await?;
        if since.has_all {
            let made = commit.pushing.as_ref().unwrap_or(&head);
            return Ok(PushPreview::There(made.clone()));
        }
        let staged = commit.clone();
        let (tree, fits) = spawn_blocking(move || {
            let files = staged.files.iter();
            let paths: Vec<(&RepoPath, bool)> = files
                .map(|file| (&file.path, file.content.is_some()))
                .collect();
            let fits = check_collisions(&paths, &tree);
            Ok((tree, fits))
        })
        .await?;
        if if_moved == OnDivergence::Refuse || !since.overlap.is_empty() {
            return Err(self.moved(commit, &head, tree, &since, fits.err()).await);
        }
        fits?;
        self.repositories
            .check_push(&commit.repo, &commit.branch)
            .await?;
        Ok(PushPreview::OnTop {
            head,
            there: since.there,
        })
    }

    /// It is there; that it is still staged here would be found out by the next push.
    async fn pushed(
        &self,
        commit: &StagedCommit,
        made: ObjectId,
        already_there: bool,
    ) -> PushReport {
        let id = commit.id.clone();
        let _staged_still = self.on_store(move |store| store.remove(&id)).await;
        PushReport {
            url: commit.repo.url_of(&made),
            commit: made,
            already_there,
        }
    }

    /// Returns the changes of other authors to the files of a commit since it was staged. A change
    /// that equals the commit's own does not count.
    async fn since_staged(
        &self,
        commit: &StagedCommit,
        tree: Vec<TreeEntry>,
    ) -> Result<(Vec<TreeEntry>, Divergence), GitError> {
        let staged = commit.clone();
        let (tree, files) = spawn_blocking(move || {
            let now = compared(&staged, &tree);
            Ok((tree, now))
        })
        .await?;
        let alike = files.iter().filter_map(|now| match now {
            BranchFileState::Alike(id, hash, bytes) => Some((id, hash, bytes)),
            BranchFileState::Untouched | BranchFileState::Same | BranchFileState::Other => None,
        });
        let ids: Vec<ObjectId> = alike.clone().map(|(id, ..)| id.clone()).collect();
        let most = alike
            .clone()
            .fold(0, |most: u64, (.., bytes)| most.saturating_add(*bytes));
        let contents = match self.repositories.contents(&commit.repo, &ids, most).await {
            Ok(contents) => contents,
            // A longer content differs.
            Err(error) if error.kind() == GitErrorKind::TooLarge => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut contents = contents.into_iter();
        let mut since = Divergence {
            overlap: Vec::new(),
            there: Vec::new(),
            has_all: true,
        };
        for (file, now) in commit.files.iter().zip(&files) {
            let (is_same, is_touched) = match now {
                BranchFileState::Untouched => (false, false),
                BranchFileState::Same => (true, true),
                BranchFileState::Other => (false, true),
                BranchFileState::Alike(_, hash, _) => {
                    let theirs = contents.next();
                    (
                        theirs.is_some_and(|bytes| ContentHash::of(&bytes) == *hash),
                        true,
                    )
                }
            };
            since.has_all &= is_same;
            match (is_touched, is_same) {
                (true, true) => since.there.push(file.path.clone()),
                (true, false) => since.overlap.push(file.path.clone()),
                (false, _) => {}
            }
        }
        Ok((tree, since))
    }

    async fn moved(
        &self,
        commit: &StagedCommit,
        head: &ObjectId,
        tree: Vec<TreeEntry>,
        since: &Divergence,
        collision: Option<GitError>,
    ) -> GitError {
        let shown = |id: Option<&ObjectId>| match id {
            Some(id) => id.as_str().get(..12).unwrap_or_default().to_owned(),
            None => "nothing".to_owned(),
        };
        let mut text = format!(
            "Branch '{}' has moved from {} to {} since {} was staged.",
            commit.branch,
            shown(commit.base.as_ref()),
            shown(Some(head)),
            commit.id
        );
        let before = match &commit.base {
            Some(base) => self.repositories.tree(&commit.repo, base).await,
            None => Ok(Vec::new()),
        };
        // If the old content is unknown, only the heads are named.
        let changes = match before {
            Ok(before) => {
                let told = move || Ok(named("Changed there", &changed(&before, &tree)));
                spawn_blocking(told).await
            }
            Err(error) => Err(error),
        };
        text.push_str(&changes.unwrap_or_default());
        let both: Vec<&str> = since.overlap.iter().map(RepoPath::as_str).collect();
        text.push_str(&named("Changed by both", &both));
        if let Some(made) = &commit.pushing {
            text.push_str(&format!(
                "\nAn earlier push of it ended before it was known whether {made} was taken."
            ));
        }
        let error = GitErrorKind::Moved.error(text);
        match (since.overlap.is_empty(), since.there.is_empty(), collision) {
            (false, ..) => {
                error.hint("Pull these files, bring both together, and stage them again.")
            }
            (true, _, Some(collision)) => error.hint(format!(
                "--rebase does not help: {} Pull, and stage the files under other names.",
                collision.message()
            )),
            (true, true, None) => {
                error.hint("None of its files are among them: --rebase puts it on top.")
            }
            (true, false, None) => {
                error.hint("What both changed is the same: --rebase puts the rest on top.")
            }
        }
    }
}

/// Returns the changes of a commit, with the contents that were staged.
fn new_files(commit: &StagedCommit, store: &StagedStore) -> Result<Vec<NewFile>, GitError> {
    let new = |file: &StagedFile| {
        let content = match file.content {
            None => None,
            Some(hash) => {
                let bytes = store.content(&commit.id, hash, file.bytes)?;
                Some((bytes, file.executable))
            }
        };
        Ok(NewFile {
            path: file.path.clone(),
            content,
        })
    };
    commit.files.iter().map(new).collect()
}

/// The changes of other authors since a commit was staged.
struct Divergence {
    /// Files of it that they have made something else of.
    overlap: Vec<RepoPath>,
    /// Files of it that are as they would become.
    there: Vec<RepoPath>,
    /// All of it is in the branch already.
    has_all: bool,
}

/// A file of a commit, in the branch as it is now.
enum BranchFileState {
    /// As it was when it was staged.
    Untouched,
    /// As it is to become.
    Same,
    /// Perhaps as it is to become: its content has to be looked at.
    Alike(ObjectId, ContentHash, u64),
    Other,
}

fn compared(commit: &StagedCommit, tree: &[TreeEntry]) -> Vec<BranchFileState> {
    let at = by_path(tree);
    let kind = |executable| match executable {
        true => TreeKind::Executable,
        false => TreeKind::File,
    };
    let now = |file: &StagedFile| {
        let entry = at.get(file.path.as_str());
        let there = entry.map(|entry| (&entry.id, entry.kind));
        let base = file.base.as_ref();
        if there == base.map(|base| (base, kind(file.base_executable))) {
            return BranchFileState::Untouched;
        }
        match (there, file.content) {
            (None, None) => BranchFileState::Same,
            (Some((id, now)), Some(hash)) if now == kind(file.executable) => {
                BranchFileState::Alike(id.clone(), hash, file.bytes)
            }
            (None, Some(_)) | (Some(_), None | Some(_)) => BranchFileState::Other,
        }
    };
    commit.files.iter().map(now).collect()
}

fn gone(commit: &StagedCommit) -> GitError {
    GitErrorKind::Moved
        .error(format!(
            "Branch '{}' is there no longer: it was when {} was staged.",
            commit.branch, commit.id
        ))
        .hint("Stage the files again to make the branch anew.")
}

fn by_path(tree: &[TreeEntry]) -> HashMap<&str, &TreeEntry> {
    tree.iter()
        .map(|entry| (entry.path.as_str(), entry))
        .collect()
}

fn changed<'a>(before: &'a [TreeEntry], after: &'a [TreeEntry]) -> Vec<&'a str> {
    let by_path = |tree: &'a [TreeEntry]| -> HashMap<&'a str, (&'a ObjectId, TreeKind)> {
        let entry = |entry: &'a TreeEntry| (entry.path.as_str(), (&entry.id, entry.kind));
        tree.iter().map(entry).collect()
    };
    let (old, new) = (by_path(before), by_path(after));
    let differs = |path: &&str| old.get(*path) != new.get(*path);
    let mut paths: Vec<&str> = old
        .keys()
        .chain(new.keys())
        .copied()
        .filter(differs)
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn named(label: &str, paths: &[&str]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = paths
        .iter()
        .take(MAX_NAMED)
        .map(|path| forge_tools::escape_controls(path))
        .collect();
    let more = match paths.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("\n{label}: {}{more}.", shown.join(", "))
}
