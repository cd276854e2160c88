//! `--review`: changes of a command or of a run wait until a person applies or discards them. A command
//! works in overlays or in copies. A run works in copies: its file tools are in this process, which sees
//! no overlay of a command.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forge_review::{
    CopiedTree, LayerLimits, LayerUsage, LeftOutReason, NewMount, ReviewDir, ReviewError,
    ReviewLimits, RunInfo, RunReview, first_foreign, open_host_dir,
};
use os_sandbox::mechanism::{MountPlacement, Pattern};
use os_sandbox::{Access, Policy};
use sandbox_config::{Grant, RunLimits};

use crate::cli::{ApplyArgs, ReviewAction, ReviewArgs, ReviewLayer};
use crate::commands::prelude::*;
use crate::commands::review;
use crate::commands::review_subject::{IN_A_COPY, ReviewSubject};
use crate::output::prompt_terminal::{InputLine, PromptTerminal};
use crate::signals::CommandSignals;

/// Lines of a summary without a terminal.
const LINES: usize = 40;

/// Files of a project that are examined after a failure.
const MAX_EXAMINED: u64 = 200_000;

/// Paths that a note about a copy names.
const MAX_NAMED: usize = 5;

/// Shortest time between two counts of a running command's changes, and the share of the time that
/// counting may take.
const COUNT_PAUSE: Duration = Duration::from_millis(100);
const PAUSES_PER_COUNT: u32 = 4;

const QUESTION: &str = "[a] apply all  [s] show  [k] keep for later  [d] discard: ";

/// The overlays or copies of a run. Dropped before the run has started, they are gone.
pub(crate) struct ReviewedRun {
    /// `None` after the end.
    dir: Option<ReviewDir>,
    reviews: OwnedFd,
    /// The directory with all of the above on the host.
    path: PathBuf,
    /// The limits on its changes, whatever other reviews hold.
    limits: LayerLimits,
    usage: Arc<LayerUsage>,
    /// `None` before the start.
    watch: Option<UsageWatch>,
}

/// The changes of a run.
pub(crate) struct ReviewedChanges {
    list: RunReview,
    /// The limit that they met.
    exceeded: Option<String>,
}

/// The thread that counts the changes of a run, and ends it at a limit.
struct UsageWatch {
    is_over: mpsc::Sender<()>,
    thread: JoinHandle<Option<ReviewError>>,
}

impl UsageWatch {
    fn start(
        usage: Arc<LayerUsage>,
        stop: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let (is_over, over) = mpsc::channel();
        let watch = move || {
            let mut pause = COUNT_PAUSE;
            while over.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
                let begun = Instant::now();
                if let Err(error) = usage.check(true) {
                    stop();
                    return Some(error);
                }
                pause = COUNT_PAUSE.max(begun.elapsed() * PAUSES_PER_COUNT);
            }
            None
        };
        let thread = std::thread::Builder::new().name("review".to_owned());
        let thread = thread.spawn(watch)?;
        Ok(UsageWatch { is_over, thread })
    }

    /// Ends the thread, and returns the failure for which it ended the run.
    fn finish(self) -> Option<ReviewError> {
        drop(self.is_over);
        self.thread.join().ok().flatten()
    }
}

/// A directory that can be written, and its name in the review.
struct ReviewedMount {
    name: String,
    host: PathBuf,
    lower: OwnedFd,
    protected: Vec<String>,
}

impl ReviewedMount {
    fn open(name: String, host: &Path, protected: &[Pattern]) -> Result<Self, CliError> {
        let unavailable = |error: std::io::Error| {
            let text = format!("{}: {error}", host.display());
            CliError::exec_refused("mount.unavailable", text)
        };
        let host = host.canonicalize().map_err(unavailable)?;
        Ok(ReviewedMount {
            name,
            lower: open_host_dir(&host).map_err(unavailable)?,
            host,
            protected: protected
                .iter()
                .map(Pattern::text)
                .map(str::to_owned)
                .collect(),
        })
    }
}

/// Returns the policy of a command with an overlay or a copy in the place of the mounts that can be
/// written and are chosen by their host directories. `None` for the run if no mount is.
pub(crate) fn prepare(
    policy: Policy,
    layer: ReviewLayer,
    is_chosen: impl Fn(&Path) -> bool,
    subject: ReviewSubject<'_>,
    ambient: &Ambient,
) -> Result<(Policy, Option<ReviewedRun>), CliError> {
    let waits = |mount: &os_sandbox::Mount| {
        is_chosen(mount.host()) && mount.access().contains(Access::WRITE)
    };
    // A part of a reviewed mount is a part of its overlay or copy.
    let is_part = |mount: &os_sandbox::Mount| {
        let outer = |mount: &&os_sandbox::Mount| match mount.place() {
            MountPlacement::NestedIn(outer) => policy.mounts().get(outer),
            _ => None,
        };
        std::iter::successors(Some(mount), outer).skip(1).any(waits)
    };
    let (mut shown, mut mounts) = (Vec::new(), Vec::new());
    for (index, mount) in policy.mounts().iter().enumerate() {
        if waits(mount) && !is_part(mount) {
            let name = review_name(mount.shown_at(), index);
            let protected = policy.guards_of(index).protect;
            mounts.push(ReviewedMount::open(name, mount.host(), &protected)?);
            shown.push((mount.shown_at().to_owned(), mount.host().to_owned()));
        }
    }
    if mounts.is_empty() {
        return Ok((policy, None));
    }
    let copy = layer == ReviewLayer::Copy;
    let run = ReviewedRun::begin(&mounts, copy, subject, ambient)?;
    let mut policy = policy;
    for (mount, (shown_at, host)) in mounts.iter().zip(&shown) {
        let own = run.path.join("mounts").join(&mount.name);
        let changed = match layer {
            ReviewLayer::Overlay => {
                policy.with_overlay(shown_at, own.join("upper"), own.join("work"))
            }
            ReviewLayer::Copy => policy.relocated(host, own.join("copy")),
        };
        policy = changed.map_err(|error| {
            let failure = refused(format!("changes cannot be kept for a review here: {error}"));
            let copy = (layer == ReviewLayer::Overlay).then_some(IN_A_COPY);
            let hints: Vec<&str> = error.hint().into_iter().chain(copy).collect();
            match hints.as_slice() {
                [] => failure,
                hints => failure.hint(hints.join("\n")),
            }
        })?;
    }
    Ok((policy, Some(run)))
}

/// Returns the rights of a worker with a copy in the place of every directory that it, or a worker
/// below it, can change: of `all`, or of those that are staged. Its commands take an OS sandbox. `None`
/// for the run if there is no such directory.
pub(crate) fn prepare_worker(
    grant: Grant,
    all: bool,
    subject: ReviewSubject<'_>,
    ambient: &Ambient,
) -> Result<(Grant, Option<ReviewedRun>), CliError> {
    let unavailable = |error: sandbox_config::GrantError| {
        CliError::negative("mount.unavailable", error.for_person())
    };
    let dirs = match all {
        true => grant.writable_dirs(),
        false => grant.staged_dirs(),
    };
    let dirs = dirs.map_err(unavailable)?;
    if dirs.is_empty() {
        return Ok((grant, None));
    }
    let all = subject.project.ceiling().policy_as_written();
    let all = all.map_err(unavailable)?;
    let guards = |index: usize| all.guards_of(index).protect;
    let mut mounts = Vec::new();
    for (number, dir) in dirs.iter().enumerate() {
        let known = all.mounts().iter().position(|mount| mount.host() == dir);
        let (name, protected) = match known {
            Some(index) => (
                review_name(all.mounts()[index].shown_at(), number),
                guards(index),
            ),
            None => {
                let of_all = (0..all.mounts().len()).flat_map(guards);
                (format!("{number}-mount"), of_all.collect())
            }
        };
        mounts.push(ReviewedMount::open(name, dir, &protected)?);
    }
    let run = ReviewedRun::begin(&mounts, true, subject, ambient)?;
    Ok((run.relocated(&grant)?, Some(run)))
}

/// Returns the rights of a worker in the copies of its earlier run.
pub(crate) fn resume_worker(
    grant: &Grant,
    run: &str,
    ambient: &Ambient,
) -> Result<(Grant, ReviewedRun), CliError> {
    let reviews = review::open_reviews(ambient)?;
    let opened = ReviewDir::open(reviews.as_fd(), run.as_ref());
    let resumed = opened.and_then(|mut dir| dir.resume().map(|()| dir));
    let dir = resumed.map_err(|error| match error {
        ReviewError::Busy => failed(&error),
        _ => CliError::misuse(
            "review.unknown",
            format!("the run cannot go on, because its changes were applied or discarded: {error}"),
        )
        .hint("begin a new run"),
    })?;
    let limits = layer_limits(grant.limits());
    let usage = dir.usage(reviews.as_fd(), &limits);
    let run = ReviewedRun {
        path: own_path(run, ambient)?,
        limits,
        usage: Arc::new(usage.map_err(|error| failed(&error))?),
        dir: Some(dir),
        reviews,
        watch: None,
    };
    Ok((run.relocated(grant)?, run))
}

/// Returns the directory of a review on the host, without links.
fn own_path(run: &str, ambient: &Ambient) -> Result<PathBuf, CliError> {
    let path = review::reviews_path(ambient)?;
    let path = path
        .canonicalize()
        .map_err(|error| refused(format!("{}: {error}", path.display())))?;
    Ok(path.join(run))
}

impl ReviewedRun {
    fn begin(
        mounts: &[ReviewedMount],
        copy: bool,
        subject: ReviewSubject<'_>,
        ambient: &Ambient,
    ) -> Result<Self, CliError> {
        let about = RunInfo {
            run: subject.run,
            project: subject.project.dir().to_path_buf(),
            command: subject.command,
            at_ms: forge_tools::now_ms(),
        };
        let new: Vec<NewMount<'_>> = mounts
            .iter()
            .map(|mount| NewMount {
                name: &mount.name,
                lower: mount.lower.as_fd(),
                host: &mount.host,
                protected: &mount.protected,
                copy,
            })
            .collect();
        let reviews = review::open_reviews(ambient)?;
        let path = own_path(&about.run, ambient)?;
        let limits = layer_limits(&subject.limits);
        let made = ReviewDir::create(reviews.as_fd(), &about, &new, &limits);
        let dir = made.map_err(|error| failed(&error))?;
        let usage = dir.usage(reviews.as_fd(), &limits);
        Ok(ReviewedRun {
            limits,
            usage: Arc::new(usage.map_err(|error| failed(&error))?),
            dir: Some(dir),
            reviews,
            path,
            watch: None,
        })
    }

    fn relocated(&self, grant: &Grant) -> Result<Grant, CliError> {
        let mounts = self.dir.iter().flat_map(|dir| &dir.review().mounts);
        let moves: Vec<(PathBuf, PathBuf)> = mounts
            .map(|mount| {
                let copy = self.path.join("mounts").join(&mount.name).join("copy");
                (mount.host.clone(), copy)
            })
            .collect();
        Ok(grant.relocated(&moves).requiring_os_sandbox())
    }

    /// Returns the size of all copies together; `None` for overlays.
    fn copied(&self) -> Option<CopiedTree> {
        copied(self.dir.as_ref()?.review())
    }
}

fn copied(review: &RunReview) -> Option<CopiedTree> {
    let trees = review
        .mounts
        .iter()
        .filter_map(|mount| mount.copied.clone());
    trees.reduce(|mut all, tree| {
        all.objects += tree.objects;
        all.bytes += tree.bytes;
        all.left_out += tree.left_out;
        all.left_out_paths.extend(tree.left_out_paths);
        all
    })
}

/// Returns `true` if the run works in overlays, not in copies.
pub(crate) fn is_overlay(run: &ReviewedRun) -> bool {
    run.copied().is_none()
}

/// Describes the review of a run in a few words.
pub(crate) fn describe(run: &ReviewedRun) -> String {
    match run.copied() {
        Some(copied) => format!(
            "changes are made in a copy of {} files and directories, {} bytes, and wait for a review",
            copied.objects, copied.bytes
        ),
        None => "changes are made in an overlay, and wait for a review".to_owned(),
    }
}

/// Returns the plan of a review: its directories, and the limits on their changes.
pub(crate) fn plan_json(run: &ReviewedRun) -> Value {
    let mounts = run.dir.iter().flat_map(|dir| &dir.review().mounts);
    let limits = run.usage.limits();
    json!({
        "in": if is_overlay(run) { "overlay" } else { "copy" },
        "directories": mounts.map(|mount| escape_path(&mount.host)).collect::<Vec<_>>(),
        "max_bytes": limits.bytes,
        "max_files": limits.entries,
    })
}

/// Prints the size of the copies of a run, and their gaps.
pub(crate) fn print_start(run: &ReviewedRun) {
    let Some(copied) = run.copied() else {
        return;
    };
    stderr::print(format!("review: {}", describe(run)));
    if copied.left_out > 0 {
        let first = copied.left_out_paths.iter().take(MAX_NAMED);
        let first: Vec<String> = first
            .map(|one| format!("{} ({})", escape(&one.path.to_string()), reason(one.reason)))
            .collect();
        stderr::print(format!(
            "warning: {} objects are not in the copy, so the run does not see them: {}{}",
            copied.left_out,
            first.join(", "),
            if copied.left_out > MAX_NAMED as u64 {
                ", …"
            } else {
                ""
            }
        ));
    }
}

fn reason(reason: LeftOutReason) -> &'static str {
    match reason {
        LeftOutReason::Special => "a pipe, socket or device",
        LeftOutReason::Mounted => "another file system",
        LeftOutReason::Unreadable => "you may not read it",
        LeftOutReason::Reviews => "the reviews themselves",
    }
}

/// From now on there can be changes. `stop` ends the run at a limit of them.
pub(crate) fn started(
    run: &mut ReviewedRun,
    stop: impl FnOnce() + Send + 'static,
) -> Result<(), CliError> {
    let watch = UsageWatch::start(Arc::clone(&run.usage), stop);
    let watch = watch.map_err(|error| refused(format!("cannot count the changes: {error}")))?;
    run.watch = Some(watch);
    Ok(())
}

/// Lists the changes. A run without changes leaves nothing, unless it goes on later: then its copies
/// stay.
pub(crate) fn end(mut run: ReviewedRun, goes_on: bool) -> Result<ReviewedChanges, CliError> {
    let Some(mut dir) = run.dir.take() else {
        return Err(refused("the review is over".to_owned()));
    };
    let name = dir.review().run.clone();
    let met = run.watch.take().and_then(UsageWatch::finish);
    let exceeded = met.or_else(|| run.usage.check(false).err());
    let is_copy = copied(dir.review()).is_some();
    let exceeded = exceeded.map(|error| describe_limit(&run, is_copy, &error));
    review::record(&mut dir).map_err(|failure| {
        let met = exceeded.iter().map(|limit| format!("limit: {limit}\n"));
        let met: String = met.collect();
        failure.hint(format!(
            "{met}the changes are kept: forge review show {name}"
        ))
    })?;
    let list = dir.review().clone();
    if !goes_on {
        let is_empty =
            list.changes().next().is_none() && review::listing::quarantined(&list).is_empty();
        let removed = match is_empty {
            true => dir.discard(run.reviews.as_fd()),
            false => dir.drop_copies(),
        };
        removed.map_err(|error| failed(&error))?;
    }
    Ok(ReviewedChanges { list, exceeded })
}

/// Returns the limit that the changes met.
pub(crate) fn exceeded(changes: &ReviewedChanges) -> Option<&str> {
    changes.exceeded.as_deref()
}

/// Describes a limit on the size of changes, with its key.
fn describe_limit(run: &ReviewedRun, is_copy: bool, error: &ReviewError) -> String {
    let ReviewError::Limit { limit, unit, path } = error else {
        let error = escape(&error.to_string());
        return format!("the changes cannot be counted: {error}");
    };
    let subject = if is_copy {
        "copy holds"
    } else {
        "changes hold"
    };
    let others = match run.usage.limits() == run.limits {
        true => "",
        false => "; other reviews hold the rest",
    };
    match *unit {
        "files" => {
            format!("the {subject} more than {limit} files (limits.review_files{others})")
        }
        "bytes" => {
            let size = match limit % (1 << 20) {
                0 => format!("{} MiB", limit >> 20),
                _ => format!("{limit} bytes"),
            };
            format!("the {subject} more than {size} (limits.review_mb{others})")
        }
        unit => format!(
            "the {subject} more than {limit} {unit}, at {}",
            escape(path)
        ),
    }
}

/// Returns the name of the run, and the number of its changes.
pub(crate) fn facts(changes: &ReviewedChanges) -> (&str, usize) {
    (&changes.list.run, changes.list.changes().count())
}

/// Returns the facts for programs, with the size of the copies.
pub(crate) fn to_json(changes: &ReviewedChanges) -> Value {
    let (run, count) = facts(changes);
    let mut object = json!({ "run": run, "changes": count });
    if let Some(copied) = copied(&changes.list) {
        object["copy"] = json!({
            "objects": copied.objects,
            "bytes": copied.bytes,
            "left_out": copied.left_out,
        });
    }
    if let Some(limit) = exceeded(changes) {
        object["exceeded"] = json!(limit);
    }
    object
}

/// Prints the changes, and asks the person at the terminal. A failure then does not change
/// the exit code, which is that of the run. `signals` withdraw the question; without them a signal ends
/// the process.
pub(crate) fn show(ambient: &Ambient, changes: &ReviewedChanges, signals: Option<&CommandSignals>) {
    let asks = ambient.terminal && !ambient.no_questions(ambient.global.no_input);
    let rows = asks.then(|| PromptTerminal::Standard.size().1);
    print(changes, rows);
    if asks
        && facts(changes).1 > 0
        && let Err(failure) = ask(ambient, changes, signals)
    {
        stderr::print(format!("warning: {}", failure.message()));
    }
}

/// Returns the limits on the changes of one run.
fn layer_limits(limits: &RunLimits) -> LayerLimits {
    let default = LayerLimits::default();
    LayerLimits {
        entries: limits.review_files().unwrap_or(default.entries),
        bytes: limits.review_bytes().unwrap_or(default.bytes),
    }
}

impl Drop for ReviewedRun {
    fn drop(&mut self) {
        if let Some(dir) = self.dir.take()
            && self.watch.is_none()
            && let Err(error) = dir.discard(self.reviews.as_fd())
        {
            stderr::print(format!("warning: an empty review is left: {error}"));
        }
    }
}

/// Returns the name of a mount in a review: that of the directory inside, or a number if a review
/// cannot have it.
fn review_name(shown_at: &str, index: usize) -> String {
    let name = shown_at.trim_start_matches('/');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match name {
        "" => "project".to_owned(),
        "project" => format!("{index}-project"),
        name if name.chars().all(is_plain) && !name.starts_with('.') => name.to_owned(),
        _ => format!("{index}-mount"),
    }
}

/// Prints the changes of the command, and the next commands of a person.
fn print(changes: &ReviewedChanges, lines: Option<u16>) {
    let ReviewedChanges { list, exceeded } = changes;
    if let Some(limit) = exceeded {
        stderr::print(format!("limit: {limit}"));
    }
    let all = review::listing::summary(list);
    if list.changes().next().is_none() {
        stderr::print("review: no changes");
        let quarantined = review::listing::quarantined(list);
        if !quarantined.is_empty() {
            stderr::print(format!(
                "{quarantined}hint: forge review discard {}",
                list.run
            ));
        }
        return;
    }
    let lines = lines.map_or(LINES, |rows| usize::from(rows).saturating_sub(8));
    stderr::print(shortened(&all, lines.max(1), &list.run).trim_end());
    let run = &list.run;
    stderr::print(format!(
        "the project is unchanged; forge review show {run}\n\
         {:27}forge review apply {run}\n\
         {:27}forge review discard {run}",
        "", ""
    ));
}

/// Returns a summary of about this many lines. Removals, protected names and files that other
/// programs execute are always there; of the other changes the first ones are.
fn shortened(all: &str, lines: usize, run: &str) -> String {
    const TITLE: &str = "changes:\n";
    let begin = match all.starts_with(TITLE) {
        true => Some(0),
        false => all.find(&format!("\n{TITLE}")).map(|at| at + 1),
    };
    let Some(begin) = begin else {
        return all.to_owned();
    };
    let (before, rest) = all.split_at(begin);
    let mut rows: Vec<&str> = rest.lines().collect();
    let of_changes = rows
        .iter()
        .skip(1)
        .take_while(|row| row.starts_with(' '))
        .count();
    let others = before.lines().count() + rows.len() - of_changes;
    let shown = lines.saturating_sub(others).clamp(1, of_changes.max(1));
    if of_changes <= shown {
        return all.to_owned();
    }
    let more = format!("  and {} more: forge review show {run}", of_changes - shown);
    rows.splice(1 + shown..1 + of_changes, [more.as_str()]);
    format!("{before}{}\n", rows.join("\n"))
}

/// Prints a possible cause of a failure: a file that the command cannot change in an overlay. Nothing,
/// if none is found.
pub(crate) fn print_foreign(changes: &ReviewedChanges) {
    let limits = ReviewLimits {
        entries: MAX_EXAMINED,
        ..ReviewLimits::default()
    };
    // A copy belongs to this user.
    for mount in changes
        .list
        .mounts
        .iter()
        .filter(|one| one.copied.is_none())
    {
        let found = open_host_dir(&mount.host)
            .ok()
            .and_then(|lower| first_foreign(&lower, &limits).ok()?);
        if let Some(path) = found {
            stderr::print(format!(
                "note: under --review a command changes no files of other users or groups, such as \
                 {} in {}: programs say \"Value too large for defined data type\"\n\
                 hint: give them to your user and main group, or leave --review out",
                escape(&path.to_string()),
                escape_path(&mount.host)
            ));
            return;
        }
    }
}

/// Asks the person at the terminal about the changes. Without an answer they are kept.
fn ask(
    ambient: &Ambient,
    changes: &ReviewedChanges,
    signals: Option<&CommandSignals>,
) -> Result<(), CliError> {
    let ReviewedChanges { list, .. } = changes;
    let mut terminal = PromptTerminal::Standard;
    let failed = |error: std::io::Error| CliError::negative("terminal", error.to_string());
    let run = || list.run.clone().into();
    let withdrawal = signals.map(CommandSignals::question).transpose();
    let withdrawal = withdrawal.map_err(failed)?;
    loop {
        terminal
            .await_pause(None, withdrawal.as_ref())
            .map_err(failed)?;
        terminal.write(QUESTION).map_err(failed)?;
        let answer = match terminal
            .read_line(None, withdrawal.as_ref())
            .map_err(failed)?
        {
            InputLine::Text(line) => line,
            InputLine::Silence | InputLine::End | InputLine::Withdrawn => {
                terminal.write("\nkept for later\n").map_err(failed)?;
                return Ok(());
            }
        };
        let action = match answer.trim() {
            "a" | "apply" => ReviewAction::Apply(ApplyArgs {
                words: vec![run()],
                hunks: Vec::new(),
                include_protected: Vec::new(),
            }),
            "s" | "show" => ReviewAction::Show { words: vec![run()] },
            "d" | "discard" => ReviewAction::Discard {
                run: Some(run()),
                all: false,
            },
            "k" | "keep" => return Ok(()),
            _ => {
                terminal
                    .write("answer with a letter in brackets; Ctrl-C keeps the changes for later\n")
                    .map_err(failed)?;
                continue;
            }
        };
        let is_last = !matches!(action, ReviewAction::Show { .. });
        let args = ReviewArgs {
            action: Some(action),
        };
        review::run(&args, ambient)?;
        if is_last {
            return Ok(());
        }
    }
}

fn refused(text: String) -> CliError {
    CliError::exec_refused("review", text)
}

fn failed(error: &ReviewError) -> CliError {
    let failure = refused(escape(&error.to_string()));
    match error {
        ReviewError::Limit { .. } => failure.hint(
            "the changes are made in a copy of the directory: move what can be made again out of \
             it, such as build output, show a smaller directory, or set `limits.review_mb` and \
             `limits.review_files`",
        ),
        ReviewError::Full { .. } => failure.hint(
            "apply or discard some, with `forge review` in their projects, or set \
             `limits.review_mb` and `limits.review_files`: together they may hold four times as much",
        ),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_summary_hides_no_removal() {
        let rows = |what: &str| -> String {
            (0..30)
                .map(|number| format!("  {what} {number}\n"))
                .collect()
        };
        let all = format!(
            "deletions and replacements:\n{}changes:\n{}  generated: 2\n60 changes\n",
            rows("delete"),
            rows("add")
        );
        let short = shortened(&all, 10, "exec_1");
        assert_eq!(short.matches("delete").count(), 30);
        assert!(short.matches("add").count() < 30, "{short}");
        assert!(short.contains("more: forge review show exec_1"), "{short}");
        assert!(short.ends_with("60 changes\n"), "{short}");
        assert_eq!(shortened(&all, 100, "exec_1"), all);
    }

    #[test]
    fn names_of_mounts_are_distinct() {
        let names = ["/", "/project", "/data", "/.x", "/data/out"].map(|name| review_name(name, 3));
        assert_eq!(
            names,
            ["project", "3-project", "data", "3-mount", "3-mount"]
        );
    }
}
