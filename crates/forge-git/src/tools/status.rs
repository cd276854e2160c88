//! `git_status`: the pulled files that have changed.

use std::sync::Arc;

use forge_tools::{
    CallFailure, Field, Intent, Invocation, OutputSchema, ReadOnlyContext, Reply, ReplyFuture,
    Spec, Tool, ToolContext,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{GitCall, GitToolContext, git_tool};
use crate::status::{Status, StatusFile};

/// The arguments of `git_status`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusArgs {}

/// The `git_status` tool.
pub(super) fn git_status(git_context: &GitToolContext) -> Box<dyn Tool> {
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
    git_tool::<StatusArgs>(spec, git_context)
}

impl Invocation for GitCall<StatusArgs> {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        view.mounts().map(|_| Vec::new())
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        Box::pin(async move {
            let git_context = &self.context;
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
            Ok(reply(git_context, &status))
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
