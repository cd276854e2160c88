//! The files that programs need to run: libraries, tools, a few files of `/etc`, a few devices.

use crate::access::Access;
use std::path::Path;

/// The part of the host's own system that a command sees, always read-only.
///
/// ```
/// use os_sandbox::{Access, Policy, System};
/// use std::path::Path;
///
/// let policy = Policy::builder().system(System::Minimal).build()?;
/// assert!(policy.allows(Path::new("/usr/bin/env"), Access::READ | Access::EXECUTE));
/// assert!(!policy.allows(Path::new("/etc/shadow"), Access::READ));
/// assert!(!policy.allows(Path::new("/usr/bin/env"), Access::WRITE));
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// Programs and libraries, single files of `/etc` by list, harmless devices, `/proc`.
    #[default]
    Minimal,
    /// [`System::Minimal`] plus all of `/etc`, `/opt`, `/srv` and `/var/lib` that the caller's own
    /// permissions let it read. The command can read secrets in them: choose it knowingly.
    #[serde(rename = "broad")]
    BroadRead,
    /// Only devices and `/proc`. Programs come from the mounts.
    #[serde(rename = "nothing")]
    None,
}

/// Directories of programs and libraries: read and execute.
pub(crate) const PROGRAMS: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
];

/// The directories that [`System::BroadRead`] adds: read.
pub(crate) const BROAD: [&str; 4] = ["/etc", "/opt", "/srv", "/var/lib"];

/// Files and directories of `/etc` that programs need and that contain no secrets.
#[rustfmt::skip]
pub(crate) const ETC: [&str; 62] = [
    "/etc/R", "/etc/alternatives", "/etc/bash.bashrc", "/etc/ca-certificates",
    "/etc/ca-certificates.conf", "/etc/crypto-policies", "/etc/debian_version",
    "/etc/default/locale", "/etc/environment", "/etc/ethertypes", "/etc/fonts", "/etc/gai.conf",
    "/etc/gitconfig", "/etc/groff", "/etc/group", "/etc/host.conf", "/etc/hostname", "/etc/hosts",
    "/etc/inputrc", "/etc/java-11-openjdk", "/etc/java-17-openjdk", "/etc/java-21-openjdk",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
    "/etc/locale.alias", "/etc/locale.conf", "/etc/localtime", "/etc/login.defs",
    "/etc/lsb-release", "/etc/magic", "/etc/magic.mime", "/etc/man_db.conf", "/etc/manpath.config",
    "/etc/mime.types", "/etc/nanorc", "/etc/networks", "/etc/nsswitch.conf", "/etc/os-release",
    "/etc/passwd", "/etc/perl", "/etc/pki/ca-trust", "/etc/pki/tls/cert.pem", "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf", "/etc/profile", "/etc/protocols", "/etc/python3",
    "/etc/resolv.conf", "/etc/services", "/etc/sgml", "/etc/shells", "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf", "/etc/terminfo", "/etc/texmf", "/etc/timezone", "/etc/tmux.conf",
    "/etc/vim", "/etc/xml", "/etc/zsh",
];

/// Devices that every mechanism shows: read and write.
pub(crate) const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Returns the access that the profile itself gives to a normalised absolute path.
pub(crate) fn allows(system: System, path: &Path) -> Access {
    let under = |list: &[&str]| list.iter().any(|root| path.starts_with(root));
    let mut access = Access::NONE;
    if path.starts_with("/proc") {
        access = access | Access::READ;
    }
    if DEVICES.iter().any(|device| path == Path::new(device)) {
        access = access | Access::READ | Access::WRITE;
    }
    match system {
        System::None => return access,
        System::Minimal => {}
        System::BroadRead => {
            if under(&BROAD) {
                access = access | Access::READ;
            }
        }
    }
    if under(&PROGRAMS) {
        access = access | Access::READ | Access::EXECUTE;
    }
    if under(&ETC) {
        access = access | Access::READ;
    }
    access
}
