//! A project in a directory of this process, and what must hold of whatever is said about it.

use std::path::Path;
use std::sync::OnceLock;

use sandbox_config::{Declaration, Diagnostic, Sources, load};

/// The directory of every run; only the files in it change.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = DIRECTORY.get_or_init(|| tempfile::tempdir().expect("a directory"));
    std::fs::create_dir_all(dir.path().join("workers")).expect("a directory");
    dir.path()
}

/// Load, look through all of it, and render all of it. A mistake names a line that exists.
pub fn look(sources: &Sources, name: &str, text: &[u8]) {
    let lines = 1 + text
        .iter()
        .filter(|byte| matches!(byte, b'\n' | b'\r'))
        .count();
    let list: Vec<Diagnostic> = match load(sources) {
        Err(mistakes) => mistakes.iter().cloned().collect(),
        Ok(project) => {
            let mut list = project.warnings().to_vec();
            list.extend(project.check());
            for declaration in [Declaration::none(), Declaration::inherit()] {
                let child = project.ceiling().child(&declaration).expect("nothing more");
                assert!(child.mounts().count() <= project.ceiling().mounts().count());
            }
            list
        }
    };
    for one in list {
        let shown = one.to_string();
        assert!(shown.len() < 64 * 1024, "{} bytes", shown.len());
        assert!(!shown.contains('\u{1b}'), "draws on the terminal");
        if one.file() == Some(name) {
            assert!(
                one.line().is_none_or(|line| line as usize <= lines),
                "{shown}"
            );
        }
        let _ = one.to_json();
    }
}
