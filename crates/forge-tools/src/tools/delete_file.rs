//! `delete_file`: removes one file, link or empty directory.

use serde_json::json;

use crate::call::{Failure, Reply};
use crate::change::Artifact;
use crate::gate::Intent;
use crate::hands::{Hands, View};
use crate::output::{Field, Output};
use crate::params::{Arguments, Param, Params};
use crate::spec::{Annotations, PreferredRunner, Risk, Spec};
use crate::tool::{BoxFuture, Tool, blocking};

/// Deletes a file.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert!(tools::delete_file().spec().annotations.destructive);
/// ```
#[derive(Debug)]
pub struct DeleteFile(Spec);

/// The `delete_file` tool.
pub fn delete_file() -> DeleteFile {
    DeleteFile(Spec {
        name: "delete_file".to_owned(),
        aliases: &["deleteFile"],
        description: "Delete a file or an empty directory. Of a link, the link goes and \
                      what it points to stays."
            .to_owned(),
        params: Params::new([Param::text("path", super::PATH).required()]),
        output: Some(Output::new([Field::flag("success"), Field::text("path")])),
        risk: Risk::WritesWorkspace,
        preferred_runner: PreferredRunner::Local,
        needs_network: false,
        requires_permission: false,
        annotations: Annotations::OVERWRITE,
    })
}

impl Tool for DeleteFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn decide(&self, args: &Arguments, view: &View<'_>) -> Result<Vec<Intent>, Failure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        Ok(vec![Intent::Delete(path)])
    }

    fn run<'a>(&'a self, args: Arguments, hands: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        blocking(move || {
            let files = hands.files()?;
            let path = files.path(args.text("path").unwrap_or_default())?;
            files.delete(&path)?;
            let shown = crate::escape_controls(path.asked());
            Ok(Reply::text(format!("Deleted {shown}"))
                .structured(json!({ "success": true, "path": path.as_str() }))
                .artifact(Artifact::deleted(path.as_str())))
        })
    }
}
