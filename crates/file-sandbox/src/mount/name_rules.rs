//! Names below a mount that are protected or hidden.
//!
//! Rules are matched against the real path of the opened object, so that a link cannot evade them
//! (CVE-2026-25724), and regardless of case, because the file system may ignore it
//! (CVE-2025-59944). A rule covers a name with everything below it, and also a name that does not
//! exist yet (CVE-2026-25725).

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

use sandbox_names::exempt::{Exemption, is_dependencies};
pub(crate) use sandbox_names::fold;
use sandbox_names::git::{GitPathClass, classify};

use crate::text::glob::{Glob, GlobState};

/// Name patterns, matched against paths below a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameRules {
    rules: Vec<NameRule>,
    /// `true` if the rules hide, `false` if they protect.
    hides: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NameRule {
    text: String,
    glob: Glob,
    /// The pattern of each of its names.
    parts: Vec<Glob>,
    /// The path of the repository's directory, for a rule about a name in it.
    repository: Option<Glob>,
    /// The paths at which it does not apply.
    exempt: Option<Exemption>,
}

impl NameRule {
    /// `true` if it does not apply in and below a directory of this name.
    fn ends_at(&self, directory: &str) -> bool {
        self.exempt.is_some() && is_dependencies(directory)
    }

    fn spares(&self, name: &str) -> bool {
        self.exempt.is_some_and(|exempt| exempt.is_template(name))
    }

    /// Returns the match of a path; `is_last` if the last name of the path matched.
    fn matching(&self, is_last: bool, hides: bool) -> NameRuleMatch<'_> {
        let is_for_keys = self.exempt.is_some_and(Exemption::is_by_content);
        let spares_tracked = hides && self.exempt.is_some_and(Exemption::spares_tracked);
        let by_content = match (is_last, is_for_keys, spares_tracked) {
            (true, true, _) => Some(ContentCondition::Key),
            (true, false, true) => Some(ContentCondition::Untracked),
            (true, false, false) | (false, _, _) => None,
        };
        NameRuleMatch {
            text: &self.text,
            by_content,
        }
    }
}

/// Content on which a rule depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentCondition {
    /// A private key; to be hidden, one that git does not track.
    Key,
    /// Any content that git does not track.
    Untracked,
}

/// A rule that a path falls under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameRuleMatch<'r> {
    pub(crate) text: &'r str,
    /// The content on which the rule depends; `None` if the names alone decide.
    pub(crate) by_content: Option<ContentCondition>,
}

impl NameRuleMatch<'_> {
    pub(crate) fn is_for_keys(&self) -> bool {
        self.by_content == Some(ContentCondition::Key)
    }
}

/// Returns the first match that the names alone decide, or else the first one for most contents.
pub(crate) fn strictest<'r>(
    matches: impl Iterator<Item = NameRuleMatch<'r>>,
) -> Option<NameRuleMatch<'r>> {
    matches.min_by_key(|one| match one.by_content {
        None => 0,
        Some(ContentCondition::Untracked) => 1,
        Some(ContentCondition::Key) => 2,
    })
}

/// The name of a repository's git directory, or of a file with the path of one.
pub(crate) const REPOSITORY: &str = ".git";

/// Names that programs run or trust by default: hooks, keys, the configuration of editors and
/// agents. For [`Mount::protect`](crate::Mount::protect).
///
/// ```
/// use file_sandbox::{DEFAULT_PROTECTED, ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
///
/// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
/// let files = FileSandbox::new(vec![data.protect(DEFAULT_PROTECTED)?])?;
/// let hook = files.path("/data/sub/.GIT/hooks/pre-commit")?;
/// let denied = files.write(&hook, "#!/bin/sh", Default::default()).unwrap_err();
/// assert_eq!(denied.kind(), ErrorKind::ReadOnly);
/// files.write(&files.path("/data/src/main.rs")?, "fn main() {}", Default::default())?;
/// # Ok::<(), file_sandbox::Error>(())
/// ```
pub const DEFAULT_PROTECTED: &[&str] = sandbox_names::PROTECTED;

/// Names of secrets, for [`Mount::hide`](crate::Mount::hide).
///
/// ```
/// use file_sandbox::{DEFAULT_HIDDEN, ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
///
/// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
/// let files = FileSandbox::new(vec![data.hide(DEFAULT_HIDDEN)?])?;
/// let denied = files.read(&files.path("/data/.env.local")?, Default::default()).unwrap_err();
/// assert_eq!(denied.kind(), ErrorKind::NotFound);
/// # Ok::<(), file_sandbox::Error>(())
/// ```
pub const DEFAULT_HIDDEN: &[&str] = sandbox_names::HIDDEN;

/// Our temporary files: neither seen nor touched through the sandbox.
pub(crate) const TEMP_PREFIX: &str = ".forge-tmp-";

impl NameRules {
    pub(crate) fn hiding() -> Self {
        NameRules {
            rules: Vec::new(),
            hides: true,
        }
    }

    /// Adds a pattern: `.git/hooks` and `*.pem` at any depth, `/.bashrc` at the top only.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), &'static str> {
        let folded = fold(text);
        let glob = |text: &str| match text.strip_prefix('/') {
            Some(anchored) => Glob::parse(anchored),
            None => Glob::parse(text)?.anywhere(),
        };
        let mut starts = folded.match_indices(REPOSITORY);
        let repository = starts.find_map(|(start, name)| {
            let (way, inside) = folded.split_at(start + name.len());
            let whole = start == 0 || folded[..start].ends_with('/');
            (whole && inside.starts_with('/')).then_some(way)
        });
        self.rules.push(NameRule {
            text: text.to_owned(),
            glob: glob(&folded)?,
            parts: parts_of(&folded),
            repository: repository.map(glob).transpose()?,
            exempt: Exemption::of(text),
        });
        Ok(())
    }

    /// `true` if a rule has a repository at `names` below `base`. A file there would redirect git
    /// to a repository elsewhere, which the rule does not cover.
    pub(crate) fn repository_at(&self, base: &[OsString], names: &[OsString]) -> bool {
        let here = |name: &OsString| fold(&name.to_string_lossy()) == REPOSITORY;
        if !names.last().is_some_and(here) {
            return false;
        }
        let names: Vec<String> = base
            .iter()
            .chain(names)
            .map(|name| fold(&name.to_string_lossy()))
            .collect();
        let globs = self
            .rules
            .iter()
            .filter_map(|rule| rule.repository.as_ref());
        globs.into_iter().any(|glob| {
            let state = names
                .iter()
                .fold(glob.start(), |state, name| glob.step(&state, name));
            glob.accepts(&state)
        })
    }

    /// `true` if any rule is about a name in a repository.
    pub(crate) fn are_about_repositories(&self) -> bool {
        self.rules.iter().any(|rule| rule.repository.is_some())
    }

    /// Returns the patterns of the names of each rule.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[Glob]> {
        self.rules.iter().map(|rule| rule.parts.as_slice())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.text.as_str())
    }

    /// Returns the rule that covers `names` below `base`, or a directory around them.
    pub(crate) fn matching(
        &self,
        base: &[OsString],
        names: &[OsString],
    ) -> Option<NameRuleMatch<'_>> {
        if self.rules.is_empty() {
            return None;
        }
        let names = base.iter().chain(names);
        let names: Vec<String> = names.map(|n| fold(&n.to_string_lossy())).collect();
        let hit = |rule: &NameRule| {
            let mut state = rule.glob.start();
            let way = names.iter().enumerate();
            let mut held = way.take_while(|(at, _)| {
                at.checked_sub(1)
                    .and_then(|above| names.get(above))
                    .is_none_or(|above| !rule.ends_at(above))
            });
            held.find_map(|(at, name)| {
                state = rule.glob.step(&state, name);
                (rule.glob.accepts(&state) && !rule.spares(name)).then_some(at)
            })
        };
        strictest(self.rules.iter().filter_map(|rule| {
            let is_last = hit(rule)? + 1 == names.len();
            Some(rule.matching(is_last, self.hides))
        }))
    }
}

/// The state of the rules in one directory that none of them covers: each name in it is then one
/// step at any depth.
pub(crate) struct DirectoryRules<'r> {
    rules: Vec<(&'r NameRule, GlobState)>,
    hides: bool,
}

impl NameRules {
    pub(crate) fn in_dir<'r>(
        &'r self,
        bases: impl Iterator<Item = Cow<'r, [OsString]>>,
        names: &[OsString],
    ) -> DirectoryRules<'r> {
        let mut rules = Vec::new();
        let hides = self.hides;
        if self.rules.is_empty() {
            return DirectoryRules { rules, hides };
        }
        for base in bases {
            let start = rules.len();
            rules.extend(self.rules.iter().map(|rule| (rule, rule.glob.start())));
            for name in base.iter().chain(names) {
                let name = fold(&name.to_string_lossy());
                let mut at = 0;
                rules.retain_mut(|(rule, state)| {
                    at += 1;
                    if at <= start {
                        return true;
                    }
                    *state = rule.glob.step(state, &name);
                    !rule.ends_at(&name)
                });
            }
        }
        DirectoryRules { rules, hides }
    }
}

impl<'r> DirectoryRules<'r> {
    /// Returns the rules in the directory `name`, which none of them covers.
    pub(crate) fn step(&self, name: &OsStr) -> Self {
        let name = fold(&name.to_string_lossy());
        let step =
            |(rule, state): &(&'r NameRule, GlobState)| (*rule, rule.glob.step(state, &name));
        let held = self.rules.iter().filter(|(rule, _)| !rule.ends_at(&name));
        Self {
            rules: held.map(step).collect(),
            hides: self.hides,
        }
    }

    /// Returns the rule that covers a name. Our temporary files have a rule of their own.
    pub(crate) fn hiding(&self, name: &OsStr) -> Option<NameRuleMatch<'r>> {
        if name.as_encoded_bytes().starts_with(TEMP_PREFIX.as_bytes()) {
            return Some(NameRuleMatch {
                text: TEMP_PREFIX,
                by_content: None,
            });
        }
        self.matching(name)
    }

    /// The rule that a name falls under.
    pub(crate) fn matching(&self, name: &OsStr) -> Option<NameRuleMatch<'r>> {
        if self.rules.is_empty() {
            return None;
        }
        let name = fold(&name.to_string_lossy());
        let rules = self.rules.iter();
        let hit = rules
            .filter(|(rule, state)| rule.glob.accepts_child(state, &name) && !rule.spares(&name));
        strictest(hit.map(|(rule, _)| rule.matching(true, self.hides)))
    }
}

/// Returns the protected name if `names` below `base` are a path in a `.git` that file tools may
/// not write. A git directory itself, or one on the way to another, is not protected.
pub(crate) fn git_protected_name(base: &[OsString], names: &[OsString]) -> Option<&'static str> {
    match git_class(base, names)? {
        GitPathClass::Data | GitPathClass::Container => None,
        GitPathClass::GitOnly
        | GitPathClass::State
        | GitPathClass::Obeyed
        | GitPathClass::Unknown => Some(REPOSITORY),
    }
}

/// Returns the class of `names` below `base`; `None` outside every `.git`.
pub(crate) fn git_class(base: &[OsString], names: &[OsString]) -> Option<GitPathClass> {
    let is_git = |name: &&OsString| fold(&name.to_string_lossy()) == REPOSITORY;
    let mut all = base.iter().chain(names);
    // The outermost `.git` counts: everything in it belongs to git.
    all.find(is_git)?;
    let below: Vec<String> = all.map(|name| fold(&name.to_string_lossy())).collect();
    Some(classify(&below))
}

/// Returns the patterns of the names of a rule.
fn parts_of(text: &str) -> Vec<Glob> {
    let names = text.split('/').filter(|name| !name.is_empty());
    let parts: Result<Vec<Glob>, _> = names.map(Glob::parse).collect();
    parts.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories() {
        let mut rules = NameRules::default();
        for text in ["*.pem", ".github/x", "a.git/x", ".git"] {
            rules.add(text).expect(text);
        }
        let at = |rules: &NameRules, path: &str| {
            let names: Vec<OsString> = path.split('/').map(OsString::from).collect();
            let (base, names) = names.split_at(names.len() - 1);
            rules.repository_at(base, names) && rules.repository_at(&[], &[base, names].concat())
        };
        assert!(!at(&rules, ".git") && !at(&rules, "a.git") && !at(&rules, ".github"));
        rules.add("/.git/config").expect("anchored");
        assert!(at(&rules, ".git") && !at(&rules, "sub/.git"));
        rules.add(".git/modules/*/hooks").expect("anywhere");
        for path in [".git", "sub/.GIT", "a/b/.g\u{200c}it"] {
            assert!(at(&rules, path), "{path}");
        }
        for path in ["git", "a.git", ".git/x", ".github", ""] {
            assert!(!at(&rules, path), "{path}");
        }
    }

    #[test]
    fn table() {
        let mut rules = NameRules::default();
        for text in [
            ".git/hooks",
            ".git/modules/*/hooks",
            ".env*",
            "*.pem",
            "/.bashrc",
            ".vscode",
        ] {
            rules.add(text).expect(text);
        }
        let rows = [
            (".git/hooks", Some(".git/hooks")),
            (".git/hooks/pre-commit", Some(".git/hooks")),
            ("sub/.git/hooks/x", Some(".git/hooks")),
            (".GIT/Hooks/x", Some(".git/hooks")),
            (".g\u{200c}it/hooks/x", Some(".git/hooks")),
            (".git/modules/a/hooks/x", Some(".git/modules/*/hooks")),
            (".git/config", None),
            ("git/hooks", None),
            (".git", None),
            (".env", Some(".env*")),
            ("a/.ENV.local/x", Some(".env*")),
            ("a.env", None),
            (".env.example", None),
            ("a/.ENV.Sample", None),
            (".env.example/.env", Some(".env*")),
            ("node_modules/a/.env", None),
            ("node_modules/a/.vscode/x", None),
            (".env/node_modules/x", Some(".env*")),
            ("Venv/lib/x.pem", None),
            ("venv/.git/hooks/x", Some(".git/hooks")),
            ("node_modules/.bashrc", None),
            ("node_modules", None),
            ("key.pem", Some("*.pem")),
            ("key.pem/x", Some("*.pem")),
            ("key.pem/x.pem", Some("*.pem")),
            ("key.pem.txt", None),
            (".bashrc", Some("/.bashrc")),
            ("home/.bashrc", None),
            ("", None),
        ];
        for (path, rule) in rows {
            let names: Vec<OsString> = path.split('/').map(OsString::from).collect();
            let matched = rules.matching(&[], &names);
            assert_eq!(matched.map(|one| one.text), rule, "{path}");
            let is_for_keys = matched.is_some_and(|one| one.is_for_keys());
            assert_eq!(is_for_keys, path == "key.pem", "{path}");
            // A walk never comes into a directory that falls under a rule.
            if let Some((last, above)) = names.split_last()
                && rules.matching(&[], above).is_none()
            {
                let in_dir = rules.in_dir(std::iter::once(Cow::Borrowed(&[][..])), above);
                assert_eq!(in_dir.matching(last), matched, "{path}");
            }
        }
    }
}
