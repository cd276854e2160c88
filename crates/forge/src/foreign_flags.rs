//! Flags that other programs have for what forge does in another way.

use clap::error::{ContextKind, ContextValue};

/// Flags of other programs that run commands, and what does it here.
const FOREIGN_FLAGS: [(&[&str], &str); 5] = [
    (&["-e", "--setenv"], "to set a variable: --env NAME=VALUE"),
    (
        &["--net", "--network", "--allow-net", "--share-net"],
        "to reach a host: --host HOST; any host: -c network=true",
    ),
    (
        &[
            "--mount",
            "--volume",
            "--bind",
            "--rw",
            "--ro",
            "--ro-bind",
            "--add-dir",
        ],
        "to show a directory: forge allow read:DIR, or write:DIR",
    ),
    (
        &["--chdir", "--cwd", "-w", "--workdir"],
        "to start elsewhere: forge -C DIR exec",
    ),
    (
        &["-i", "-t", "-it", "--tty"],
        "a command has a terminal if forge has one",
    ),
];

/// Returns advice about an unknown flag that other programs have.
pub(crate) fn foreign_flag(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = flag.split('=').next().unwrap_or_default();
    let mut rows = FOREIGN_FLAGS.iter();
    rows.find_map(|(flags, advice)| flags.contains(&flag).then_some(*advice))
}
