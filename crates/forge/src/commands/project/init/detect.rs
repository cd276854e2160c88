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

macro_rules! toolchains {
    ($($name:literal in $($marker:literal)+ {
        $($pattern:literal: $matches:literal, not $differs:literal $(, blocked $why:expr)?;)+
    })+) => {
        [$(Toolchain {
            name: $name,
            markers: &[$($marker),+],
            rules: &[$(ShellRule {
                pattern: $pattern,
                matches: $matches,
                differs: $differs,
                blocked: toolchains!(@ $($why)?),
            }),+],
        }),+]
    };
    (@) => { None };
    (@ $why:expr) => { Some($why) };
}

pub(super) static GIT: [Toolchain; 1] = toolchains! {
    "git" in ".git" {
        "git (status|diff|log|show|blame) *": "git log -1", not "git -C /elsewhere log";
        "git push *": "git push origin main", not "git status",
            blocked "what leaves this machine is a person's decision";
    }
};

const PUBLISHES: &str = "what is published is a person's decision";

pub(super) static LANGUAGES: [Toolchain; 9] = toolchains! {
    "Rust" in "Cargo.toml" {
        "cargo (build|check|clippy|doc|fmt|test|tree) *": "cargo test --lib", not "cargo install ripgrep";
        "cargo (login|owner|publish|yank) *": "cargo publish", not "cargo build", blocked PUBLISHES;
    }
    "pnpm" in "pnpm-lock.yaml" {
        "pnpm (install|run|test) *": "pnpm test", not "pnpm dlx cowsay";
        "pnpm publish *": "pnpm publish", not "pnpm test", blocked PUBLISHES;
    }
    "yarn" in "yarn.lock" {
        "yarn (install|run|test) *": "yarn test", not "yarn dlx cowsay";
        "yarn (publish|npm) *": "yarn publish", not "yarn test", blocked PUBLISHES;
    }
    "npm" in "package.json" {
        "npm (run|test) *": "npm run build", not "npx cowsay";
        "npm (login|publish) *": "npm publish", not "npm test", blocked PUBLISHES;
    }
    "Python" in "pyproject.toml" "setup.py" "requirements.txt" {
        "(pytest|ruff|mypy) *": "pytest -q", not "python -c pass";
        "(python|python3) -m (pytest|unittest) *": "python -m pytest", not "python -m pip";
        "twine *": "twine upload dist/a", not "pytest", blocked PUBLISHES;
    }
    "Go" in "go.mod" {
        "go (build|fmt|list|test|vet) *": "go test ./...", not "go install x";
    }
    "Maven" in "pom.xml" {
        "mvn (compile|test|verify) *": "mvn test", not "mvn deploy";
        "mvn (deploy|release:perform) *": "mvn deploy", not "mvn test", blocked PUBLISHES;
    }
    "Gradle" in "build.gradle" "build.gradle.kts" {
        "(gradle|./gradlew) (build|check|test) *": "./gradlew test", not "gradle publish";
    }
    "make" in "Makefile" "GNUmakefile" {
        "make *": "make test", not "cmake .";
    }
};

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
    /// The directory has the files of a git repository.
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
        DetectedProject {
            git: dir.join(".git").is_dir(),
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
            words.push(GIT[0].name);
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
