//! Advice for a person whose machine lacks a mechanism: the cause, and one command that would
//! change it. The same refusal has different remedies on a laptop, in a container and in a service,
//! so the environment is read first; the texts themselves are pure.
//!
//! AppArmor and user namespaces: `bwrap-userns-restrict` in Ubuntu's apparmor-profiles. Masked
//! `/proc`: mount_too_revealing() in the kernel's fs/namespace.c. Landlock: landlock(7).

use std::path::Path;

/// bubblewrap's first version with `--clearenv` and `--perms`.
const OLDEST_BUBBLEWRAP: &str = "0.5";
/// Bound on the bytes read of a file that other programs wrote.
const MAX_BYTES: u64 = 64 << 10;

const PROFILE: &str = "/etc/apparmor.d/bwrap-userns-restrict";
const SPARE_PROFILE: &str = "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict";

const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

/// Facts about the host that decide about the remedy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostEnvironment {
    /// Commands that change the system need `sudo`.
    ordinary_user: bool,
    container: Option<Container>,
    /// The distribution and those it is like, from os-release(5).
    distributions: Vec<String>,
    /// `kernel.apparmor_restrict_unprivileged_userns`.
    apparmor_restricts: bool,
    profile: AppArmorProfile,
    /// `user.max_user_namespaces` is 0.
    none_allowed: bool,
    /// `kernel.unprivileged_userns_clone` is 0 (Debian's and Arch's patch).
    clone_off: bool,
}

/// Engine of the container around this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Docker,
    Podman,
    Kubernetes,
}

/// State of AppArmor's profile for bubblewrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AppArmorProfile {
    #[default]
    NotInstalled,
    Spare,
    InPlace,
}

impl HostEnvironment {
    pub(super) fn look() -> HostEnvironment {
        // Why `is_file`: a file that a mount covers is out of the way.
        let file = |path: &str| Path::new(path).is_file();
        let setting = |path: &str, value: &str| read(path).trim() == value;
        HostEnvironment {
            ordinary_user: !nix::unistd::geteuid().is_root(),
            container: if file("/.dockerenv") {
                Some(Container::Docker)
            } else if file("/run/.containerenv") {
                Some(Container::Podman)
            } else if file("/run/secrets/kubernetes.io/serviceaccount/token") {
                Some(Container::Kubernetes)
            } else {
                None
            },
            distributions: distributions(&read("/etc/os-release")),
            apparmor_restricts: setting(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                "1",
            ),
            profile: if file(PROFILE) {
                AppArmorProfile::InPlace
            } else if file(SPARE_PROFILE) {
                AppArmorProfile::Spare
            } else {
                AppArmorProfile::NotInstalled
            },
            none_allowed: setting("/proc/sys/user/max_user_namespaces", "0"),
            clone_off: setting("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        }
    }

    fn sudo(&self) -> &'static str {
        match self.ordinary_user {
            true => "sudo ",
            false => "",
        }
    }

    /// Returns the command that installs or updates the package.
    fn package(&self) -> String {
        let manager = self
            .distributions
            .iter()
            .find_map(|name| match name.as_str() {
                "debian" | "ubuntu" => Some("apt-get install bubblewrap"),
                "fedora" | "rhel" | "centos" => Some("dnf install bubblewrap"),
                "arch" => Some("pacman -S bubblewrap"),
                "alpine" => Some("apk add bubblewrap"),
                "suse" | "opensuse" => Some("zypper install bubblewrap"),
                _ => None,
            });
        match manager {
            Some(command) => format!("{}{command}", self.sudo()),
            None => "install the package bubblewrap".to_owned(),
        }
    }

    /// Returns the remedy for a missing bwrap.
    pub(super) fn not_installed(&self) -> String {
        self.package()
    }

    /// Returns the remedy for a bwrap that runs with its owner's rights.
    pub(super) fn set_id(&self, path: &Path) -> String {
        format!(
            "{}chmod u-s,g-s {} (user namespaces make the bit unnecessary)",
            self.sudo(),
            path.display()
        )
    }

    /// Returns reason and remedy for a bwrap that failed: a better reason than its own output, if
    /// one is known.
    pub(super) fn bubblewrap(&self, path: &Path, version: &str, said: &str) -> (String, String) {
        // Its own output is enough.
        let said = said.find("bwrap: ").map_or(said, |at| &said[at..]);
        let said = said.trim_end_matches('.');
        let reason = format!("{} does not work: {said}", path.display());
        if said.contains("Unknown option") || said.contains("unrecognized option") {
            return (
                format!("{} ({version}) is too old: {said}", path.display()),
                format!(
                    "bubblewrap {OLDEST_BUBBLEWRAP} or later is needed: {}",
                    self.package()
                ),
            );
        }
        let how = if said.contains("proc") && said.contains("mount") {
            self.masked_proc()
        } else if said.contains("overflow") && said.contains("id") {
            // "Can't read /proc/sys/kernel/overflowuid"
            "set ProcSubset=all in the systemd unit that this runs in".to_owned()
        } else if said.contains("uid map")
            || said.contains("RTM_NEWADDR")
            || (self.apparmor_restricts && self.ordinary_user && about_namespaces(said))
        {
            self.apparmor(path)
        } else if about_namespaces(said) {
            self.namespaces()
        } else {
            format!(
                "to see it fail by hand: {} --unshare-all --ro-bind / / --dev /dev --proc /proc true",
                path.display()
            )
        };
        (reason, how)
    }

    /// Returns the remedy for namespaces that the launcher could not make.
    pub(super) fn own_namespaces(&self, said: &str) -> String {
        if self.apparmor_restricts && self.ordinary_user {
            return format!(
                "{}sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or bubblewrap, which \
                 AppArmor's profile can except",
                self.sudo()
            );
        }
        if said.contains("a new /proc") {
            return self.masked_proc();
        }
        match said.contains("namespaces could not be made") {
            true => self.namespaces(),
            false => "Linux 5.12 or later, and no outer filter that hides openat2".to_owned(),
        }
    }

    fn masked_proc(&self) -> String {
        match self.container {
            Some(Container::Docker) => {
                "the container masks /proc: docker run --security-opt systempaths=unconfined …"
            }
            Some(Container::Podman) => {
                "the container masks /proc: podman run --security-opt unmask=ALL …"
            }
            Some(Container::Kubernetes) => {
                "the container masks /proc: securityContext.procMount: Unmasked, with hostUsers: false"
            }
            None => {
                "an outer container or service masks parts of /proc, and must show all of it \
                 (docker: --security-opt systempaths=unconfined, podman: --security-opt unmask=ALL, \
                 systemd: ProtectKernelTunables=no)"
            }
        }
        .to_owned()
    }

    fn apparmor(&self, path: &Path) -> String {
        if path != Path::new("/usr/bin/bwrap") {
            return format!(
                "AppArmor's profile lets only /usr/bin/bwrap make user namespaces: {}",
                self.package()
            );
        }
        let sudo = self.sudo();
        let load = format!("{sudo}apparmor_parser -r {PROFILE}");
        let copy = format!("{sudo}install -m 644 {SPARE_PROFILE} {PROFILE}");
        let command = match self.profile {
            AppArmorProfile::InPlace => load,
            AppArmorProfile::Spare => format!("{copy} && {load}"),
            AppArmorProfile::NotInstalled => {
                format!("{sudo}apt-get install apparmor-profiles && {copy} && {load}")
            }
        };
        format!(
            "AppArmor restricts user namespaces here; its profile for bwrap allows them: {command}"
        )
    }

    fn namespaces(&self) -> String {
        let sudo = self.sudo();
        if self.none_allowed {
            return format!(
                "user namespaces are switched off: {sudo}sysctl -w user.max_user_namespaces=15000"
            );
        }
        if self.clone_off && self.ordinary_user {
            return format!(
                "user namespaces are for root only: {sudo}sysctl -w kernel.unprivileged_userns_clone=1"
            );
        }
        match self.container {
            Some(Container::Docker) => {
                "the container's system call filter forbids user namespaces: docker run --security-opt \
                 seccomp=unconfined --security-opt apparmor=unconfined --security-opt \
                 systempaths=unconfined … (Landlock needs none of that, from Linux 6.12 on)"
            }
            Some(Container::Podman) => {
                "the container's system call filter forbids user namespaces: podman run --security-opt \
                 seccomp=unconfined --security-opt unmask=ALL … (Landlock needs none of that, from Linux 6.12 on)"
            }
            Some(Container::Kubernetes) => {
                "the pod may not make user namespaces: securityContext.seccompProfile.type: Unconfined \
                 and procMount: Unmasked, with hostUsers: false (Landlock needs none of that, from Linux 6.12 on)"
            }
            None => {
                "whatever started this program forbids user namespaces: a system call filter, or \
                 RestrictNamespaces= of a systemd service"
            }
        }
        .to_owned()
    }

    /// Returns the reason why the kernel told no Landlock version, and the remedy.
    pub(super) fn landlock(&self, errno: i32) -> (&'static str, String) {
        match errno {
            EOPNOTSUPP => (
                "the kernel has Landlock and does not use it",
                "add landlock to the list of /sys/kernel/security/lsm by lsm= on the kernel's \
                 command line, and restart the machine"
                    .to_owned(),
            ),
            // A filter that does not know the call gives the same answer.
            ENOSYS => (
                "the kernel does not offer Landlock",
                match self.container {
                    Some(Container::Docker) => {
                        "Linux 5.13 or later, and Docker 23 or later, whose system call filter lets \
                         Landlock pass"
                    }
                    Some(Container::Podman | Container::Kubernetes) => {
                        "Linux 5.13 or later, and a container engine of 2022 or later, whose system \
                         call filter lets Landlock pass"
                    }
                    None => {
                        "Linux 5.13 or later, built with CONFIG_SECURITY_LANDLOCK, and no outer \
                         filter that does not know its system calls"
                    }
                }
                .to_owned(),
            ),
            _ => (
                "Landlock's system calls are refused",
                "an outer system call filter has to let landlock_create_ruleset, landlock_add_rule \
                 and landlock_restrict_self pass"
                    .to_owned(),
            ),
        }
    }
}

/// Returns `true` if bubblewrap's output is about namespaces, or about a right that a namespace
/// would have given.
fn about_namespaces(said: &str) -> bool {
    said.contains("amespace") || said.contains("not permitted")
}

/// Returns the requirement of mounts by descriptor, by the answer to the first of them.
pub(super) fn pins(said: &str) -> &'static str {
    if said.contains("not implemented") {
        "Linux 5.12 or later, and no outer system call filter that does not know openat2, open_tree, \
         move_mount and mount_setattr"
    } else {
        "a user namespace within another with its capabilities: user.max_user_namespaces and \
         AppArmor's profile for what bwrap starts decide"
    }
}

/// Returns `ID` and `ID_LIKE` of os-release(5).
fn distributions(os_release: &str) -> Vec<String> {
    let value = |key: &str| {
        os_release.lines().find_map(|line| {
            let value = line.strip_prefix(key)?.strip_prefix('=')?;
            Some(value.trim().trim_matches(['"', '\'']).to_lowercase())
        })
    };
    ["ID", "ID_LIKE"]
        .into_iter()
        .filter_map(value)
        .flat_map(|value| {
            // "opensuse-leap" counts as opensuse.
            value
                .split_whitespace()
                .filter_map(|name| name.split('-').next().map(str::to_owned))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Reads a file that may be missing; a file without text has no settings.
fn read(path: &str) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    // Advice from fewer facts is still advice.
    let _ = std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BWRAP: &str = "/usr/bin/bwrap";
    const NO_MAP: &str = "bwrap: setting up uid map: Permission denied";
    const NO_LOOPBACK: &str = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted";
    const NO_NAMESPACE: &str = "bwrap: No permissions to create new namespace";
    const NONE_LEFT: &str = "bwrap: Creating new namespace failed: nesting depth exceeded (ENOSPC)";
    const NO_PROC: &str = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted";

    fn person() -> HostEnvironment {
        HostEnvironment {
            ordinary_user: true,
            ..HostEnvironment::default()
        }
    }

    fn inside(container: Container) -> HostEnvironment {
        HostEnvironment {
            container: Some(container),
            ..HostEnvironment::default()
        }
    }

    #[test]
    fn one_command_for_each_cause() {
        let profile = |profile| HostEnvironment {
            apparmor_restricts: true,
            profile,
            ..person()
        };
        let cases = [
            (
                person(),
                NO_MAP,
                "sudo apt-get install apparmor-profiles && sudo install -m 644",
            ),
            (person(), NO_LOOPBACK, "sudo apparmor_parser -r"),
            (
                profile(AppArmorProfile::InPlace),
                NO_NAMESPACE,
                "allows them: sudo apparmor_parser -r",
            ),
            (
                profile(AppArmorProfile::Spare),
                NO_MAP,
                "allows them: sudo install -m 644",
            ),
            (
                HostEnvironment {
                    none_allowed: true,
                    ..person()
                },
                NONE_LEFT,
                "sudo sysctl -w user.max_user_namespaces=15000",
            ),
            (
                HostEnvironment {
                    clone_off: true,
                    ..person()
                },
                NO_NAMESPACE,
                "sudo sysctl -w kernel.unprivileged_userns_clone=1",
            ),
            (person(), NO_NAMESPACE, "RestrictNamespaces="),
            (
                inside(Container::Docker),
                NO_NAMESPACE,
                "docker run --security-opt seccomp=unconfined",
            ),
            (
                inside(Container::Podman),
                NO_NAMESPACE,
                "podman run --security-opt seccomp=unconfined",
            ),
            (
                inside(Container::Kubernetes),
                NO_NAMESPACE,
                "seccompProfile.type: Unconfined",
            ),
            (
                inside(Container::Docker),
                NO_PROC,
                "docker run --security-opt systempaths=unconfined",
            ),
            (
                inside(Container::Podman),
                NO_PROC,
                "podman run --security-opt unmask=ALL",
            ),
            (
                inside(Container::Kubernetes),
                NO_PROC,
                "procMount: Unmasked",
            ),
            (person(), NO_PROC, "ProtectKernelTunables=no"),
            (
                person(),
                "bwrap: Can't read /proc/sys/kernel/overflowuid: No such file or directory",
                "ProcSubset=all",
            ),
            (
                person(),
                "bwrap: something else",
                "by hand: /usr/bin/bwrap --unshare-all",
            ),
        ];
        for (here, said, wanted) in cases {
            let (reason, how) = here.bubblewrap(Path::new(BWRAP), "0.9.0", said);
            assert!(how.contains(wanted), "{said}: {how}");
            // The program's own output is never lost.
            assert!(reason.contains(said), "{reason}");
        }
    }

    #[test]
    fn apparmor_knows_one_bwrap() {
        let (_, how) = person().bubblewrap(Path::new("/usr/local/bin/bwrap"), "0.9.0", NO_MAP);
        assert!(how.contains("only /usr/bin/bwrap"), "{how}");
    }

    #[test]
    fn an_old_one_is_called_old() {
        let said = "bwrap: Unknown option --clearenv";
        let (reason, how) = person().bubblewrap(Path::new(BWRAP), "0.3.1", said);
        assert_eq!(
            reason,
            "/usr/bin/bwrap (0.3.1) is too old: bwrap: Unknown option --clearenv"
        );
        assert!(
            how.starts_with("bubblewrap 0.5 or later is needed"),
            "{how}"
        );
    }

    #[test]
    fn packages_by_distribution() {
        for (os_release, wanted) in [
            ("ID=debian\n", "sudo apt-get install bubblewrap"),
            (
                "NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n",
                "sudo apt-get install bubblewrap",
            ),
            ("ID=fedora\n", "sudo dnf install bubblewrap"),
            (
                "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n",
                "sudo dnf install bubblewrap",
            ),
            ("ID=arch\n", "sudo pacman -S bubblewrap"),
            ("ID=alpine\n", "sudo apk add bubblewrap"),
            (
                "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n",
                "sudo zypper install bubblewrap",
            ),
            ("ID=somebody\n", "install the package bubblewrap"),
            ("", "install the package bubblewrap"),
        ] {
            let here = HostEnvironment {
                distributions: distributions(os_release),
                ..person()
            };
            assert_eq!(here.not_installed(), wanted, "{os_release}");
        }
        // Containers often have no sudo, and root needs none.
        let root = HostEnvironment {
            distributions: vec!["debian".to_owned()],
            ..HostEnvironment::default()
        };
        assert_eq!(root.not_installed(), "apt-get install bubblewrap");
    }

    #[test]
    fn landlock_by_errno() {
        for (here, errno, why, how) in [
            (person(), EOPNOTSUPP, "does not use it", "lsm="),
            (
                person(),
                ENOSYS,
                "does not offer",
                "CONFIG_SECURITY_LANDLOCK",
            ),
            (
                inside(Container::Docker),
                ENOSYS,
                "does not offer",
                "Docker 23",
            ),
            (
                inside(Container::Podman),
                ENOSYS,
                "does not offer",
                "engine",
            ),
            (person(), 1, "refused", "landlock_add_rule"),
        ] {
            let (reason, advice) = here.landlock(errno);
            assert!(reason.contains(why), "{errno}: {reason}");
            assert!(advice.contains(how), "{errno}: {advice}");
        }
    }
}
