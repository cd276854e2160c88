//! Reads `user.name`, `user.email` and the person's own settings from the files in which git looks for
//! them: starting git costs more than all else that `forge exec` prepares. Where these files do not
//! settle git's answer, nothing is returned, and git is asked: included files, a repository of another
//! user, a worktree, variables that move the files.
//!
//! <https://git-scm.com/docs/git-config>: later files win over earlier ones.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sandbox_names::git_config::entries;

use super::personal_git::PersonalSettings;
use crate::bounded;
use crate::setup::host_programs::HostPrograms;

/// Bound on a file that is read here.
const MAX_BYTES: u64 = 256 << 10;

/// Variables that move the files, the repository, or the limits of the search for it.
const MOVES_FILES: [&str; 5] = [
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
];

/// The committer as git knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) name: Option<String>,
    pub(super) email: Option<String>,
    /// The person's settings that commands get, of their own files alone.
    pub(super) personal: PersonalSettings,
}

impl Identity {
    fn is_complete(&self) -> bool {
        self.name.is_some() && self.email.is_some()
    }

    /// Takes the values of a file that git reads later.
    fn overwrite(&mut self, later: Identity) {
        self.name = later.name.or(self.name.take());
        self.email = later.email.or(self.email.take());
        self.personal.overwrite(later.personal);
    }
}

/// Returns the committer in `directory`; `None` if git has to be asked. The system's file is that of
/// the git of `programs`.
pub(super) fn read(
    directory: &Path,
    env: &[(String, String)],
    programs: impl FnOnce() -> HostPrograms,
) -> Option<Identity> {
    let is_moved =
        |(name, _): &(String, String)| MOVES_FILES.iter().any(|moving| name.starts_with(moving));
    if env.iter().any(is_moved) {
        return None;
    }
    let mut identity = Identity::default();
    for file in &personal(env)? {
        identity.overwrite(settings(file)?);
    }
    if directory
        .ancestors()
        .any(|above| above.join(".git").exists())
    {
        let of_repository = settings(&repository(directory)?)?;
        identity.overwrite(Identity {
            personal: PersonalSettings::default(),
            ..of_repository
        });
    }
    identity.personal.find_ignore_file(env);
    // The system's file is read first, and counts only where the others say nothing.
    if !identity.is_complete() {
        for file in of_system(&programs())? {
            let found = settings(&file)?;
            if found.name.is_some() || found.email.is_some() {
                // It may be the file of another git.
                return None;
            }
        }
    }
    Some(identity)
}

pub(super) fn variable<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = env.iter().find(|(known, _)| known == name)?;
    Some(found.1.as_str()).filter(|value| !value.is_empty())
}

/// Returns the directory of git's files of a person.
pub(super) fn settings_dir(env: &[(String, String)]) -> Option<PathBuf> {
    let settings = match variable(env, "XDG_CONFIG_HOME") {
        Some(settings) => PathBuf::from(settings),
        None => Path::new(variable(env, "HOME")?).join(".config"),
    };
    Some(settings.join("git"))
}

/// Returns the person's files, in git's order.
fn personal(env: &[(String, String)]) -> Option<[PathBuf; 2]> {
    let home = Path::new(variable(env, "HOME")?);
    let files = [settings_dir(env)?.join("config"), home.join(".gitconfig")];
    files.iter().all(|file| file.is_absolute()).then_some(files)
}

/// Returns the configuration of the repository around `directory`, of an ordinary one that belongs
/// to the caller: git reads none that belongs to somebody else.
fn repository(directory: &Path) -> Option<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let device = std::fs::metadata(directory).ok()?.dev();
    for above in directory.ancestors() {
        // Perhaps the inside of a repository.
        if is_there(&above.join("HEAD"))? {
            return None;
        }
        let git = above.join(".git");
        if !is_there(&git)? {
            continue;
        }
        let (top, about) = (above.metadata().ok()?, git.symlink_metadata().ok()?);
        let is_ordinary = about.is_dir()
            && [&top, &about].iter().all(|about| about.uid() == own)
            && [&top, &about].iter().all(|about| about.dev() == device)
            && git.join("HEAD").symlink_metadata().ok()?.is_file()
            && git.join("objects").is_dir()
            && git.join("refs").is_dir()
            && !is_there(&git.join("commondir"))?;
        return is_ordinary.then(|| git.join("config"));
    }
    None
}

/// Returns the places of the system's file: the first is that of most packages, the others follow
/// from the place of the program, as git's own Makefile has it.
fn of_system(programs: &HostPrograms) -> Option<Vec<PathBuf>> {
    if cfg!(target_os = "macos") {
        // The program in /usr/bin starts another one.
        return None;
    }
    let mut files = vec![PathBuf::from("/etc/gitconfig")];
    let Some(program) = programs.locate("git") else {
        return Some(files);
    };
    let real = program.canonicalize().ok()?;
    for program in [program, real] {
        let dir = program.parent()?;
        if !dir.ends_with("bin") {
            return None;
        }
        files.push(dir.parent()?.join("etc/gitconfig"));
    }
    Some(files)
}

/// Returns `None` if it cannot be told.
fn is_there(path: &Path) -> Option<bool> {
    match path.symlink_metadata() {
        Ok(_) => Some(true),
        Err(error) => is_absent(&error).then_some(false),
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns the committer of a file; `None` if it has something that only git can
/// decide.
fn settings(file: &Path) -> Option<Identity> {
    let text = match bounded::read_text(file, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if is_absent(&error) => return Some(Identity::default()),
        Err(_) => return None,
    };
    // A mark at the start, an end of line or an escape of which versions of git think differently,
    // and lines that go on.
    let is_unusual = text.contains(['\u{feff}', '\r', '\0'])
        || text.contains("\\b")
        || text.lines().any(|line| line.trim_end().ends_with('\\'));
    if is_unusual {
        return None;
    }
    let mut identity = Identity::default();
    for entry in entries(&text) {
        let value = match (entry.section.as_str(), &entry.sub, entry.key.as_str()) {
            ("include" | "includeif", ..) | ("extensions", None, "worktreeconfig") => return None,
            ("user", None, "name") => &mut identity.name,
            ("user", None, "email") => &mut identity.email,
            _ => {
                identity.personal.add(entry);
                continue;
            }
        };
        if entry.value.contains(char::is_control) {
            return None;
        }
        *value = Some(entry.value);
    }
    Some(identity)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Stdio};

    use tempfile::TempDir;

    use sandbox_config::WritablePlaces;

    use super::super::identity::parse;
    use super::*;

    /// A home directory, and a repository in it.
    struct Scene {
        dir: TempDir,
        env: Vec<(String, String)>,
    }

    impl Scene {
        fn new() -> Scene {
            let dir = TempDir::new().unwrap();
            let top = dir.path().canonicalize().unwrap();
            for name in ["project/src", ".config/git"] {
                fs::create_dir_all(top.join(name)).unwrap();
            }
            let path = std::env::var("PATH").unwrap();
            let home = top.to_str().unwrap().to_owned();
            let env = [("HOME", home), ("PATH", path)];
            let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
            let scene = Scene { dir, env };
            scene.git(&["init", "--quiet"]);
            scene
        }

        fn project(&self) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join("project")
        }

        /// Writes below the home directory.
        fn write(&self, name: &str, text: &str) {
            fs::write(self.dir.path().join(name), text).unwrap();
        }

        fn git(&self, arguments: &[&str]) -> String {
            let mut git = Command::new("git");
            git.args(arguments).current_dir(self.project());
            git.env_clear().envs(self.env.iter().cloned());
            let output = git.stderr(Stdio::null()).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        }

        fn read(&self) -> Option<Identity> {
            self.read_beside(WritablePlaces::default())
        }

        /// Reads the identity if commands write in these places.
        fn read_beside(&self, writable: WritablePlaces) -> Option<Identity> {
            let path = variable(&self.env, "PATH").unwrap_or_default();
            let programs = || HostPrograms::of_path(path, writable);
            read(&self.project().join("src"), &self.env, programs)
        }

        fn of_git(&self) -> Identity {
            let own = self.git(&["config", "--null", "--get-regexp", r"^user\.(name|email)$"]);
            let all = self.git(&["config", "--null", "--global", "--includes", "--list"]);
            Identity {
                personal: PersonalSettings::parse(&all),
                ..parse(&own)
            }
        }
    }

    #[test]
    fn the_files_and_git_agree() {
        let texts: [(&str, &str); 9] = [
            ("", ""),
            ("[user]\n\tname = A B\n\temail = a@b.example\n", ""),
            ("[user]\nname=A\n", "[user]\nemail=local@b.example\n"),
            (
                "[user]\nname=A\nemail=a@b\n",
                "[USER] NAME = Local # not me\n",
            ),
            ("[user]\nname = \"A  \\\"B\\\" # C\" ; D\nemail=a@b\n", ""),
            ("[user \"x\"]\nname = X\n[user.y]\nname = Y\n", ""),
            (
                "[user]\nname = A\nname = B\n[core]\nname = C\n[user]\nemail =\n",
                "",
            ),
            (
                "[alias]\n\tst = \"!f() { echo \\\"x\\\"; }; f\"\n[user]\n\tname = \u{e9}\n",
                "",
            ),
            (
                "# [include]\n; name = X\n[user] ; here\n  name = A;B\n",
                "[user]\nname\t=\tC",
            ),
        ];
        for (home, project) in texts {
            for own in [".gitconfig", ".config/git/config"] {
                let scene = Scene::new();
                scene.write(own, home);
                let before = fs::read_to_string(scene.project().join(".git/config")).unwrap();
                scene.write("project/.git/config", &(before + project));
                assert_eq!(
                    scene.read(),
                    Some(scene.of_git()),
                    "{own}: {home} {project}"
                );
            }
        }
    }

    #[test]
    fn the_later_of_two_personal_files_wins() {
        let scene = Scene::new();
        scene.write(".gitconfig", "[user]\nname = Later\n");
        scene.write(".config/git/config", "[user]\nname = Earlier\nemail = e\n");
        let expected = Identity {
            name: Some("Later".to_owned()),
            email: Some("e".to_owned()),
            personal: PersonalSettings::default(),
        };
        assert_eq!(scene.read(), Some(expected.clone()));
        assert_eq!(scene.of_git(), expected);
    }

    #[test]
    fn git_is_asked_where_the_files_do_not_settle_it() {
        let own = "[user]\nname = A\nemail = a@b\n";
        for unusual in [
            "[include]\npath = other\n",
            "[includeIf \"gitdir:~/project/\"]\npath = other\n",
            "[user]\nname = A \\\n B\n",
            "[user]\nname = A\\bB\n",
            "[user]\nname = A\\tB\n",
            "\u{feff}[user]\nname = A\n",
            "[user]\r\nname = A\r\n",
            "[extensions]\nworktreeConfig = true\n",
        ] {
            let scene = Scene::new();
            scene.write(".gitconfig", &format!("{unusual}{own}"));
            assert_eq!(scene.read(), None, "{unusual}");
        }
        for moved in ["GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_DIR"] {
            let mut scene = Scene::new();
            scene.write(".gitconfig", own);
            assert!(scene.read().is_some());
            scene.env.push((moved.to_owned(), "x".to_owned()));
            assert_eq!(scene.read(), None, "{moved}");
        }
        let scene = Scene::new();
        fs::create_dir(scene.dir.path().join(".gitconfig")).unwrap();
        assert_eq!(scene.read(), None, "a directory for a file");
    }

    #[test]
    fn git_is_asked_in_an_unusual_repository() {
        for broken in ["HEAD", "objects", "refs"] {
            let scene = Scene::new();
            let git = scene.project().join(".git");
            fs::rename(git.join(broken), git.join("moved")).unwrap();
            assert_eq!(scene.read(), None, "no {broken}");
        }
        let scene = Scene::new();
        scene.write("project/HEAD", "ref: refs/heads/main\n");
        assert_eq!(scene.read(), None, "perhaps inside a repository");

        let scene = Scene::new();
        scene.write("project/src/.git", "gitdir: ../.git\n");
        assert_eq!(scene.read(), None, "a file for a directory");

        if rustix::process::geteuid().is_root() {
            let scene = Scene::new();
            std::os::unix::fs::chown(scene.project().join(".git"), Some(65534), None).unwrap();
            assert_eq!(scene.read(), None, "of somebody else");
        }
    }

    #[test]
    fn the_file_of_the_system_follows_from_the_place_of_git() {
        let mut scene = Scene::new();
        let prefix = scene.dir.path().join("prefix");
        fs::create_dir_all(prefix.join("bin")).unwrap();
        fs::create_dir_all(prefix.join("etc")).unwrap();
        fs::write(prefix.join("bin/git"), "").unwrap();
        let program = fs::Permissions::from_mode(0o755);
        fs::set_permissions(prefix.join("bin/git"), program).unwrap();
        let path = prefix.join("bin").to_str().unwrap().to_owned();
        scene.env.retain(|(name, _)| name != "PATH");
        scene.env.push(("PATH".to_owned(), path));
        assert_eq!(scene.read(), Some(Identity::default()));

        scene.write("prefix/etc/gitconfig", "[user]\nname = Everybody\n");
        assert_eq!(scene.read(), None, "which file is git's is not certain");
        // A command could have written it.
        let writable = WritablePlaces::new([prefix]);
        assert_eq!(scene.read_beside(writable), Some(Identity::default()));

        let own = "[user]\nname = A\nemail = a@b\n";
        scene.write(".gitconfig", own);
        assert!(scene.read().is_some_and(|identity| identity.is_complete()));
    }
}
