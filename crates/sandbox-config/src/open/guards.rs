//! Patterns of names, as they count in one mount. A project writes them for the mount that it
//! declares. A command that sees only a part of that mount (`restrict: /.git`) must meet the same
//! patterns, so they are rewritten from the part's top: `.git/hooks` becomes `/hooks` there, and a
//! part below a guarded name is guarded as a whole. A mount at `.git` is treated alike.

use std::collections::HashMap;
use std::path::Path;

use sandbox_names::fold;
use sandbox_names::pattern::fits;

use crate::grant::Grant;
use crate::grant::mount::{DEFAULT_PROTECT, Mode, Mount};
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::Reports;

/// The patterns that count in one mount, or in the part of it that a worker has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MountGuardPatterns {
    /// `true` if the mount or part has a guarded name, or is below one.
    pub(crate) everything: bool,
    /// Patterns that count from the part's own top: those with a leading `/`, and the rest of those
    /// whose first names are on the path to the part.
    pub(crate) inside: Vec<String>,
}

impl MountGuardPatterns {
    /// Returns the patterns in the part of a mount that the worker has.
    pub(crate) fn on<'p>(
        mount: &'p Mount,
        patterns: impl IntoIterator<Item = &'p String>,
    ) -> MountGuardPatterns {
        MountGuardPatterns::after(mount, mount.part_names(), patterns)
    }

    /// Returns the patterns in a directory of the host that no project declares. Patterns with a
    /// leading `/` count from its own top.
    pub(crate) fn on_path<'p>(
        path: &Path,
        patterns: impl IntoIterator<Item = &'p String>,
    ) -> MountGuardPatterns {
        let names: Vec<_> = path
            .iter()
            .skip(1)
            .map(|name| name.to_string_lossy())
            .collect();
        let way: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        MountGuardPatterns::below(way.len(), &way, patterns)
    }

    /// Returns the patterns in the directory that the project declares.
    pub(crate) fn on_whole<'p>(
        mount: &'p Mount,
        patterns: impl IntoIterator<Item = &'p String>,
    ) -> MountGuardPatterns {
        MountGuardPatterns::after(mount, std::iter::empty(), patterns)
    }

    /// Returns the patterns below `part` of a mount. A pattern with a leading `/` counts from the
    /// mount's own top, a built-in one also from the directory that the mount's path starts in.
    fn after<'p>(
        mount: &'p Mount,
        part: impl Iterator<Item = &'p str>,
        patterns: impl IntoIterator<Item = &'p String>,
    ) -> MountGuardPatterns {
        let way: Vec<&str> = mount.way.iter().map(String::as_str).chain(part).collect();
        MountGuardPatterns::below(mount.way.len(), &way, patterns)
    }

    /// Returns the patterns below the names of `way`. A pattern with a leading `/` counts from the
    /// name at `top`.
    fn below<'p>(
        top: usize,
        way: &[&str],
        patterns: impl IntoIterator<Item = &'p String>,
    ) -> MountGuardPatterns {
        let mut guards = MountGuardPatterns {
            everything: false,
            inside: Vec::new(),
        };
        for pattern in patterns {
            let names: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty()).collect();
            let starts: Vec<usize> = match pattern.starts_with('/') {
                true if top > 0 && DEFAULT_PROTECT.contains(&pattern.as_str()) => vec![0, top],
                true => vec![top],
                false => (0..way.len()).collect(),
            };
            for start in starts {
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
                    Some(rest) => guards.inside.push(format!("/{}", rest.join("/"))),
                }
            }
        }
        guards
    }
}

impl Grant {
    /// Returns the mode of a mount and the patterns that protect and hide names below it, as files
    /// are opened: a pattern of the project that begins above the mount counts from its top.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(dir.path().join("src")).unwrap();
    /// # std::fs::write(dir.path().join("forge.yaml"),
    /// #     "sandbox: { mode: direct, protect: [src/a.py], zones: { src: { path: src } } }\n").unwrap();
    /// let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
    /// let grant = project.ceiling();
    /// let (_, protect, _) = grant.file_guards(grant.mount_at("/src").unwrap());
    /// assert!(protect.contains(&"/a.py".to_owned()));
    /// ```
    #[must_use]
    pub fn file_guards(&self, mount: &Mount) -> (Mode, Vec<String>, Vec<String>) {
        let protected = MountGuardPatterns::on(mount, self.protected_in(mount));
        let hidden = MountGuardPatterns::on(mount, self.hidden_in(mount));
        let mode = match protected.everything {
            true => Mode::ReadOnly,
            false => mount.mode(),
        };
        let protect = self.protected_in(mount).cloned().chain(protected.inside);
        let hide = self.hidden_in(mount).cloned().chain(hidden.inside);
        (mode, protect.collect(), hide.collect())
    }

    /// Returns a pattern of a mount as the file has it: `/data/private` for `/private` in `/data`,
    /// and `src/a` for `/a` in the directory `src`.
    #[must_use]
    pub fn pattern_as_written<'g>(&'g self, mount: &Mount, pattern: &'g str) -> &'g str {
        let written = self.patterns_as_written(mount);
        written.get(pattern).copied().unwrap_or(pattern)
    }

    /// Returns the patterns of the files for those that they become in a mount; of several the first.
    pub(super) fn patterns_as_written(&self, mount: &Mount) -> HashMap<String, &str> {
        let mut all = HashMap::new();
        for written in self.protect.iter().chain(self.hide.iter()) {
            let paths = mount.paths_of(written).into_iter().map(str::to_owned);
            for inside in paths.chain(MountGuardPatterns::on(mount, [written]).inside) {
                all.entry(inside).or_insert(written.as_str());
            }
        }
        all
    }
}

/// Reports mounts that are guarded as a whole: no file in them could be read, or written.
pub(crate) fn report(reports: &mut Reports, grant: &Grant) {
    for mount in grant.mounts() {
        let hidden = MountGuardPatterns::on_whole(mount, grant.hidden_in(mount)).everything;
        let kept = mount.mode() == Mode::ReadWrite
            && MountGuardPatterns::on_whole(mount, grant.protected_in(mount)).everything;
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
            DiagnosticCode::HostPath
                .error(what)
                .at_origin(mount.origin())
                .help(help),
        );
    }
}
