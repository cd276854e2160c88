//! The programs that a command line may start, independent of the rules about its words. A name
//! means the file that it leads to: `python` and `python3` are one program where one is a link to
//! the other, and a file of the model's own that is called `git` is not git.
//!
//! A path is followed as the kernel follows it, link by link. A path with `..` behind a name
//! matches no list of allowed programs, because its target can change with any directory on the
//! way; so does a path through a link that a command may replace. A line that may start unseen
//! commands ([`CommandLine::has_hidden_commands`]) is refused as soon as a list exists.
//!
//! The programs that an allowed program starts are checked as far as the words of its command show
//! them (`env rm`, `find -exec`, `sh -c 'rm x'`, the interpreter that a script names). Anything it
//! starts by itself, a copy of a program under another name for example, is its own affair.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use os_sandbox::{Access, Policy};
use serde::{Deserialize, Serialize};

use crate::call_result::{CallFailure, FailureCode};
use crate::command_line::{CommandLine, CommandSegment};
use crate::gate::VerdictReason;

/// Links on the way to a file, at most.
const MAX_LINKS: usize = 40;

/// Shell built-ins that give names another meaning, or read commands from a file.
const MEANING_OF_NAMES: [&str; 6] = [".", "source", "alias", "hash", "enable", "function"];

/// Shell built-ins that change where relative paths lead.
const MOVES: [&str; 3] = ["cd", "pushd", "popd"];

/// How much of a script is read for its interpreter: as much as the kernel reads.
const SHEBANG_BYTES: u64 = 256;

/// Programs that are many: which one is a matter of the name they are called by.
const MULTI_CALL: [&str; 3] = ["busybox", "toybox", "coreutils"];

/// Names (`git`) or absolute paths (`/usr/bin/git`) of programs.
///
/// ```
/// use forge_tools::ProgramList;
/// let list = ProgramList {
///     allow: Some(vec!["git".into()]),
///     deny: vec!["curl".into()],
///     ..ProgramList::default()
/// };
/// assert_ne!(list, ProgramList::default());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramList {
    /// Only these; `None`: all but those denied.
    pub allow: Option<Vec<String>>,
    /// None of these; wins over `allow`.
    pub deny: Vec<String>,
    /// The place of `allow` (`file:line`), for people.
    #[serde(skip)]
    pub allow_at: Option<String>,
    /// The place of `deny`.
    #[serde(skip)]
    pub deny_at: Option<String>,
}

/// The program that a word leads to.
struct ResolvedProgram<'w> {
    word: &'w str,
    /// The names of the file and of every link on the way to it.
    names: Vec<String>,
    /// The first path that the word resolves to, and the file behind all links.
    first: Option<PathBuf>,
    real: Option<PathBuf>,
    /// A link to a directory on the way there could be replaced by a command.
    through_own: bool,
    /// Links below `/proc` lead elsewhere for each process.
    through_proc: bool,
    /// The word contains `..`.
    climbs: bool,
    /// The interpreter in the first line of a script.
    interpreter: Vec<String>,
}

impl ProgramList {
    /// Checks a command line before any rule is asked, and returns the reason why one of its
    /// programs may not be started under these lists and this policy. `None` if all may.
    ///
    /// ```
    /// use forge_tools::{CommandLine, ProgramList};
    /// let policy = os_sandbox::Policy::builder().build().unwrap();
    /// let lists = [ProgramList { deny: vec!["rm".into()], ..ProgramList::default() }];
    /// let met = |line| ProgramList::refusal(&lists, &CommandLine::parse(line).unwrap(), &policy);
    /// assert!(met("echo rm").is_none());
    /// assert_eq!(met("rm x").unwrap().text, "`rm`: it is denied here");
    /// ```
    #[must_use]
    pub fn refusal(
        lists: &[ProgramList],
        line: &CommandLine,
        policy: &Policy,
    ) -> Option<VerdictReason> {
        let allow_at = |list: &ProgramList| list.allow_at.clone().or_else(|| list.deny_at.clone());
        let first = lists.first()?;
        if line.has_hidden_commands() {
            let why = "it starts programs out of sight";
            return Some(refused(line.as_str(), why, "programs", allow_at(first)));
        }
        let state = line.session();
        // In a session every line is a shell's.
        let in_shell = line.argv().is_none() || state.is_some();
        let named = line.segments().iter().map(|one| (one, in_shell));
        // Whether a shell is in between is not known of these.
        let started = line.starts().iter().map(|one| (one, true));
        let moves = may_change_directory(line, in_shell);
        let other_path = state.is_some_and(|state| state.has_variable("PATH"))
            || all_words(line).any(|word| word.starts_with("PATH="));
        for (segment, in_shell) in named.chain(started) {
            let Some(word) = segment.words().first() else {
                continue;
            };
            // A variable can change the target of every name, and an expansion is not a name.
            let expanded = word.contains(['=', '$', '`', '*', '?', '[', '~', '{']);
            let meaning = expanded || MEANING_OF_NAMES.contains(&word.as_str());
            let unclear = in_shell && meaning
                || moves && word.contains('/') && !word.starts_with('/')
                || other_path && !word.contains('/');
            let program = (!unclear).then(|| ResolvedProgram::find(word, policy));
            let Some(program) = program.filter(|program| !program.through_proc) else {
                let why = "its program cannot be told beforehand";
                return Some(refused(word, why, "programs", allow_at(first)));
            };
            for list in lists {
                if list.denies(&program, policy) {
                    let at = list.deny_at.clone();
                    return Some(refused(word, "it is denied here", "deny", at));
                }
                if let Some(allow) = &list.allow
                    && !allow
                        .iter()
                        .any(|entry| program.is(entry, in_shell, policy))
                {
                    let why = "it is not among the programs that may run here";
                    return Some(VerdictReason {
                        why: Some(format!("Allowed programs: {}", allow.join(", "))),
                        ..refused(word, why, "allow", allow_at(list))
                    });
                }
            }
        }
        None
    }

    /// Checks a command line as [`refusal`](Self::refusal) does, for a tool.
    ///
    /// # Errors
    ///
    /// One is not allowed, or cannot be told.
    pub fn check(
        lists: &[ProgramList],
        line: &CommandLine,
        policy: &Policy,
    ) -> Result<(), CallFailure> {
        let Some(reason) = ProgramList::refusal(lists, line, policy) else {
            return Ok(());
        };
        let failure = FailureCode::Blocked.failure(format!("Cannot run {}.", reason.text));
        Err(failure.hint(reason.why.unwrap_or_default()))
    }
}

/// Every word of the commands that a line consists of or starts.
fn all_words(line: &CommandLine) -> impl Iterator<Item = &String> {
    let commands = line.segments().iter().chain(line.starts());
    commands.flat_map(CommandSegment::words)
}

/// `true` if a command of the line, or an earlier one of its session, may change the directory.
fn may_change_directory(line: &CommandLine, in_shell: bool) -> bool {
    let words = || all_words(line);
    line.session().is_some_and(|state| state.has_moved())
        || in_shell && words().any(|word| MOVES.contains(&word.as_str()))
        || words().any(|word| word.starts_with("--chdir") || word == "-execdir")
        || line.starts().iter().chain(line.segments()).any(|one| {
            let words = one.words();
            words.first().is_some_and(|word| word.ends_with("env")) && words.contains(&"-C".into())
        })
}

fn refused(word: &str, why: &str, rule: &str, origin: Option<String>) -> VerdictReason {
    let word = crate::escape_controls(word);
    VerdictReason {
        text: format!("`{word}`: {why}"),
        rule: Some(format!("shell.{rule}")),
        origin,
        why: Some("No approval changes this; do it another way.".to_owned()),
    }
}

impl ProgramList {
    fn denies(&self, program: &ResolvedProgram<'_>, policy: &Policy) -> bool {
        let own_name = program.names.first().map(String::as_str);
        let is_every_program = program.is_multi_call() && own_name == program.real_name();
        (is_every_program && !self.deny.is_empty())
            || self.deny.iter().any(|entry| {
                let interpreter = program
                    .interpreter
                    .iter()
                    .any(|one| one == entry || Path::new(one).file_name() == Some(entry.as_ref()));
                let same_name = interpreter || program.names.iter().any(|name| name == entry);
                let denied = ResolvedProgram::find(entry, policy);
                let same_file = program.real.is_some()
                    && program.real == denied.real
                    && !program.is_multi_call();
                same_name || same_file
            })
    }
}

impl<'w> ResolvedProgram<'w> {
    fn find(word: &'w str, policy: &Policy) -> ResolvedProgram<'w> {
        let way = if word.contains('/') {
            Some(PathResolution::to(Path::new(word), policy))
        } else {
            let path = policy.environment().search_path();
            std::env::split_paths(&path)
                .map(|dir| PathResolution::to(&dir.join(word), policy))
                .find(|way| way.real.as_deref().is_some_and(Path::is_file))
        };
        let way = way.unwrap_or_default();
        let mut names = vec![base_name(Path::new(word))];
        names.extend(way.names);
        let interpreter = way.real.as_deref().map(interpreter).unwrap_or_default();
        let up = |part: Component<'_>| part == Component::ParentDir;
        ResolvedProgram {
            word,
            names,
            first: way.first,
            real: way.real,
            through_own: way.through_own,
            through_proc: way.through_proc,
            climbs: Path::new(word).components().any(up),
            interpreter,
        }
    }

    /// Returns `true` if an entry of an allow list means this program.
    fn is(&self, entry: &str, in_shell: bool, policy: &Policy) -> bool {
        let meant = ResolvedProgram::find(entry, policy);
        let from_start = |path: &str| Path::new("/work").join(path);
        let by_another_way = self.through_own && from_start(self.word) != from_start(entry);
        if self.climbs || by_another_way {
            return false;
        }
        if self.real.is_none() {
            // A name without a file is a shell built-in.
            return in_shell && meant.real.is_none() && self.word == entry;
        }
        // A file that a command may replace could be another one a moment later.
        let replaceable = self.first.as_deref().is_some_and(|path| {
            path.parent()
                .is_none_or(|dir| policy.allows(dir.join("x"), Access::WRITE))
        });
        let same_name = entry.contains('/') || self.names.first() == meant.names.first();
        same_name && self.real == meant.real && (!replaceable || self.first == meant.first)
    }

    fn real_name(&self) -> Option<&str> {
        self.real.as_deref()?.file_name()?.to_str()
    }

    fn is_multi_call(&self) -> bool {
        self.real_name()
            .is_some_and(|name| MULTI_CALL.contains(&name))
    }
}

/// How the kernel gets from a path that a command uses to a file.
#[derive(Default)]
struct PathResolution {
    /// The last name, in its directory.
    first: Option<PathBuf>,
    /// The final file, if it exists.
    real: Option<PathBuf>,
    /// The names of the links that the last name leads through, and of the file.
    names: Vec<String>,
    through_own: bool,
    through_proc: bool,
}

impl PathResolution {
    /// The working directory of a command is `/work`.
    fn to(word: &Path, policy: &Policy) -> PathResolution {
        let mut way = PathResolution::default();
        let mut inside = PathBuf::from("/");
        let mut ahead = parts(&Path::new("/work").join(word));
        let mut links = 0;
        // From now on, the followed path replaces the last name of the word.
        let mut last = false;
        while let Some(part) = ahead.pop() {
            last |= ahead.is_empty();
            let Some(name) = part else {
                inside.pop();
                continue;
            };
            let next = inside.join(&name);
            way.through_proc |= next.starts_with("/proc");
            let host = host_path(&next, policy);
            if last && way.first.is_none() {
                way.first = Some(host.clone());
            }
            let Ok(link) = host.read_link() else {
                inside = next;
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return way;
            }
            if last {
                way.names.push(base_name(&link));
            } else {
                let dir = host.parent().unwrap_or(&host);
                way.through_own |= policy.allows(dir.join("x"), Access::WRITE);
            }
            if link.is_absolute() {
                inside = PathBuf::from("/");
            }
            ahead.extend(parts(&link));
        }
        let real = host_path(&inside, policy);
        if real.exists() {
            way.names.push(base_name(&real));
            way.real = Some(real);
        }
        way
    }
}

/// The names of a path, the last one first; `None` for one up.
fn parts(path: &Path) -> Vec<Option<OsString>> {
    let name = |part| match part {
        Component::ParentDir => Some(None),
        Component::Normal(name) => Some(Some(name.to_owned())),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    let mut parts: Vec<_> = path.components().filter_map(name).collect();
    parts.reverse();
    parts
}

/// The path of the host behind one that a command sees, without links and `..` in it.
fn host_path(inside: &Path, policy: &Policy) -> PathBuf {
    let below = policy.mounts().iter().filter_map(|mount| {
        let shown = mount.shown_at().trim_start_matches('/');
        let rest = inside
            .strip_prefix(mount.inside())
            .or_else(|_| inside.strip_prefix(Path::new("/work").join(shown)))
            .ok()?;
        // Joined to nothing, a file would become a directory.
        let host = if rest.as_os_str().is_empty() {
            mount.host().to_owned()
        } else {
            mount.host().join(rest)
        };
        Some((rest.as_os_str().len(), host))
    });
    below
        .min_by_key(|(left, _)| *left)
        .map_or_else(|| inside.to_owned(), |(_, host)| host)
}

/// Returns the words behind `#!`; empty if the file is not a script.
fn interpreter(path: &Path) -> Vec<String> {
    let mut start = Vec::new();
    // Anything but a file could keep us waiting.
    if path.is_file()
        && let Ok(file) = std::fs::File::open(path)
    {
        let _unreadable = file.take(SHEBANG_BYTES).read_to_end(&mut start);
    }
    let text = String::from_utf8_lossy(&start);
    let line = text.strip_prefix("#!").and_then(|text| text.lines().next());
    line.unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

fn base_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_name_stands_for_the_file_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().canonicalize().unwrap();
        symlink("/bin/rm", work.join("harmless")).unwrap();
        symlink("/bin/cat", work.join("cat")).unwrap();
        // By text `l/../../bin/rm` is `bin/rm` here, and to the kernel it is `a/bin/rm`.
        std::fs::create_dir_all(work.join("a/b/c")).unwrap();
        std::fs::create_dir_all(work.join("a/usr/bin")).unwrap();
        symlink("a/b/c", work.join("l")).unwrap();
        symlink("/usr/bin", work.join("system")).unwrap();
        symlink("/bin/rm", work.join("a/tool")).unwrap();
        std::fs::write(work.join("tool"), "").unwrap();
        std::fs::write(work.join("a/usr/bin/cat"), "#!/bin/sh\n").unwrap();
        std::fs::write(work.join("git"), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(work.join("git"), PermissionsExt::from_mode(0o755)).unwrap();
        let policy = Policy::builder()
            .mount(&work, "/", Access::ALL)
            .build()
            .unwrap();
        let allow = |names: &[&str], deny: &[&str]| ProgramList {
            allow: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            deny: deny.iter().map(|name| (*name).to_owned()).collect(),
            ..ProgramList::default()
        };
        let only_cat = vec![allow(&["cat"], &[])];
        let no_rm = vec![ProgramList {
            deny: vec!["rm".into()],
            ..ProgramList::default()
        }];
        let with_env = vec![allow(&["cat", "env"], &[])];
        let deny = |name: &str| {
            vec![ProgramList {
                deny: vec![name.to_owned()],
                ..ProgramList::default()
            }]
        };
        let (no_sh, no_perl) = (deny("sh"), deny("perl"));
        std::fs::write(work.join("script"), "#! /usr/bin/env -S perl -w\n").unwrap();
        let both = vec![
            allow(&["cat", "rm", "cd"], &[]),
            allow(&["cat", "cd"], &["rm"]),
        ];
        for (lists, line, runs) in [
            (&only_cat, "cat x", true),
            (&only_cat, "/bin/cat x", true),
            (&only_cat, "/usr/bin/cat x", true),
            (&only_cat, "rm x", false),
            (&only_cat, "cat x | cat", true),
            (&only_cat, "cat x | rm y", false),
            (&only_cat, "cat x && ./git", false),
            (&only_cat, "nonsense", false),
            (&only_cat, "cd /", false),
            // A link that the command may replace could lead elsewhere a moment later.
            (&only_cat, "./cat x", false),
            (&only_cat, "cat \"$(rm x)\"", false),
            (&only_cat, "PATH=. cat x", false),
            (&only_cat, "$x y; cat", false),
            (&no_rm, "cat x", true),
            (&no_rm, "nonsense", true),
            (&no_rm, "./git", true),
            (&no_rm, "rm x", false),
            (&no_rm, "/bin/rm x", false),
            (&no_rm, "./harmless x", false),
            (&no_rm, "cat x; /bin/r? x", false),
            (&no_rm, "PATH=. harmless; cat", false),
            // What is started by another word for it.
            (&no_rm, "env rm x", false),
            (&no_rm, "/usr/bin/env -i /bin/rm x", false),
            (&no_rm, "env PATH=. harmless", false),
            (&no_rm, "timeout 5 ./harmless", false),
            (&no_rm, "find . -exec rm {} +", false),
            (&no_rm, "sh -c 'cat x; rm x'", false),
            (&no_rm, "sh -c \"cat 'x\"", false),
            (&no_rm, "find . -exec cat {} +", true),
            (&no_rm, "cd d && harmless", true),
            (&no_rm, "cd d && ./harmless", false),
            (&no_rm, "cd d && ./anything", false),
            (&no_rm, "alias cat=/bin/rm\ncat x", false),
            (&no_rm, ". ./git; cat x", false),
            (&no_rm, "eval 'r''m x'", false),
            (&only_cat, "env cat x", false),
            (&with_env, "env A=b cat x", true),
            (&with_env, "env rm x", false),
            (&with_env, "env --strange cat cat", true),
            (&with_env, "env --strange cat x", false),
            (&no_sh, "./git", false),
            (&no_perl, "./script", false),
            (&no_rm, "./script", true),
            // As the kernel follows it.
            (&only_cat, "l/../../usr/bin/cat x", false),
            (&only_cat, "l/../../../usr/bin/cat x", false),
            (&only_cat, "/usr/../bin/cat x", false),
            (&only_cat, "/usr/bin/../bin/cat x", false),
            (&only_cat, "system/cat x", false),
            (&no_rm, "l/../../tool x", false),
            (&no_rm, "./tool x", true),
            (&no_rm, "system/rm x", false),
            (&no_rm, "system/cat x", true),
            (&no_rm, "/proc/self/cwd/harmless x", false),
            // Where a redirection leads is no program, and what it stands before is one.
            (&no_rm, ">cat rm x", false),
            (&no_rm, "</dev/zero rm x", false),
            (&no_rm, "2>&1 rm x", false),
            (&no_rm, "2>&1 cat x", true),
            (&only_cat, ">rm cat x", true),
            (&only_cat, ">cat rm x", false),
            (&no_rm, "&>f rm x", false),
            (&no_rm, "15>f rm x", false),
            (&no_rm, "echo $(echo a)#; rm x", false),
            (&no_rm, "echo `echo a`#; rm x", false),
            (&no_rm, "echo \"$\\\n(rm x)\"; echo x", false),
            (&no_rm, "A+=1 rm x", false),
            (&no_rm, "a[0]=1 rm x", false),
            (&no_rm, "function f { rm x; }; f", false),
            (&no_rm, "{rm,x}; cat", false),
            (&no_rm, "sh -c '$a x'", false),
            (&no_rm, "echo rm x | sh", false),
            (&both, "cat x", true),
            (&both, "cd d && cat x", true),
            (&both, "rm x", false),
        ] {
            let parsed = CommandLine::parse(line).unwrap();
            assert_eq!(
                ProgramList::check(lists, &parsed, &policy).is_ok(),
                runs,
                "{line}"
            );
        }
        assert!(ProgramList::check(&[], &CommandLine::parse("rm x").unwrap(), &policy).is_ok());
        let failure = ProgramList::check(&only_cat, &CommandLine::parse("rm x").unwrap(), &policy);
        assert_eq!(
            failure.unwrap_err().to_string(),
            "Cannot run `rm`: it is not among the programs that may run here.\nAllowed programs: cat"
        );
    }
}
