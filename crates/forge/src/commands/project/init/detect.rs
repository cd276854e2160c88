//! Detects the kind of project in a directory by the names of its files; no file is opened.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::setup::program_dirs::PathDirs;

/// A tool chain, the file that reveals it, and rules for its commands.
#[derive(Debug)]
pub(super) struct Toolchain {
    pub(super) name: &'static str,
    /// Any of these.
    markers: &'static [&'static str],
    pub(super) rules: &'static [ShellRule],
}

/// A shell rule with examples that hold.
#[derive(Debug)]
pub(super) struct ShellRule {
    pub(super) pattern: &'static str,
    pub(super) matches: &'static str,
    pub(super) differs: &'static str,
    /// `None` if it asks.
    pub(super) blocked: Option<&'static str>,
}

const fn asks(pattern: &'static str, matches: &'static str, differs: &'static str) -> ShellRule {
    ShellRule {
        pattern,
        matches,
        differs,
        blocked: None,
    }
}

const fn blocked(
    pattern: &'static str,
    matches: &'static str,
    differs: &'static str,
    why: &'static str,
) -> ShellRule {
    ShellRule {
        pattern,
        matches,
        differs,
        blocked: Some(why),
    }
}

pub(super) static GIT: Toolchain = Toolchain {
    name: "git",
    markers: &[".git"],
    rules: &[
        asks(
            "git (status|diff|log|show|blame) *",
            "git log -1",
            "git -C /elsewhere log",
        ),
        blocked(
            "git push *",
            "git push origin main",
            "git status",
            "what leaves this machine is a person's decision",
        ),
    ],
};

const PUBLISHES: &str = "what is published is a person's decision";

pub(super) static LANGUAGES: [Toolchain; 9] = [
    Toolchain {
        name: "Rust",
        markers: &["Cargo.toml"],
        rules: &[
            asks(
                "cargo (build|check|clippy|doc|fmt|test|tree) *",
                "cargo test --lib",
                "cargo install ripgrep",
            ),
            blocked(
                "cargo (login|owner|publish|yank) *",
                "cargo publish",
                "cargo build",
                PUBLISHES,
            ),
        ],
    },
    Toolchain {
        name: "pnpm",
        markers: &["pnpm-lock.yaml"],
        rules: &[
            asks("pnpm (install|run|test) *", "pnpm test", "pnpm dlx cowsay"),
            blocked("pnpm publish *", "pnpm publish", "pnpm test", PUBLISHES),
        ],
    },
    Toolchain {
        name: "yarn",
        markers: &["yarn.lock"],
        rules: &[
            asks("yarn (install|run|test) *", "yarn test", "yarn dlx cowsay"),
            blocked(
                "yarn (publish|npm) *",
                "yarn publish",
                "yarn test",
                PUBLISHES,
            ),
        ],
    },
    Toolchain {
        name: "npm",
        markers: &["package.json"],
        rules: &[
            asks("npm (run|test) *", "npm run build", "npx cowsay"),
            blocked(
                "npm (login|publish) *",
                "npm publish",
                "npm test",
                PUBLISHES,
            ),
        ],
    },
    Toolchain {
        name: "Python",
        markers: &["pyproject.toml", "setup.py", "requirements.txt"],
        rules: &[
            asks("(pytest|ruff|mypy) *", "pytest -q", "python -c pass"),
            asks(
                "(python|python3) -m (pytest|unittest) *",
                "python -m pytest",
                "python -m pip",
            ),
            blocked("twine *", "twine upload dist/a", "pytest", PUBLISHES),
        ],
    },
    Toolchain {
        name: "Go",
        markers: &["go.mod"],
        rules: &[asks(
            "go (build|fmt|list|test|vet) *",
            "go test ./...",
            "go install x",
        )],
    },
    Toolchain {
        name: "Maven",
        markers: &["pom.xml"],
        rules: &[
            asks("mvn (compile|test|verify) *", "mvn test", "mvn deploy"),
            blocked(
                "mvn (deploy|release:perform) *",
                "mvn deploy",
                "mvn test",
                PUBLISHES,
            ),
        ],
    },
    Toolchain {
        name: "Gradle",
        markers: &["build.gradle", "build.gradle.kts"],
        rules: &[asks(
            "(gradle|./gradlew) (build|check|test) *",
            "./gradlew test",
            "gradle publish",
        )],
    },
    Toolchain {
        name: "make",
        markers: &["Makefile", "GNUmakefile"],
        rules: &[asks("make *", "make test", "cmake .")],
    },
];

/// The default of `sandbox.root`.
const OWN_ROOT: &str = ".sandbox";

/// Directories that hold material or results rather than sources, and whether they are only read.
const DIRECTORIES: [(&str, bool); 8] = [
    ("data", true),
    ("input", true),
    ("inputs", true),
    ("docs", false),
    ("drafts", false),
    ("notes", false),
    ("output", false),
    ("reports", false),
];

/// The detected project.
#[derive(Debug)]
pub(super) struct DetectedProject {
    /// The directory, or one above it, is a git repository.
    pub(super) git: bool,
    pub(super) languages: Vec<&'static Toolchain>,
    /// Name, and whether it is only read.
    pub(super) directories: Vec<(&'static str, bool)>,
    /// The directory has files or directories beside `directories`.
    pub(super) others: bool,
    /// Programs of the person's.
    pub(super) programs: PathDirs,
}

impl DetectedProject {
    /// Looks into a directory, which may be absent.
    pub(super) fn detect(dir: &Path, programs: PathDirs) -> DetectedProject {
        let holds = |kind: &Toolchain| kind.markers.iter().any(|name| dir.join(name).exists());
        let mut languages: Vec<&Toolchain> = LANGUAGES.iter().filter(|kind| holds(kind)).collect();
        // A lock file says which of the three runs the scripts of package.json.
        if languages
            .iter()
            .any(|kind| matches!(kind.name, "pnpm" | "yarn"))
        {
            languages.retain(|kind| kind.name != "npm");
        }
        let directories: Vec<(&str, bool)> = DIRECTORIES
            .into_iter()
            // A link would need a yes.
            .filter(|(name, _)| {
                std::fs::symlink_metadata(dir.join(name)).is_ok_and(|found| found.is_dir())
            })
            .collect();
        let is_other = |name: &OsStr| match directories.is_empty() {
            true => name != ".git" && name != OWN_ROOT,
            // Files such as `.gitignore` do not make a directory of data a project with sources.
            false => {
                !name.as_bytes().starts_with(b".")
                    && directories.iter().all(|(one, _)| name != *one)
            }
        };
        let others = std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| is_other(&entry.file_name()));
        let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        DetectedProject {
            git: absolute
                .ancestors()
                .any(|above| above.join(".git").exists()),
            languages,
            directories,
            others,
            programs,
        }
    }

    /// Describes the project in the words of a sentence.
    pub(super) fn described(&self) -> String {
        let mut words: Vec<&str> = Vec::new();
        if self.git {
            words.push(GIT.name);
        }
        words.extend(self.languages.iter().map(|kind| kind.name));
        words.extend(self.directories.iter().map(|(name, _)| *name));
        if self.others && self.languages.is_empty() {
            words.push("files of no known kind of project");
        }
        if words.is_empty() {
            "an empty directory".to_owned()
        } else {
            words.join(", ")
        }
    }
}
