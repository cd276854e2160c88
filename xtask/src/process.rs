//! Starting programs: always from the checkout, never with a terminal to ask on.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine;
use crate::failure::{Context, Failure};
use crate::scratch::Scratch;
use crate::workspace;

/// How often a program with a time limit is looked at.
const POLL: Duration = Duration::from_millis(20);

/// `program`, to be started in the checkout without standard input.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace::root()).stdin(Stdio::null());
    if let Some(host) = engine::shared() {
        command.env(engine::VARIABLE, host);
    }
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

/// As [`captured`], and shows what it writes meanwhile. `seen` gets each new part.
pub(crate) fn followed(
    command: &mut Command,
    mut seen: impl FnMut(&str),
) -> Result<(ExitStatus, String), Failure> {
    let scratch = Scratch::new()?;
    let log = Log::create(&scratch)?;
    let (out, err) = log.handles()?;
    let mut child = command
        .stdout(out)
        .stderr(err)
        .spawn()
        .context(describe(command))?;
    let mut written = File::open(&log.path).context("a file for a program's output")?;
    loop {
        let ended = child.try_wait().context(describe(command))?;
        let mut fresh = Vec::new();
        let read = written.read_to_end(&mut fresh);
        read.and_then(|_| io::stdout().write_all(&fresh))
            .context("a program's output")?;
        seen(&String::from_utf8_lossy(&fresh));
        if let Some(status) = ended {
            return Ok((status, log.text()?));
        }
        thread::sleep(POLL);
    }
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
    let log = Log::create(&scratch)?;
    let (out, err) = log.handles()?;
    let status = command
        .stdout(out)
        .stderr(err)
        .status()
        .context(describe(command))?;
    Ok((status, log.text()?))
}

/// As [`captured`], ended after `limit_s` seconds together with whatever it started; then there
/// is no exit code. A signal counts as the shell would: 128 and its number.
pub(crate) fn watched(
    command: &mut Command,
    limit_s: u64,
) -> Result<(Option<i32>, String), Failure> {
    let scratch = Scratch::new()?;
    let log = Log::create(&scratch)?;
    let (out, err) = log.handles()?;
    let mut child = command
        .process_group(0)
        .stdout(out)
        .stderr(err)
        .spawn()
        .context(describe(command))?;
    let end = Instant::now() + Duration::from_secs(limit_s);
    loop {
        if let Some(status) = child.try_wait().context(describe(command))? {
            let code = status
                .code()
                .or_else(|| status.signal().map(|signal| 128 + signal));
            return Ok((code, log.text()?));
        }
        if Instant::now() >= end {
            let group = format!("-{}", child.id());
            // The group may be gone by now; waiting for our child tells.
            let _ = quiet(self::command("kill").args(["-KILL", "--", &group]));
            child.wait().context(describe(command))?;
            return Ok((None, log.text()?));
        }
        thread::sleep(POLL);
    }
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

/// Returns `true` if this process is root's.
pub(crate) fn is_root() -> bool {
    output(command("id").arg("-u")).is_ok_and(|text| text.trim() == "0")
}

/// `Ok` if `status` is success; otherwise a failure that names `command`.
pub(crate) fn judge(command: &Command, status: ExitStatus) -> Result<(), Failure> {
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

/// One file for both streams of a program. A file and not a pipe: a process left behind in the
/// background would keep a pipe open.
struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    fn create(scratch: &Scratch) -> Result<Self, Failure> {
        let path = scratch.file("output");
        let file = File::create(&path).context("a file for a program's output")?;
        Ok(Log { path, file })
    }

    fn handles(&self) -> Result<(File, File), Failure> {
        let twin = || {
            self.file
                .try_clone()
                .context("a file for a program's output")
        };
        Ok((twin()?, twin()?))
    }

    fn text(&self) -> Result<String, Failure> {
        let bytes = fs::read(&self.path).context("reading a program's output")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_arrive_in_order_with_the_exit_code() {
        let mut shell = command("sh");
        shell.args(["-c", "echo one; echo two >&2; echo three; exit 3"]);
        assert_eq!(
            watched(&mut shell, 60).expect("sh runs"),
            (Some(3), "one\ntwo\nthree\n".to_owned())
        );
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let mut shell = command("sh");
        shell.args(["-c", "echo started; sleep 600"]);
        assert_eq!(watched(&mut shell, 0).expect("sh runs").0, None);
    }

    #[test]
    fn a_failing_command_is_named() {
        let error = quiet(command("sh").args(["-c", "exit 7"])).expect_err("exit 7");
        assert_eq!(error.to_string(), "`sh -c exit 7`: exit status: 7");
    }
}
