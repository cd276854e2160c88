//! Where things lie: the checkout, its target directory, and the cache that outlives both.

use std::env;
use std::path::PathBuf;

use crate::failure::Failure;

/// What every cargo step is told to look at. The same words everywhere: another choice of
/// packages would be another choice of features, and another build of everything.
pub(crate) const EVERYTHING: [&str; 3] = ["--workspace", "--all-features", "--locked"];

/// The checkout this program was started for. Cargo sets the variable at run time; the value
/// seen by the compiler would be wrong after the checkout moved.
pub(crate) fn root() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), PathBuf::from)
}

/// The one target directory that all steps share.
pub(crate) fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Where tools are kept that take minutes to build: `$XDG_CACHE_HOME/forge-tools`, apart from
/// the target directory, so that a fresh clone on the same machine finds them again.
pub(crate) fn cache_dir() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("forge-tools"))
        .ok_or_else(|| {
            Failure::new("neither XDG_CACHE_HOME nor HOME is set: nowhere to keep tools")
        })
}
