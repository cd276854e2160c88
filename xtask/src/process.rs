//! Starting programs: always from the checkout, never with a terminal to ask on.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::failure::{Context, Failure};
use crate::scratch::Scratch;
use crate::workspace;

/// `program`, to be started in the checkout without standard input.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace::root()).stdin(Stdio::null());
    // Cargo describes xtask itself in these; to whatever we start they would be lies.
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        if [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
            "CARGO_PRIMARY_",
        ]
        .iter()
        .any(|prefix| text.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
    command
}

/// The cargo that started us, so that every step uses one toolchain.
pub(crate) fn cargo() -> Command {
    command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs `command` with its output on ours.
pub(crate) fn shown(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().context(describe(command))?;
    judge(command, status)
}

/// Runs `command` and shows what it wrote only if it fails.
pub(crate) fn quiet(command: &mut Command) -> Result<(), Failure> {
    let (status, output) = captured(command)?;
    judge(command, status).inspect_err(|_| print!("{output}"))
}

/// Runs `command` and returns its standard output; standard error goes where ours goes.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let result = command
        .stderr(Stdio::inherit())
        .output()
        .context(describe(command))?;
    judge(command, result.status)?;
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

/// Runs `command` to its end and returns both its streams as one text, in the order written: they share
/// one file, which a pair of pipes could not do.
pub(crate) fn captured(command: &mut Command) -> Result<(ExitStatus, String), Failure> {
    let scratch = Scratch::new()?;
    let log = scratch.file("output");
    let file = File::create(&log).context("creating a file for a program's output")?;
    let twin = file
        .try_clone()
        .context("creating a file for a program's output")?;
    let status = command
        .stdout(file)
        .stderr(twin)
        .status()
        .context(describe(command))?;
    let mut bytes = Vec::new();
    File::open(&log)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .context("reading a program's output")?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// The program's place in `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether this process is root's.
pub(crate) fn is_root() -> bool {
    output(command("id").arg("-u")).is_ok_and(|text| text.trim() == "0")
}

fn judge(command: &Command, status: ExitStatus) -> Result<(), Failure> {
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("`{}`: {status}", describe(command))))
    }
}

fn describe(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
