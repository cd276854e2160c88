//! Any bytes and any replacement: an edit is what was asked for or changes nothing, and bytes that
//! it does not touch stay as they are.
#![no_main]

use file_sandbox::{EditOptions, FileSandbox, Mode, Mount, Replacement, SandboxPath};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &str, &str, bool, bool)| {
    let (bytes, old, new, fuzzy, all) = input;
    let path = SandboxPath::parse("/d/f.txt").expect("a path");
    let mount = Mount::memory(SandboxPath::parse("/d").expect("a path"), Mode::ReadWrite);
    let files = FileSandbox::new(vec![mount]).expect("one mount");
    files
        .write_bytes(&path, bytes, Default::default())
        .expect("memory is writable");
    let now = || {
        files
            .read_bytes(&path, 1 << 20)
            .expect("memory is readable")
    };

    let replacement = [Replacement::new(old, new).all(all)];
    let options = EditOptions::new().fuzzy(fuzzy);
    let preview = files.edit(&path, &replacement, options.clone().preview(true));
    assert_eq!(now(), bytes, "a preview changed the file");
    let edited = files.edit(&path, &replacement, options);
    assert_eq!(
        preview.is_ok(),
        edited.is_ok(),
        "the preview said otherwise"
    );
    match edited {
        Err(error) => {
            assert_eq!(now(), bytes, "a refused edit changed the file");
            assert!(error.to_string().len() < 64 * 1024);
        }
        Ok(edited) => {
            assert!(edited.replaced > 0);
            check(bytes, old, new, all, edited.fuzzy_lines.is_empty(), &now());
        }
    }
});

/// Where the plain meaning is beyond doubt, it is what happened.
fn check(before: &[u8], old: &str, new: &str, all: bool, exact: bool, after: &[u8]) {
    let plain = |text: &str| text.is_ascii() && !text.contains(['\r', '\0']);
    let Ok(text) = std::str::from_utf8(before) else {
        return;
    };
    if !exact || !plain(text) || !plain(old) || !plain(new) || old.is_empty() {
        return;
    }
    match text.matches(old).count() {
        0 => {}
        1 => assert_eq!(after, text.replacen(old, new, 1).as_bytes()),
        _ if all => assert_eq!(after, text.replace(old, new).as_bytes()),
        // One of several was chosen; the rest of the bytes is there all the same.
        _ => assert_eq!(after.len() + old.len(), before.len() + new.len()),
    }
}
