//! Tables of names that programs obey: paths below a git directory ([`git`]), files that other
//! programs load by name ([`autoloaded`]), names that workers never write ([`PROTECTED`]), and
//! variables that make programs run code ([`loader_variables`]).
//! Where the name cannot decide, the content does ([`secret`]). All functions are pure: they open
//! no file, and the caller folds case.
//!
//! The workspace's terms are defined in `docs/terms.md` of the repository.

pub mod autoloaded;
pub mod exempt;
pub mod git;
mod git_command;
pub mod git_config;
pub mod git_harm;
pub mod git_index;
pub mod git_preferences;
pub mod invisible;
pub mod lexical;
pub mod loader_variables;
mod macros;
pub mod pattern;
pub mod secret;

pub use git_command::named_paths;

/// Names that no worker writes below any mount: git, a shell that enters a directory, an editor that
/// opens it, an agent and forge run their content by themselves. Files of a build, a test or an
/// installation have no row: a worker writes them. A name or path counts at any depth, one with a
/// leading `/` at the mount's root only. With a name below `.git` in the list, everything below git
/// directories is judged by [`git`].
///
/// A new name is a new row. The name of an editor's settings also gets a row in [`exempt`], which
/// exempts it in dependencies; a file that a program loads is also a row of [`autoloaded`].
#[rustfmt::skip]
pub const PROTECTED: &[&str] = &[
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/info",
    ".git/worktrees/*/commondir", ".git/worktrees/*/gitdir", ".git/worktrees/*/config.worktree",
    ".git/modules/*/hooks", ".git/modules/*/config", ".git/modules/*/config.worktree",
    ".git/modules/*/commondir", ".git/modules/*/info", ".gitmodules", ".env*", "*.pem", ".ssh",
    ".envrc", ".mcp.json", ".vscode", ".idea", ".zed", ".cursor", ".claude", ".codex", ".gemini",
    ".devcontainer", ".devcontainer.json", "opencode.json", "opencode.jsonc", ".opencode/agent*",
    ".opencode/command*", ".opencode/plugin*", ".opencode/tool*", "*.code-workspace", ".windsurf",
    ".kiro", ".qwen", ".roo", ".continue", ".amazonq", ".aider.conf.yml", "crush.json", ".crush.json",
    ".husky", ".pre-commit-config.yaml", "lefthook.*", "lefthook-local.*", ".lefthook*",
    ".overcommit.yml", ".direnv", "mise*.toml", ".mise*.toml", ".mise", "mise/config*.toml",
    ".config/mise", ".hg/hgrc*", ".hg/sharedpath", ".sl/config", ".sl/sharedpath",
    ".jj/repo/config*.toml", ".jj/workspace-config.toml", ".pijul/config", "_darcs/prefs/defaults",
    ".pre-commit-config.yml", "prek.toml", ".local-overcommit.yml", "hk.pkl", ".config/hk.pkl",
    "captainhook.json", ".huskyrc*", "grumphp.yml*", "grumphp.dist.yml", ".rusty-hook.toml",
    ".cargo-husky", ".github/hooks", ".github/copilot", ".github/mcp.json", ".github/lsp.json",
    ".clinerules/hooks", ".factory", ".pi", ".kilocode", ".trae", ".junie", ".gitlab/duo",
    ".openhands", ".augment", ".grok", ".vibe", ".helix", ".vim/coc-settings.json", ".theia",
    ".fleet", ".nova", "*.sublime-project", "forge.yaml", "forge.yml",
    "golem-forge.config.yaml", "golem-forge.config.yml", "program.yaml", "program.yml", "*.worker",
    "/.bashrc", "/.bash_profile", "/.bash_login", "/.bash_logout", "/.profile", "/.zshrc",
    "/.zshenv", "/.zprofile", "/.zlogin", "/.kshrc", "/.config/fish",
];

/// Names at the root of a command's file system that programs need from the system, and that of the
/// sandbox's own root mount. No mount has one.
pub const SYSTEM_DIRECTORIES: [&str; 18] = [
    "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "proc", "root", "run", "sbin",
    "sys", "tmp", "usr", "var", "work", "libx32",
];

/// Number of leading entries of [`PROTECTED`] that name files which git executes or obeys.
pub const PROTECTED_OF_GIT: usize = 14;

/// Names of secrets, which are reported as absent.
pub const HIDDEN: &[&str] = &[".env*", "*.pem", ".ssh"];

/// Returns `true` for a variable that says the language, the time zone or the terminal of a person,
/// or that a CI service runs. Every command gets it from its caller.
///
/// ```
/// use sandbox_names::is_ambient_variable;
/// assert!(is_ambient_variable("LC_ALL") && is_ambient_variable("TZ"));
/// assert!(!is_ambient_variable("LC_TOKEN_SECRET_OF_MINE") && !is_ambient_variable("CC"));
/// ```
#[must_use]
pub fn is_ambient_variable(name: &str) -> bool {
    #[rustfmt::skip]
    const CATEGORIES: [&str; 13] = [
        "ADDRESS", "ALL", "COLLATE", "CTYPE", "IDENTIFICATION", "MEASUREMENT", "MESSAGES",
        "MONETARY", "NAME", "NUMERIC", "PAPER", "TELEPHONE", "TIME",
    ];
    let others = [
        "CI",
        "COLORTERM",
        "LANG",
        "LANGUAGE",
        "NO_COLOR",
        "TERM",
        "TZ",
    ];
    let category = name.strip_prefix("LC_");
    others.contains(&name) || category.is_some_and(|category| CATEGORIES.contains(&category))
}

/// Files and directories of a home directory in which programs store credentials.
#[rustfmt::skip]
pub const CREDENTIALS: &[&str] = &[
    ".aws", ".azure", ".config/gcloud", ".config/gh", ".docker", ".git-credentials", ".gnupg",
    ".kube", ".local/share/keyrings", ".mozilla", ".netrc", ".npmrc", ".password-store", ".pypirc",
    ".ssh",
];

/// Returns the row of [`CREDENTIALS`] that a path below a home directory is, or is below.
///
/// ```
/// use sandbox_names::credentials;
/// assert_eq!(credentials(".Config/gh/hosts.yml".as_ref()), Some(".config/gh"));
/// assert_eq!(credentials(".config".as_ref()), None);
/// ```
#[must_use]
pub fn credentials(below_home: &std::path::Path) -> Option<&'static str> {
    let folded = fold(&below_home.to_string_lossy());
    let mut rows = CREDENTIALS.iter().copied();
    rows.find(|row| std::path::Path::new(&folded).starts_with(row))
}

/// The directory at the root of a mount to which protected names are moved that a command created.
/// If something else has the name, the directory's name has a dot and more behind it.
pub const QUARANTINE: &str = ".os-sandbox-quarantine";

/// Ending of names in the quarantine by which git would recognize a repository.
const QUARANTINED_SUFFIX: &str = ".os-sandbox-quarantined";

/// Returns the name that a file or link gets in the quarantine, if it cannot keep its own: git
/// recognizes a repository by its `HEAD`, and follows a file called `.git`.
///
/// ```
/// use sandbox_names::{original_name, quarantined_name};
/// let name = quarantined_name("HEAD".as_ref()).unwrap();
/// assert_eq!(original_name(&name).unwrap(), "HEAD");
/// assert_eq!(quarantined_name("config".as_ref()), None);
/// ```
#[must_use]
pub fn quarantined_name(name: &std::ffi::OsStr) -> Option<std::ffi::OsString> {
    is_of_repository(name).then(|| {
        let mut name = name.to_owned();
        name.push(QUARANTINED_SUFFIX);
        name
    })
}

/// Returns the name that a file in the quarantine had before, if it is another one.
#[must_use]
pub fn original_name(name: &std::ffi::OsStr) -> Option<&std::ffi::OsStr> {
    let name = name.to_str()?.strip_suffix(QUARANTINED_SUFFIX)?;
    Some(name.as_ref()).filter(|name| is_of_repository(name))
}

fn is_of_repository(name: &std::ffi::OsStr) -> bool {
    matches!(&*fold(&name.to_string_lossy()), "head" | ".git")
}

/// Folds a name: all spellings that a case-folding file system treats as equal get one form. HFS+
/// also ignores some invisible characters (CVE-2014-9390).
///
/// ```
/// assert_eq!(sandbox_names::fold(".G\u{200c}it"), ".git");
/// ```
#[must_use]
pub fn fold(name: &str) -> String {
    // Why: nearly all names are ASCII, and every listed name is folded.
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    name.chars()
        .filter(|c| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Formats bytes as lower-case hexadecimal digits.
///
/// ```
/// assert_eq!(sandbox_names::hex([0, 0xfe]), "00fe");
/// ```
#[must_use]
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    let bytes = bytes.as_ref().iter();
    bytes
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// Parses pairs of hexadecimal digits; `None` for any other text.
///
/// ```
/// assert_eq!(sandbox_names::unhex("00fE"), Some(vec![0, 0xfe]));
/// assert_eq!(sandbox_names::unhex("+0"), None);
/// assert_eq!(sandbox_names::unhex("00f"), None);
/// ```
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_about_git_come_first() {
        for (at, row) in PROTECTED.iter().enumerate() {
            let is_of_git = row.starts_with(".git/") || *row == ".gitmodules";
            assert_eq!(is_of_git, at < PROTECTED_OF_GIT, "{row}");
        }
    }

    /// The road of a name that git obeys begins here: every other list is made from these two.
    #[test]
    fn names_that_git_obeys_are_protected() {
        let top = git::OBEYED.iter().filter(|name| !name.contains('/'));
        // Only old versions read these two, which no command of the default modes can make.
        let top = top.filter(|name| !["remotes", "branches"].contains(name));
        let top = top.map(|name| format!(".git/{name}"));
        let parts = git::OBEYED_IN_WORKTREE.iter();
        let parts = parts.map(|name| format!(".git/worktrees/*/{name}"));
        for row in top.chain(parts) {
            assert!(PROTECTED[..PROTECTED_OF_GIT].contains(&&*row), "{row}");
        }
    }

    fn is_protected(path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        PROTECTED.iter().any(|row| {
            let row = fold(row);
            let row: Vec<&str> = row.split('/').collect();
            let mut parts = names.windows(row.len());
            parts.any(|part| {
                (row.iter().zip(part)).all(|(row, name)| pattern::fits(row, name.as_ref()))
            })
        })
    }

    /// Files with names of programs that start although a person wanted nothing of the project, by
    /// the program that starts them.
    #[test]
    fn files_of_programs_that_start_by_themselves_are_protected_and_known() {
        let repositories = ".hg/hgrc .hg/hgrc-not-shared .hg/sharedpath .sl/config .sl/sharedpath \
            .jj/repo/config.toml .jj/workspace-config.toml .pijul/config _darcs/prefs/defaults";
        let hooks = ".husky/pre-commit .huskyrc .huskyrc.js .pre-commit-config.yaml \
            .pre-commit-config.yml prek.toml lefthook.yml .overcommit.yml .local-overcommit.yml \
            hk.pkl .config/hk.pkl captainhook.json grumphp.yml grumphp.yml.dist grumphp.dist.yml \
            .rusty-hook.toml .cargo-husky/hooks/pre-commit";
        let agents = ".claude/settings.json .mcp.json .github/hooks/a.json .github/mcp.json \
            .github/lsp.json .github/copilot/settings.json .clinerules/hooks/PreToolUse \
            .factory/hooks.json .factory/mcp.json .pi/extensions/a.ts .pi/settings.json \
            .kilocode/mcp.json .trae/mcp.json .junie/mcp/mcp.json .gitlab/duo/mcp.json \
            .openhands/setup.sh .augment/settings.json .grok/settings.json .vibe/config.toml";
        let editors = ".vscode/tasks.json .zed/tasks.json .helix/languages.toml \
            .vim/coc-settings.json .theia/tasks.json .fleet/run.json .nova/Configuration.json \
            a.sublime-project";
        let shells = ".envrc .direnv/a mise.toml";
        for path in [repositories, hooks, agents, editors, shells]
            .join(" ")
            .split_whitespace()
        {
            let folded = fold(path);
            let names: Vec<&str> = folded.split('/').collect();
            assert!(
                is_protected(path) && is_protected(&format!("a/{path}")),
                "{path}"
            );
            assert!(autoloaded::find(&names).is_some(), "{path}");
        }
        // Parts of a repository, and files that its programs write in it.
        for path in
            ".hg/requires .hg/store/00changelog.i .hg/dirstate .sl/requires .jj/repo/store/type \
            .jj/repo/op_store/operations/a .jj/working_copy/tree_state .github/workflows/ci.yml \
            .clinerules/style.md Makefile package.json"
                .split_whitespace()
        {
            assert!(!is_protected(path), "{path}");
        }
    }
}
