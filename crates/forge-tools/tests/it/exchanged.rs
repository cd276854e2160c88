//! A yes for the run is for the files that were shown: if another file is run in their place, the
//! person is asked again, however the line names it.

use std::path::Path;

use serde_json::json;

use crate::agreed::Reader;
use crate::commands::asking_toolbox;
use crate::place::everywhere;
use crate::support::call;

/// Lines that run `/work-dir/bin/s`, or `s.sh`, `prog`, `s.py`, `Makefile` there.
const FORMS: &[&str] = &[
    "sh /work-dir/bin/s.sh",
    "sh -e /work-dir/bin/s.sh",
    "sh -o posix /work-dir/bin/s.sh",
    "bash /work-dir/bin/s.sh",
    "/work-dir/bin/prog",
    "work-dir/bin/prog",
    ". /work-dir/bin/s.sh; true",
    "true; . work-dir/bin/s.sh",
    "source /work-dir/bin/s.sh; true",
    "cd /work-dir/bin; . ./s.sh",
    "cd /work-dir/bin; sh s.sh",
    "cd work-dir && cd bin && ./prog",
    "cd /work-dir/bin/sub; sh ../s.sh",
    "cd /work-dir/bin; python3 s.py",
    "cd /work-dir/bin; python3 -m s",
    "cd $PWD/work-dir/bin; sh s.sh",
    "pushd /work-dir/bin; sh s.sh",
    "env -C /work-dir/bin sh s.sh",
    "sh < /work-dir/bin/s.sh",
    "sh -s < /work-dir/bin/s.sh",
    "python3 < /work-dir/bin/s.py",
    "python3 - < /work-dir/bin/s.py",
    "cat /work-dir/bin/s.sh | sh",
    "cat /work-dir/bin/s.py | python3",
    "sh -c '. /work-dir/bin/s.sh'",
    "sh -c 'cd /work-dir/bin; ./prog'",
    "bash -lc 'sh /work-dir/bin/s.sh'",
    "make -C /work-dir/bin",
    "cd /work-dir/bin && make",
    "make -f /work-dir/bin/Makefile",
    "make --directory=/work-dir/bin",
    "PATH=/work-dir/bin:$PATH prog",
    "export PATH=/work-dir/bin; prog",
    "env PATH=/work-dir/bin prog",
    "BASH_ENV=/work-dir/bin/s.sh bash -c true",
    "cd work-dir/bin; BASH_ENV=s.sh bash -c true",
    "ENV=/work-dir/bin/s.sh sh -c true",
    "PYTHONPATH=/work-dir/bin python3 -c 'import s'",
    "NODE_OPTIONS=--require=/work-dir/bin/s.js node -e 1",
    "LD_PRELOAD=/work-dir/bin/s.so true",
    "x=/work-dir/bin/s.sh; $x",
    "x=/work-dir/bin/s.sh; sh $x",
    "sh /work-dir/bin/s*.sh",
    "sh /work-dir/bin/?.sh; true",
    "find /work-dir/bin -name s.sh -exec sh {} ';'",
    "find /work-dir/bin -name prog -exec {} ';'",
    "ls /work-dir/bin/s.sh | xargs sh",
    "node --require /work-dir/bin/s.js -e 1",
    "node -r /work-dir/bin/s.js -e 1",
    "perl -I/work-dir/bin -Ms -e 1",
    "bash --rcfile /work-dir/bin/s.sh -i",
    "timeout 5 sh /work-dir/bin/s.sh",
    "sh /work-dir/bin/absent.sh /work-dir/bin/s.sh",
    "sh -o posix /work-dir/bin/absent.sh",
    "/work-dir/bin/absent",
    "eval 'sh /work-dir/bin/s.sh'",
];

/// Lines that run no file of a mount by name.
const EVERYDAY: &[&str] = &[
    "ls",
    "ls -l /work-dir",
    "git status",
    "npm test",
    "cargo test --all",
    "cd work-dir && npm test",
    "cd /work-dir && cargo build 2>&1 | tail -n 5",
    "RUST_BACKTRACE=1 cargo test",
    "NODE_ENV=test npm test",
    "make test",
    "cd work-dir && make test",
    "grep -rn x . | wc -l",
    "sed -n 1,5p /work-dir/bin/s.sh",
    "echo $HOME",
    "python3 --version",
    "python3 -m pytest -q",
    "node -v",
    "python3 -c 'print(1)'",
    "node -e '1 + 1'",
    "sh -c 'echo a; echo b'",
    "bash -lc 'npm test'",
    "/bin/ls",
    "sh /work-dir/bin/s.sh",
    "cd /work-dir/bin; ./prog",
];

fn write_files(dir: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let bin = dir.join("bin");
    std::fs::create_dir_all(bin.join("sub")).unwrap();
    let script = format!("#!/bin/sh\n: {text}\n");
    let files = [
        ("s.sh", script.clone()),
        ("prog", script),
        ("s.py", format!("# {text}\n")),
        ("s.js", format!("// {text}\n")),
        ("s.pm", format!("1; # {text}\n")),
        ("s.so", text.to_owned()),
        ("Makefile", format!("all:\n\t: {text}\n")),
    ];
    for (name, text) in files {
        std::fs::write(bin.join(name), text).unwrap();
    }
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bin.join("prog"), mode).unwrap();
}

/// Runs a line twice with a yes for the run, and returns how often the second one was asked about.
fn asked_again(line: &str, exchanged: bool) -> usize {
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path(), "one");
    let reader = Reader::new(true, |_| {});
    let toolbox = asking_toolbox(dir.path(), &reader);
    call(&toolbox, "shell", json!({ "command": line }));
    assert_eq!(reader.shown().len(), 1, "{line}");
    if exchanged {
        write_files(dir.path(), "two");
    }
    call(&toolbox, "shell", json!({ "command": line }));
    reader.shown().len()
}

#[test]
fn an_exchanged_file_is_asked_about_again() {
    everywhere(|| {
        let all = FORMS.iter().copied();
        let missed: Vec<&str> = all.filter(|line| asked_again(line, true) != 1).collect();
        assert!(missed.is_empty(), "{missed:#?}");
    });
}

#[test]
fn a_yes_for_the_run_counts_for_everyday_lines() {
    everywhere(|| {
        let all = EVERYDAY.iter().copied();
        let asked: Vec<&str> = all.filter(|line| asked_again(line, false) != 0).collect();
        assert!(asked.is_empty(), "{asked:#?}");
    });
}
