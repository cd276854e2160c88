//! Attachments of a worker: copies of files, taken when it is called. Later changes of the files do
//! not affect it.
//!
//! A worker that reads files finds them in a read-only mount, which is in memory and ends with it.
//! A worker without files gets them as text in its input, if they are text and not too long.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use file_sandbox::{Mode, Mount, SandboxPath};
use forge_tools::{Redactor, escape_controls};
use sandbox_config::{Grant, Worker};

/// Most bytes of attachments that become part of an input.
const MAX_INPUT_BYTES: usize = 256 * 1024;

/// A file handed to a worker beside its input.
///
/// ```
/// let attachment = forge_runtime::Attachment::new("notes.md", b"# Notes".as_slice());
/// assert_eq!(attachment.name(), "notes.md");
/// assert_eq!(attachment.bytes(), b"# Notes");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    name: String,
    bytes: Arc<[u8]>,
}

impl Attachment {
    /// A copy of a file; of a path, the last part is its name.
    pub fn new(name: &str, bytes: impl Into<Arc<[u8]>>) -> Attachment {
        let name = name.rsplit('/').next().unwrap_or_default();
        let name = match name {
            "" | "." | ".." => "attachment",
            name => name,
        };
        Attachment {
            name: name.to_owned(),
            bytes: bytes.into(),
        }
    }

    sandbox_names::getters! {
        /// Its name, without a directory.
        pub name: &str = &name;
        /// Returns its content.
        pub bytes: &[u8] = &bytes;
    }
}

/// The input of a worker with its attachments.
pub(super) struct AttachedInput {
    /// Its input, with a list of the attachments.
    pub(super) input: String,
    /// The mount with them, if it reads files.
    pub(super) place: Option<Mount>,
}

/// Returns `true` if `worker` can read attachments as files.
fn reads(grant: &Grant) -> bool {
    grant.mounts().any(|mount| mount.usable()) && grant.allows_tool("read_file")
}

/// Returns the mount with the attachments, and their names.
fn place(grant: &Grant, attachments: &[Attachment]) -> Result<(Mount, Vec<String>), String> {
    let at = free_target(grant);
    let target = SandboxPath::parse(&at).map_err(|error| error.to_string())?;
    let mut place = Mount::memory(target, Mode::ReadOnly);
    let mut taken = HashSet::new();
    let mut names = Vec::new();
    for file in attachments {
        let name = free_name(&file.name, &mut taken);
        let below = SandboxPath::parse(&name).map_err(|error| error.to_string())?;
        place = place
            .with_file(&below, &file.bytes)
            .map_err(|error| error.to_string())?;
        names.push(format!("{at}/{name}"));
    }
    Ok((place, names))
}

/// Returns the mount of the attachments of a resumed conversation, if `worker` has files.
pub(super) fn again(grant: &Grant, attachments: &[Attachment]) -> Result<Option<Mount>, String> {
    match attachments.is_empty() || !reads(grant) {
        true => Ok(None),
        false => place(grant, attachments).map(|(place, _)| Some(place)),
    }
}

/// Puts attachments where `worker` can use them.
///
/// # Errors
///
/// In words for the attaching side: the worker's policy does not allow them, or it has no files and
/// cannot be given them as text.
pub(super) fn give(
    worker: &Worker,
    grant: &Grant,
    redactor: &Redactor,
    mut input: String,
    attachments: &[Attachment],
) -> Result<AttachedInput, String> {
    if attachments.is_empty() {
        return Ok(AttachedInput { input, place: None });
    }
    let files = attachments.iter().map(|file| {
        let bytes = u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
        (file.name(), bytes)
    });
    worker.attachment_policy().check(files)?;
    let mut said = String::new();
    let place = if reads(grant) {
        let (place, names) = place(grant, attachments)?;
        said.push_str("\n\nAttached, as copies that can be read:\n");
        for (file, name) in attachments.iter().zip(names) {
            let (name, bytes) = (escape_controls(&name), file.bytes.len());
            let _infallible = writeln!(said, "- {name} ({bytes} bytes)");
        }
        Some(place)
    } else {
        as_text(&mut said, worker, redactor, attachments)?;
        None
    };
    let said = match input.is_empty() {
        true => said.trim_start(),
        false => &said,
    };
    input.push_str(said);
    Ok(AttachedInput { input, place })
}

/// A name at the root that no directory of the grant has.
fn free_target(grant: &Grant) -> String {
    let taken = |at: &str| grant.mounts().any(|mount| mount.target() == at);
    let numbered = (2u64..).map(|number| format!("/attached-{number}"));
    std::iter::once("/attached".to_owned())
        .chain(numbered)
        .find(|at| !taken(at))
        .unwrap_or_default()
}

fn free_name(name: &str, taken: &mut HashSet<String>) -> String {
    let (stem, suffix) = match name.rfind('.') {
        Some(dot) if dot > 0 => name.split_at(dot),
        Some(_) | None => (name, ""),
    };
    let mut free = name.to_owned();
    let mut number = 1u64;
    while !taken.insert(free.clone()) {
        number += 1;
        free = format!("{stem}-{number}{suffix}");
    }
    free
}

/// Appends the attachments to the input, redacted.
fn as_text(
    input: &mut String,
    worker: &Worker,
    redactor: &Redactor,
    attachments: &[Attachment],
) -> Result<(), String> {
    let all: usize = attachments.iter().map(|file| file.bytes.len()).sum();
    if all > MAX_INPUT_BYTES {
        return Err(format!(
            "worker '{}' has no files, so attachments become part of its input, and {all} bytes \
             are more than the {MAX_INPUT_BYTES} that fit",
            worker.name()
        ));
    }
    for file in attachments {
        let name = escape_controls(&file.name);
        let Ok(text) = std::str::from_utf8(&file.bytes) else {
            return Err(format!(
                "'{name}' is not text, and worker '{}' has no files: only text can be attached \
                 to its input",
                worker.name()
            ));
        };
        let text = redactor.redact(text);
        let fence = fence(&text);
        let _infallible = write!(
            input,
            "\n\nAttached: {name} ({} bytes)\n{fence}\n{}\n{fence}\n",
            file.bytes.len(),
            text.trim_end_matches('\n'),
        );
    }
    Ok(())
}

/// A fence that no line of the text can close.
fn fence(text: &str) -> String {
    let (mut longest, mut run) = (0, 0);
    for letter in text.chars() {
        run = if letter == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_one_name_and_no_text_leaves_its_fence() {
        let mut taken = HashSet::new();
        let names: Vec<String> = ["a.md", "a.md", "a-2.md", ".env", ".env", "x"]
            .iter()
            .map(|name| free_name(name, &mut taken))
            .collect();
        assert_eq!(names, ["a.md", "a-2.md", "a-2-2.md", ".env", ".env-2", "x"]);
        assert_eq!(fence("x"), "```");
        assert_eq!(fence("````\nx"), "`````");
        assert_eq!(Attachment::new("/data/../..", []).name(), "attachment");
        assert_eq!(Attachment::new("/data/b.md", []).name(), "b.md");
    }
}
