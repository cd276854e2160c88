//! `attachment_policy`: attachments that a worker accepts beside its input. The policy belongs to
//! the receiving worker; the sender's grant decides if the sender may read an attachment.

use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{self, Reports};
use crate::syntax::key_table::shape::{SUFFIX, ValueShape};
use crate::syntax::section::{Amount, BuiltIn, KeyKind, section};
use crate::syntax::yaml::YamlNode;

section! {
    /// Limits on attachments to a worker's input.
    ///
    /// ```
    /// use sandbox_config::AttachmentPolicy;
    /// let policy = AttachmentPolicy::default();
    /// assert!(policy.check([("a.pdf", 1_000), ("b.pdf", 1_000)]).is_ok());
    /// let refused = policy.check([("big.pdf", 10_000_001)]).unwrap_err();
    /// assert_eq!(refused, "10000001 bytes are attached; at most 10000000 may be");
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AttachmentPolicy, ATTACHMENTS = "attachment_policy", "`attachment_policy` has";
    keys {
        /// Largest number of attached files.
        max_attachments: Amount = 4 => max_attachments() -> u64;
        /// Largest total size of the attached files, in bytes.
        max_total_bytes: Amount = 10000000 => max_total_bytes() -> u64;
        /// Suffixes of the files that may be attached, compared without case. An empty list allows
        /// all.
        allowed_suffixes: Suffixes = "[]";
        /// Suffixes of the files that may not be attached, even if `allowed_suffixes` contains
        /// them.
        denied_suffixes: Suffixes = "[]";
    }
}

impl AttachmentPolicy {
    /// Whether these files, names and sizes in bytes, may be attached together.
    ///
    /// # Errors
    /// Why not, for the model that wants to attach them.
    pub fn check<'f>(&self, files: impl IntoIterator<Item = (&'f str, u64)>) -> Result<(), String> {
        let (mut count, mut total) = (0u64, 0u64);
        for (name, bytes) in files {
            (count, total) = (count + 1, total.saturating_add(bytes));
            let lower = name.to_lowercase();
            let ends = |suffixes: &[String]| suffixes.iter().any(|end| lower.ends_with(end));
            let allowed = self.allowed_suffixes.is_empty() || ends(&self.allowed_suffixes);
            if !allowed || ends(&self.denied_suffixes) {
                return Err(format!(
                    "'{name}' may not be attached: its suffix is not allowed"
                ));
            }
        }
        if count > self.max_attachments {
            return Err(format!(
                "{count} files are attached; at most {} may be",
                self.max_attachments
            ));
        }
        if total > self.max_total_bytes {
            return Err(format!(
                "{total} bytes are attached; at most {} may be",
                self.max_total_bytes
            ));
        }
        Ok(())
    }
}

/// Suffixes in lower case, with the dot.
pub(crate) struct Suffixes;

impl KeyKind for Suffixes {
    type Value = Vec<String>;
    type Got<'v> = &'v [String];
    const SHAPE: ValueShape = ValueShape::List(&ValueShape::Like(&SUFFIX));

    fn read(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<Vec<String>> {
        let mut list = Vec::new();
        for (suffix, item) in fields::strings(reports, node, path)? {
            if suffix.starts_with('.') && suffix.len() > 1 && !suffix.contains('/') {
                list.push(suffix.to_lowercase());
                continue;
            }
            let bare = suffix.trim_start_matches(['.', '*']);
            let message = format!("`{suffix}` is not a suffix");
            let bad = DiagnosticCode::BadValue.at(&item.span, message);
            reports.add(bad.help(format!("write `.{bare}`")));
        }
        Some(list)
    }

    fn get(value: &Vec<String>) -> &[String] {
        value
    }
}

impl BuiltIn<&str> for Suffixes {
    fn built_in(_: &str) -> Vec<String> {
        Vec::new()
    }
}
