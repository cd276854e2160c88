//! Program directories of the host outside the system's own directories, such as `~/.cargo/bin`.

use super::mounts::{self, Mount, UnresolvedMount};
use super::system::{PROGRAMS, System};
use crate::error::Error;
use std::path::{Path, PathBuf};

/// Bound on the program directories of one policy. Each is a mount.
const MAX_PROGRAMS: usize = 256;

/// A directory or file of the host that commands can only read and execute.
///
/// ```
/// use os_sandbox::{Access, Policy};
/// use std::path::Path;
///
/// let policy = Policy::builder().programs("/home/me/.cargo/bin", "/home/me/.cargo/bin").build()?;
/// let cargo = Path::new("/home/me/.cargo/bin/cargo");
/// assert!(policy.allows(cargo, Access::READ | Access::EXECUTE));
/// assert!(!policy.allows(cargo, Access::WRITE));
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramDir {
    shown_at: PathBuf,
    host: PathBuf,
}

impl ProgramDir {
    sandbox_names::getters! {
        /// Returns the directory or file on the host, without links.
        pub host: &Path = &host;
        /// Returns the path under a mount layer. Under other mechanisms links of the host lead there.
        pub shown_at: &Path = &shown_at;
    }

    pub(super) fn wanted(&self) -> (PathBuf, PathBuf) {
        (self.host.clone(), self.shown_at.clone())
    }
}

/// Returns the directories sorted by their paths inside, so that none hides a deeper one.
pub(super) fn resolve(
    wanted: &[(PathBuf, PathBuf)],
    mounts: &[Mount],
    system: System,
) -> Result<Vec<ProgramDir>, Error> {
    if wanted.len() > MAX_PROGRAMS {
        return Err(Error::new(
            crate::error::ErrorKind::Limit,
            format!(
                "{} program directories, at most {MAX_PROGRAMS}",
                wanted.len()
            ),
        ));
    }
    let mut programs = Vec::with_capacity(wanted.len());
    for (host, shown_at) in wanted {
        let one = ProgramDir {
            host: mounts::check_host(host)?,
            shown_at: mounts::check_host(shown_at)?,
        };
        check(&one, mounts)?;
        // A directory of the system is shown already.
        let mut of_system = PROGRAMS.iter().filter(|_| system != System::None);
        if !of_system.any(|path| one.shown_at.starts_with(path)) {
            programs.push(one);
        }
    }
    programs.sort();
    programs.dedup_by(|a, b| a.shown_at == b.shown_at);
    Ok(programs)
}

fn check(one: &ProgramDir, mounts: &[Mount]) -> Result<(), Error> {
    let meet = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
    for mount in mounts {
        let inside = Path::new(mount.inside());
        let wanted: UnresolvedMount = mount.wanted();
        if meet(&one.host, &wanted.host)
            || meet(&one.shown_at, &wanted.host)
            || meet(&one.shown_at, inside)
        {
            return Err(Error::invalid(format!(
                "the programs at {} and the mount at {} are not apart",
                one.shown_at.display(),
                mount.shown_at()
            ))
            .with_hint("programs in a mount need no more than the mount"));
        }
    }
    if mounts::OWN_PLACES
        .iter()
        .any(|own| Path::new(own).starts_with(&one.shown_at))
    {
        return Err(Error::invalid(format!(
            "the programs at {} would hide a directory of the sandbox",
            one.shown_at.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::access::Access;
    use crate::policy::Policy;

    #[test]
    fn what_can_be_programs() {
        let with = |host: &str, shown_at: &str| {
            let policy = Policy::builder().mount("/home/me/project", "/", Access::ALL);
            let policy = policy.programs(host, shown_at).build();
            policy.map(|policy| policy.programs().len())
        };
        for (host, shown_at, count) in [
            ("/home/me/.nvm", "/home/me/.nvm", Some(1)),
            ("/home/me/.nvm/", "/opt/nvm", Some(1)),
            ("/tmp/tools", "/tmp/tools", Some(1)),
            // Shown in any case.
            ("/usr/local/bin", "/usr/local/bin", Some(0)),
            ("/home/me", "/home/me", None),
            ("/home/me/project/bin", "/home/me/project/bin", None),
            ("/home/me/project", "/opt/bin", None),
            ("/opt/bin", "/home/me/project/bin", None),
            ("/opt/bin", "/work/bin", None),
            ("/opt/bin", "/home", None),
            ("/", "/opt/bin", None),
            ("/opt", "/", None),
            ("/proc/self", "/opt", None),
            ("bin", "/opt", None),
            ("/opt/../etc", "/opt", None),
        ] {
            assert_eq!(with(host, shown_at).ok(), count, "{host} {shown_at}");
        }
    }
}
