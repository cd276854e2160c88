//! forge's own files in the user's state directory: runs, staged commits, trusted projects.

pub(crate) mod act_log;
pub(crate) mod kept_home;
pub(crate) mod kept_homes;
pub(crate) mod private_dirs;
pub(crate) mod remove_contents;
pub(crate) mod rules_file;
pub(crate) mod run_dir;
pub(crate) mod staging;
pub(crate) mod stored_runs;
pub(crate) mod trust_store;
