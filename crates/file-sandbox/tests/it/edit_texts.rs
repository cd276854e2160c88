//! Every text that a model can see about edits, moves and quotas.

use file_sandbox::{
    ContentHash, EditOptions, Error, FileSandbox, Limits, Mode, Mount, MoveOptions, Replacement,
    WriteOptions,
};
use insta::assert_snapshot;

use crate::scene::path;

const SOURCE: &str =
    "fn main() {\n\tlet a = 1;\n\tlet b = 1;\n}\n\nfn other() {\n    let c\u{a0}= 2;\n}\n";

fn files() -> FileSandbox {
    let data = Mount::memory(path("/data"), Mode::ReadWrite)
        .protect(["*.key"])
        .unwrap();
    let limits = Limits::new()
        .suffixes(["md"])
        .max_total_bytes(10, "quota.max_bytes")
        .max_files(2, "quota.max_files");
    let small = Mount::memory(path("/small"), Mode::ReadWrite).with_limits(limits);
    let files = FileSandbox::new(vec![data, small]).unwrap();
    files
        .write(&path("/data/m.rs"), SOURCE, WriteOptions::new())
        .unwrap();
    files
}

fn edit(files: &FileSandbox, list: &[(&str, &str)]) -> Error {
    let list: Vec<_> = list
        .iter()
        .map(|(old, new)| Replacement::new(*old, *new))
        .collect();
    files
        .edit(&path("/data/m.rs"), &list, EditOptions::new())
        .unwrap_err()
}

#[test]
fn a_text_that_is_not_there() {
    let files = files();
    assert_snapshot!(edit(&files, &[("fn main() {\n    let a = 1;\n", "")]), @r#"
    Cannot edit '/data/m.rs': text not found.
    The nearest text:
    1: fn main() {
    2: 	let a = 1;
    First difference in line 2, column 1: the file has a tab, the text given has a space.
    The file's hash is db7ea2d942852767df09fab048054589725a7354c533987d6f9d5766327b0e63.
    "#);
    assert_snapshot!(edit(&files, &[("let c = 2;", "")]), @r#"
    Cannot edit '/data/m.rs': text not found.
    The nearest text:
    7:     let c = 2;
    First difference in line 7, column 10: the file has a no-break space (U+00A0), the text given has a space.
    The file's hash is db7ea2d942852767df09fab048054589725a7354c533987d6f9d5766327b0e63.
    "#);
    assert_snapshot!(edit(&files, &[("fn main", "fn m"), ("fn othr() {", "")]), @r#"
    Cannot edit '/data/m.rs': text of replacement 2 not found.
    The nearest text:
    6: fn other() {
    First difference in line 6, column 7: the file has 'e', the text given has 'r'.
    The file's hash is db7ea2d942852767df09fab048054589725a7354c533987d6f9d5766327b0e63.
    "#);
    assert_snapshot!(edit(&files, &[("quite another thing", "")]), @r#"
    Cannot edit '/data/m.rs': text not found.
    Nothing in the file comes near it.
    The file's hash is db7ea2d942852767df09fab048054589725a7354c533987d6f9d5766327b0e63.
    "#);
}

#[test]
fn a_text_that_is_there_twice() {
    let files = files();
    assert_snapshot!(edit(&files, &[(" = 1;", "")]), @r#"
    Cannot edit '/data/m.rs': text found 2 times.
    In line 2:
    1: fn main() {
    2: 	let a = 1;
    3: 	let b = 1;
    In line 3:
    2: 	let a = 1;
    3: 	let b = 1;
    4: }
    Give more of the text around it.
    "#);
    let many = "same\n".repeat(12);
    files
        .write(&path("/data/m.rs"), &many, WriteOptions::new())
        .unwrap();
    assert_snapshot!(edit(&files, &[("same", "")]), @r#"
    Cannot edit '/data/m.rs': text found 12 times.
    In line 1:
    1: same
    2: same
    In line 2:
    1: same
    2: same
    3: same
    In line 3:
    2: same
    3: same
    4: same
    In line 4:
    3: same
    4: same
    5: same
    In line 5:
    4: same
    5: same
    6: same
    (7 more)
    Give more of the text around it.
    "#);
}

#[test]
fn edits_that_are_none() {
    let files = files();
    assert_snapshot!(edit(&files, &[]), @r#"
    Cannot edit '/data/m.rs': text to replace is missing.
    "#);
    assert_snapshot!(edit(&files, &[("", "x")]), @r#"
    Cannot edit '/data/m.rs': text to replace is empty.
    "#);
    assert_snapshot!(edit(&files, &[("fn main", "x"), ("main()", "y")]), @r#"
    Cannot edit '/data/m.rs': text to replace overlaps another one.
    "#);
    files
        .write_bytes(
            &path("/data/m.rs"),
            b"caf\xe9 cr\xe8me",
            WriteOptions::new(),
        )
        .unwrap();
    assert_snapshot!(edit(&files, &[("caf", "日")]), @r#"
    Cannot edit '/data/m.rs': the file is in windows-1252, which has no '日'.
    "#);
}

#[test]
fn a_file_that_changed() {
    let files = files();
    let at = path("/data/m.rs");
    let options = || WriteOptions::new().if_match(ContentHash::of(b"what was read"));
    assert_snapshot!(files.write(&at, "", options()).unwrap_err(), @r#"
    Cannot write to '/data/m.rs': it is not what was read.
    Read it again; its hash is now db7ea2d942852767df09fab048054589725a7354c533987d6f9d5766327b0e63.
    "#);
    assert_snapshot!(files.write(&path("/data/gone"), "", options()).unwrap_err(), @r#"
    Cannot write to '/data/gone': it is not what was read.
    It no longer exists.
    "#);
}

#[test]
fn no_room() {
    let files = files();
    let write = |at: &str, text: &str| files.write(&path(at), text, WriteOptions::new());
    write("/small/a.md", "12345678").unwrap();
    assert_snapshot!(write("/small/b.md", "123").unwrap_err(), @r#"
    Cannot write to '/small/b.md': no room for more bytes.
    Needed: 11 bytes, maximum allowed: 10 (`quota.max_bytes`)
    "#);
    write("/small/b.md", "").unwrap();
    assert_snapshot!(write("/small/c.md", "").unwrap_err(), @r#"
    Cannot write to '/small/c.md': no room for more files.
    Needed: 3 files, maximum allowed: 2 (`quota.max_files`)
    "#);
    assert_snapshot!(files.append(&path("/small/b.md"), b"123").unwrap_err(), @r#"
    Cannot append to '/small/b.md': no room for more bytes.
    Needed: 11 bytes, maximum allowed: 10 (`quota.max_bytes`)
    "#);
}

#[test]
fn what_does_not_move() {
    let files = files();
    files.create_dir(&path("/data/dir/sub")).unwrap();
    let rename = |a: &str, b: &str| {
        let moved = files.rename(&path(a), &path(b), MoveOptions::new());
        moved.unwrap_err()
    };
    assert_snapshot!(rename("/data", "/data/x"), @r#"
    Cannot move '/data': it is a root of the sandbox.
    "#);
    assert_snapshot!(rename("/data/dir", "/data/dir/sub/dir"), @r#"
    Cannot move '/data/dir': the new place lies in it.
    "#);
    assert_snapshot!(rename("/data/dir", "/small/dir"), @r#"
    Cannot move '/data/dir': a directory cannot be moved to another volume.
    Move what is in it, file by file.
    "#);
    assert_snapshot!(rename("/data/dir", "/data/m.rs"), @r#"
    Cannot create '/data/m.rs': it already exists.
    "#);
    assert_snapshot!(rename("/data/m.rs", "/data/m.key"), @r#"
    Cannot write to '/data/m.key': path is read-only, because '*.key' is a protected name.
    "#);
    assert_snapshot!(files.delete_all(&path("/data/dir/..")).unwrap_err(), @r#"
    Cannot delete '/data/dir/..': it is a root of the sandbox.
    "#);
    assert_snapshot!(files.create_dir(&path("/data/m.rs")).unwrap_err(), @r#"
    Cannot create '/data/m.rs': it already exists.
    "#);
}
