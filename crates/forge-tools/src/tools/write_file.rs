//! `write_file`: creates or replaces one text file.

use file_sandbox::WriteOptions;
use serde_json::json;

use crate::call::{Failure, Reply};
use crate::gate::Intent;
use crate::hands::{Hands, View};
use crate::params::{Arguments, Param, Params};
use crate::spec::{Annotations, PreferredRunner, Risk, Spec};
use crate::tool::{BoxFuture, Tool, blocking};

/// Writes a text file.
///
/// ```
/// use forge_tools::{Risk, Tool, tools};
/// assert_eq!(tools::write_file().spec().risk, Risk::WritesWorkspace);
/// ```
#[derive(Debug)]
pub struct WriteFile(Spec);

/// The `write_file` tool.
pub fn write_file() -> WriteFile {
    WriteFile(Spec {
        name: "write_file".to_owned(),
        aliases: &["writeFile"],
        description: "Write a text file: creates it, or replaces what is there. Missing \
                      parent directories are made."
            .to_owned(),
        params: Params::new([
            Param::text("path", super::PATH).required(),
            Param::text("content", "The whole new text of the file.").required(),
        ]),
        risk: Risk::WritesWorkspace,
        preferred_runner: PreferredRunner::Local,
        needs_network: false,
        requires_permission: false,
        annotations: Annotations::OVERWRITE,
    })
}

impl Tool for WriteFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn decide(&self, args: &Arguments, view: &View<'_>) -> Result<Vec<Intent>, Failure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        let bytes = args.text("content").unwrap_or_default().len();
        view.check_write_size(&path, u64::try_from(bytes).unwrap_or(u64::MAX))?;
        Ok(vec![Intent::Write(path)])
    }

    fn run<'a>(&'a self, args: Arguments, hands: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        blocking(move || {
            let files = hands.files()?;
            let path = files.path(args.text("path").unwrap_or_default())?;
            let content = args.text("content").unwrap_or_default();
            files.write(&path, content, WriteOptions::default())?;
            let chars = content.chars().count();
            let shown = crate::escape_controls(path.asked());
            Ok(
                Reply::text(format!("Written {chars} characters to {shown}")).structured(json!({
                    "success": true,
                    "path": path.as_str(),
                    "chars": chars,
                    "bytes": content.len(),
                })),
            )
        })
    }
}
