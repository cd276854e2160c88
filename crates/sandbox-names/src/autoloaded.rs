//! Files that programs load and execute because of their name and directory. A writer of such a
//! file gets code executed by others. One list serves file tools, commands and staged commits.

/// A kind of file that a program obeys, and which program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoloadedFile {
    /// `NAME`, `DIRECTORY/` with everything below it, `DIRECTORY/NAME`, `*.END`; at any depth, in
    /// lower case.
    pub name: &'static str,
    /// The program that obeys it, as the subject of a sentence.
    pub by: &'static str,
    /// The event at which the program loads it.
    pub when: LoadTrigger,
}

/// The event at which a program loads a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadTrigger {
    /// On a server that builds the repository.
    Built,
    /// When a person opens, enters or builds the directory.
    Opened,
    /// When forge is started there.
    Forge,
}

impl AutoloadedFile {
    /// Returns the program and the event as half a sentence.
    ///
    /// ```
    /// let row = sandbox_names::autoloaded::find(&[".github", "workflows", "ci.yml"]).unwrap();
    /// assert_eq!(row.why(), "GitHub Actions obeys it on the build servers of the repository");
    /// ```
    #[must_use]
    pub fn why(&self) -> String {
        let when = match self.when {
            LoadTrigger::Built => "on the build servers of the repository",
            LoadTrigger::Opened => "as soon as a person opens, enters or builds the directory",
            LoadTrigger::Forge => "when it is started there: it says what workers may do",
        };
        format!("{} obeys it {when}", self.by)
    }
}

const fn file(name: &'static str, by: &'static str, when: LoadTrigger) -> AutoloadedFile {
    AutoloadedFile { name, by, when }
}

use LoadTrigger::{Built, Forge, Opened};

/// All known files, the first match wins.
pub const AUTOLOADED_FILES: &[AutoloadedFile] = &[
    file(".github/workflows/", "GitHub Actions", Built),
    file(".github/actions/", "GitHub Actions", Built),
    file(".gitea/workflows/", "Gitea Actions", Built),
    file(".forgejo/workflows/", "Forgejo Actions", Built),
    file(".circleci/", "CircleCI", Built),
    file(".woodpecker/", "Woodpecker", Built),
    file(".buildkite/", "Buildkite", Built),
    file(".gitlab/", "GitLab CI", Built),
    file(".gitlab-ci.yml", "GitLab CI", Built),
    file(".gitlab-ci.yaml", "GitLab CI", Built),
    file(".appveyor.yml", "AppVeyor", Built),
    file("appveyor.yml", "AppVeyor", Built),
    file(".cirrus.yml", "Cirrus CI", Built),
    file(".travis.yml", "Travis CI", Built),
    file(".drone.yml", "Drone", Built),
    file(".woodpecker.yml", "Woodpecker", Built),
    file(".woodpecker.yaml", "Woodpecker", Built),
    file("jenkinsfile", "Jenkins", Built),
    file("azure-pipelines.yml", "Azure Pipelines", Built),
    file("bitbucket-pipelines.yml", "Bitbucket Pipelines", Built),
    file(".readthedocs.yaml", "Read the Docs", Built),
    file(".readthedocs.yml", "Read the Docs", Built),
    file(".husky/", "git, by husky,", Opened),
    file(".githooks/", "git, by core.hooksPath,", Opened),
    file(".pre-commit-config.yaml", "git, by pre-commit,", Opened),
    file(".pre-commit-config.yml", "git, by pre-commit,", Opened),
    file("lefthook.yml", "git, by lefthook,", Opened),
    file("lefthook.yaml", "git, by lefthook,", Opened),
    file(".lefthook.yml", "git, by lefthook,", Opened),
    file(".lefthook.yaml", "git, by lefthook,", Opened),
    file(".gitattributes", "git", Opened),
    file(".gitmodules", "git", Opened),
    file(".gitconfig", "git", Opened),
    file(".vscode/", "Visual Studio Code", Opened),
    file("*.code-workspace", "Visual Studio Code", Opened),
    file(".idea/", "an editor of JetBrains", Opened),
    file(".zed/", "Zed", Opened),
    file(".cursor/", "Cursor", Opened),
    file(".windsurf/", "Windsurf", Opened),
    file(".claude/", "Claude Code", Opened),
    file(".codex/", "Codex", Opened),
    file(".gemini/", "Gemini CLI", Opened),
    file(".mcp.json", "a client of MCP servers", Opened),
    file(
        ".devcontainer/",
        "a program that opens development containers",
        Opened,
    ),
    file(
        ".devcontainer.json",
        "a program that opens development containers",
        Opened,
    ),
    file(".direnv/", "direnv", Opened),
    file(".envrc", "direnv", Opened),
    file(".mise.toml", "mise", Opened),
    file("mise.toml", "mise", Opened),
    file(".mise/", "mise", Opened),
    file(".tool-versions", "asdf", Opened),
    file(".bashrc", "bash", Opened),
    file(".bash_profile", "bash", Opened),
    file(".bash_login", "bash", Opened),
    file(".bash_logout", "bash", Opened),
    file(".profile", "a login shell", Opened),
    file(".zshrc", "zsh", Opened),
    file(".zshenv", "zsh", Opened),
    file(".zprofile", "zsh", Opened),
    file(".zlogin", "zsh", Opened),
    file(".kshrc", "ksh", Opened),
    file(".config/fish/", "fish", Opened),
    file(".exrc", "vi", Opened),
    file(".vimrc", "vim", Opened),
    file(".nvimrc", "Neovim", Opened),
    file(".nvim.lua", "Neovim", Opened),
    file(".dir-locals.el", "Emacs", Opened),
    file(".emacs", "Emacs", Opened),
    file(".gdbinit", "gdb", Opened),
    file(".lldbinit", "lldb", Opened),
    file(".cargo/", "cargo", Opened),
    file("rust-toolchain.toml", "rustup", Opened),
    file("rust-toolchain", "rustup", Opened),
    file(".npmrc", "npm", Opened),
    file(".yarnrc", "yarn", Opened),
    file(".yarnrc.yml", "yarn", Opened),
    file(".yarn/", "yarn", Opened),
    file(".pnpmfile.cjs", "pnpm", Opened),
    file(".bundle/", "bundler", Opened),
    file(".irbrc", "irb", Opened),
    file(".pythonrc", "python", Opened),
    file("pip.conf", "pip", Opened),
    file(".pypirc", "twine", Opened),
    file(".mvn/", "Maven", Opened),
    file(".bazelrc", "Bazel", Opened),
    file(".ssh/", "ssh", Opened),
    file("forge.yaml", "forge", Forge),
    file("forge.yml", "forge", Forge),
    file("golem-forge.config.yaml", "forge", Forge),
    file("golem-forge.config.yml", "forge", Forge),
    file("program.yaml", "forge", Forge),
    file("program.yml", "forge", Forge),
    file("*.worker", "forge", Forge),
];

/// Returns the first entry that matches a path. The names of the path are in lower case, as the
/// most lenient file system compares them.
///
/// ```
/// use sandbox_names::autoloaded::find;
/// for (path, by) in [
///     ("sub/.husky/pre-commit", Some("git, by husky,")),
///     (".cargo/config.toml", Some("cargo")),
///     (".github/workflows/deep/ci.yml", Some("GitHub Actions")),
///     (".github/dependabot.yml", None),
///     ("workers/a.worker", Some("forge")),
///     (".gdbinit", Some("gdb")),
///     (".vscode", Some("Visual Studio Code")),
///     ("src/main.rs", None),
/// ] {
///     let names: Vec<&str> = path.split('/').collect();
///     assert_eq!(find(&names).map(|row| row.by), by, "{path}");
/// }
/// ```
#[must_use]
pub fn find<S: AsRef<str>>(names: &[S]) -> Option<&'static AutoloadedFile> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    AUTOLOADED_FILES.iter().find(|row| fits(row.name, &names))
}

/// Like [`find`], for a directory with unknown contents, such as one that is moved: also returns an
/// entry whose path begins with the last name.
///
/// ```
/// use sandbox_names::autoloaded::{find, find_with_contents};
/// assert!(find(&["sub", ".github"]).is_none());
/// assert_eq!(find_with_contents(&["sub", ".github"]).unwrap().by, "GitHub Actions");
/// ```
#[must_use]
pub fn find_with_contents<S: AsRef<str>>(names: &[S]) -> Option<&'static AutoloadedFile> {
    let last = names.last().map(AsRef::as_ref).unwrap_or_default();
    let around = |row: &&AutoloadedFile| {
        row.name
            .trim_end_matches('/')
            .split_once('/')
            .is_some_and(|(first, _)| first == last)
    };
    find(names).or_else(|| AUTOLOADED_FILES.iter().find(around))
}

fn fits(pattern: &str, names: &[&str]) -> bool {
    let (whole, below) = match pattern.strip_suffix('/') {
        Some(directory) => (directory, true),
        None => (pattern, false),
    };
    if let Some(end) = whole.strip_prefix('*') {
        return names.last().is_some_and(|name| {
            name.strip_suffix(end)
                .is_some_and(|stem| !stem.is_empty() || end.len() > 1)
        });
    }
    let wanted: Vec<&str> = whole.split('/').collect();
    if below {
        names.windows(wanted.len()).any(|part| part == wanted)
    } else {
        names.ends_with(&wanted)
    }
}
