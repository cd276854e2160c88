//! Finds out what works here by trying: a confined process, once under each mechanism, that
//! attempts what it must not be able to do.

use super::launch::launch;
use super::message;
use super::private::PrivateDir;
use super::running::Running;
use super::start::{Probe, begin};
use super::wire;
use crate::access::Access;
use crate::command::{Command, Stdio};
use crate::error::Error;
use crate::plan::{Backend, Plan, Requirement};
use crate::policy::Policy;
use crate::support::{Bubblewrap, Finding, Landlock, Support};
use nix::unistd::geteuid;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a trusted bubblewrap lies. Not PATH: whoever writes PATH would choose the sandbox. The
/// system's own first, because distributions make exceptions (AppArmor) for exactly that one.
const BWRAP: [&str; 4] = [
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

const WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn detect() -> Support {
    let (abi, errata, filters) = match report() {
        Ok(report) => report,
        Err(error) => return nothing(&error),
    };
    let mut support = Support {
        launcher: Finding::Works(()),
        seccomp: Finding::Works(()),
        landlock: Finding::Works(Landlock { abi, errata }),
        bubblewrap: missing("not looked for yet", ""),
        pins: missing("there is no bubblewrap", ""),
        uid_zero: geteuid().is_root(),
    };
    if !filters {
        support.seccomp = missing(
            "the kernel has no system call filters",
            "a kernel with CONFIG_SECCOMP_FILTER, and no outer filter that forbids them",
        );
    }
    if abi == 0 {
        support.landlock = missing(
            "the kernel does not offer Landlock",
            "Linux 5.13 or later with landlock in its lsm= parameter; a container needs a seccomp \
             profile that lets its system calls pass",
        );
    } else if let Err(reason) = probe(&support, Backend::Landlock) {
        support.landlock = missing(&format!("a probe was not confined: {reason}"), "");
    }
    (support.bubblewrap, support.pins) = bubblewrap(&support);
    support
}

fn nothing(error: &Error) -> Support {
    fn unknown<T>() -> Finding<T> {
        missing("cannot be tried without the launcher", "")
    }
    Support {
        launcher: missing(&error.to_string(), error.hint().unwrap_or_default()),
        seccomp: unknown(),
        landlock: unknown(),
        bubblewrap: unknown(),
        pins: unknown(),
        uid_zero: geteuid().is_root(),
    }
}

fn missing<T>(reason: &str, how: &str) -> Finding<T> {
    Finding::Missing {
        reason: reason.to_owned(),
        how: how.to_owned(),
    }
}

/// Landlock version, its fixed errata, and whether filters work: as the launcher sees them.
fn report() -> Result<(u32, u32, bool), Error> {
    let mut running = Running::new(launch(false)?.job(&[message::report()])?, None, None);
    let record = running.first(WITHIN)?;
    if record.kind != wire::RECORD_REPORT {
        return Err(Error::new(
            crate::error::ErrorKind::Enforcement,
            format!("the launcher answered with record {}", record.kind),
        ));
    }
    let positive = |number: i32| u32::try_from(number).unwrap_or(0);
    Ok((positive(record.a), positive(record.b), record.c == 1))
}

/// bubblewrap, and whether mounts inside mounts can be made by descriptor under it.
fn bubblewrap(support: &Support) -> (Finding<Bubblewrap>, Finding<()>) {
    let none = |finding| (finding, missing("there is no bubblewrap", ""));
    let Some(path) = BWRAP.iter().map(Path::new).find(|path| path.is_file()) else {
        return none(missing(
            "bwrap is not installed",
            "install the package bubblewrap (apt, dnf, pacman, apk)",
        ));
    };
    let mode = std::fs::metadata(path).map_or(0, |meta| meta.permissions().mode());
    if mode & 0o6000 != 0 {
        return none(missing(
            &format!(
                "{} is set-user-id, which is not used (CVE-2026-41163)",
                path.display()
            ),
            "install a bubblewrap without the bit; user namespaces make it unnecessary",
        ));
    }
    let found = Bubblewrap {
        path: path.to_owned(),
        version: version(path),
    };
    let mut with = support.clone();
    with.bubblewrap = Finding::Works(found.clone());
    with.pins = Finding::Works(());
    let Err(reason) = probe(&with, Backend::Bubblewrap) else {
        return (with.bubblewrap, with.pins);
    };
    // Once more without what needs a user namespace within bubblewrap's.
    with.pins = missing(&reason, NESTED);
    match probe(&with, Backend::Bubblewrap) {
        Ok(()) => (with.bubblewrap, with.pins),
        Err(reason) => none(missing(
            &format!("{} does not work: {reason}", path.display()),
            advice(&reason),
        )),
    }
}

/// What pins by descriptor need.
const NESTED: &str = "Linux 5.12 or later, and a user namespace within another with its \
    capabilities: user.max_user_namespaces and AppArmor's profile for what bwrap starts decide";

/// The usual reasons, told apart by bubblewrap's own words.
fn advice(reason: &str) -> &'static str {
    if reason.contains("proc") && reason.contains("mount") {
        "an outer container masks /proc; it must allow a new one (docker: --security-opt systempaths=unconfined)"
    } else if reason.contains("uid map") || reason.contains("RTM_NEWADDR") {
        "AppArmor restricts user namespaces here: load the distribution's bwrap-userns-restrict profile"
    } else if reason.contains("amespace") || reason.contains("not permitted") {
        "user namespaces are off: see user.max_user_namespaces and kernel.unprivileged_userns_clone, or the container's seccomp profile"
    } else {
        ""
    }
}

fn version(path: &Path) -> String {
    let mut command = std::process::Command::new(path);
    command
        .arg("--version")
        .env_clear()
        .stdin(std::process::Stdio::null());
    let text = command
        .output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.split_whitespace()
        .last()
        .unwrap_or("unknown")
        .to_owned()
}

/// Runs the probe under a mechanism. An error says what it could do, or why it did not run.
fn probe(support: &Support, backend: Backend) -> Result<(), String> {
    let scratch = PrivateDir::create().map_err(|error| error.to_string())?;
    let (secret, outside, inside) = (
        scratch.home().join("secret"),
        scratch.home().join("made"),
        scratch.tmp(),
    );
    let mut policy = Policy::builder().mount(&inside, "/probe", Access::ALL);
    let guards = backend == Backend::Bubblewrap;
    if guards {
        policy = policy.protect("kept").hide("unseen").hide("closed");
    }
    let policy = policy.build().map_err(|error| error.to_string())?;
    prepare(&secret, &inside).map_err(|error| error.to_string())?;
    let plan = Plan::with_mechanism(&policy, support, Requirement::BestEffort, backend)
        .map_err(|error| error.to_string())?;
    let writable = match backend {
        Backend::Bubblewrap => PathBuf::from("/probe/made"),
        Backend::Landlock | Backend::None => inside.join("made"),
    };
    let scoped = backend == Backend::Bubblewrap || support.landlock_abi() >= 6;
    let checks = Probe {
        // In a pid namespace our own number means somebody else, or nobody: no question there.
        pid: if scoped && backend == Backend::Landlock {
            std::process::id()
        } else {
            0
        },
        paths: [
            secret.as_os_str(),
            outside.as_os_str(),
            writable.as_os_str(),
            "/proc/sys/kernel/core_pattern".as_ref(),
        ]
        .into_iter()
        .chain(GUARDS.iter().filter(|_| guards).map(AsRef::as_ref))
        .map(|path| path.as_bytes().to_vec())
        .collect(),
    };
    let command = Command::new(&plan, "probe")
        .stdout(Stdio::Null)
        .stderr(Stdio::Null)
        .timeout(WITHIN);
    let (mut running, _, _) = begin(command, Some(checks)).map_err(|error| error.to_string())?;
    running.wait().map_err(|error| error.to_string())?;
    let found = running
        .records()
        .iter()
        .find(|record| record.kind == wire::RECORD_PROBE);
    let Some(found) = found else {
        return Err("the probe gave no answer".to_owned());
    };
    match could(found.a as u32) {
        could if could.is_empty() => Ok(()),
        could => Err(format!("it could {}", could.join(", "))),
    }
}

/// What the probe must not do to names that are held: see `launcher/probe.rs`.
const GUARDS: [&str; 5] = [
    "/probe/kept/made",
    "/probe/kept",
    "/probe/moved",
    "/probe/unseen",
    "/probe/closed/file",
];

/// What the probe tries its hand at.
fn prepare(secret: &Path, inside: &Path) -> std::io::Result<()> {
    std::fs::write(secret, "a secret")?;
    std::fs::write(inside.join("unseen"), "a secret")?;
    for name in ["kept", "closed"] {
        std::fs::create_dir(inside.join(name))?;
    }
    std::fs::write(inside.join("closed/file"), "a secret")
}

fn could(bits: u32) -> Vec<&'static str> {
    [
        (wire::PROBE_READ, "read a file outside"),
        (wire::PROBE_WRITE, "create a file outside"),
        (wire::PROBE_NO_WRITE, "not write where it may"),
        (wire::PROBE_INET, "make an internet socket"),
        (wire::PROBE_UNIX, "make a local socket"),
        (wire::PROBE_SIGNAL, "signal its caller"),
        (wire::PROBE_CAPABILITIES, "keep capabilities"),
        (wire::PROBE_SYSCTL, "open a kernel setting for writing"),
        (wire::PROBE_PRIVILEGES, "gain privileges"),
        (
            wire::PROBE_DESCRIPTOR,
            "see a descriptor that was not meant for it",
        ),
        (
            wire::PROBE_PIN,
            "change a protected name or read a hidden one",
        ),
    ]
    .into_iter()
    .filter(|(bit, _)| bits & bit != 0)
    .map(|(_, what)| what)
    .collect()
}
