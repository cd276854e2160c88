//! Exemptions from the built-in names, for published files: packages contain editors' settings and
//! certificates, and templates of settings are meant to be read. Names that git or a shell obeys
//! have no exemption.

/// Directories of dependencies, environments and build output, in lower case.
#[rustfmt::skip]
pub const DEPENDENCIES: [&str; 14] = [
    ".gradle", ".m2", ".nox", ".tox", ".venv", "__pypackages__", "bower_components",
    "dist-packages", "node_modules", "pods", "site-packages", "target", "vendor", "venv",
];

/// Settings of other programs in the packages that people publish. Git reads those of hooks at the top
/// of a repository only, and mise asks before it reads a new file.
#[rustfmt::skip]
const PUBLISHED: [&str; 69] = [
    ".mcp.json", ".vscode", ".idea", ".zed", ".cursor", ".claude", ".codex", ".gemini",
    ".devcontainer", ".devcontainer.json", "opencode.json", "opencode.jsonc", ".opencode/agent*",
    ".opencode/command*", ".opencode/plugin*", ".opencode/tool*", "*.code-workspace", ".windsurf",
    ".kiro", ".qwen", ".roo", ".continue", ".amazonq", ".aider.conf.yml", "crush.json",
    ".crush.json", ".husky", ".pre-commit-config.yaml", "lefthook.*", "lefthook-local.*",
    ".lefthook*", ".overcommit.yml", "mise*.toml", ".mise*.toml", ".mise", "mise/config*.toml",
    ".config/mise", ".pre-commit-config.yml", "prek.toml", ".local-overcommit.yml", "hk.pkl",
    ".config/hk.pkl", "captainhook.json", ".huskyrc*", "grumphp.yml*", "grumphp.dist.yml",
    ".rusty-hook.toml", ".cargo-husky", ".github/hooks", ".github/copilot", ".github/mcp.json",
    ".github/lsp.json", ".clinerules/hooks", ".factory", ".pi", ".kilocode", ".trae", ".junie",
    ".gitlab/duo", ".openhands", ".augment", ".grok", ".vibe", ".helix", ".vim/coc-settings.json",
    ".theia", ".fleet", ".nova", "*.sublime-project",
];

/// Endings of the names of templates.
const TEMPLATES: [&str; 4] = [".dist", ".example", ".sample", ".template"];

/// The paths at which a matching pattern does not apply.
///
/// ```
/// use sandbox_names::exempt::Exemption;
/// let exemption = Exemption::of(".env*").unwrap();
/// assert!(exemption.holds(["app"], ".env.example"));
/// assert!(exemption.holds(["app", "node_modules", "dotenv"], ".env"));
/// assert!(!exemption.holds(["app"], ".env.local"));
/// assert!(Exemption::of(".git/hooks").is_none());
/// // What a project adds holds everywhere.
/// assert!(Exemption::of("*.key").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exemption {
    templates: bool,
    by_content: bool,
}

impl Exemption {
    /// The exemption of a pattern, by its text; only some of the built-in ones have one.
    #[must_use]
    pub fn of(pattern: &str) -> Option<Exemption> {
        match pattern {
            ".env*" => Some(Exemption {
                templates: true,
                by_content: false,
            }),
            "*.pem" => Some(Exemption {
                templates: false,
                by_content: true,
            }),
            published if PUBLISHED.contains(&published) => Some(Exemption {
                templates: false,
                by_content: false,
            }),
            _ => None,
        }
    }

    /// `true` if the pattern does not apply to `name` below the directories `above`. All names in
    /// lower case.
    #[must_use]
    pub fn holds<'n>(self, above: impl IntoIterator<Item = &'n str>, name: &str) -> bool {
        self.is_template(name) || above.into_iter().any(is_dependencies)
    }

    /// Returns `true` if the pattern holds for a regular file only if it holds a private key
    /// ([`holds_private_key`](crate::secret::holds_private_key)). Other files cannot be judged, so
    /// the pattern applies to them.
    ///
    /// ```
    /// use sandbox_names::exempt::Exemption;
    /// assert!(Exemption::of("*.pem").is_some_and(Exemption::is_by_content));
    /// assert!(!Exemption::of(".env*").is_some_and(Exemption::is_by_content));
    /// ```
    #[must_use]
    pub fn is_by_content(self) -> bool {
        self.by_content
    }

    /// Returns `true` if the pattern hides a secret, which a regular file does not hold that git
    /// tracks with its very content ([`TrackedFiles`](crate::git_index::TrackedFiles)).
    ///
    /// ```
    /// use sandbox_names::exempt::Exemption;
    /// assert!(Exemption::of(".env*").is_some_and(Exemption::spares_tracked));
    /// assert!(!Exemption::of(".vscode").is_some_and(Exemption::spares_tracked));
    /// ```
    #[must_use]
    pub fn spares_tracked(self) -> bool {
        self.templates || self.by_content
    }

    /// `true` if the name of a template alone exempts it.
    #[must_use]
    pub fn is_template(self, name: &str) -> bool {
        self.templates && TEMPLATES.iter().any(|end| name.ends_with(end))
    }
}

/// `true` if a directory of this name, in lower case, contains published files.
#[must_use]
pub fn is_dependencies(name: &str) -> bool {
    DEPENDENCIES.contains(&name)
}
