//! The directory of a run: `<worker>_<seconds>-<id>/` in the project's `runs_dir`, or in `runs/`
//! under the state directory, with `audit.jsonl`, `transcript.jsonl` and `run.json`, and
//! `workspace/` if the project mounts it. Only its owner can read it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use file_sandbox::cap_std;
use forge_runtime::Attachment;
use forge_runtime::transcript::{AttachedFile, Transcript, TranscriptWriter};
use forge_tools::Redactor;
use forge_tools::audit::{AuditLog, LogOptions, LogSeal};
use rustix::fs::OFlags;
use rustix::io::Errno;
use sandbox_config::{Grant, Project};
use serde::{Deserialize, Serialize};

use crate::ambient::Ambient;
use crate::bounded::read_bytes;
use crate::exit::CliError;
use crate::output::escape::escape;

/// The file with the result of a run.
const END: &str = "run.json";
/// The directory behind `run:workspace` in a project file.
const WORKSPACE: &str = "workspace";

/// Keeps the transcript of a run.
pub(crate) type TranscriptFileWriter = TranscriptWriter<File>;

/// One run's directory.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
}

/// The file with the description of a run, written at its beginning.
pub(crate) const ABOUT: &str = "about.json";

const MAX_COMMAND_CHARS: usize = 500;

/// The content of [`ABOUT`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunDescription {
    /// The directory of its project.
    #[serde(with = "path_as_json")]
    pub(crate) project: PathBuf,
    /// The command line, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// `true` for an act of a person outside of a run, such as a push.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_act: bool,
}

/// A path as JSON: text, or hexadecimal digits if it is not UTF-8, as in reviews, which are of Linux only.
mod path_as_json {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::{Path, PathBuf};

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum PathText {
        Text(String),
        Bytes { hex: String },
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        let text = match path.to_str() {
            Some(text) => PathText::Text(text.to_owned()),
            None => PathText::Bytes {
                hex: sandbox_names::hex(path.as_os_str().as_bytes()),
            },
        };
        text.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let bytes = match PathText::deserialize(from)? {
            PathText::Text(text) => return Ok(text.into()),
            PathText::Bytes { hex } => sandbox_names::unhex(&hex),
        };
        let bytes = bytes.ok_or_else(|| D::Error::custom("invalid hexadecimal digits"))?;
        Ok(OsString::from_vec(bytes).into())
    }
}

impl RunDir {
    /// Creates the directory of a new run of `worker` in the project's directory of runs. `command`
    /// is the command line without secrets, for a list of runs.
    pub(crate) fn create(
        project: &Project,
        ambient: &Ambient,
        worker: &str,
        command: Option<&str>,
    ) -> Result<Self, CliError> {
        let base = match (project.runs_dir(), &ambient.state) {
            (Some(dir), _) => dir.to_path_buf(),
            (None, Some(state)) => state.join("runs"),
            (None, None) => {
                return Err(CliError::no_home());
            }
        };
        let about = RunDescription {
            project: project.dir().to_path_buf(),
            command: command.map(str::to_owned),
            is_act: false,
        };
        RunDir::described(&base, worker, about)
    }

    /// Creates the directory of a run in `base`, with its description.
    pub(crate) fn described(
        base: &Path,
        worker: &str,
        mut about: RunDescription,
    ) -> Result<Self, CliError> {
        let made = RunDir::under(base, worker)?;
        about.command = about
            .command
            .map(|text| text.chars().take(MAX_COMMAND_CHARS).collect());
        let text = serde_json::to_string(&about);
        let text = text.map_err(|error| not_kept(&made.path, &error.into()))?;
        made.keep(ABOUT, &text)?;
        Ok(made)
    }

    /// Creates the directory in a place on which no project has influence.
    pub(crate) fn under(base: &Path, worker: &str) -> Result<Self, CliError> {
        check_runs_dir(base).map_err(|error| not_kept(base, &error))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(base)
            .map_err(|error| not_kept(base, &error))?;
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.unwrap_or_default();
            // RandomState is seeded by the system; enough to keep two runs apart.
            let random = std::hash::RandomState::new().build_hasher().finish();
            // Of the same length in every run, so that names in one second sort as they began.
            let id = format!("{:08x}{:08x}", now.subsec_nanos(), random >> 32);
            let path = base.join(format!("{worker}_{}-{id}", now.as_secs()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(RunDir { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(not_kept(&path, &error)),
            }
        }
    }

    /// The directory of a run that goes on.
    pub(crate) fn at(path: &Path) -> Self {
        RunDir {
            path: path.to_path_buf(),
        }
    }

    /// The name of the run.
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// `grant` in this run: where it shows the run's own directory, that is made and named.
    pub(crate) fn mount_in_run(&self, grant: Grant) -> Result<Grant, CliError> {
        if !grant.awaits_run() {
            return Ok(grant);
        }
        let made = self.workspace();
        let workspace = made.map_err(|error| not_kept(&self.path.join(WORKSPACE), &error))?;
        Ok(grant.in_run(&workspace))
    }

    /// Creates it, unless a resumed run has it already. A link is not followed.
    fn workspace(&self) -> std::io::Result<PathBuf> {
        let path = self.path.canonicalize()?.join(WORKSPACE);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if !path.symlink_metadata()?.is_dir() {
            return Err(std::io::Error::other("not a directory"));
        }
        Ok(path)
    }

    /// The audit log of the run. With `durable` a decision is on the disk before its call is made.
    pub(crate) fn audit(&self, durable: bool) -> Result<AuditLog, CliError> {
        let options = LogOptions {
            durable,
            ..LogOptions::default()
        };
        cap_std::fs::Dir::open_ambient_dir(&self.path, cap_std::ambient_authority())
            .and_then(|dir| AuditLog::open(dir, options))
            .map_err(|error| not_kept(&self.path, &error))
    }

    /// The transcript of the run.
    pub(crate) fn transcript(
        &self,
        redactor: Arc<Redactor>,
    ) -> Result<TranscriptFileWriter, CliError> {
        Ok(TranscriptWriter::new(
            self.open("transcript.jsonl")?,
            redactor,
        ))
    }

    /// Opens the transcript of a resumed run behind the part that was read. An incomplete line of a
    /// killed program is moved aside.
    pub(crate) fn resume_transcript(
        &self,
        read: &Transcript,
        redactor: Arc<Redactor>,
    ) -> Result<TranscriptFileWriter, CliError> {
        let path = self.path.join("transcript.jsonl");
        let goes_on = || {
            let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
            let mut file = OpenOptions::new()
                .read(true)
                .append(true)
                .custom_flags(flags)
                .open(&path)?;
            if file.metadata()?.len() != read.sound_bytes.saturating_add(read.torn_bytes) {
                return Err(std::io::Error::other("it was written to meanwhile"));
            }
            if read.torn_bytes > 0 {
                let mut torn = Vec::new();
                file.seek(SeekFrom::Start(read.sound_bytes))?;
                (&file).take(read.torn_bytes).read_to_end(&mut torn)?;
                torn.push(b'\n');
                let mut aside = OpenOptions::new()
                    .append(true)
                    .create(true)
                    .mode(0o600)
                    .custom_flags(flags)
                    .open(self.path.join("transcript.torn"))?;
                aside.write_all(&torn)?;
                file.set_len(read.sound_bytes)?;
            }
            Ok(file)
        };
        let file = goes_on().map_err(|error| not_kept(&path, &error))?;
        Ok(TranscriptWriter::new(file, redactor).behind(read))
    }

    /// Moves the end of a resumed run to `run.1.json` and so on, so that it does not count as the
    /// end of the whole.
    pub(crate) fn move_result_aside(&self) -> Result<(), CliError> {
        let end = self.path.join(END);
        let mut number = 1;
        while self.path.join(format!("run.{number}.json")).exists() {
            number += 1;
        }
        match std::fs::rename(&end, self.path.join(format!("run.{number}.json"))) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.map_err(|error| not_kept(&end, &error)),
        }
    }

    /// Writes the result of the run.
    pub(crate) fn finish(&self, facts: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(facts)
            .map_err(|error| CliError::state(error.to_string()))?;
        let mut file = self.open(END)?;
        writeln!(file, "{text}").map_err(|error| not_kept(&self.path.join(END), &error))
    }

    /// Stores copies of the attachments, so that a resumed run has them again. Secrets in a text
    /// are removed, as in the transcript.
    pub(crate) fn store_attachments(
        &self,
        files: &[Attachment],
        redactor: &Redactor,
    ) -> Result<Vec<Attachment>, CliError> {
        let mut kept = Vec::new();
        for (number, file) in (1_usize..).zip(files) {
            let copy = match std::str::from_utf8(file.bytes()) {
                Ok(text) => Attachment::new(file.name(), redactor.redact(text).as_bytes()),
                Err(_) => file.clone(),
            };
            let name = attached(number);
            self.open(&name)?
                .write_all(copy.bytes())
                .map_err(|error| not_kept(&self.path.join(&name), &error))?;
            kept.push(copy);
        }
        Ok(kept)
    }

    /// Reads them again, and compares each with the transcript.
    pub(crate) fn read_attachments(
        &self,
        files: &[AttachedFile],
    ) -> Result<Vec<Attachment>, CliError> {
        let mut found = Vec::new();
        for (number, file) in (1_usize..).zip(files) {
            let path = self.path.join(attached(number));
            let changed = |why: &str| {
                CliError::negative(
                    "run.transcript",
                    format!(
                        "the copy of the attached file {} cannot be used: {} {why}",
                        escape(&file.name),
                        path.display()
                    ),
                )
                .hint("begin a new run")
            };
            let bytes =
                read_bytes(&path, file.bytes).map_err(|error| changed(&error.to_string()))?;
            let copy = Attachment::new(&file.name, bytes);
            if AttachedFile::of(&copy) != *file {
                return Err(changed("was edited"));
            }
            found.push(copy);
        }
        Ok(found)
    }

    /// Writes a file that only the person reads, and says where it is.
    pub(crate) fn keep(&self, name: &str, text: &str) -> Result<PathBuf, CliError> {
        let path = self.path.join(name);
        self.open(name)?
            .write_all(text.as_bytes())
            .map_err(|error| not_kept(&path, &error))?;
        Ok(path)
    }

    fn open(&self, name: &str) -> Result<File, CliError> {
        let path = self.path.join(name);
        OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| not_kept(&path, &error))
    }
}

/// Refuses a directory of runs that is a link or world-writable: a writer there could have a
/// foreign run resumed.
fn check_runs_dir(dir: &Path) -> std::io::Result<()> {
    let found = match std::fs::symlink_metadata(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let why = if found.is_symlink() {
        "it is a link"
    } else if found.mode() & 0o002 != 0 && found.mode() & 0o1000 == 0 {
        "everybody can write in it"
    } else {
        return Ok(());
    };
    Err(std::io::Error::other(why))
}

/// The copy of a file that was attached.
fn attached(number: usize) -> String {
    format!("attached.{number}")
}

pub(crate) fn not_kept(path: &Path, error: &std::io::Error) -> CliError {
    let failure = CliError::state(format!(
        "cannot keep the run in {}: {error}",
        path.display()
    ));
    // A lack of processes or of descriptors is the same in every directory.
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM) => failure,
        _ => failure.hint(
            "set FORGE_STATE_DIR, or `runs_dir` if the project has one, to a directory that you \
             can write to",
        ),
    }
}

/// Ends a run's audit log, so that a cut shows.
pub(crate) fn seal(audit: &AuditLog, outcome: &str) -> Result<LogSeal, CliError> {
    audit
        .seal(outcome)
        .map_err(|error| CliError::state(format!("cannot end the audit log: {error}")))
}
