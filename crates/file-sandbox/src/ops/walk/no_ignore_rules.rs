//! Replacement for `ignored` without the feature `search`: no walk asks for ignore rules.

use std::ffi::OsString;
use std::sync::Arc;

use crate::backend::Handle;

pub(crate) const FILE: &str = ".gitignore";

/// The rules of a directory. Without the feature no directory has any.
#[derive(Debug)]
pub(crate) enum IgnoreRules {}

impl IgnoreRules {
    pub(crate) async fn read(
        _dir: &Handle<'_>,
        _names: &[OsString],
        _above: Option<Arc<IgnoreRules>>,
    ) -> Result<Self, &'static str> {
        Err("the ignore rules cannot be read")
    }
}

pub(crate) fn relative_path(_names: &[OsString]) -> String {
    String::new()
}

pub(crate) fn ignores(
    _rules: Option<&IgnoreRules>,
    _way: &mut String,
    _name: &str,
    _is_dir: bool,
) -> bool {
    false
}
