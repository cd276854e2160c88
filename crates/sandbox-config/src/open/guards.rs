//! Guards are written for what a project declares as a mount. A command that is shown a part of it
//! only (`restrict: /.git`) must meet the same guards, so here they are put as seen from the part:
//! `.git/hooks` becomes `hooks` there, and a part that lies in a guarded name is guarded as a whole.
//! The same holds for the way from the project to the mount: a mount at `.git` holds `hooks`.

use sandbox_names::fold;
use sandbox_names::pattern::fits;

use crate::grant::Grant;
use crate::grant::mount::{Mode, Mount};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::Reports;

/// What guards mean inside one mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MountGuardPatterns {
    /// What is held lies in a guarded name, or is one.
    pub(crate) everything: bool,
    /// Guards of which a beginning has been passed on the way to the part, without it.
    #[cfg_attr(
        not(any(feature = "files", feature = "process")),
        expect(dead_code, reason = "nothing is opened without either feature")
    )]
    pub(crate) inside: Vec<String>,
}

/// Guards of commands count at any depth, which is the stricter reading of a leading `/`.
#[cfg(feature = "process")]
pub(crate) fn anywhere(pattern: &str) -> String {
    pattern.trim_start_matches('/').to_owned()
}

impl MountGuardPatterns {
    /// In what is held of a mount.
    #[cfg(feature = "process")]
    pub(crate) fn on<'p>(
        mount: &Mount,
        patterns: impl IntoIterator<Item = &'p String>,
    ) -> MountGuardPatterns {
        let way = mount.way.iter().map(String::as_str);
        MountGuardPatterns::after(&way.chain(mount.part_names()).collect::<Vec<_>>(), patterns)
    }

    /// In the directory that the project declares, whatever of it is held.
    pub(crate) fn on_whole<'p>(
        mount: &Mount,
        patterns: impl IntoIterator<Item = &'p String>,
    ) -> MountGuardPatterns {
        let way: Vec<&str> = mount.way.iter().map(String::as_str).collect();
        MountGuardPatterns::after(&way, patterns)
    }

    fn after<'p>(
        way: &[&str],
        patterns: impl IntoIterator<Item = &'p String>,
    ) -> MountGuardPatterns {
        let mut guards = MountGuardPatterns {
            everything: false,
            inside: Vec::new(),
        };
        for pattern in patterns {
            let names: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty()).collect();
            for start in 0..way.len() {
                let passed = way.len().saturating_sub(start).min(names.len());
                let fits = names
                    .iter()
                    .zip(way.iter().skip(start))
                    .all(|(pattern, name)| fits(&fold(pattern), name.as_ref()));
                if !fits {
                    continue;
                }
                match names.get(passed..) {
                    Some([]) | None => guards.everything = true,
                    Some(rest) => guards.inside.push(rest.join("/")),
                }
            }
        }
        guards
    }
}

/// A mount that is guarded as a whole: nothing in it could be read, or written. Whoever wrote it
/// meant something else, so it is said when the config is read.
pub(crate) fn report(reports: &mut Reports, grant: &Grant) {
    for mount in grant.mounts() {
        let hidden = MountGuardPatterns::on_whole(mount, grant.hide()).everything;
        let kept = mount.mode() == Mode::ReadWrite
            && MountGuardPatterns::on_whole(mount, grant.protect()).everything;
        let (verb, help) = match (hidden, kept) {
            (true, _) => ("hidden", "it cannot be shown under another name either"),
            (false, true) => (
                "protected",
                "make it ro, or show another directory: it cannot be written under another name either",
            ),
            (false, false) => continue,
        };
        let noun = grant.front().noun();
        let name = mount.name();
        let what = format!("{noun} `{name}` lies in a name that is {verb} in every project");
        reports.add(
            Diagnostic::error(DiagnosticCode::HostPath, what)
                .at_origin(mount.origin())
                .help(help),
        );
    }
}
