//! The start of a command, decided before anything runs: the paths, the command line, and the
//! meaning of a probe's outcome. Pure, so that the part that only runs on macOS decides nothing.

use super::SANDBOX_EXEC;
use crate::exit::Exit;
use crate::policy::{Limits, MountPlacement, Policy};
use crate::support::Availability;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The one shell that every macOS has.
pub(crate) const SHELL: &str = "/bin/sh";

/// Runs before the sandbox, with an empty environment, so that the caller's variables do not affect
/// the shell. It sets the directory and the limits, which `posix_spawn` cannot set. A limit that
/// cannot be set is already lower.
const SCRIPT: &str = "\
cd -- \"$1\" || exit 125
ulimit -c 0 2>/dev/null
[ -z \"$2\" ] || ulimit -t \"$2\" 2>/dev/null
[ -z \"$3\" ] || ulimit -f \"$3\" 2>/dev/null
[ -z \"$4\" ] || ulimit -n \"$4\" 2>/dev/null
shift 4
exec \"$@\"";

/// The paths that a command sees: those of the host, and those in a directory of links.
pub(crate) struct LinkView<'a> {
    pub(crate) policy: &'a Policy,
    /// The directories of the mounts, with links followed.
    pub(crate) real: &'a [PathBuf],
    /// The directory of links, for a policy without a root mount.
    pub(crate) links: &'a Path,
}

impl LinkView<'_> {
    /// Returns the working directory, `/work`.
    pub(crate) fn work(&self) -> PathBuf {
        let root = self.policy.mounts().iter().zip(self.real);
        let mut root = root.filter(|(mount, _)| mount.place() == MountPlacement::Root);
        root.next()
            .map_or_else(|| self.links.to_owned(), |(_, real)| real.clone())
    }

    /// Returns the host path of a directory that the caller names by its sandbox path. `exists`
    /// tests host paths.
    pub(crate) fn directory(&self, cwd: Option<&str>, exists: &dyn Fn(&Path) -> bool) -> PathBuf {
        match cwd {
            None => self.work(),
            Some(cwd) if !cwd.starts_with('/') => join(self.work(), Path::new(cwd)),
            Some(cwd) => self
                .place(Path::new(cwd), exists)
                .unwrap_or_else(|| PathBuf::from(cwd)),
        }
    }

    /// Returns the candidate paths of a program: along PATH, or its own path relative to
    /// `directory`.
    pub(crate) fn candidates(
        &self,
        program: &OsStr,
        path: &OsStr,
        directory: &Path,
        exists: &dyn Fn(&Path) -> bool,
    ) -> Vec<PathBuf> {
        let named = Path::new(program);
        if !program.as_encoded_bytes().contains(&b'/') {
            return std::env::split_paths(path)
                .filter(|dir| dir.is_absolute())
                .map(|dir| dir.join(named))
                .collect();
        }
        if !named.is_absolute() {
            return vec![directory.join(named)];
        }
        // A program in a mount is always found by its sandbox path, and one of the system by its
        // own.
        let mut out: Vec<PathBuf> = self.place(named, exists).into_iter().collect();
        if out.first().map(PathBuf::as_path) != Some(named) {
            out.push(named.to_owned());
        }
        out
    }

    /// Returns the host path of an absolute sandbox path, if it is in a mount or in `/work`.
    fn place(&self, path: &Path, exists: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
        let mut mounts = self.policy.mounts().iter();
        if mounts.any(|mount| mount.is_at_host_path() && path.starts_with(mount.inside())) {
            return Some(path.to_owned());
        }
        if let Ok(rest) = path.strip_prefix("/work") {
            return Some(join(self.work(), rest));
        }
        let mounts = self.policy.mounts().iter().zip(self.real);
        let (mount, real) = mounts
            .filter(|(mount, _)| path.starts_with(mount.seen_as()))
            .max_by_key(|(mount, _)| mount.seen_as().len())?;
        let rest = path.strip_prefix(mount.seen_as()).ok()?;
        let placed = join(real.clone(), rest);
        match mount.place() {
            // Every absolute path could be inside the mount or one of the system. Only existing
            // ones are used.
            MountPlacement::Root | MountPlacement::InWork => exists(&placed).then_some(placed),
            MountPlacement::Named | MountPlacement::NestedIn(_) | MountPlacement::Covers(_) => {
                Some(placed)
            }
        }
    }
}

/// Returns the command line of the shell that starts `inner` in a directory, with limits, and with
/// only these variables.
pub(crate) fn steps(
    directory: &Path,
    limits: &Limits,
    variables: &BTreeMap<OsString, OsString>,
    inner: Vec<OsString>,
) -> Vec<OsString> {
    let number = |limit: Option<u64>| limit.map(|limit| limit.to_string()).unwrap_or_default();
    let mut argv: Vec<OsString> = vec![
        "sh".into(),
        "-c".into(),
        SCRIPT.into(),
        "sh".into(),
        directory.into(),
        number(limits.cpu.map(|cpu| cpu.as_secs().max(1))).into(),
        // The shell counts in blocks of 512 bytes (POSIX, ulimit).
        number(limits.file_bytes.map(|bytes| bytes.div_ceil(512))).into(),
        number(limits.open_files).into(),
        "/usr/bin/env".into(),
        "-i".into(),
        "--".into(),
    ];
    for (name, value) in variables {
        let mut set = name.clone();
        set.push("=");
        set.push(value);
        argv.push(set);
    }
    argv.extend(inner);
    argv
}

/// Returns the result of a probe that prints a file inside and one outside. `inside` and `outside`
/// are the contents of the files.
pub(crate) fn judged(
    exit: Exit,
    stdout: &str,
    stderr: &str,
    inside: &str,
    outside: &str,
) -> Availability<()> {
    if stdout.contains(outside) {
        return Availability::missing(
            "a probe read a file outside of its sandbox",
            "nothing here can be trusted to confine a command",
        );
    }
    if stdout == inside && exit == Exit::Code(1) {
        return Availability::Works(());
    }
    if stderr.contains("sandbox_apply") {
        return Availability::missing(
            "this process is in a sandbox already, and macOS does not nest them (sandbox_apply)",
            "start outside of that sandbox, or leave the confining to it",
        );
    }
    let said: String = stderr
        .lines()
        .next()
        .unwrap_or("nothing")
        .chars()
        .take(200)
        .collect();
    Availability::missing(
        format!("a probe under {SANDBOX_EXEC} did not run ({exit:?}): {said}"),
        "",
    )
}

/// Joins paths, without a trailing slash for an empty rest.
fn join(base: PathBuf, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        base
    } else {
        base.join(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    fn policy(root: bool) -> Policy {
        let name = if root { "/" } else { "/p" };
        Policy::builder()
            .mount("/host/p", name, Access::ALL)
            .mount("/host/data", "/data", Access::READ)
            .build()
            .unwrap()
    }

    #[test]
    fn where_things_are() {
        let (rooted, linked) = (policy(true), policy(false));
        let real = [PathBuf::from("/real/p"), PathBuf::from("/real/data")];
        let view = |policy| LinkView {
            policy,
            real: &real,
            links: Path::new("/run/work"),
        };
        let there = |path: &Path| path == Path::new("/real/p/sub");
        for (policy, cwd, want) in [
            (&rooted, None, "/real/p"),
            (&rooted, Some("sub"), "/real/p/sub"),
            (&rooted, Some("/work/sub"), "/real/p/sub"),
            (&rooted, Some("/work"), "/real/p"),
            (&rooted, Some("/sub"), "/real/p/sub"),
            (&rooted, Some("/none"), "/none"),
            (&rooted, Some("/data/x"), "/real/data/x"),
            (&linked, None, "/run/work"),
            (&linked, Some("/work/data"), "/run/work/data"),
            (&linked, Some("/p"), "/real/p"),
        ] {
            let got = view(policy).directory(cwd, &there);
            assert_eq!(got, Path::new(want), "{cwd:?}");
        }
        for (program, want) in [
            ("ls", &["/bin/ls", "/usr/bin/ls"][..]),
            ("/bin/ls", &["/bin/ls"]),
            ("/data/tool", &["/real/data/tool", "/data/tool"]),
            ("./tool", &["/here/tool"]),
        ] {
            let got = view(&rooted).candidates(
                OsStr::new(program),
                OsStr::new("/bin:relative::/usr/bin"),
                Path::new("/here"),
                &there,
            );
            let got: Vec<String> = got
                .iter()
                .map(|path| path.components().collect::<PathBuf>().display().to_string())
                .collect();
            assert_eq!(got, want, "{program}");
        }
    }

    /// The shell and `env` are the same everywhere. Here they start a shell of the test.
    #[cfg(unix)]
    #[test]
    fn what_the_shell_makes_of_it() {
        let limits = Limits {
            open_files: Some(77),
            file_bytes: Some(1024),
            cpu: Some(std::time::Duration::from_secs(9)),
            ..Limits::default()
        };
        let hostile = "a b\n$(exit 7)\"'`x`";
        let variables = BTreeMap::from([
            ("V".into(), hostile.into()),
            ("cd".into(), "() { exit 9; }".into()),
            ("BASH_ENV".into(), "/nowhere".into()),
        ]);
        let report =
            "pwd; printf '%s\\n' \"$V\" \"$1\"; ulimit -n; ulimit -f; ulimit -t; env | wc -l";
        let inner = ["/bin/sh", "-c", report, "x=y", hostile].map(OsString::from);
        let argv = steps(Path::new("/usr"), &limits, &variables, inner.to_vec());
        let output = std::process::Command::new(SHELL)
            .args(&argv[1..])
            .env_clear()
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (told, count) = said.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(told, format!("/usr\n{hostile}\n{hostile}\n77\n2\n9"));
        // V has two lines. PWD, OLDPWD and the like are the inner shell's own.
        assert!(count.trim().parse::<u32>().unwrap() <= 8, "{count}");
        let gone = steps(
            Path::new("/no/such"),
            &limits,
            &variables,
            vec!["true".into()],
        );
        let output = std::process::Command::new(SHELL)
            .args(&gone[1..])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
    }

    #[test]
    fn what_a_probe_means() {
        let reason =
            |exit, stdout: &str, stderr: &str| match judged(exit, stdout, stderr, "in", "out") {
                Availability::Works(()) => "works".to_owned(),
                Availability::Missing { reason, .. } => reason,
            };
        let denied = "cat: /x: Operation not permitted";
        assert_eq!(reason(Exit::Code(1), "in", denied), "works");
        assert!(reason(Exit::Code(0), "inout", "").contains("read a file outside"));
        assert!(reason(Exit::Code(1), "out", denied).contains("read a file outside"));
        let nested = "sandbox-exec: sandbox_apply: Operation not permitted";
        assert!(reason(Exit::Code(71), "", nested).contains("does not nest"));
        let broken = "sandbox-exec: unbound variable: file-clone";
        assert!(reason(Exit::Code(65), "", broken).ends_with(broken));
        assert!(reason(Exit::Code(0), "in", "").contains("did not run"));
        assert!(reason(Exit::Signal(6), "", "").contains("Signal(6)"));
    }
}
