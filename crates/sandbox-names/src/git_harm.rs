//! Checks if the configuration of a repository that a command changed is harmless: git obeys it also
//! when a person runs it later, outside. All checks are allow-lists: every unknown entry is harmful.
//!
//! <https://git-scm.com/docs/git-config>, <https://git-scm.com/docs/gitattributes>

use crate::git_config::{GitConfigEntry, entries, is_plain_line, without_mark};
use crate::git_preferences::may_stay;
use std::collections::HashSet;

/// Bound on a file that is checked.
pub const MAX_BYTES: usize = 64 << 10;

/// Returns the reason why a `config` is harmful; `None` if it is harmless.
#[must_use]
pub fn config(bytes: &[u8]) -> Option<String> {
    config_of_tree(bytes, &|_| false)
}

/// Like [`config`], for a repository whose files may be in one of some other directories.
///
/// ```
/// use sandbox_names::git_harm::config_of_tree;
/// let text = b"[core]\n\tworktree = /work\n";
/// assert_eq!(config_of_tree(text, &|tree| tree == "/work"), None);
/// assert!(config_of_tree(text, &|tree| tree == "/other").is_some());
/// ```
#[must_use]
pub fn config_of_tree(bytes: &[u8], is_tree: &dyn Fn(&str) -> bool) -> Option<String> {
    let text = match plain(bytes) {
        Ok(text) => text,
        Err(reason) => return Some(reason),
    };
    let mut section = Section::Unknown;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') {
            section = match Section::parse(line) {
                Some(section) => section,
                None => return Some(format!("it has the section {line}")),
            };
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Some(format!("it sets {line}"));
        };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let is_tree = section == Section::Core && key == "worktree" && is_tree(value);
        if !is_tree && !section.allows(&key, value) {
            return Some(format!("it sets {}.{key}", section.name()));
        }
    }
    None
}

/// Returns the reason why a changed configuration is harmful; `None` if it is harmless. Allowed
/// additions are the entries that git writes for a new remote, a branch or a module, the identity
/// of the committer, and preferences. The old entries must be in the same order, so that each still leads
/// to the same place.
///
/// ```
/// use sandbox_names::git_harm::change;
/// assert_eq!(change(b"", b"[user]\n\tname = Me\n"), None);
/// assert_eq!(change(b"", b"[core]\n\tpager = x\n").as_deref(), Some("it sets core.pager"));
/// ```
#[must_use]
pub fn change<'a>(was: &'a [u8], now: &'a [u8]) -> Option<String> {
    let (Ok(was), Ok(now)) = (std::str::from_utf8(was), std::str::from_utf8(now)) else {
        return Some("it is not text".to_owned());
    };
    // New lines are plain, so that git reads them as this check does.
    let known: HashSet<&str> = was.lines().collect();
    let new_lines = now.lines().filter(|line| !known.contains(line));
    if let Some(why) = unusual(new_lines).or_else(|| outside_of_sections(now)) {
        return Some(why);
    }
    // A continued line must continue as before: git and this check may disagree about some of the
    // continued lines that a person wrote.
    let continued = |text: &'a str| -> HashSet<(&'a str, Option<&'a str>)> {
        let next = text.lines().skip(1).map(Some).chain([None]);
        let pairs = text.lines().zip(next);
        pairs.filter(|(line, _)| line.ends_with('\\')).collect()
    };
    if !continued(now).is_subset(&continued(was)) {
        return Some("it goes on with a line in another way".to_owned());
    }
    let (was, now) = (entries(was), entries(now));
    let mut kept = was.iter().filter(|entry| !is_free(entry)).peekable();
    let is_there = |entry: &GitConfigEntry| now.iter().any(|other| other.name() == entry.name());
    let gone = was.iter().find(|entry| !is_free(entry) && !is_there(entry));
    let gone = gone.map(|entry| format!("it no longer sets {}", entry.name()));
    for entry in now.iter().filter(|entry| !is_about_a_person(entry)) {
        let name = entry.name();
        if is_free(entry) {
            match was.contains(entry) || may_be_added(entry) {
                true => continue,
                false => return Some(format!("it sets {name}")),
            }
        }
        if kept.next_if(|kept| *kept == entry).is_some() {
            continue;
        }
        let same_key = |other: &&GitConfigEntry| other.name() == name;
        let same_remote = |other: &&GitConfigEntry| {
            entry.section == "remote" && other.section == "remote" && other.sub == entry.sub
        };
        if was
            .iter()
            .any(|other| same_key(&other) || same_remote(&other))
        {
            return gone.or(Some(format!("it changes {name}")));
        }
        if !may_be_added(entry) {
            return Some(format!("it sets {name}"));
        }
    }
    gone.or_else(|| Some(format!("it changes {}", kept.next()?.name())))
}

/// Returns `true` for entries that may change and go: the committer's identity, preferences, and
/// whether and from where a module is fetched.
fn is_free(entry: &GitConfigEntry) -> bool {
    is_about_a_person(entry)
        || may_stay(&entry.name(), &entry.value)
        || entry.section == "submodule" && matches!(&*entry.key, "url" | "active")
}

fn is_about_a_person(entry: &GitConfigEntry) -> bool {
    entry.section == "user" && entry.sub.is_none() && matches!(&*entry.key, "name" | "email")
}

fn may_be_added(entry: &GitConfigEntry) -> bool {
    let value = entry.value.as_str();
    let section = match (&*entry.section, entry.sub.as_deref()) {
        ("remote", Some(remote)) => {
            let own = format!("refs/remotes/{remote}/");
            let is_own = |spec: &str| {
                spec.split_once(':')
                    .is_some_and(|(_, to)| to.starts_with(&own))
            };
            return reference(remote)
                && !remote.contains('/')
                && match &*entry.key {
                    "url" => url(value) || is_relative(value),
                    // Elsewhere it would change branches of others.
                    "fetch" => refspec(value) && is_own(value),
                    _ => false,
                };
        }
        ("branch", Some(_)) => Section::Branch,
        ("submodule", None) => Section::AllSubmodules,
        ("submodule", Some(_)) => return Section::Submodule.allows(&entry.key, value),
        ("init", None) => Section::Init,
        _ => return may_stay(&entry.name(), value),
    };
    let sub = entry.sub.as_deref();
    sub.is_none_or(reference) && section.allows(&entry.key, value)
}

/// Returns the reason why a `.gitmodules` is harmful; `None` if it is harmless.
#[must_use]
pub fn modules(bytes: &[u8]) -> Option<String> {
    let text = match plain(bytes) {
        Ok(text) => text,
        Err(reason) => return Some(reason),
    };
    if let Some(why) = unusual(text.lines()).or_else(|| outside_of_sections(text)) {
        return Some(why);
    }
    entries(text).into_iter().find_map(|entry| {
        let value = entry.value.as_str();
        let path = |text: &str| {
            !text.starts_with(['-', '/'])
                && !text.split('/').any(|name| matches!(name, ".." | ".git"))
        };
        let fine = entry.section == "submodule"
            && entry.sub.as_deref().is_some_and(path)
            && match entry.key.as_str() {
                "path" => path(value),
                "url" => url(value) || is_relative(value),
                "branch" => value == "." || reference(value),
                "shallow" | "fetchrecursesubmodules" => {
                    matches!(value, "true" | "false" | "on-demand")
                }
                "ignore" => matches!(value, "all" | "dirty" | "untracked" | "none"),
                "update" => matches!(value, "checkout" | "rebase" | "merge" | "none"),
                _ => false,
            };
        (!fine).then(|| format!("it sets {} to {value}", entry.name()))
    })
}

/// Returns the reason why an `info/attributes` is harmful; `None` if it is harmless.
#[must_use]
pub fn attributes(bytes: &[u8]) -> Option<String> {
    #[rustfmt::skip]
    const PLAIN: [&str; 15] = [
        "text", "-text", "text=auto", "eol=lf", "eol=crlf", "binary", "-diff", "-merge",
        "export-ignore", "export-subst", "-export-subst", "linguist-generated",
        "linguist-vendored", "linguist-documentation", "whitespace",
    ];
    let text = match plain(bytes) {
        Ok(text) => text,
        Err(reason) => return Some(reason),
    };
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .flat_map(|line| line.split_whitespace().skip(1))
        .find(|attribute| !PLAIN.contains(attribute))
        .map(|attribute| format!("it sets the attribute {attribute}"))
}

/// Returns the text if it is free of characters that change the meaning of lines: continuations and
/// control bytes. The parser of section headers handles quotes.
fn plain(bytes: &[u8]) -> Result<&str, String> {
    if bytes.len() > MAX_BYTES {
        return Err("it is too large".to_owned());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let strange = |c: char| c == '\\' || c.is_control() && !matches!(c, '\n' | '\t');
    if text.chars().any(strange) {
        return Err("it has unusual characters".to_owned());
    }
    Ok(text)
}

/// Returns the reason for which git does not read a configuration at all: a value before the first
/// section.
fn outside_of_sections(text: &str) -> Option<String> {
    let mut lines = without_mark(text).lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(['#', ';']))?;
    (!first.starts_with('[')).then(|| format!("no section has the line {first}"))
}

/// Returns the reason for which git could read one of the lines in another way than this check.
fn unusual<'l>(mut lines: impl Iterator<Item = &'l str>) -> Option<String> {
    lines.find_map(|line| match plain(line.as_bytes()) {
        Ok(line) if is_plain_line(line) => None,
        Ok(line) => Some(format!("it has the unusual line {line}")),
        Err(why) => Some(why),
    })
}

crate::word_enum! {
    /// The sections that can have a harmless key.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Section {
        /// The state before the first header. No key is allowed here.
        Unknown = "",
        Core = "core",
        Extensions = "extensions",
        User = "user",
        Init = "init",
        Remote = "remote",
        Branch = "branch",
        Submodule = "submodule",
        AllSubmodules = "submodule",
        Feature = "feature",
        Index = "index",
    }
    fn name
}

impl Section {
    /// Parses `[core]` or `[remote "origin"]`. `None` if the line contains anything else.
    fn parse(line: &str) -> Option<Section> {
        let inner = line.strip_prefix('[')?.strip_suffix(']')?;
        match inner.split_once(' ') {
            None => match inner.to_ascii_lowercase().as_str() {
                "core" => Some(Section::Core),
                "extensions" => Some(Section::Extensions),
                "user" => Some(Section::User),
                "init" => Some(Section::Init),
                "submodule" => Some(Section::AllSubmodules),
                "feature" => Some(Section::Feature),
                "index" => Some(Section::Index),
                _ => None,
            },
            Some((name, quoted)) => {
                let sub = quoted.strip_prefix('"')?.strip_suffix('"')?;
                let ordinary = !sub.is_empty()
                    && !sub.starts_with('-')
                    && sub
                        .chars()
                        .all(|c| c.is_alphanumeric() || "._/-+#@".contains(c));
                match name.to_ascii_lowercase().as_str() {
                    "remote" if ordinary => Some(Section::Remote),
                    "branch" if ordinary => Some(Section::Branch),
                    "submodule" if ordinary => Some(Section::Submodule),
                    _ => None,
                }
            }
        }
    }

    fn allows(self, key: &str, value: &str) -> bool {
        if value.contains('"') {
            return false;
        }
        let truth = matches!(value, "true" | "false");
        match (self, key) {
            (Section::Core, "repositoryformatversion") => matches!(value, "0" | "1"),
            (
                Section::Core,
                "filemode" | "bare" | "ignorecase" | "precomposeunicode" | "symlinks" | "autocrlf"
                | "longpaths" | "untrackedcache",
            )
            | (Section::Feature, "manyfiles") => truth,
            // Any other value is a program.
            (Section::Core, "fsmonitor") => value == "false",
            (Section::Index, "version" | "threads") => truth || value.parse::<u8>().is_ok(),
            (Section::Core, "logallrefupdates") => truth || value == "always",
            (Section::Extensions, "objectformat") => matches!(value, "sha1" | "sha256"),
            (Section::Extensions, "refstorage") => matches!(value, "files" | "reftable"),
            (Section::User, "name" | "email") => true,
            (Section::Init, "defaultbranch") => reference(value),
            (Section::Remote, "url") => url(value),
            (Section::Remote, "fetch") => refspec(value),
            (Section::Remote, "mirror") => truth,
            (Section::Branch, "remote") => value == "." || reference(value),
            (Section::Branch, "merge") => reference(value),
            (Section::Branch, "rebase") => truth || value == "merges",
            // The source of its files. The programs that it may run are not among these.
            (Section::Submodule, "url") => url(value),
            (Section::Submodule, "active") => truth,
            // The paths of active modules.
            (Section::AllSubmodules, "active") => value == "." || reference(value),
            // An allow-list: what is not above is harmful.
            (_, _) => false,
        }
    }
}

fn reference(value: &str) -> bool {
    !value.is_empty()
        && !value.starts_with(['-', '.'])
        && value
            .chars()
            .all(|c| c.is_alphanumeric() || "._/-+#@".contains(c))
}

fn refspec(value: &str) -> bool {
    let value = value.strip_prefix('+').unwrap_or(value);
    let side = |side: &str| side.starts_with("refs/") && reference(&side.replace('*', "x"));
    value
        .split_once(':')
        .is_some_and(|(from, to)| side(from) && side(to))
}

/// Returns `true` if the value names a directory near the repository.
fn is_relative(value: &str) -> bool {
    (value.starts_with("./") || value.starts_with("../")) && !value.contains("::")
}

/// Returns `true` for a web, ssh or plain local address. `ext::` and every other helper has `::`. A
/// host that starts with a dash is an option for another program (CVE-2017-1000117).
fn url(value: &str) -> bool {
    let ordinary = |c: char| c.is_alphanumeric() || "._~:/@%+=,-".contains(c);
    if value.is_empty() || value.contains("::") || !value.chars().all(ordinary) {
        return false;
    }
    if value.starts_with('/') {
        return true;
    }
    let host = |text: &str| {
        let authority = text.split('/').next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        let user = authority.split('@').next().unwrap_or_default();
        host.starts_with(char::is_alphanumeric) && user.starts_with(char::is_alphanumeric)
    };
    match value.split_once("://") {
        Some(("https" | "http" | "git" | "ssh", rest)) => host(rest),
        Some(("file", rest)) => rest.starts_with('/'),
        Some(_) => false,
        // user@host:path
        None => value.split_once(':').is_some_and(|(place, path)| {
            !place.contains('/') && place.contains('@') && host(place) && !path.starts_with('-')
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRESH: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n";

    #[test]
    fn what_git_itself_writes_is_harmless() {
        let clone = format!(
            "{FRESH}[remote \"origin\"]\n\turl = https://example.org/a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
        );
        for text in [
            "",
            "\n# a comment\n; another\n",
            FRESH,
            &clone,
            "[user]\n\tname = A B <x>\n\temail = a@b.example\n",
            "[extensions]\n\tobjectformat = sha256\n[core]\n\tRepositoryFormatVersion = 1\n",
            "[remote \"o\"]\nurl = git@example.org:a/b.git\n",
            "[remote \"o\"]\nurl = ssh://git@example.org:22/a/b.git\n",
            "[remote \"o\"]\nurl = /srv/git/a.git\n",
            "[branch \"a/b-1\"]\nremote = .\nmerge = refs/heads/x\nrebase = merges\n",
        ] {
            assert_eq!(config(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn everything_else_is_harmful() {
        for text in [
            "x = 1\n",
            "[core]\n\tfsmonitor = ./evil\n",
            "[core]\n\thooksPath = /tmp\n",
            "[core]\n\tsshCommand = evil\n",
            "[core]\n\tpager = evil\n",
            "[core]\n\teditor = evil\n",
            "[core]\n\tworktree = /\n",
            "[core] bare = false\n",
            "[core]\nbare\n",
            "[core]\nbare = \"false\"\n",
            "[core]\nbare = fal\\\nse\n",
            "[alias]\n\tst = !evil\n",
            "[include]\n\tpath = /tmp/evil\n",
            "[includeIf \"gitdir:/\"]\n\tpath = /tmp/evil\n",
            "[filter \"x\"]\n\tclean = evil\n",
            "[diff \"x\"]\n\ttextconv = evil\n",
            "[credential]\n\thelper = !evil\n",
            "[url \"ext::sh -c evil\"]\n\tinsteadOf = https\n",
            "[extensions]\n\tworktreeConfig = true\n",
            "[remote \"o\"]\n\turl = ext::sh -c evil\n",
            "[remote \"o\"]\n\turl = ext::evil\n",
            "[remote \"o\"]\n\turl = -oProxyCommand=evil\n",
            "[remote \"o\"]\n\turl = ssh://-oProxyCommand=evil/x\n",
            "[remote \"o\"]\n\turl = ssh://a@-oProxyCommand=evil/x\n",
            "[remote \"o\"]\n\turl = foo://x\n",
            "[remote \"o\"]\n\turl = ../relative\n",
            "[remote \"o\"]\n\tuploadpack = evil\n",
            "[remote \"o\"]\n\tproxy = evil\n",
            "[remote \"o\"]\n\tvcs = evil\n",
            "[remote \"-o\"]\n\turl = https://example.org\n",
            "[remote \"o\\\"]\n\turl = https://example.org\n",
            "[remote \"o\"] ; x\n\turl = https://example.org\n",
            "[branch \"m\"]\n\tmergeOptions = x\n",
            "[core]\u{c}\n",
            "[core]\r\n\tbare = false\r\n",
            "[user]\n\tsigningkey = x\n",
            "\u{feff}[core]\n\tbare = false\n",
        ] {
            assert!(config(text.as_bytes()).is_some(), "{text}");
        }
        assert!(config(b"\xff").is_some());
        assert!(config(&[b'\n'; MAX_BYTES + 1]).is_some());
    }

    #[test]
    fn what_may_be_added_to_a_configuration() {
        const WAS: &str = "[core]\n\tbare = false\n# goes on \\\n\tfsmonitor = false\n\
             [remote \"origin\"]\n\turl = https://example.org/a.git\n[branch \"main\"]\n\tremote = origin\n\
             [alias]\n\tst = !sh \\\n\t  tools/st\n";
        for (more, harmless) in [
            ("", true),
            ("[user]\n\tname = A. Person\n", true),
            (
                "[remote \"hub\"]\n\turl = ./hub.git\n\tfetch = +refs/heads/*:refs/remotes/hub/*\n",
                true,
            ),
            ("[remote \"hub\"]\n\turl = git@example.org:a/b.git\n", true),
            (
                "[branch \"topic\"]\n\tremote = origin\n\tmerge = refs/heads/topic\n",
                true,
            ),
            (
                "[submodule \"a/b\"]\n\turl = https://example.org/b.git\n\tactive = true\n",
                true,
            ),
            ("# said\n; twice\n", true),
            ("[pull]\n\trebase = true\n", true),
            ("[merge]\n\tconflictStyle = zdiff3\n", true),
            ("[core]\n\tautocrlf = input\n", true),
            ("[push]\n\tdefault = simple\n", true),
            ("[push]\n\tdefault = matching\n", false),
            ("[help]\n\tautocorrect = immediate\n", false),
            ("[core]\n\tignoreCase = true\n", false),
            // Branches of others.
            (
                "[remote \"hub\"]\n\turl = ./x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
                false,
            ),
            (
                "[remote \"origin/x\"]\n\turl = ./x\n\tfetch = +refs/heads/*:refs/remotes/origin/x/*\n",
                false,
            ),
            (
                "[remote \"hub\"]\n\turl = ./x\n\tfetch = +refs/heads/dev:refs/heads/dev\n",
                false,
            ),
            ("[remote \"hub\"]\n\turl = ./x\n\tmirror = true\n", false),
            // Keys that run programs, or lead elsewhere.
            ("[core]\n\tfsmonitor = evil\n", false),
            ("[core]\n\thooksPath = x\n", false),
            ("[include]\n\tpath = x\n", false),
            ("[submodule \"a\"]\n\tupdate = !evil\n", false),
            ("[remote \"hub\"]\n\turl = ext::evil\n", false),
            ("[remote \"hub\"]\n\tuploadpack = evil\n", false),
            ("[remote \"hub\"]\n\tproxy = http://evil\n", false),
            (
                "[url \"https://evil/\"]\n\tinsteadOf = https://example.org/\n",
                false,
            ),
            ("[credential]\n\thelper = evil\n", false),
            ("[extensions]\n\tworktreeConfig = true\n", false),
            // Existing keys must lead to the same place.
            ("[remote \"origin\"]\n\turl = https://evil/\n", false),
            ("[remote.ORIGIN]\n\turl = https://evil/\n", false),
            ("[remote \"origin\"]\n\tpushurl = https://evil/\n", false),
            ("[branch \"main\"]\n\tremote = hub\n", false),
            ("[alias]\n\tst = !evil\n", false),
            // Lines that git and a reader may read differently.
            ("# goes on \\\n\tfsmonitor = evil\n", false),
            ("[remote \"hub\"]\n\turl = \"a\\nb\"\n", false),
            ("[remote \"h\\ub\"]\n\turl = https://example.org/\n", false),
            ("\u{feff}[user]\n\tname = x\n", false),
            ("[core] fsmonitor = evil\n", false),
        ] {
            let now = format!("{WAS}{more}");
            let why = change(WAS.as_bytes(), now.as_bytes());
            assert_eq!(why.is_none(), harmless, "{more}: {why:?}");
        }
        // Git keeps what looks like white space, and what is in quotes.
        for (from, to) in [
            (
                "https://example.org/a.git",
                "https://example.org/a.git\u{a0}",
            ),
            (
                "https://example.org/a.git",
                "https://example.org/a.git\u{2028}",
            ),
            (
                "https://example.org/a.git",
                "\"https://example.org/a.git \"",
            ),
            (
                "https://example.org/a.git",
                "https://example.org/a.git\" \"",
            ),
            ("bare = false", "bare = \"false\""),
        ] {
            let now = WAS.replacen(from, to, 1);
            assert!(change(WAS.as_bytes(), now.as_bytes()).is_some(), "{now}");
        }
        for first in [
            "\u{feff}[core]\n\tpager = evil\n",
            "\u{feff}",
            "\tpager = evil\n",
            "pager\n",
            "[core]pager=evil\n",
            "[core \"\"]\n\tpager = evil\n",
            "[core\u{a0}]\n\tpager = evil\n",
            "[user]\n\tname = \"a\n\tpager = evil\n",
        ] {
            let now = format!("{first}{WAS}");
            assert!(change(WAS.as_bytes(), now.as_bytes()).is_some(), "{now}");
            // git ignores the mark at the start.
            let was = format!("\u{feff}{WAS}");
            let now = was.replacen("[core]\n", "[core]\n\tpager = evil\n", 1);
            assert!(change(was.as_bytes(), now.as_bytes()).is_some(), "{now}");
        }
        for (from, to) in [
            ("\turl = https://example.org/a.git\n", ""),
            ("example.org/a.git", "example.org/b.git"),
            ("\tfsmonitor = false\n", ""),
            ("\tfsmonitor = false\n", "\tfsmonitor = evil\n"),
            ("[alias]\n", ""),
            ("tools/st", "other/st"),
            ("[core]", "[user]"),
        ] {
            let now = WAS.replacen(from, to, 1);
            assert!(change(WAS.as_bytes(), now.as_bytes()).is_some(), "{now}");
        }
        assert!(change(b"", b"\xff").is_some());
    }

    /// Time grows with the size.
    #[test]
    fn lines_that_go_on_for_ever_cost_little() {
        assert_eq!(entries(&"\\\n".repeat(300_000)), []);
    }

    #[test]
    fn modules_say_where_they_are() {
        for (text, harmless) in [
            (
                "[submodule \"a/b\"]\n\tpath = a/b\n\turl = ../b.git\n\tbranch = main\n",
                true,
            ),
            (
                "[submodule \"a\"]\n\turl = https://example.org/a.git\n\tshallow = true\n",
                true,
            ),
            ("[submodule \"a\"]\n\tupdate = !evil\n", false),
            ("\u{feff}[submodule \"a\"]\n\tupdate = !evil\n", false),
            ("update = !evil\n[submodule \"a\"]\n", false),
            ("[submodule \"a\"]\n\turl = ext::evil\n", false),
            ("[submodule \"a\"]\n\turl = ./ext::evil\n", false),
            ("[submodule \"a\"]\n\turl = -u./evil\n", false),
            ("[submodule \"../../x\"]\n\tpath = x\n", false),
            ("[submodule \"a\"]\n\tpath = -x\n", false),
            ("[submodule \"a\"]\n\tpath = .git/hooks\n", false),
            ("[core]\n\tfsmonitor = x\n", false),
        ] {
            assert_eq!(modules(text.as_bytes()).is_none(), harmless, "{text}");
        }
    }

    #[test]
    fn attribute_lines() {
        for (text, harmless) in [
            ("", true),
            ("# comment\n*.txt text eol=lf\n", true),
            ("*.png binary\n", true),
            ("* filter=evil\n", false),
            ("* diff=evil\n", false),
            ("* merge=evil\n", false),
            ("[attr]x filter=evil\n", false),
            ("\"a\\\\\" filter=x\n", false),
        ] {
            assert_eq!(attributes(text.as_bytes()).is_none(), harmless, "{text}");
        }
    }

    #[test]
    fn values_are_read_as_git_reads_them() {
        let text = "\u{feff}[core]\n\thooksPath = \"my hooks\" ; where\n# no more \\\nx = \"a\\\\\" # b \\\n\
                    y = a\\\\\n[filter \"a b\"] clean = ./x \\\n  -y\n\
                    [include]\npath=../inc # x\n[Alias]\nst = !sh \\\"a\\\"\nflag\n[a.B]\nc=d\n";
        let read: Vec<(String, String)> = entries(text)
            .into_iter()
            .map(|entry| (entry.name(), entry.value))
            .collect();
        let want = [
            ("core.hookspath", "my hooks"),
            ("core.x", "a\\"),
            ("core.y", "a\\"),
            ("filter.a b.clean", "./x   -y"),
            ("include.path", "../inc"),
            ("alias.st", "!sh \"a\""),
            ("alias.flag", "true"),
            ("a.b.c", "d"),
        ];
        assert_eq!(
            read,
            want.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, text: String) {
            let _ = (config(&bytes), attributes(&bytes), entries(&text));
        }

        #[test]
        fn headers_never_panic(text in "[\\[\\]\"\\\\a. =\n]{0,40}") {
            let _ = entries(&text);
        }

        /// An arbitrary line at any place of a harmless file is harmless only if its key is one of
        /// the few.
        #[test]
        fn unknown_is_harmful(section in "[a-zA-Z]{1,12}", key in "[a-zA-Z][a-zA-Z0-9-]{0,14}", value in "[ -~]{0,20}") {
            const KNOWN: [&str; 6] = ["core", "extensions", "user", "init", "remote", "branch"];
            let text = format!("{FRESH}[{section}]\n\t{key} = {value}\n");
            let section = section.to_ascii_lowercase();
            let key = key.to_ascii_lowercase();
            let listed = KNOWN.contains(&section.as_str()) && [
                "repositoryformatversion", "filemode", "bare", "ignorecase", "precomposeunicode",
                "symlinks", "logallrefupdates", "objectformat", "refstorage", "name", "email",
                "defaultbranch",
            ].contains(&key.as_str());
            prop_assert!(listed || config(text.as_bytes()).is_some());
        }
    }
}
