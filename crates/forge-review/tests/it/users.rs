//! The tests of this program again, as an ordinary user.

use std::process::Command;

use std::os::unix::process::CommandExt as _;

/// Root reads closed files, gives files away and mounts without asking; people do not.
#[test]
fn as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become somebody else, and this is an ordinary user");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "applying::",
            "listing::",
            "model::",
            "copies::",
            "--nocapture",
        ])
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("test result: ok"),
        "{said}\n{why}"
    );
    for line in why.lines().filter(|line| line.starts_with("skipped")) {
        eprintln!("as an ordinary user: {line}");
    }
}
