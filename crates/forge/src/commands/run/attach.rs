//! Files of the command line that a model gets: `-A`, `-f` and `--json-schema`. Attachments are handled
//! like those of called workers.
//!
//! The caller is the person at the command line, who may hand over every file that they can read.
//! But a file in a directory of the worker is read through its sandbox: the worker may have put a
//! hidden file or a link there for this very moment.

use std::path::{Path, PathBuf};

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath, cap_std};
use forge_runtime::{Attachment, Conversation};
use forge_tools::Redactor;
use sandbox_config::Grant;

use crate::bounded::read_bytes;
use crate::exit::CliError;
use crate::output::escape::{escape, escape_path};
use crate::setup::target::RunTarget;

/// Reads the attachments.
pub(super) fn read(
    files: &[PathBuf],
    chosen: &RunTarget,
    sandbox: &mut NamedFiles<'_>,
) -> Result<Vec<Attachment>, CliError> {
    let policy = chosen.worker.attachment_policy();
    let mut attached: Vec<Attachment> = Vec::new();
    let mut left = policy.max_total_bytes();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let named = attached.iter().map(|one| (one.name(), bytes(one)));
        // Before anything of it is read, and then with its size.
        let so_far = named.clone().chain([(&*name, 0)]);
        policy.check(so_far).map_err(refused)?;
        let content = sandbox.read(file, left).map_err(|failure| match failure {
            ReadFailure::TooLarge => refused(format!(
                "{} is larger than the {left} bytes that are left for attachments",
                escape_path(file)
            )),
            other => other.into_error(file, "run.input"),
        })?;
        attached.push(Attachment::new(&name, content));
        left = left.saturating_sub(attached.last().map_or(0, bytes));
    }
    Ok(attached)
}

/// The conversation that begins with `input` and these files.
pub(super) fn conversation(
    chosen: &RunTarget,
    input: &str,
    attached: &[Attachment],
    redactor: &Redactor,
) -> Result<Conversation, CliError> {
    let RunTarget { worker, grant, .. } = chosen;
    Conversation::attaching(worker, grant, redactor, input, attached).map_err(refused)
}

pub(super) fn refused(why: String) -> CliError {
    CliError::misuse("run.attachment", why)
        .hint("`attachment_policy` of the worker says what may be attached")
}

fn bytes(file: &Attachment) -> u64 {
    u64::try_from(file.bytes().len()).unwrap_or(u64::MAX)
}

/// The readable files of the entry worker, opened on first use.
pub(super) struct NamedFiles<'a> {
    grant: &'a Grant,
    opened: Option<FileSandbox>,
}

/// Why a file is not handed over.
pub(super) enum ReadFailure {
    /// It cannot be read.
    Unreadable(String),
    TooLarge,
    /// The worker itself could not read it.
    Denied(String),
}

impl ReadFailure {
    /// Returns the error of a file that the command line names. `code` is that of a file which cannot
    /// be read.
    pub(super) fn into_error(self, file: &Path, code: &'static str) -> CliError {
        let shown = escape_path(file);
        match self {
            ReadFailure::Unreadable(why) => {
                CliError::misuse(code, format!("cannot read {shown}: {why}"))
            }
            ReadFailure::TooLarge => CliError::misuse(code, format!("{shown} is too large")),
            ReadFailure::Denied(why) => {
                CliError::misuse("run.attachment", format!("cannot hand over {shown}: {why}")).hint(
                    "it lies in a directory of the worker's, and what the worker may not read is not taken from there",
                )
            }
        }
    }
}

impl<'a> NamedFiles<'a> {
    pub(super) fn of(grant: &'a Grant) -> Self {
        NamedFiles {
            grant,
            opened: None,
        }
    }

    /// Reads a text of at most `max_bytes`.
    pub(super) fn read_text(
        &mut self,
        file: &Path,
        max_bytes: u64,
        code: &'static str,
    ) -> Result<String, CliError> {
        let bytes = self.read(file, max_bytes).map_err(|failure| match failure {
            ReadFailure::TooLarge => {
                ReadFailure::Unreadable(format!("it is larger than {max_bytes} bytes"))
            }
            other => other,
        });
        let bytes = bytes.map_err(|failure| failure.into_error(file, code))?;
        String::from_utf8(bytes).map_err(|_| {
            let why = "stream did not contain valid UTF-8".to_owned();
            ReadFailure::Unreadable(why).into_error(file, code)
        })
    }

    fn read(&mut self, file: &Path, left: u64) -> Result<Vec<u8>, ReadFailure> {
        let cannot = |why: &dyn std::fmt::Display| ReadFailure::Unreadable(why.to_string());
        let facts = std::fs::metadata(file).map_err(|error| cannot(&error))?;
        if !facts.is_file() {
            return Err(cannot(&"not a regular file"));
        }
        if facts.len() > left {
            return Err(ReadFailure::TooLarge);
        }
        let Some(inside) = path_in_sandbox(self.grant, file) else {
            return read_bytes(file, left).map_err(|error| match error.kind() {
                std::io::ErrorKind::FileTooLarge => ReadFailure::TooLarge,
                _ => cannot(&error),
            });
        };
        let denied = |why: &dyn std::fmt::Display| ReadFailure::Denied(escape(&why.to_string()));
        if self.opened.is_none() {
            let opened = self.grant.files_of(&open_mount, None);
            self.opened = opened.map_err(|error| denied(&error.for_person()))?;
        }
        let files = self.opened.as_ref();
        let files = files.ok_or_else(|| denied(&"the worker has no files"))?;
        let path = files.path(&inside).map_err(|error| denied(&error))?;
        files
            .read_bytes(&path, left)
            .map_err(|error| denied(&error))
    }
}

/// A directory of the host as it is now, to look into: nothing is made, and one that is not there
/// (a run's own, before the run) is empty.
fn open_mount(host: &Path) -> Result<Mount, file_sandbox::Error> {
    let (root, mode) = (SandboxPath::root(), Mode::ReadOnly);
    let there = host.is_dir() && host.canonicalize().is_ok_and(|real| real == host);
    match there {
        true => Mount::open_ambient(root, host, mode, cap_std::ambient_authority()),
        false => Ok(Mount::memory(root, mode)),
    }
}

/// Returns the path of a file in the sandbox, if it has one: by its name with the links on the way
/// resolved but not the last one, and by its real path.
fn path_in_sandbox(grant: &Grant, file: &Path) -> Option<String> {
    let parent = match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    };
    let named = parent.canonicalize().ok()?.join(file.file_name()?);
    let real = file.canonicalize().ok();
    [Some(named), real].into_iter().flatten().find_map(|at| {
        let mounts = grant.mounts().filter(|mount| mount.usable());
        let (mount, below) = mounts
            .filter_map(|mount| Some((mount, at.strip_prefix(mount.host()).ok()?)))
            .max_by_key(|(mount, _)| mount.host().as_os_str().len())?;
        let below = below.to_str()?;
        Some(format!("{}/{below}", mount.target().trim_end_matches('/')))
    })
}
