//! The log that is written: one write a line, the chain kept under one lock, brought to the disk by
//! a thread of its own so that no call waits for that.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use file_sandbox::cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use serde::Serialize;
use serde_json::Value;

use super::line::{self, segment_name};
use super::record::{CallRecord, DecisionEntry, PolicyEvent, Recorder};
use super::reserve;
use super::shorten;
use super::verify::{Integrity, Verifier};
use crate::change::Artifact;
use crate::time::now_ms;

/// The file that a torn line is moved to.
const TORN: &str = "audit.torn";

/// Why nothing is recorded any more.
const GONE: &str = "the audit log was removed or replaced while it was being written";

/// Most files of one log.
const MAX_SEGMENTS: u32 = 10_000;
/// Room for a decision, its result (64 KiB each at most) and the end of the log.
const RESERVE_BYTES: u64 = 256 * 1024;

/// How a log is written.
///
/// ```
/// assert_eq!(forge_tools::audit::LogOptions::default().max_segment_bytes, 64 << 20);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// A file that would become larger is followed by another one.
    pub max_segment_bytes: u64,
    /// How long a line may wait until it is brought to the disk. A log that ends sooner is left to the
    /// kernel, if it is not `durable`.
    pub sync_after: Duration,
    /// `true` if a decision is on the disk before its call is made.
    pub durable: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            max_segment_bytes: 64 << 20,
            sync_after: Duration::from_secs(1),
            durable: false,
        }
    }
}

/// How many calls a log holds.
///
/// ```
/// assert_eq!(forge_tools::audit::CallCounts::default().calls, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// Calls that are over.
    pub calls: u64,
    /// The calls that failed, for any reason.
    pub failed: u64,
    /// The calls that were stopped by a rule, by a person, or because a person could not be asked.
    pub denied: u64,
}

/// The summary of a sealed log; stored elsewhere it proves that the whole log was not rewritten.
///
/// ```
/// fn note(sealed: &forge_tools::audit::LogSeal) -> String {
///     format!("{} {}", sealed.lines, sealed.head)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogSeal {
    /// Lines, the seal included.
    pub lines: u64,
    /// The hash of the seal.
    pub head: String,
    /// The counts of recorded calls.
    #[serde(flatten)]
    pub tally: CallCounts,
}

/// The audit log in a directory: JSON Lines, each with the hash of the one before.
///
/// Files are made with mode 0600 and only appended to. Two programs cannot write one log at a time.
/// The torn last line of a killed program is moved aside, with a note.
///
/// ```
/// use forge_tools::audit::{AuditLog, Integrity, LogOptions, verify};
/// # use file_sandbox::cap_std;
/// let dir = tempfile::tempdir().unwrap();
/// let opened = cap_std::fs::Dir::open_ambient_dir(dir.path(), cap_std::ambient_authority());
/// let log = AuditLog::open(opened.unwrap(), LogOptions::default()).unwrap();
/// let sealed = log.seal("answered").unwrap();
///
/// let written = std::fs::read(dir.path().join("audit.jsonl")).unwrap();
/// let found = verify(&written[..]).unwrap();
/// assert_eq!((found.integrity, found.head), (Integrity::Whole, sealed.head));
/// ```
#[derive(Debug)]
pub struct AuditLog {
    shared: Arc<LogShared>,
    syncing: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct LogShared {
    state: Mutex<LogState>,
    /// Something is to be brought to the disk, or the log is being closed.
    wake: Condvar,
    opened: Instant,
    sync_after: Duration,
    durable: bool,
}

/// Device and inode, which identify a file under any name. Other files do not have them as long as
/// this one is open.
type LogFileId = (u64, u64);

#[derive(Debug)]
struct LogState {
    dir: Dir,
    /// Shared, because another descriptor for it may not be had when it is needed.
    file: Arc<File>,
    file_is: LogFileId,
    /// Holds the lock of the whole log.
    first: Arc<File>,
    first_is: LogFileId,
    /// Files that are full and may not be on the disk yet.
    full: Vec<Arc<File>>,
    max_segment_bytes: u64,
    segment: u32,
    bytes: u64,
    seq: u64,
    prev: String,
    line: Vec<u8>,
    tally: CallCounts,
    dirty: bool,
    /// Nothing was to be brought to the disk, so the thread for it sleeps until it is told.
    idle: bool,
    closing: bool,
    /// Why nothing can be written any more.
    ended: Option<&'static str>,
    /// The error of the last attempt to reach the disk.
    sync_failed: Option<std::io::ErrorKind>,
}

impl AuditLog {
    /// Opens the log in `dir`, or begins one. An existing log is read from its beginning, and not
    /// extended if it is broken.
    ///
    /// # Errors
    ///
    /// Another program writes it (`WouldBlock`); it is broken (`InvalidData`); as the file
    /// system's.
    pub fn open(dir: Dir, options: LogOptions) -> std::io::Result<Self> {
        let mut state = LogState::open(dir, options)?;
        if state.seq == 0 {
            state.append(&line::body(&BeginLine {
                kind: "begin",
                at_ms: now_ms(),
                format: 1,
                segment: 0,
            })?)?;
        }
        let shared = Arc::new(LogShared {
            state: Mutex::new(state),
            wake: Condvar::new(),
            opened: Instant::now(),
            sync_after: options.sync_after,
            durable: options.durable,
        });
        let theirs = Arc::clone(&shared);
        let syncing = std::thread::Builder::new()
            .name("audit-sync".to_owned())
            .spawn(move || theirs.sync_until_closed())?;
        Ok(AuditLog {
            shared,
            syncing: Some(syncing),
        })
    }

    /// Brings everything written so far to the disk.
    ///
    /// # Errors
    ///
    /// Calls `fsync(2)`, and reports failures of the meantime too.
    pub fn sync(&self) -> std::io::Result<()> {
        self.shared.sync()?;
        match self.shared.lock().sync_failed {
            Some(kind) => Err(kind.into()),
            None => Ok(()),
        }
    }

    /// Ends the log: the outcome of the run, and a seal over everything. Nothing can be recorded
    /// after it. It is on the disk, except after less than [`LogOptions::sync_after`].
    ///
    /// # Errors
    ///
    /// As the file system's; sealed already.
    pub fn seal(&self, outcome: &str) -> std::io::Result<LogSeal> {
        let sealed = {
            let mut state = self.shared.lock();
            let end = line::body(&EndLine {
                kind: "end",
                at_ms: now_ms(),
                outcome,
                tally: state.tally,
            })?;
            state.append(&end)?;
            let seal = line::seal(state.seq, &state.prev);
            state.write(seal)?;
            state.ended = Some("the audit log is sealed");
            // Gives the rest of the room back. If it fails, some blocks stay.
            let _ = state.file.set_len(state.bytes);
            LogSeal {
                lines: state.seq,
                head: state.prev.clone(),
                tally: state.tally,
            }
        };
        if self.shared.ends_on_disk() {
            self.sync()?;
        }
        Ok(sealed)
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.wake.notify_all();
        if let Some(syncing) = self.syncing.take() {
            // The thread may bring the rest to the disk; a failure cannot be reported any more.
            let _ = syncing.join();
        }
        // Closing would do, but a command that is just being started holds our files too, until it
        // is another program.
        let _ = self.shared.lock().first.unlock();
    }
}

impl Recorder for AuditLog {
    fn decided(&self, asked: &DecisionEntry<'_>) -> std::io::Result<Option<u64>> {
        let body = decision(asked)?;
        let number = {
            let mut state = self.shared.lock();
            // What is decided on may fill the disk: its end, with all that it was refused, has room.
            reserve::allocate(&state.file, state.bytes, RESERVE_BYTES)?;
            let number = state.append(&body)?;
            self.shared.written(state);
            number
        };
        if self.shared.durable {
            self.shared.sync()?;
        }
        Ok(Some(number))
    }

    fn record(&self, record: &CallRecord) -> std::io::Result<()> {
        let call = match record.call {
            Some(call) => call,
            None => self.shared.append(&decision(&record.asked())?)?,
        };
        let body = line::body(&ExecutionLine {
            kind: "execution",
            call,
            at_ms: record.at_ms.saturating_add(record.duration_us / 1000),
            runner: record.runner,
            ok: record.ok,
            code: record.code.as_deref(),
            exit_code: record.exit_code,
            content_bytes: record.content_bytes,
            content_sha256: &record.content_sha256,
            duration_us: record.duration_us,
            enforcement: record.enforcement.as_ref(),
            artifacts: &record.artifacts,
            events: &record.events,
        })?;
        let mut state = self.shared.lock();
        state.append(&body)?;
        state.tally.calls += 1;
        state.tally.failed += u64::from(record.is_failed());
        state.tally.denied += u64::from(record.is_denied());
        self.shared.written(state);
        Ok(())
    }
}

fn decision(asked: &DecisionEntry<'_>) -> std::io::Result<Vec<u8>> {
    let handoff;
    let mut asked = *asked;
    if line::is_too_deep(asked.arguments) {
        handoff = shorten::hashed(asked.arguments);
        asked.arguments = &handoff;
    }
    line::body(&DecisionLine {
        kind: "decision",
        asked,
    })
}

impl LogShared {
    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, body: &[u8]) -> std::io::Result<u64> {
        let mut state = self.lock();
        let number = state.append(body)?;
        self.written(state);
        Ok(number)
    }

    /// Wakes the thread that syncs, if it does not know already that it has to.
    fn written(&self, mut state: MutexGuard<'_, LogState>) {
        let sleeps = std::mem::take(&mut state.idle);
        drop(state);
        if sleeps {
            self.wake.notify_one();
        }
    }

    /// Returns `true` if the end of the log waits for the disk. A command that takes a few
    /// milliseconds would wait as long again, and what it wrote itself is not on the disk either.
    fn ends_on_disk(&self) -> bool {
        self.durable || self.opened.elapsed() >= self.sync_after
    }

    /// Writers continue meanwhile.
    fn sync(&self) -> std::io::Result<()> {
        let (full, current) = {
            let mut state = self.lock();
            state.dirty = false;
            (std::mem::take(&mut state.full), Arc::clone(&state.file))
        };
        full.iter().try_for_each(|file| file.sync_data())?;
        current.sync_data()
    }

    fn sync_until_closed(&self) {
        loop {
            let mut state = self.lock();
            while !state.dirty && !state.closing {
                state.idle = true;
                state = self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            // The first line waits this long at most, and others with it; closing does not wait.
            let waited = self
                .wake
                .wait_timeout_while(state, self.sync_after, |state| !state.closing);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let closing = state.closing;
            let dirty = state.dirty;
            drop(state);
            let due = !closing || self.ends_on_disk();
            // The sealing thread has synced the log.
            if dirty
                && due
                && let Err(error) = self.sync()
            {
                self.lock().sync_failed = Some(error.kind());
            }
            if closing {
                return;
            }
        }
    }
}

impl LogState {
    fn open(dir: Dir, options: LogOptions) -> std::io::Result<Self> {
        let first = Arc::new(open_file(&dir, &segment_name(0))?);
        first.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => std::io::Error::new(
                std::io::ErrorKind::WouldBlock,
                "another program is writing this audit log",
            ),
            std::fs::TryLockError::Error(error) => error,
        })?;
        let mut verifier = Verifier::new();
        let mut file = Arc::clone(&first);
        verifier.segment(BufReader::new(&*first))?;
        let mut segment = 0;
        for next in 1..MAX_SEGMENTS {
            match dir.open(segment_name(next)) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
            file = Arc::new(open_file(&dir, &segment_name(next))?);
            verifier.segment(BufReader::new(&*file))?;
            segment = next;
        }
        let found = verifier.finish();
        let mut state = LogState {
            dir,
            file_is: identity(&file)?,
            file,
            first_is: identity(&first)?,
            first,
            full: Vec::new(),
            max_segment_bytes: options.max_segment_bytes,
            segment,
            bytes: found.sound_bytes,
            seq: found.lines,
            prev: found.head,
            line: Vec::with_capacity(1024),
            tally: CallCounts::default(),
            dirty: false,
            idle: false,
            closing: false,
            ended: None,
            sync_failed: None,
        };
        match found.integrity {
            Integrity::Unsealed if found.lines == 0 => {}
            Integrity::Whole | Integrity::Unsealed => state.resume(None)?,
            Integrity::Torn { .. } => state.repair()?,
            Integrity::Broken(found) => {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::InvalidData,
                    format!("the audit log is broken: {found}"),
                ));
            }
        }
        Ok(state)
    }

    /// Moves the rest of a torn line aside.
    fn repair(&mut self) -> std::io::Result<()> {
        (&*self.file).seek(SeekFrom::Start(self.bytes))?;
        let mut torn = Vec::new();
        // A torn line is shorter than a whole one.
        let most = u64::try_from(line::MAX_LINE_BYTES).unwrap_or(u64::MAX);
        (&*self.file).take(most).read_to_end(&mut torn)?;
        let mut aside = open_file(&self.dir, TORN)?;
        aside.write_all(&torn)?;
        aside.write_all(b"\n")?;
        aside.sync_data()?;
        self.file.set_len(self.bytes)?;
        if self.seq == 0 {
            // It was the first line, and the beginning of a log is always first.
            return Ok(());
        }
        self.resume(Some(&torn))
    }

    fn resume(&mut self, torn: Option<&[u8]>) -> std::io::Result<()> {
        let body = line::body(&ResumedLine {
            kind: "resumed",
            at_ms: now_ms(),
            torn_bytes: torn.map(<[u8]>::len),
            torn_sha256: torn.map(line::hash),
        })?;
        self.append(&body)?;
        Ok(())
    }

    /// Adds a line; its number.
    fn append(&mut self, body: &[u8]) -> std::io::Result<u64> {
        let longest = u64::try_from(body.len() + 128).unwrap_or(u64::MAX);
        if self.bytes > 0 && self.bytes.saturating_add(longest) > self.max_segment_bytes {
            self.next_segment()?;
        }
        let mut line = std::mem::take(&mut self.line);
        line::line(&mut line, self.seq, &self.prev, body);
        let number = self.seq;
        self.write(line)?;
        Ok(number)
    }

    fn next_segment(&mut self) -> std::io::Result<()> {
        if let Some(why) = self.ended {
            return Err(std::io::Error::other(why));
        }
        let next = self.segment + 1;
        if next >= MAX_SEGMENTS {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        // An existing one is empty: the program ended before its first line.
        let file = open_file(&self.dir, &segment_name(next))?;
        if file.metadata()?.len() > 0 {
            return Err(std::io::ErrorKind::AlreadyExists.into());
        }
        self.file_is = identity(&file)?;
        let full = std::mem::replace(&mut self.file, Arc::new(file));
        self.full.push(full);
        self.segment = next;
        self.bytes = 0;
        let begin = line::body(&BeginLine {
            kind: "begin",
            at_ms: now_ms(),
            format: 1,
            segment: next,
        })?;
        let mut line = Vec::new();
        line::line(&mut line, self.seq, &self.prev, &begin);
        self.write(line)
    }

    /// Checks that the written files are still those in the directory: a line in a file without a
    /// name would be lost.
    fn still_there(&self) -> std::io::Result<()> {
        let is_named = |ours: LogFileId, segment: u32| -> std::io::Result<bool> {
            match self.dir.symlink_metadata(segment_name(segment)) {
                Ok(named) => Ok(ours == (named.dev(), named.ino())),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        };
        // The first one holds the lock, and readers of the log begin with it.
        if is_named(self.file_is, self.segment)?
            && (self.segment == 0 || is_named(self.first_is, 0)?)
        {
            return Ok(());
        }
        Err(std::io::Error::new(std::io::ErrorKind::NotFound, GONE))
    }

    /// One write, or nothing: of a line that did not fit, nothing stays.
    fn write(&mut self, line: Vec<u8>) -> std::io::Result<()> {
        if let Some(why) = self.ended {
            return Err(std::io::Error::other(why));
        }
        if let Err(error) = self.still_there() {
            self.ended = Some(GONE);
            return Err(error);
        }
        let written = match (&*self.file).write(&line) {
            Ok(written) if written == line.len() => Ok(()),
            Ok(_) => Err(std::io::ErrorKind::StorageFull.into()),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            if self.file.set_len(self.bytes).is_err() {
                self.ended = Some("a line of the audit log is torn");
            }
            return Err(error);
        }
        self.bytes += u64::try_from(line.len()).unwrap_or(u64::MAX);
        self.seq += 1;
        self.prev = line::hash(&line);
        self.line = line;
        self.dirty = true;
        Ok(())
    }
}

/// A file of the log, made if it is not there.
fn open_file(dir: &Dir, name: &str) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    Ok(dir.open_with(name, &options)?.into_std())
}

fn identity(file: &File) -> std::io::Result<LogFileId> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

#[derive(Serialize)]
struct BeginLine {
    kind: &'static str,
    at_ms: u64,
    format: u32,
    segment: u32,
}

#[derive(Serialize)]
struct ResumedLine {
    kind: &'static str,
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    torn_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    torn_sha256: Option<String>,
}

#[derive(Serialize)]
struct DecisionLine<'a> {
    kind: &'static str,
    #[serde(flatten)]
    asked: DecisionEntry<'a>,
}

#[derive(Serialize)]
struct ExecutionLine<'a> {
    kind: &'static str,
    call: u64,
    at_ms: u64,
    runner: &'static str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i64>,
    content_bytes: usize,
    content_sha256: &'a str,
    duration_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    enforcement: Option<&'a Value>,
    #[serde(skip_serializing_if = "<[Artifact]>::is_empty")]
    artifacts: &'a [Artifact],
    #[serde(skip_serializing_if = "<[PolicyEvent]>::is_empty")]
    events: &'a [PolicyEvent],
}

#[derive(Serialize)]
struct EndLine<'a> {
    kind: &'static str,
    at_ms: u64,
    outcome: &'a str,
    #[serde(flatten)]
    tally: CallCounts,
}
