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

macro_rules! files {
    ($($when:ident $by:literal: $($name:literal)+;)+) => {
        &[$($(AutoloadedFile { name: $name, by: $by, when: LoadTrigger::$when },)+)+]
    };
}

/// All known files, the first match wins.
pub const AUTOLOADED_FILES: &[AutoloadedFile] = files! {
    Built "GitHub Actions": ".github/workflows/" ".github/actions/";
    Built "Gitea Actions": ".gitea/workflows/";
    Built "Forgejo Actions": ".forgejo/workflows/";
    Built "CircleCI": ".circleci/";
    Built "Woodpecker": ".woodpecker/";
    Built "Buildkite": ".buildkite/";
    Built "GitLab CI": ".gitlab/" ".gitlab-ci.yml" ".gitlab-ci.yaml";
    Built "AppVeyor": ".appveyor.yml" "appveyor.yml";
    Built "Cirrus CI": ".cirrus.yml";
    Built "Travis CI": ".travis.yml";
    Built "Drone": ".drone.yml";
    Built "Woodpecker": ".woodpecker.yml" ".woodpecker.yaml";
    Built "Jenkins": "jenkinsfile";
    Built "Azure Pipelines": "azure-pipelines.yml";
    Built "Bitbucket Pipelines": "bitbucket-pipelines.yml";
    Built "Read the Docs": ".readthedocs.yaml" ".readthedocs.yml";
    Opened "git, by husky,": ".husky/";
    Opened "git, by core.hooksPath,": ".githooks/";
    Opened "git, by pre-commit,": ".pre-commit-config.yaml" ".pre-commit-config.yml" "prek.toml";
    Opened "git, by lefthook,": "lefthook.yml" "lefthook.yaml" "lefthook.toml" "lefthook.json"
        "lefthook-local.yml" "lefthook-local.yaml" "lefthook-local.toml" "lefthook-local.json"
        ".lefthook/" ".lefthook-local/" ".lefthook.yml" ".lefthook.yaml" ".lefthook.toml"
        ".lefthook.json" ".lefthook-local.yml" ".lefthook-local.yaml" ".lefthook-local.toml"
        ".lefthook-local.json";
    Opened "git, by overcommit,": ".overcommit.yml" ".local-overcommit.yml";
    Opened "git, by hk,": "hk.pkl";
    Opened "git, by CaptainHook,": "captainhook.json";
    Opened "git, by husky,": ".huskyrc" ".huskyrc.json" ".huskyrc.yaml" ".huskyrc.yml" ".huskyrc.js"
        ".huskyrc.cjs";
    Opened "git, by GrumPHP,": "grumphp.yml" "grumphp.yml.dist" "grumphp.dist.yml";
    Opened "git, by rusty-hook,": ".rusty-hook.toml";
    Opened "git, by cargo-husky,": ".cargo-husky/";
    Opened "Mercurial": ".hg/hgrc" ".hg/hgrc-not-shared" ".hg/sharedpath";
    Opened "Sapling": ".sl/config" ".sl/sharedpath";
    Opened "Jujutsu": ".jj/repo/config.toml" ".jj/workspace-config.toml";
    Opened "Pijul": ".pijul/config";
    Opened "Darcs": "_darcs/prefs/defaults";
    Opened "git": ".gitattributes" ".gitmodules" ".gitconfig";
    Opened "Visual Studio Code": ".vscode/" "*.code-workspace";
    Opened "an editor of JetBrains": ".idea/";
    Opened "Zed": ".zed/";
    Opened "Cursor": ".cursor/";
    Opened "Windsurf": ".windsurf/";
    Opened "Kiro": ".kiro/";
    Opened "Roo Code": ".roo/";
    Opened "Continue": ".continue/";
    Opened "Amazon Q": ".amazonq/";
    Opened "Qwen Code": ".qwen/";
    Opened "GitHub Copilot": ".github/hooks/" ".github/copilot/" ".github/mcp.json"
        ".github/lsp.json";
    Opened "Cline": ".clinerules/hooks/";
    Opened "Factory": ".factory/";
    Opened "pi": ".pi/";
    Opened "Kilo Code": ".kilocode/";
    Opened "Trae": ".trae/";
    Opened "Junie": ".junie/";
    Opened "OpenHands": ".openhands/";
    Opened "Augment": ".augment/";
    Opened "Grok": ".grok/";
    Opened "Mistral Vibe": ".vibe/";
    Opened "Helix": ".helix/";
    Opened "vim, by coc.nvim,": ".vim/coc-settings.json";
    Opened "Theia": ".theia/";
    Opened "Fleet": ".fleet/";
    Opened "Nova": ".nova/";
    Opened "Sublime Text": "*.sublime-project";
    Opened "Crush": "crush.json" ".crush.json";
    Opened "aider": ".aider.conf.yml";
    Opened "Claude Code": ".claude/";
    Opened "Codex": ".codex/";
    Opened "Gemini CLI": ".gemini/";
    Opened "opencode": ".opencode/" "opencode.json" "opencode.jsonc";
    Opened "a client of MCP servers": ".mcp.json";
    Opened "a program that opens development containers": ".devcontainer/" ".devcontainer.json";
    Opened "direnv": ".direnv/" ".envrc";
    Opened "mise": ".mise.toml" "mise.toml" ".mise/" "mise.local.toml" ".mise.local.toml"
        "mise/config.toml" ".config/mise/" ".config/mise.toml";
    Opened "asdf": ".tool-versions";
    Opened "bash": ".bashrc" ".bash_profile" ".bash_login" ".bash_logout";
    Opened "a login shell": ".profile";
    Opened "zsh": ".zshrc" ".zshenv" ".zprofile" ".zlogin";
    Opened "ksh": ".kshrc";
    Opened "fish": ".config/fish/";
    Opened "vi": ".exrc";
    Opened "vim": ".vimrc";
    Opened "Neovim": ".nvimrc" ".nvim.lua";
    Opened "Emacs": ".dir-locals.el" ".emacs";
    Opened "gdb": ".gdbinit";
    Opened "lldb": ".lldbinit";
    Opened "cargo": ".cargo/";
    Opened "rustup": "rust-toolchain.toml" "rust-toolchain";
    Opened "npm": ".npmrc";
    Opened "yarn": ".yarnrc" ".yarnrc.yml" ".yarn/";
    Opened "pnpm": ".pnpmfile.cjs";
    Opened "bundler": ".bundle/";
    Opened "irb": ".irbrc";
    Opened "python": ".pythonrc";
    Opened "pip": "pip.conf";
    Opened "twine": ".pypirc";
    Opened "Maven": ".mvn/";
    Opened "Bazel": ".bazelrc";
    Opened "ssh": ".ssh/";
    Forge "forge":
        "forge.yaml" "forge.yml" "golem-forge.config.yaml" "golem-forge.config.yml" "program.yaml" "program.yml" "*.worker";
};

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
