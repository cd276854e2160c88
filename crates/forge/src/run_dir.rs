//! Where a run is kept: `<worker>_<seconds>-<random>/` in the project's `runs_dir`, or
//! in `runs/` under the state directory, with `audit.jsonl`, `transcript.jsonl` and
//! `run.json`. Only the person who ran it can read it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use file_sandbox::cap_std;
use forge_runtime::Message;
use forge_tools::audit::{AuditLog, LogOptions, Sealed};
use forge_tools::{Caller, Redactor};
use sandbox_config::Project;
use serde::Serialize;
use serde_json::{Value, json};

use crate::ambient::Ambient;
use crate::exit::{Exit, Failure};

/// One run's directory.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes the directory of a new run of `worker`, where `project` keeps its runs.
    pub(crate) fn create(
        project: &Project,
        ambient: &Ambient,
        worker: &str,
    ) -> Result<Self, Failure> {
        let base = match (project.runs_dir(), &ambient.state) {
            (Some(dir), _) => dir.to_path_buf(),
            (None, Some(state)) => state.join("runs"),
            (None, None) => {
                return Err(Failure::new(
                    Exit::Negative,
                    "state",
                    "there is no home directory",
                ));
            }
        };
        RunDir::under(&base, worker)
    }

    /// The same in a place that no project has a say in.
    pub(crate) fn under(base: &Path, worker: &str) -> Result<Self, Failure> {
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        // RandomState is seeded by the system; enough to keep two runs apart.
        let random = std::hash::RandomState::new().build_hasher().finish();
        let name = format!("{worker}_{seconds}-{random:016x}");
        let path = base.join(name);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| not_kept(&path, &error))?;
        Ok(RunDir { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The audit log of the run.
    pub(crate) fn audit(&self) -> Result<AuditLog, Failure> {
        cap_std::fs::Dir::open_ambient_dir(&self.path, cap_std::ambient_authority())
            .and_then(|dir| AuditLog::open(dir, LogOptions::default()))
            .map_err(|error| not_kept(&self.path, &error))
    }

    /// The transcript of the run.
    pub(crate) fn transcript(&self, redactor: Arc<Redactor>) -> Result<Transcript, Failure> {
        Ok(Transcript {
            redactor,
            file: Mutex::new(self.open("transcript.jsonl")?),
        })
    }

    /// Writes what the run came to.
    pub(crate) fn finish(&self, facts: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(facts)
            .map_err(|error| Failure::new(Exit::Negative, "state", error.to_string()))?;
        let mut file = self.open("run.json")?;
        writeln!(file, "{text}").map_err(|error| not_kept(&self.path.join("run.json"), &error))
    }

    /// Writes a file that only the person reads, and says where it is.
    pub(crate) fn keep(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        self.open(name)?
            .write_all(text.as_bytes())
            .map_err(|error| not_kept(&path, &error))?;
        Ok(path)
    }

    fn open(&self, name: &str) -> Result<File, Failure> {
        let path = self.path.join(name);
        OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| not_kept(&path, &error))
    }
}

fn not_kept(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        Exit::Negative,
        "state",
        format!("cannot keep the run in {}: {error}", path.display()),
    )
    .hint("set FORGE_STATE_DIR, or `runs_dir` if the project has one, to a directory that you can write to")
}

/// Ends a run's audit log, so that a cut shows.
pub(crate) fn seal(audit: &AuditLog, outcome: &str) -> Result<Sealed, Failure> {
    audit.seal(outcome).map_err(|error| {
        Failure::new(
            Exit::Negative,
            "state",
            format!("cannot end the audit log: {error}"),
        )
    })
}

/// Everything the models of a run saw and said, one JSON object a line.
#[derive(Debug)]
pub(crate) struct Transcript {
    redactor: Arc<Redactor>,
    file: Mutex<File>,
}

impl Transcript {
    /// Adds one entry of `caller`'s conversation.
    pub(crate) fn add(&self, caller: &Caller, message: &Message) {
        let mut entry: Value = json!({ "workers": caller.chain(), "message": message });
        self.redactor.redact_json(&mut entry);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A transcript that cannot be written does not stop the run: the audit, which
        // does, is a file of its own.
        let _ = writeln!(file, "{entry}");
    }
}
