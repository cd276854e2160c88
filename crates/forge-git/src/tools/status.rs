//! `git_status`: the pulled files that have changed.

use forge_tools::{
    Arguments, BoxFuture, CallFailure, Field, Intent, OutputSchema, ReadOnlyContext, Reply, Spec,
    Tool, ToolContext,
};
use serde_json::{Value, json};

use super::GitToolContext;
use crate::status::{Status, StatusFile};

/// Compares files with their pulled state.
pub(super) struct GitStatus(Spec, GitToolContext);

/// The `git_status` tool.
pub(super) fn git_status(git_context: GitToolContext) -> GitStatus {
    let spec = Spec::looks(
        "git_status",
        "List pulled files that were modified or deleted since.",
    )
    .aliases(&["gitStatus"])
    .output([Field::objects(
        "files",
        OutputSchema::new([
            Field::text("path"),
            Field::text("status"),
            Field::flag("staged"),
        ]),
    )]);
    GitStatus(spec, git_context)
}

impl Tool for GitStatus {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        _: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        view.mounts().map(|_| Vec::new())
    }

    fn run<'a>(
        &'a self,
        _: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        let git_context = self.1.clone();
        Box::pin(async move {
            let files = context.files()?.clone();
            let status = git_context
                .git
                .status(&files, &git_context.granted.repositories())
                .await;
            let mut status = status.map_err(|error| git_context.granted.failure(error))?;
            for file in &mut status.files {
                if !git_context.granted.takes_files(&file.repo) {
                    file.staged = None;
                }
            }
            Ok(reply(&git_context, &status))
        })
    }
}

fn reply(git_context: &GitToolContext, status: &Status) -> Reply {
    let line = |file: &StatusFile| {
        let staged = match &file.staged {
            Some(id) => format!(", staged as {id}"),
            None => String::new(),
        };
        format!(
            "{} {} (branch {} of {}{staged})\n",
            file.state.as_str(),
            file.path.as_str(),
            file.branch,
            git_context.granted.name(&file.repo),
        )
    };
    let mut text: String = status.files.iter().map(line).collect();
    if status.more > 0 {
        text.push_str(&format!("And {} more.\n", status.more));
    }
    if text.is_empty() {
        text = match status.pulled {
            0 => "No files were pulled.".to_owned(),
            1 => "The pulled file is as it was pulled.".to_owned(),
            pulled => format!("All {pulled} pulled files are as they were pulled."),
        };
    }
    let each = |file: &StatusFile| {
        json!({
            "path": file.path.as_str(),
            "status": file.state.as_str(),
            "staged": file.staged.is_some(),
        })
    };
    let files: Vec<Value> = status.files.iter().map(each).collect();
    Reply::text(text.trim_end()).structured(json!({ "files": files }))
}
