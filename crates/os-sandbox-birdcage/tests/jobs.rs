//! Jobs that the program refuses before birdcage does anything. What it confines is tested by
//! os-sandbox's own tests, which find the program that cargo builds for this one.
#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};

/// Starts the program with `job`, a redirection of a shell, as its descriptor 3.
fn refusal(job: &str) -> (Option<i32>, String) {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$0\" {job}")]);
    shell.arg(env!("CARGO_BIN_EXE_os-sandbox-birdcage"));
    let output = shell.stdin(Stdio::null()).output();
    output.map_or_else(
        |error| (None, error.to_string()),
        |output| {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.code(), text)
        },
    )
}

#[test]
fn a_job_that_it_cannot_read_is_refused() {
    let other_build = "birdcage: did not understand the job; is it of another build?\n";
    for (job, message) in [
        ("3<&-", "birdcage: could not read the job: "),
        ("3</dev/null", other_build),
        ("3</etc/passwd", other_build),
        ("3</", "birdcage: could not read the job: "),
    ] {
        let (code, text) = refusal(job);
        assert_eq!(code, Some(125), "{job}: {text}");
        assert!(text.starts_with(message), "{job}: {text}");
    }
}
