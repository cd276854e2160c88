//! Common parts of moving and copying: two places, and the answer about both.

use file_sandbox::{ErrorKind, MoveOptions, MoveOutcome, SandboxPath};

use super::prelude::*;
use crate::change::{Artifact, FileChange, ReviewedState};

/// The advice about an existing file.
const THERE: &str = "Pass overwrite to replace it, or take another name.";

/// The arguments of both tools.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Relocation {
    from: String,
    to: String,
    #[serde(default)]
    overwrite: bool,
}

/// A tool that takes `from`, `to` and `overwrite`.
pub(super) fn spec(name: &str, description: &str) -> Spec {
    Spec::changes(name, description)
        .not_idempotent()
        .params([
            Param::text("from", super::PATH).alias("source").required(),
            Param::text("to", "The new path, with its name.")
                .alias("destination")
                .required(),
            Param::flag("overwrite", "Replace a file that is there already."),
        ])
        .output([
            Field::flag("success"),
            Field::text("from"),
            Field::text("to"),
            Field::flag("replaced"),
        ])
}

impl Relocation {
    /// Both places, for the intents of a call.
    pub(super) fn places(
        &self,
        view: &ReadOnlyContext<'_>,
    ) -> Result<(SandboxPath, SandboxPath), CallFailure> {
        let from = view.path(&self.from)?;
        let to = view.path(&self.to)?;
        Ok((from, to))
    }

    /// Whether it could be done at all.
    pub(super) fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        let (from, to) = self.places(view)?;
        view.check_there(&from)?;
        match self.overwrite {
            true => Ok(()),
            false => view.check_free(&to),
        }
    }

    /// The moved or copied content, and the loss of a replaced file.
    pub(super) fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        match self.places(view) {
            Ok((from, to)) => {
                let replaced = self
                    .overwrite
                    .then(|| view.replacement(&from, &to))
                    .flatten();
                let change = replaced.or_else(|| view.relocation(&from, &to));
                change.into_iter().collect()
            }
            Err(_) => Vec::new(),
        }
    }

    /// Does it with `work`, and says so with `verb`. The place it came from is given back as well.
    pub(super) fn run(
        &self,
        context: &ToolContext,
        verb: &str,
        work: impl FnOnce(
            &file_sandbox::FileSandbox,
            &SandboxPath,
            &SandboxPath,
            MoveOptions,
        ) -> Result<MoveOutcome, file_sandbox::Error>,
    ) -> Result<(Reply, SandboxPath), CallFailure> {
        let files = context.files()?;
        let from = context.path(&self.from)?;
        let to = context.path(&self.to)?;
        context.check_seen(&from)?;
        context.check_seen(&to)?;
        let mut options = MoveOptions::new().overwrite(self.overwrite);
        // Once more under the lock.
        if let Some(ReviewedState::Bytes(hash)) = context.seen(&from) {
            options = options.if_match(hash);
        }
        if let Some(ReviewedState::Bytes(hash)) = context.seen(&to) {
            options = options.if_target_match(hash);
        }
        let moved = work(files, &from, &to, options)
            .map_err(|error| super::with_hint(error, ErrorKind::Exists, THERE))?;
        let bytes = context
            .whole()?
            .stat(&moved.path)
            .map_or(0, |stat| stat.size);
        let replaced = if moved.replaced {
            ", in place of the file that was there"
        } else {
            ""
        };
        let text = format!(
            "{verb} {} to {}{replaced}",
            crate::escape_controls(from.asked()),
            crate::escape_controls(to.asked())
        );
        let reply = Reply::text(text)
            .structured(json!({
                "success": true,
                "from": from.as_str(),
                "to": shown_place(files, &to, &moved.path).as_str(),
                "replaced": moved.replaced,
            }))
            .artifact(Artifact::written(
                moved.path.as_str(),
                !moved.replaced,
                bytes,
                None,
            ));
        Ok((reply, from))
    }
}

/// Where it went, with its links resolved; as it was asked for where names may not be told.
fn shown_place<'p>(
    files: &file_sandbox::FileSandbox,
    asked: &'p SandboxPath,
    real: &'p SandboxPath,
) -> &'p SandboxPath {
    let closed = files.mounts().iter().any(|mount| mount.is_closed());
    match closed && files.resolve(real).is_err() {
        true => asked,
        false => real,
    }
}
