//! How a change is listed, from the tables of names.

use std::ffi::OsStr;
use std::path::Path;

use sandbox_names::git::{GitPathClass, classify as classify_git};
use sandbox_names::secret::{MAX_JUDGED_BYTES, holds_private_key};
use sandbox_names::{autoloaded, git_harm};
use serde_json::Value;

use crate::path::TreePath;
use crate::review::ChangeClass;

/// A pattern of a policy that covers a path.
#[derive(Clone, Debug)]
pub struct ProtectedName {
    /// The pattern, for people.
    pub pattern: String,
    /// It applies to a regular file only if the file contains a private key.
    pub by_content: bool,
}

/// Returns the pattern that protects a path of the mount with this index.
pub type JudgeName<'a> = dyn Fn(usize, &Path) -> Option<ProtectedName> + 'a;

/// Files from which a build or a package manager executes commands. They change in everyday work,
/// so they are only listed apart.
const BUILD_FILES: &[(&str, &str)] = &[
    ("makefile", "make executes it"),
    ("gnumakefile", "make executes it"),
    ("justfile", "just executes it"),
    ("build.rs", "cargo executes it in a build"),
    ("setup.py", "pip executes it at installation"),
    ("conftest.py", "pytest executes it"),
];

/// The manifest in which npm finds commands.
const NPM_MANIFEST: &str = "package.json";

/// The contents of a path that classification may read: before and after.
pub(crate) trait Contents {
    /// Returns the new content of a regular file (the old one if it is deleted), up to `max_bytes`
    /// and one byte more.
    fn current(&self, max_bytes: u64) -> Option<Vec<u8>>;
    /// Returns the old content in the same way.
    fn previous(&self, max_bytes: u64) -> Option<Vec<u8>>;
}

/// Returns the class of a path. `generated` is the directory of generated files around it.
pub(crate) fn classify(
    judge: &dyn Fn(&Path) -> Option<ProtectedName>,
    path: &TreePath,
    generated: Option<TreePath>,
    contents: &dyn Contents,
) -> ChangeClass {
    let names = path.folded_names();
    if let Some(pattern) = protected_of_git(&names) {
        let pattern = pattern.to_owned();
        return ChangeClass::Protected { pattern };
    }
    if let Some(name) = judge(Path::new(&path.to_os_string())) {
        let content = name.by_content.then(|| contents.current(MAX_JUDGED_BYTES));
        let is_harmless = content
            .flatten()
            .is_some_and(|content| !holds_private_key(&content));
        if !is_harmless {
            let pattern = name.pattern;
            return ChangeClass::Protected { pattern };
        }
    }
    if let Some(below) = generated {
        return ChangeClass::Generated { below };
    }
    if let Some(row) = autoloaded::find_with_contents(&names) {
        return ChangeClass::Trigger { why: row.why() };
    }
    let last = names.last().map(String::as_str).unwrap_or_default();
    if let Some((_, why)) = BUILD_FILES.iter().find(|(name, _)| *name == last) {
        let why = (*why).to_owned();
        return ChangeClass::Trigger { why };
    }
    if last == NPM_MANIFEST && has_other_scripts(contents) {
        let why = "npm executes its scripts, which differ".to_owned();
        return ChangeClass::Trigger { why };
    }
    ChangeClass::Ordinary
}

/// Returns the name of git if a path below a git directory is one that commands never write, or is
/// a file that leads git elsewhere.
fn protected_of_git(names: &[String]) -> Option<&'static str> {
    const GIT: &str = ".git";
    let at = names.iter().position(|name| name == GIT)?;
    match classify_git(&names[at + 1..]) {
        GitPathClass::Data | GitPathClass::GitOnly | GitPathClass::Container => None,
        GitPathClass::State | GitPathClass::Obeyed | GitPathClass::Unknown => Some(GIT),
    }
}

/// Returns `true` for a change of a repository's configuration that git may make in commands without a
/// review.
pub(crate) fn is_harmless_config(path: &TreePath, contents: &dyn Contents) -> bool {
    let is_config = matches!(path.names(), [.., git, name] if git == ".git" && name == "config");
    let is_harmless = || {
        let old = contents.previous(MAX_JUDGED_BYTES)?;
        let new = contents.current(MAX_JUDGED_BYTES)?;
        let is_whole = [&old, &new]
            .iter()
            .all(|one| one.len() as u64 <= MAX_JUDGED_BYTES);
        Some(is_whole && git_harm::change(&old, &new).is_none())
    };
    is_config && is_harmless().unwrap_or(false)
}

/// Returns `true` unless both manifests have equal scripts.
fn has_other_scripts(contents: &dyn Contents) -> bool {
    let scripts = |content: Option<Vec<u8>>| -> Option<Value> {
        let manifest: Value = serde_json::from_slice(&content?).ok()?;
        Some(manifest.get("scripts").cloned().unwrap_or_default())
    };
    let new = scripts(contents.current(MAX_JUDGED_BYTES));
    let old = scripts(contents.previous(MAX_JUDGED_BYTES));
    match (old, new) {
        (Some(old), Some(new)) => old != new,
        (None, Some(new)) => new != Value::Null,
        (_, None) => true,
    }
}

/// Returns `true` for a regular file at the name of a git directory: it leads git elsewhere.
pub(crate) fn is_git_redirect(name: &OsStr) -> bool {
    sandbox_names::fold(&name.to_string_lossy()) == ".git"
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files {
        old: Option<&'static str>,
        new: Option<&'static str>,
    }

    impl Contents for Files {
        fn current(&self, _: u64) -> Option<Vec<u8>> {
            self.new.or(self.old).map(|text| text.as_bytes().to_vec())
        }

        fn previous(&self, _: u64) -> Option<Vec<u8>> {
            self.old.map(|text| text.as_bytes().to_vec())
        }
    }

    #[test]
    fn table() {
        let judge = |path: &Path| {
            let is = |end: &str| path.extension().is_some_and(|found| found == end);
            let vscode = path.iter().any(|name| name == ".vscode");
            let pattern = |text: &str, by_content| {
                Some(ProtectedName {
                    pattern: text.to_owned(),
                    by_content,
                })
            };
            match (is("pem"), vscode) {
                (true, _) => pattern("*.pem", true),
                (_, true) => pattern(".vscode", false),
                _ => None,
            }
        };
        let rows = [
            ("src/main.rs", None, Some("x"), "ordinary"),
            (".git/hooks/pre-commit", None, Some("x"), "protected"),
            ("sub/.GIT/config", Some("x"), Some("y"), "protected"),
            (
                ".git/rebase-merge/git-rebase-todo",
                None,
                Some("x"),
                "protected",
            ),
            (".git/no-such-name", None, Some("x"), "protected"),
            (".git/objects/ab/cd", None, Some("x"), "generated"),
            (".git/objects/info/alternates", None, Some("x"), "protected"),
            (".git/HEAD", None, Some("x"), "ordinary"),
            (".vscode/tasks.json", None, Some("x"), "protected"),
            (
                "cert.pem",
                None,
                Some("-----BEGIN CERTIFICATE-----"),
                "ordinary",
            ),
            (
                "key.pem",
                None,
                Some("-----BEGIN PRIVATE KEY-----"),
                "protected",
            ),
            (
                "key.pem",
                Some("-----BEGIN PRIVATE KEY-----"),
                None,
                "protected",
            ),
            ("node_modules/a/package.json", None, Some("x"), "generated"),
            ("target", None, None, "generated"),
            ("sub/.venv/bin/python", None, Some("x"), "generated"),
            ("node_modules/.git/hooks/x", None, Some("x"), "protected"),
            (".github/workflows/ci.yml", None, Some("x"), "trigger"),
            (".husky/pre-commit", None, Some("x"), "trigger"),
            ("Makefile", None, Some("x"), "trigger"),
            ("package.json", None, Some("{}"), "ordinary"),
            (
                "package.json",
                None,
                Some(r#"{"scripts":{"a":"b"}}"#),
                "trigger",
            ),
            (
                "package.json",
                Some(r#"{"scripts":{"a":"b"}}"#),
                Some(r#"{"scripts":{"a":"b"},"x":1}"#),
                "ordinary",
            ),
            (
                "package.json",
                Some(r#"{"scripts":{"a":"b"}}"#),
                Some(r#"{"scripts":{"a":"c"}}"#),
                "trigger",
            ),
            ("package.json", Some("{}"), Some("no JSON"), "trigger"),
        ];
        for (path, old, new, want) in rows {
            let path = TreePath::parse(Path::new(path)).unwrap();
            let generated = path.generated_roots(true).next();
            let class = classify(&judge, &path, generated, &Files { old, new });
            let json = serde_json::to_value(&class).unwrap();
            assert_eq!(json["name"], want, "{path}");
        }
    }
}
