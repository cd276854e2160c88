//! What programs obey because it lies in a directory: for whoever writes it, a way to have code
//! run by others. One list for file tools, commands and what is staged for git.

/// A kind of file that a program obeys, and which program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// `NAME`, `DIRECTORY/` with everything below it, `DIRECTORY/NAME`, `*.END`; at any depth, in
    /// lower case.
    pub name: &'static str,
    /// Who obeys it.
    pub by: &'static str,
    /// When.
    pub when: When,
}

/// When a program obeys what stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// On a server that builds the repository.
    Built,
    /// When somebody opens, enters or builds the directory.
    Opened,
    /// When forge is started there.
    Forge,
}

impl Row {
    /// Who obeys it and when, as half a sentence.
    ///
    /// ```
    /// let row = sandbox_names::obeyed::row(&[".github", "workflows", "ci.yml"]).unwrap();
    /// assert_eq!(row.why(), "GitHub Actions obeys it on the build servers of the repository");
    /// ```
    #[must_use]
    pub fn why(&self) -> String {
        let when = match self.when {
            When::Built => "on the build servers of the repository",
            When::Opened => "as soon as a person opens, enters or builds the directory",
            When::Forge => "when it is started there: it says what workers may do",
        };
        format!("{} obeys it {when}", self.by)
    }
}

const fn row_of(name: &'static str, by: &'static str, when: When) -> Row {
    Row { name, by, when }
}

use When::{Built, Forge, Opened};

/// The list.
pub const ROWS: &[Row] = &[
    row_of(".github/workflows/", "GitHub Actions", Built),
    row_of(".github/actions/", "GitHub Actions", Built),
    row_of(".gitea/workflows/", "Gitea Actions", Built),
    row_of(".forgejo/workflows/", "Forgejo Actions", Built),
    row_of(".circleci/", "CircleCI", Built),
    row_of(".woodpecker/", "Woodpecker", Built),
    row_of(".buildkite/", "Buildkite", Built),
    row_of(".gitlab/", "GitLab CI", Built),
    row_of(".gitlab-ci.yml", "GitLab CI", Built),
    row_of(".gitlab-ci.yaml", "GitLab CI", Built),
    row_of(".appveyor.yml", "AppVeyor", Built),
    row_of("appveyor.yml", "AppVeyor", Built),
    row_of(".cirrus.yml", "Cirrus CI", Built),
    row_of(".travis.yml", "Travis CI", Built),
    row_of(".drone.yml", "Drone", Built),
    row_of(".woodpecker.yml", "Woodpecker", Built),
    row_of(".woodpecker.yaml", "Woodpecker", Built),
    row_of("jenkinsfile", "Jenkins", Built),
    row_of("azure-pipelines.yml", "Azure Pipelines", Built),
    row_of("bitbucket-pipelines.yml", "Bitbucket Pipelines", Built),
    row_of(".readthedocs.yaml", "Read the Docs", Built),
    row_of(".readthedocs.yml", "Read the Docs", Built),
    row_of(".husky/", "git, by husky,", Opened),
    row_of(".githooks/", "git, by core.hooksPath,", Opened),
    row_of(".pre-commit-config.yaml", "git, by pre-commit,", Opened),
    row_of(".pre-commit-config.yml", "git, by pre-commit,", Opened),
    row_of("lefthook.yml", "git, by lefthook,", Opened),
    row_of("lefthook.yaml", "git, by lefthook,", Opened),
    row_of(".lefthook.yml", "git, by lefthook,", Opened),
    row_of(".lefthook.yaml", "git, by lefthook,", Opened),
    row_of(".gitattributes", "git", Opened),
    row_of(".gitmodules", "git", Opened),
    row_of(".gitconfig", "git", Opened),
    row_of(".vscode/", "Visual Studio Code", Opened),
    row_of("*.code-workspace", "Visual Studio Code", Opened),
    row_of(".idea/", "an editor of JetBrains", Opened),
    row_of(".zed/", "Zed", Opened),
    row_of(".cursor/", "Cursor", Opened),
    row_of(".windsurf/", "Windsurf", Opened),
    row_of(".claude/", "Claude Code", Opened),
    row_of(".codex/", "Codex", Opened),
    row_of(".gemini/", "Gemini CLI", Opened),
    row_of(".mcp.json", "a client of MCP servers", Opened),
    row_of(
        ".devcontainer/",
        "a program that opens development containers",
        Opened,
    ),
    row_of(
        ".devcontainer.json",
        "a program that opens development containers",
        Opened,
    ),
    row_of(".direnv/", "direnv", Opened),
    row_of(".envrc", "direnv", Opened),
    row_of(".mise.toml", "mise", Opened),
    row_of("mise.toml", "mise", Opened),
    row_of(".mise/", "mise", Opened),
    row_of(".tool-versions", "asdf", Opened),
    row_of(".bashrc", "bash", Opened),
    row_of(".bash_profile", "bash", Opened),
    row_of(".bash_login", "bash", Opened),
    row_of(".bash_logout", "bash", Opened),
    row_of(".profile", "a login shell", Opened),
    row_of(".zshrc", "zsh", Opened),
    row_of(".zshenv", "zsh", Opened),
    row_of(".zprofile", "zsh", Opened),
    row_of(".zlogin", "zsh", Opened),
    row_of(".kshrc", "ksh", Opened),
    row_of(".config/fish/", "fish", Opened),
    row_of(".exrc", "vi", Opened),
    row_of(".vimrc", "vim", Opened),
    row_of(".nvimrc", "Neovim", Opened),
    row_of(".nvim.lua", "Neovim", Opened),
    row_of(".dir-locals.el", "Emacs", Opened),
    row_of(".emacs", "Emacs", Opened),
    row_of(".gdbinit", "gdb", Opened),
    row_of(".lldbinit", "lldb", Opened),
    row_of(".cargo/", "cargo", Opened),
    row_of("rust-toolchain.toml", "rustup", Opened),
    row_of("rust-toolchain", "rustup", Opened),
    row_of(".npmrc", "npm", Opened),
    row_of(".yarnrc", "yarn", Opened),
    row_of(".yarnrc.yml", "yarn", Opened),
    row_of(".yarn/", "yarn", Opened),
    row_of(".pnpmfile.cjs", "pnpm", Opened),
    row_of(".bundle/", "bundler", Opened),
    row_of(".irbrc", "irb", Opened),
    row_of(".pythonrc", "python", Opened),
    row_of("pip.conf", "pip", Opened),
    row_of(".pypirc", "twine", Opened),
    row_of(".mvn/", "Maven", Opened),
    row_of(".bazelrc", "Bazel", Opened),
    row_of(".ssh/", "ssh", Opened),
    row_of("forge.yaml", "forge", Forge),
    row_of("forge.yml", "forge", Forge),
    row_of("golem-forge.config.yaml", "forge", Forge),
    row_of("golem-forge.config.yml", "forge", Forge),
    row_of("program.yaml", "forge", Forge),
    row_of("program.yml", "forge", Forge),
    row_of("*.worker", "forge", Forge),
];

/// The first row that a path falls under; its names in lower case, as the most lenient file system
/// compares them.
///
/// ```
/// use sandbox_names::obeyed::row;
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
///     assert_eq!(row(&names).map(|row| row.by), by, "{path}");
/// }
/// ```
#[must_use]
pub fn row<S: AsRef<str>>(names: &[S]) -> Option<&'static Row> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    ROWS.iter().find(|row| fits(row.name, &names))
}

/// The same for what may be a directory with anything in it, such as one that is moved: also where
/// a part of a row's way ends.
///
/// ```
/// use sandbox_names::obeyed::{row, row_around};
/// assert!(row(&["sub", ".github"]).is_none());
/// assert_eq!(row_around(&["sub", ".github"]).unwrap().by, "GitHub Actions");
/// ```
#[must_use]
pub fn row_around<S: AsRef<str>>(names: &[S]) -> Option<&'static Row> {
    let last = names.last().map(AsRef::as_ref).unwrap_or_default();
    let around = |row: &&Row| {
        row.name
            .trim_end_matches('/')
            .split_once('/')
            .is_some_and(|(first, _)| first == last)
    };
    row(names).or_else(|| ROWS.iter().find(around))
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
