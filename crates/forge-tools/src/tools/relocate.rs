//! `move_file` and `copy_file`: two places, and the answer about both.

use file_sandbox::{ErrorKind, MoveOptions, SandboxPath};

use super::prelude::*;
use crate::change::{Artifact, FileChange, ReviewedState};
use crate::params::Arguments;

/// The advice about an existing file.
const THERE: &str = "Pass overwrite to replace it, or take another name.";

arguments! {
    /// The arguments of both tools.
    struct Relocation {
        from: String = super::PATH, alias("source");
        to: String = "The new path, with its name.", alias("destination");
        overwrite: bool = "Replace a file that is there already.";
    }
}

/// `move_file` or `copy_file`.
struct RelocationTool {
    spec: Spec,
    moves: bool,
}

/// The `move_file` tool: moves or renames.
pub(super) fn move_file() -> Box<dyn Tool> {
    let aliases = &["moveFile", "rename_file", "renameFile"];
    let spec = Spec::changes("move_file", "Move or rename a file or directory.").aliases(aliases);
    tool(spec, true)
}

/// The `copy_file` tool: copies one file.
pub(super) fn copy_file() -> Box<dyn Tool> {
    let spec = Spec::changes("copy_file", "Copy a file.").aliases(&["copyFile"]);
    tool(spec, false)
}

fn tool(spec: Spec, moves: bool) -> Box<dyn Tool> {
    let spec = spec.not_idempotent().arguments::<Relocation>().output([
        Field::flag("success"),
        Field::text("from"),
        Field::text("to"),
        Field::flag("replaced"),
    ]);
    Box::new(RelocationTool { spec, moves })
}

impl Tool for RelocationTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, args: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure> {
        Ok(Arc::new(RelocationCall {
            args: args.read()?,
            moves: self.moves,
        }))
    }
}

struct RelocationCall {
    args: Relocation,
    moves: bool,
}

impl RelocationCall {
    fn places(
        &self,
        view: &ReadOnlyContext<'_>,
    ) -> Result<(SandboxPath, SandboxPath), CallFailure> {
        Ok((view.path(&self.args.from)?, view.path(&self.args.to)?))
    }

    fn reply(&self, context: &ToolContext) -> Result<Reply, CallFailure> {
        let files = context.files()?;
        let from = context.path(&self.args.from)?;
        let to = context.path(&self.args.to)?;
        context.check_seen(&from)?;
        context.check_seen(&to)?;
        let mut options = MoveOptions::new().overwrite(self.args.overwrite);
        // Once more under the lock.
        if let Some(ReviewedState::Bytes(hash)) = context.seen(&from) {
            options = options.if_match(hash);
        }
        if let Some(ReviewedState::Bytes(hash)) = context.seen(&to) {
            options = options.if_target_match(hash);
        }
        let moved = match self.moves {
            true => files.rename(&from, &to, options),
            false => files.copy(&from, &to, options),
        };
        let moved = moved.map_err(|error| super::with_hint(error, ErrorKind::Exists, THERE))?;
        let stat = context.whole()?.stat(&moved.path);
        let bytes = stat.map_or(0, |stat| stat.size);
        let text = format!(
            "{} {} to {}{}",
            if self.moves { "Moved" } else { "Copied" },
            crate::escape_controls(from.asked()),
            crate::escape_controls(to.asked()),
            match moved.replaced {
                true => ", in place of the file that was there",
                false => "",
            }
        );
        let (path, is_new) = (moved.path.as_str(), !moved.replaced);
        let mut reply = Reply::text(text).structured(json!({
            "success": true,
            "from": from.as_str(),
            "to": shown_place(files, &to, &moved.path).as_str(),
            "replaced": moved.replaced,
        }));
        if self.moves {
            reply = reply.artifact(Artifact::deleted(from.as_str()));
        }
        Ok(reply.artifact(Artifact::written(path, is_new, bytes, None)))
    }
}

impl Invocation for RelocationCall {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let (from, to) = self.places(view)?;
        Ok(match self.moves {
            true => vec![
                Intent::Read(from.clone()),
                Intent::Delete(from),
                Intent::Write(to),
            ],
            false => vec![Intent::Read(from), Intent::Write(to)],
        })
    }

    fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        let (from, to) = self.places(view)?;
        view.check_there(&from)?;
        if !self.args.overwrite {
            view.check_free(&to)?;
        }
        match self.moves {
            true => Ok(()),
            false => view.check_file_size(&to, view.file_size(&from).unwrap_or(0)),
        }
    }

    /// The moved or copied content, and the loss of a replaced file.
    fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        let Ok((from, to)) = self.places(view) else {
            return Vec::new();
        };
        let replaced = match self.args.overwrite {
            true => view.replacement(&from, &to),
            false => None,
        };
        let change = replaced.or_else(|| view.relocation(&from, &to));
        change.into_iter().collect()
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || self.reply(&context))
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
