//! Limits of a mount: names and sizes of files, quotas, and the treatment of hard links.
//!
//! They apply to the file operations only, not to a program that is started on the directory.

/// Limits of one mount. The default is none, but hard links are not written to.
///
/// ```
/// use file_sandbox::Limits;
///
/// let limits = Limits::new().suffixes([".md", "pdf"]).max_file_bytes(1_000_000);
/// assert!(limits.allows_name("Report.MD"));
/// assert!(!limits.allows_name("report.md.exe"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    suffixes: Option<Vec<String>>,
    max_file_bytes: Option<u64>,
    max_write_bytes: Option<(u64, &'static str)>,
    quota_bytes: Option<(u64, &'static str)>,
    quota_files: Option<(u64, &'static str)>,
    hard_links: HardLinks,
    strict_paths: bool,
    durable: bool,
}

/// The treatment of a file with further names (`st_nlink` above 1): one of them may be outside, so
/// its content may not belong to the sandbox.
///
/// ```
/// use file_sandbox::{HardLinks, Limits};
///
/// let limits = Limits::new().hard_links(HardLinks::Deny);
/// assert_eq!(limits.hard_link_policy(), HardLinks::Deny);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HardLinks {
    /// Read and written. A write replaces this name only; the other names keep the old content.
    Allow,
    /// Read, but writes are refused with the reason.
    #[default]
    ReadOnly,
    /// Neither read nor written.
    Deny,
}

impl Limits {
    /// No limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows only files whose name ends in one of these, in any case. An empty list allows none.
    #[must_use]
    pub fn suffixes<I, S>(mut self, suffixes: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        self.suffixes = Some(suffixes.into_iter().map(|s| with_dot(s.as_ref())).collect());
        self
    }

    sandbox_names::setters! {
        /// Refuses to read or write files above this size, in bytes.
        max_file_bytes(max: u64) = Some(max);
        /// Refuses to leave a file above this size, in bytes, by any operation; larger files can be
        /// read. The refusal names `setting`.
        max_write_bytes(max: u64, setting: &'static str) = Some((max, setting));
        /// Refuses writes that would make all files of the mount together larger than this. Counted
        /// at each write that adds something. The refusal names `setting`.
        max_total_bytes(max: u64, setting: &'static str) => quota_bytes = Some((max, setting));
        /// Refuses to create a file when the mount holds this many. The refusal names `setting`.
        max_files(max: u64, setting: &'static str) => quota_files = Some((max, setting));
        /// Chooses the treatment of hard links.
        hard_links(policy: HardLinks) = policy;
        /// Makes [`FileSandbox::path`](crate::FileSandbox::path) refuse every `..` in a path to this
        /// mount, even one that stays inside. If all mounts of a sandbox are strict, it refuses every
        /// `..`.
        strict_paths(strict: bool) = strict;
        /// Makes every change durable before the call returns, regardless of its options: file, name,
        /// and created directories (`fsync(2)`).
        durable(durable: bool) = durable;
    }

    sandbox_names::getters! {
        /// The suffixes allowed, with their dots; `None` when all are.
        pub allowed_suffixes: Option<&[String]> = suffixes.as_deref();
        /// Returns the largest allowed file, in bytes; `None` without a limit.
        pub file_byte_limit: Option<u64> = max_file_bytes;
        pub(crate) write_limit: Option<(u64, &'static str)> = max_write_bytes;
        /// Returns the treatment of hard links.
        pub hard_link_policy: HardLinks = hard_links;
        /// `true` if paths with `..` are refused.
        pub has_strict_paths: bool = strict_paths;
        /// `true` if every change is on the disk before the call returns.
        pub is_durable: bool = durable;
    }

    /// Returns the largest file that an operation may leave, in bytes; `None` without a limit.
    #[must_use]
    pub fn write_byte_limit(&self) -> Option<u64> {
        self.max_write_bytes.map(|(max, _)| max)
    }

    /// Returns the quota of bytes; `None` without a limit.
    #[must_use]
    pub fn quota_bytes(&self) -> Option<u64> {
        self.quota_bytes.map(|(max, _)| max)
    }

    /// Both quotas, each with its setting.
    pub(crate) fn quotas(&self) -> [Option<(u64, &'static str)>; 2] {
        [self.quota_bytes, self.quota_files]
    }

    /// Returns the quota of files; `None` without a limit.
    #[must_use]
    pub fn quota_files(&self) -> Option<u64> {
        self.quota_files.map(|(max, _)| max)
    }

    /// `true` if a file of this name is allowed. A name that consists of a suffix only (`.md`) has
    /// no suffix.
    #[must_use]
    pub fn allows_name(&self, name: &str) -> bool {
        let Some(suffixes) = &self.suffixes else {
            return true;
        };
        let name = name.to_lowercase();
        suffixes.iter().any(|suffix| {
            let suffix = suffix.to_lowercase();
            name.len() > suffix.len() && name.ends_with(&suffix)
        })
    }
}

fn with_dot(suffix: &str) -> String {
    if suffix.starts_with('.') {
        suffix.to_owned()
    } else {
        format!(".{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_end_the_name() {
        let limits = Limits::new().suffixes([".md", "tar.gz"]);
        let rows = [
            ("a.md", true),
            ("A.MD", true),
            ("a.b.md", true),
            ("a.tar.gz", true),
            ("a.gz", false),
            ("a.md.exe", false),
            ("a.md ", false),
            ("md", false),
            (".md", false),
            ("amd", false),
            ("", false),
        ];
        for (name, allowed) in rows {
            assert_eq!(limits.allows_name(name), allowed, "{name:?}");
        }
        assert!(Limits::new().allows_name("anything"));
        assert!(!Limits::new().suffixes::<_, &str>([]).allows_name("a.md"));
    }
}
