//! The runs under the state directory and their files, opened so that no file type can block forge.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use forge_runtime::transcript::{self, Transcript};
use forge_tools::audit::{
    Integrity, LineReader, LogDefect, LogPosition, RawLine, VerificationReport, Verifier,
    segment_name,
};
use forge_tools::escape_controls;
use rustix::fs::OFlags;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::bounded::read_text;
use crate::exit::CliError;
use crate::state::run_dir::{ABOUT, RunDescription};

/// Longest `run.json`, in bytes.
const MAX_RUN_JSON_BYTES: u64 = 4 * 1024 * 1024;
/// The last two lines of a sealed log fit into this.
const TAIL_BYTES: u64 = 16 * 1024;

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct StoredRun {
    path: PathBuf,
    /// `<worker>_<seconds>-<nanoseconds, random>`.
    pub(crate) name: String,
    /// Before the time.
    pub(crate) worker: String,
    /// When it began, in seconds since 1970.
    pub(crate) seconds: u64,
}

/// The transcript of a run.
#[derive(Debug)]
pub(crate) enum StoredTranscript {
    /// The whole transcript, up to the incomplete line of a killed program.
    Kept(Box<Transcript>),
    /// Something that cannot be believed, and why.
    Damaged(String),
    /// Nothing: no model was asked, or nothing was to be kept.
    Nothing,
}

/// The end of a sealed log.
#[derive(Debug)]
pub(crate) struct LogEnd {
    /// The line before the seal, with the result of the run.
    pub(crate) line: Value,
    /// The hash of the seal, which `run.json` notes.
    pub(crate) head: String,
}

/// All of them, the newest first.
#[derive(Debug, Default)]
pub(crate) struct StoredRuns(Vec<StoredRun>);

impl StoredRuns {
    /// Looks into the state directory.
    pub(crate) fn read(state: &Path) -> Result<Self, CliError> {
        StoredRuns::in_dir(&state.join("runs"))
    }

    /// Looks into one directory.
    pub(crate) fn in_dir(dir: &Path) -> Result<Self, CliError> {
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(StoredRuns(Vec::new())),
            Err(error) => {
                return Err(CliError::state(format!(
                    "cannot look into {}: {error}",
                    dir.display()
                )));
            }
        };
        let runs = entries
            .filter_map(|entry| StoredRun::new(entry.ok()?.path()))
            .collect();
        Ok(StoredRuns(runs).sorted())
    }

    /// These and those.
    pub(crate) fn and(mut self, mut others: StoredRuns) -> Self {
        self.0.append(&mut others.0);
        self.sorted()
    }

    fn sorted(mut self) -> Self {
        // An id begins with the nanoseconds of its second.
        self.0
            .sort_by(|a, b| (b.seconds, b.id(), &b.name).cmp(&(a.seconds, a.id(), &a.name)));
        self
    }

    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &StoredRun> {
        self.0.iter()
    }

    /// Returns the start of the id of `run` that names no other run, of `min_chars` at least.
    pub(crate) fn short_id<'a>(&self, run: &'a StoredRun, min_chars: usize) -> &'a str {
        let id = run.id();
        let is_unique =
            |start: &str| self.0.iter().filter(|run| run.answers_to(start)).count() == 1;
        let mut lengths = (min_chars..id.len()).filter(|end| id.is_char_boundary(*end));
        let end = lengths.find(|end| is_unique(&id[..*end]));
        end.map_or(id, |end| &id[..end])
    }

    /// Returns the runs of a project, the newest first. A run without a description may be of any.
    pub(crate) fn of_project(&self, project: &Path) -> impl Iterator<Item = &StoredRun> {
        let is_of_it = move |about: RunDescription| about.project == project;
        self.newest_first()
            .filter(move |run| run.about().is_none_or(is_of_it))
    }

    /// The run that is meant: `last` of a project, or the beginning of its name or of its id.
    pub(crate) fn find(&self, name: &str, project: &Path) -> Result<&StoredRun, CliError> {
        let unknown = |text: String| CliError::misuse("log.run", text);
        if name == "last" {
            // An act of a person, such as a push, is named by its id.
            let mut runs = self.of_project(project).filter(|run| !run.is_act());
            return runs
                .next()
                .or_else(|| self.of_project(project).next())
                .ok_or_else(|| {
                    unknown("no run of this project is kept".to_owned())
                        .hint("`forge log list --all` shows those of other projects")
                });
        }
        if let Some(exact) = self.0.iter().find(|run| run.name == name) {
            return Ok(exact);
        }
        let meant: Vec<&StoredRun> = self.0.iter().filter(|run| run.answers_to(name)).collect();
        match meant.as_slice() {
            [one] => Ok(one),
            [] => Err(unknown(format!("unknown run `{}`", escape_controls(name)))
                .hint("`forge log list` shows the runs; `last` is the newest of this project")),
            [first, second, ..] => Err(unknown(format!(
                "`{}` is the beginning of {} runs, {} and {} among them",
                escape_controls(name),
                meant.len(),
                first.shown(),
                second.shown()
            ))
            .hint("write more of it")),
        }
    }
}

impl StoredRun {
    fn new(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_owned();
        let (worker, id) = name.rsplit_once('_')?;
        let seconds = id.split_once('-')?.0.parse().ok()?;
        let worker = worker.to_owned();
        Some(StoredRun {
            path,
            worker,
            seconds,
            name,
        })
    }

    /// The run that is kept in this directory, if that is one.
    pub(crate) fn at(dir: &Path) -> Option<Self> {
        let dir = dir.canonicalize().ok().filter(|dir| dir.is_dir())?;
        StoredRun::new(dir)
    }

    /// Returns the path of the run.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn answers_to(&self, name: &str) -> bool {
        let id = self.name.get(self.worker.len() + 1..).unwrap_or_default();
        !name.is_empty() && (self.name.starts_with(name) || id.starts_with(name))
    }

    /// Its name, as a terminal may show it.
    pub(crate) fn shown(&self) -> String {
        escape_controls(&self.name)
    }

    /// Returns the part after the worker's name.
    pub(crate) fn id(&self) -> &str {
        self.name.get(self.worker.len() + 1..).unwrap_or_default()
    }

    /// Returns a file of the audit log; `None` behind the last one.
    pub(crate) fn segment(&self, segment: u32) -> std::io::Result<Option<File>> {
        self.file(&segment_name(segment))
    }

    /// One of its files, if it is there.
    pub(crate) fn file(&self, name: &str) -> std::io::Result<Option<File>> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW).bits();
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(i32::try_from(flags).unwrap_or(0))
            .open(self.path.join(name));
        match opened {
            Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
            Ok(_) => Err(std::io::Error::new(
                ErrorKind::InvalidInput,
                "not a regular file",
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Verifies the audit log.
    pub(crate) fn verified(&self) -> std::io::Result<VerificationReport> {
        let mut verifier = Verifier::new();
        let mut segment = 0;
        while let Some(file) = self.segment(segment)? {
            verifier.segment(BufReader::new(file))?;
            segment += 1;
        }
        let mut verified = verifier.finish();
        let broken = matches!(verified.integrity, Integrity::Broken(_));
        if let (false, Some(segment)) = (broken, self.stray_segment(segment)?) {
            let at = LogPosition { segment, line: 1 };
            let why = "the file before it is missing";
            verified.integrity = Integrity::Broken(LogDefect::Foreign { at, why });
        }
        Ok(verified)
    }

    /// Counts the decisions in the log.
    pub(crate) fn decisions(&self) -> std::io::Result<u64> {
        let (mut count, mut segment) = (0, 0);
        while let Some(file) = self.segment(segment)? {
            let mut lines = LineReader::new(BufReader::new(file));
            while let Some(line) = lines.next_line()? {
                if let RawLine::Whole(bytes) = line
                    && let Ok(line) = serde_json::from_slice::<Value>(bytes)
                {
                    count += u64::from(line["kind"] == "decision");
                }
            }
            segment += 1;
        }
        Ok(count)
    }

    /// Returns the first file of the log after a gap behind the first `segments`.
    pub(crate) fn stray_segment(&self, segments: u32) -> std::io::Result<Option<u32>> {
        let mut stray = None;
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix("audit.")?.strip_suffix(".jsonl"))
                .and_then(|number| number.parse::<u32>().ok())
                .filter(|number| *number >= segments && name == *segment_name(*number));
            stray = stray.into_iter().chain(number).min();
        }
        Ok(stray)
    }

    /// `true` if a program holds the lock of the log, as its writer does.
    pub(crate) fn is_locked(&self) -> bool {
        self.segment(0).ok().flatten().is_some_and(|file| {
            matches!(
                file.try_lock_shared(),
                Err(std::fs::TryLockError::WouldBlock)
            )
        })
    }

    /// Returns the end of the log, if it is sealed.
    pub(crate) fn end(&self) -> Option<LogEnd> {
        let mut last = self.segment(0).ok()??;
        let mut segment = 1;
        while let Ok(Some(later)) = self.segment(segment) {
            last = later;
            segment += 1;
        }
        let length = last.metadata().ok()?.len();
        last.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
            .ok()?;
        let mut tail = Vec::new();
        last.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
        let mut lines = tail.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n');
        let sealed = lines.next()?;
        let seal: Value = serde_json::from_slice(sealed).ok()?;
        if seal["kind"] != "seal" {
            return None;
        }
        let line = lines
            .next()
            .and_then(|end| serde_json::from_slice(end).ok());
        let hashed = Sha256::new().chain_update(sealed).chain_update(b"\n");
        Some(LogEnd {
            line: line.unwrap_or(Value::Null),
            head: sandbox_names::hex(hashed.finalize()),
        })
    }

    /// Reads the transcript.
    pub(crate) fn read_transcript(&self) -> StoredTranscript {
        match self.file("transcript.jsonl") {
            Ok(None) => StoredTranscript::Nothing,
            Ok(Some(file)) => match transcript::read(BufReader::new(file)) {
                Ok(transcript) => StoredTranscript::Kept(Box::new(transcript)),
                Err(damage) => StoredTranscript::Damaged(damage.to_string()),
            },
            Err(error) => StoredTranscript::Damaged(error.to_string()),
        }
    }

    /// `true` for the act of a person outside of a run, such as a push.
    pub(crate) fn is_act(&self) -> bool {
        self.about().is_some_and(|about| about.is_act)
    }

    /// Reads the description from the beginning of the run.
    pub(crate) fn about(&self) -> Option<RunDescription> {
        let text = read_text(&self.path.join(ABOUT), MAX_RUN_JSON_BYTES).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Returns the result of the run, if its last program wrote one.
    pub(crate) fn report(&self) -> Option<Value> {
        self.report_in("run.json")
    }

    /// The newest report of its programs. Each counts on from the one before.
    pub(crate) fn newest_report(&self) -> Option<Value> {
        let earlier = (1_u64..).map(|number| format!("run.{number}.json"));
        let earlier = earlier.take_while(|name| matches!(self.file(name), Ok(Some(_))));
        self.report()
            .or_else(|| earlier.filter_map(|name| self.report_in(&name)).last())
    }

    fn report_in(&self, name: &str) -> Option<Value> {
        let file = self.file(name).ok()??;
        let facts: Value = serde_json::from_reader(file.take(MAX_RUN_JSON_BYTES)).ok()?;
        Some(facts["report"].clone()).filter(Value::is_object)
    }

    /// The hash of the seal, as the run noted it beside its log.
    pub(crate) fn noted_head(&self) -> Option<String> {
        let text = read_text(&self.path.join("run.json"), MAX_RUN_JSON_BYTES).ok()?;
        let facts: Value = serde_json::from_str(&text).ok()?;
        Some(facts["audit"]["head"].as_str()?.to_owned())
    }
}
