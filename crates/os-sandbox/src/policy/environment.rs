//! The variables that a command sees. The environment is clean by default, because a variable is
//! both a secret store (`*_API_KEY`) and a way to run code (`LD_PRELOAD`). Only named variables
//! reach the command.

use crate::error::Error;
use sandbox_names::is_ambient_variable;
use sandbox_names::loader_variables::is_loader_variable;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The search path for programs inside, unless the policy sets `PATH` itself.
pub(crate) const DEFAULT_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Bound on the variables of one command.
const MAX_VARIABLES: usize = 4096;

/// The variables of a command: PATH, HOME, LANG, TERM, TMPDIR, USER and LOGNAME, and those that are
/// named here.
///
/// `pass` copies the broker's own value; a name may end in `*`. Loader and interpreter hooks
/// (`LD_*`, `BASH_ENV`, `NODE_OPTIONS`, `MAKEFLAGS`, `GIT_*` …) are never passed on, not even by
/// name: `set` gives them a value that the caller chose. Names that look like secrets (`*_TOKEN`,
/// `*_API_KEY` …) pass only if they are spelt out in full.
///
/// ```
/// use os_sandbox::{Environment, Policy};
///
/// let policy = Policy::builder()
///     .env(Environment::clean().pass("CARGO_*").set("CI", "1"))
///     .build()?;
/// assert!(Policy::builder().env(Environment::clean().pass("LD_PRELOAD")).build().is_err());
/// # let _ = policy;
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    pass: BTreeSet<String>,
    set: BTreeMap<OsString, OsString>,
    search: Vec<OsString>,
}

impl Environment {
    /// Returns an environment with only the defaults.
    #[must_use]
    pub fn clean() -> Self {
        Environment::default()
    }

    /// Passes on the broker's value of `name`. `name` may end in `*`.
    #[must_use]
    pub fn pass(mut self, name: impl Into<String>) -> Self {
        self.pass.insert(name.into());
        self
    }

    /// Sets `name` to this value.
    #[must_use]
    pub fn set(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.insert(name.into(), value.into());
        self
    }

    /// Adds `directory` to the search path for programs: before the default directories, and after
    /// those that were added earlier. A `PATH` that is passed or set does not change.
    ///
    /// ```
    /// let own = os_sandbox::Environment::clean().search("/home/me/.cargo/bin");
    /// let path = own.search_path().into_string().unwrap();
    /// assert!(path.starts_with("/home/me/.cargo/bin:/usr/local/sbin:"));
    /// ```
    #[must_use]
    pub fn search(mut self, directory: impl AsRef<Path>) -> Self {
        self.search.push(directory.as_ref().into());
        self
    }

    pub(crate) fn set_default(&mut self, name: &str, value: &str) {
        self.set.entry(name.into()).or_insert(value.into());
    }

    fn default_path(&self) -> OsString {
        let default = OsString::from(DEFAULT_PATH);
        let mut all = self.search.clone();
        all.push(default);
        all.join(OsStr::new(":"))
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        for name in &self.pass {
            let stem = name.strip_suffix('*').unwrap_or(name);
            if !is_name(OsStr::new(stem)) && !stem.is_empty() || stem.contains('*') {
                return Err(Error::invalid(format!("not a variable name: {name:?}")));
            }
            if !name.ends_with('*') && is_loader_variable(name) {
                return Err(Error::invalid(format!(
                    "{name} makes programs run other code and is never passed on"
                ))
                .with_hint("set it to a value of your own instead of passing the caller's on"));
            }
        }
        for (name, value) in &self.set {
            check_variable(name, value)?;
        }
        let bad = |byte: &u8| matches!(byte, 0 | b':');
        for directory in &self.search {
            let bytes = directory.as_encoded_bytes();
            if bytes.first() != Some(&b'/') || bytes.iter().any(bad) {
                return Err(
                    Error::invalid(format!("not a directory for PATH: {directory:?}"))
                        .with_hint("write an absolute path without a colon"),
                );
            }
        }
        Ok(())
    }

    /// Returns the search path for programs: `PATH` as the target gets it.
    ///
    /// ```
    /// let own = os_sandbox::Environment::clean().set("PATH", "/opt/bin");
    /// assert_eq!(own.search_path(), "/opt/bin");
    /// ```
    #[must_use]
    pub fn search_path(&self) -> OsString {
        let path = OsStr::new("PATH");
        let mut all = self.resolve(OsStr::new(""), OsStr::new(""), std::env::vars_os());
        all.remove(path).unwrap_or_else(|| self.default_path())
    }

    /// Returns the variables that a command gets from the caller and from the policy, with their
    /// current values: all but HOME and TMPDIR, which are the sandbox's own unless they are set.
    ///
    /// ```
    /// let own = os_sandbox::Environment::clean().set("CI", "1").variables();
    /// assert_eq!(own[std::ffi::OsStr::new("CI")], "1");
    /// assert!(!own.contains_key(std::ffi::OsStr::new("HOME")));
    /// ```
    #[must_use]
    pub fn variables(&self) -> BTreeMap<OsString, OsString> {
        let mut all = self.resolve(OsStr::new(""), OsStr::new(""), std::env::vars_os());
        for name in ["HOME", "TMPDIR"].map(OsStr::new) {
            if !self.set.contains_key(name) {
                all.remove(name);
            }
        }
        all
    }

    /// Returns the variables as the target gets them, sorted by name. `broker` is the caller's
    /// environment.
    pub(crate) fn resolve(
        &self,
        home: &OsStr,
        tmp: &OsStr,
        broker: impl Iterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        let mut out = BTreeMap::new();
        out.insert("LANG".into(), "C.UTF-8".into());
        out.insert("TERM".into(), "dumb".into());
        for (name, value) in broker {
            let Some(text) = name.to_str() else { continue };
            if (is_ambient_variable(text) || self.passes(text)) && out.len() < MAX_VARIABLES {
                out.insert(name, value);
            }
        }
        // After the passed variables: the broker's own HOME and TMPDIR do not exist inside.
        if !self.pass.contains("PATH") || !out.contains_key(OsStr::new("PATH")) {
            out.insert("PATH".into(), self.default_path());
        }
        out.insert("HOME".into(), home.to_owned());
        out.insert("TMPDIR".into(), tmp.to_owned());
        for (name, value) in &self.set {
            out.insert(name.clone(), value.clone());
        }
        out
    }

    pub(crate) fn describe(&self, out: &mut Vec<u8>) {
        for directory in &self.search {
            out.extend_from_slice(b"search\0");
            out.extend_from_slice(directory.as_encoded_bytes());
            out.push(b'\n');
        }
        for name in &self.pass {
            out.extend_from_slice(b"pass\0");
            out.extend_from_slice(name.as_bytes());
            out.push(b'\n');
        }
        for (name, value) in &self.set {
            out.extend_from_slice(b"set\0");
            out.extend_from_slice(name.as_encoded_bytes());
            out.push(0);
            out.extend_from_slice(value.as_encoded_bytes());
            out.push(b'\n');
        }
    }

    /// Returns `true` if the variable is passed on. Most variables do not match any pattern, so
    /// that test is first.
    fn passes(&self, name: &str) -> bool {
        let named = self.pass.contains(name);
        let meant = |pattern: &String| {
            pattern
                .strip_suffix('*')
                .is_some_and(|stem| name.starts_with(stem))
        };
        (named || (self.pass.iter().any(meant) && !is_secret(name))) && !is_loader_variable(name)
    }
}

/// Refuses a variable that `execve` could not pass.
pub(crate) fn check_variable(name: &OsStr, value: &OsStr) -> Result<(), Error> {
    if !is_name(name) {
        return Err(Error::invalid(format!("not a variable name: {name:?}")));
    }
    if value.as_encoded_bytes().contains(&0) {
        return Err(Error::invalid(format!(
            "the value of {} has a NUL byte",
            name.display()
        )));
    }
    Ok(())
}

fn is_name(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    !bytes.is_empty() && !bytes.contains(&0) && !bytes.contains(&b'=')
}

fn is_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "API_KEY",
        "APIKEY",
        "PRIVATE_KEY",
        "ACCESS_KEY",
        "CREDENTIAL",
        "COOKIE",
        "SESSION_KEY",
        "AUTH_SOCK",
        "_KEY",
        "_PAT",
        "DATABASE_URL",
    ]
    .iter()
    .any(|part| upper.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(environment: &Environment, broker: &[(&str, &str)]) -> Vec<String> {
        environment
            .resolve(
                OsStr::new("/home/sandbox"),
                OsStr::new("/tmp"),
                broker.iter().map(|(k, v)| ((*k).into(), (*v).into())),
            )
            .into_iter()
            .map(|(k, v)| format!("{}={}", k.display(), v.display()))
            .collect()
    }

    #[test]
    fn clean_by_default() {
        let broker = [
            ("OPENAI_API_KEY", "x"),
            ("LD_PRELOAD", "/evil.so"),
            ("HOME", "/root"),
            ("PATH", "/evil"),
            ("LANG", "de_DE.UTF-8"),
        ];
        assert_eq!(
            resolved(&Environment::clean(), &broker),
            [
                "HOME=/home/sandbox",
                "LANG=de_DE.UTF-8",
                &format!("PATH={DEFAULT_PATH}"),
                "TERM=dumb",
                "TMPDIR=/tmp",
            ]
        );
    }

    #[test]
    fn a_pattern_passes_neither_hooks_nor_secrets() {
        let broker = [
            ("CARGO_HOME", "/c"),
            ("CARGO_REGISTRY_TOKEN", "t"),
            ("LD_PRELOAD", "x"),
            ("BASH_ENV", "x"),
        ];
        let got = resolved(&Environment::clean().pass("*"), &broker);
        assert!(got.contains(&"CARGO_HOME=/c".to_owned()));
        assert!(!got.iter().any(|v| v.contains("TOKEN")), "{got:?}");
        assert!(
            !got.iter()
                .any(|v| v.starts_with("LD_") || v.starts_with("BASH")),
            "{got:?}"
        );
        let got = resolved(&Environment::clean().pass("CARGO_REGISTRY_TOKEN"), &broker);
        assert!(got.contains(&"CARGO_REGISTRY_TOKEN=t".to_owned()));
    }
}
