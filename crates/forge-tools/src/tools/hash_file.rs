//! `hash_file`: the SHA-256 of a file, for `if_match`.

use serde_json::json;

use crate::call::{CallFailure, Reply};
use crate::gate::Intent;
use crate::output::Field;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// Hashes a file.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert!(tools::hash_file().spec().annotations.idempotent);
/// ```
#[derive(Debug)]
pub struct HashFile(Spec);

/// The `hash_file` tool.
pub fn hash_file() -> HashFile {
    HashFile(
        Spec::looks(
            "hash_file",
            "SHA-256 of a file's bytes. As `if_match` of a later write it makes sure that nobody changed the file meanwhile.",
        )
        .aliases(&["hashFile"])
        .params([Param::text("path", super::PATH).required()])
        .output([Field::text("path"), Field::text("sha256")]),
    )
}

impl Tool for HashFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        Ok(vec![Intent::Read(path)])
    }

    fn check(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        view.check_there(&view.path(args.text("path").unwrap_or_default())?)
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        blocking(move || {
            let path = context.path(args.text("path").unwrap_or_default())?;
            let hash = context.files()?.hash(&path)?.to_string();
            let shown = crate::escape_controls(path.asked());
            Ok(Reply::text(format!("{hash}  {shown}"))
                .structured(json!({ "path": path.as_str(), "sha256": hash })))
        })
    }
}
