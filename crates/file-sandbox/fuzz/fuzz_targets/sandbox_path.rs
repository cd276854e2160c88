//! Any text is a path that cannot climb, or an error of a size that fits on a screen.
#![no_main]

use file_sandbox::SandboxPath;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str)| {
    let (text, relative) = texts;
    match SandboxPath::parse(text) {
        Ok(path) => {
            check(&path);
            if let Ok(joined) = path.join(relative) {
                check(&joined);
            }
            assert_eq!(path.asked(), text);
        }
        Err(error) => {
            assert!(error.to_string().len() < 64 * 1024);
            assert!(!error.to_string().contains('\0'));
        }
    }
    let strict = SandboxPath::parse_strict(text);
    assert!(strict.is_err() || SandboxPath::parse(text).is_ok());
});

fn check(path: &SandboxPath) {
    let normal = path.as_str();
    assert!(normal.starts_with('/') && !normal.contains('\0'));
    assert!(normal == "/" || !normal.ends_with('/'));
    assert!(
        path.components()
            .all(|name| !matches!(name, "" | "." | ".."))
    );
    assert_eq!(SandboxPath::parse(normal).ok().as_ref(), Some(path));
    assert!(path.starts_with(&SandboxPath::root()));
    match path.parent() {
        Some(parent) => assert!(path.starts_with(&parent) && parent != *path),
        None => assert!(path.is_root()),
    }
}
