//! Rules of file tools for hard links, full directories, `..` and the disk, mount by mount.
//! Commands do not know these: they are between a file tool and its mount.

use crate::syntax::word::words;

words! {
    /// Treatment of a file that has further names: one of them may be outside the mount.
    ///
    /// ```
    /// use sandbox_config::HardLinks;
    /// assert!(HardLinks::Deny > HardLinks::ReadOnly && HardLinks::ReadOnly > HardLinks::Allow);
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum HardLinks {
        /// Read and written.
        Allow = "allow",
        /// Read only.
        #[default]
        ReadOnly = "read_only",
        /// Neither.
        Deny = "deny",
    }
}

/// The rules of one mount; an absent rule has a default.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"), "
/// # sandbox:
/// #   hardlinks: deny
/// #   zones:
/// #     drafts: { path: drafts, quota: { max_files: 100 }, hardlinks: read_only }
/// #     data: { path: data, strict_paths: true }
/// # ").unwrap();
/// use sandbox_config::{load, HardLinks, Sources};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// let rules = |name| *project.ceiling().mount(name).unwrap().file_rules();
/// assert_eq!((rules("drafts").max_files(), rules("data").max_files()), (Some(100), None));
/// assert_eq!(rules("drafts").hard_links(), HardLinks::ReadOnly);
/// assert_eq!(rules("data").hard_links(), HardLinks::Deny);
/// assert!(rules("data").strict_paths());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRules {
    pub(crate) hard_links: Option<HardLinks>,
    pub(crate) max_total_bytes: Option<u64>,
    pub(crate) max_files: Option<u64>,
    pub(crate) strict_paths: Option<bool>,
    pub(crate) durable: Option<bool>,
}

impl FileRules {
    sandbox_names::getters! {
        /// `hardlinks`: treatment of files that have further names.
        pub hard_links: HardLinks = hard_links.unwrap_or_default();
        /// `quota.max_bytes`: most bytes of all files together.
        pub max_total_bytes: Option<u64> = max_total_bytes;
        /// `quota.max_files`: most files.
        pub max_files: Option<u64> = max_files;
        /// `strict_paths`: a path with `..` is refused, also one that stays inside.
        pub strict_paths: bool = strict_paths.unwrap_or(false);
        /// `durable`: a change is on the disk before the call returns.
        pub durable: bool = durable.unwrap_or(false);
    }

    /// Returns the rules of the mount, with `general` for those that it leaves out.
    pub(crate) fn or(self, general: FileRules) -> FileRules {
        FileRules {
            hard_links: self.hard_links.or(general.hard_links),
            max_total_bytes: self.max_total_bytes.or(general.max_total_bytes),
            max_files: self.max_files.or(general.max_files),
            strict_paths: self.strict_paths.or(general.strict_paths),
            durable: self.durable.or(general.durable),
        }
    }
}
