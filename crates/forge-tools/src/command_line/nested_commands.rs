//! Commands that the words of one command start besides its program: behind `env` or `timeout`, in
//! `sh -c`, after `find -exec`. Rules and lists check them too, so that another spelling of a
//! command does not avoid them.
//!
//! It only ever tightens, so an ambiguity (an option that no table here knows) is read in every
//! possible way. Commands that a program starts by itself are not in its words, and not here.

use super::parser::RESERVED_WORDS;
use super::{Certainty, CommandLine, CommandSegment, is_assignment};

/// Most levels of commands in commands; deeper ones count as unparsed.
const MAX_DEPTH: usize = 8;

/// Commands found in one line, and bytes looked at for it, at most.
const MAX_FOUND: usize = 512;
const MAX_BYTES: usize = 1024 * 1024;

/// A program whose arguments are a command.
struct WrapperProgram {
    names: &'static [&'static str],
    /// Short options without and with a value.
    flags: &'static str,
    valued: &'static str,
    /// Long options that take a value in the next word.
    long: &'static [&'static str],
    /// Words between the options and the command.
    operands: usize,
}

const CARRIERS: &[WrapperProgram] = &[
    carrier(&["env"], "i0v", "uC", &["--unset", "--chdir"], 0),
    carrier(&["nice"], "", "n", &["--adjustment"], 0),
    carrier(&["ionice"], "t", "cn", &["--class", "--classdata"], 0),
    carrier(&["chrt"], "bfiormv", "", &[], 1),
    carrier(&["taskset"], "ac", "", &[], 1),
    carrier(
        &["timeout", "gtimeout"],
        "fpv",
        "ks",
        &["--kill-after", "--signal"],
        1,
    ),
    carrier(
        &["nohup", "builtin", "unbuffer", "busybox", "toybox"],
        "",
        "",
        &[],
        0,
    ),
    carrier(&["setsid"], "cfw", "", &[], 0),
    carrier(
        &["stdbuf"],
        "",
        "ioe",
        &["--input", "--output", "--error"],
        0,
    ),
    carrier(&["time"], "apvq", "fo", &["--format", "--output"], 0),
    carrier(&["command"], "pvV", "", &[], 0),
    carrier(&["exec"], "cl", "a", &[], 0),
    carrier(
        &["sudo"],
        "ABbEHnPSs",
        "CDghpRrtTuU",
        &["--user", "--group", "--chdir"],
        0,
    ),
    carrier(&["doas"], "Lns", "aCu", &[], 0),
    carrier(&["chroot"], "", "", &["--userspec", "--groups"], 1),
    carrier(&["flock"], "FeonsuxE", "wE", &["--timeout", "--wait"], 1),
    carrier(
        &["xargs"],
        "0rtpxo",
        "adEILnPs",
        &[
            "--arg-file",
            "--delimiter",
            "--max-lines",
            "--max-args",
            "--max-procs",
            "--max-chars",
        ],
        0,
    ),
    carrier(
        &["strace", "ltrace"],
        "cCdfFhiknqrtTvVwxyzZ",
        "abeEIoOpPsSuUX",
        &[],
        0,
    ),
    carrier(&["watch"], "bcdegptx", "n", &["--interval"], 0),
];

const fn carrier(
    names: &'static [&'static str],
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> WrapperProgram {
    WrapperProgram {
        names,
        flags,
        valued,
        long,
        operands,
    }
}

/// Long options of carriers that take no value and change nothing about where the command begins.
const LONG_FLAGS: &[&str] = &[
    "--foreground",
    "--preserve-status",
    "--verbose",
    "--ignore-environment",
    "--null",
    "--no-run-if-empty",
    "--exit",
    "--open-tty",
    "--wait",
];

/// Programs that run the value of an option: names, short and long options.
const RUN_A_VALUE: &[(&[&str], &str, &[&str])] = &[
    (
        &["tar", "gtar", "bsdtar"],
        "IF",
        &[
            "--to-command",
            "--use-compress-program",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--rmt-command",
        ],
    ),
    (&["rsync"], "e", &["--rsh", "--rsync-path"]),
    (&["rg"], "", &["--pre", "--hostname-bin"]),
    (&["sort", "gsort"], "", &["--compress-program"]),
    (&["split", "gsplit"], "", &["--filter"]),
    (&["man"], "PH", &["--pager", "--html"]),
    (&["bat", "batcat", "delta"], "", &["--pager"]),
    (&["sdiff", "diff3"], "", &["--diff-program"]),
    (&["scp", "sftp"], "S", &[]),
    (&["zip"], "", &["--unzip-command"]),
    (&["fzf"], "", &["--preview"]),
];

/// Options of git's commands whose value is a command: the command, short and long options.
const GIT_RUNS_A_VALUE: &[(&str, &str, &[&str])] = &[
    ("rebase", "x", &["--exec"]),
    ("difftool", "x", &["--extcmd"]),
    ("grep", "O", &["--open-files-in-pager"]),
    ("clone", "u", &["--upload-pack"]),
    ("fetch", "", &["--upload-pack"]),
    ("pull", "", &["--upload-pack"]),
    ("ls-remote", "", &["--upload-pack", "--exec"]),
    ("push", "", &["--receive-pack", "--exec"]),
    ("archive", "", &["--exec"]),
];

/// Settings that `git -c` may change and that name no program: how such a key begins.
#[rustfmt::skip]
const HARMLESS_GIT_KEYS: &[&str] = &[
    "color.", "column.", "advice.", "user.name=", "user.email=", "log.date=", "core.quotepath=",
    "core.autocrlf=", "core.abbrev=", "init.defaultbranch=", "commit.gpgsign=false",
    "diff.renames=", "diff.context=", "safe.directory=", "pull.rebase=", "push.default=",
];

const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "rbash", "yash",
];

/// Shells with a grammar of their own.
const OTHER_SHELLS: &[&str] = &["fish", "csh", "tcsh", "nu", "pwsh", "hush"];

/// Programs whose arguments end in a command, with too many ways to mark its beginning.
#[rustfmt::skip]
const SOMEWHERE: &[&str] = &[
    "setpriv", "unshare", "nsenter", "prlimit", "setarch", "linux32", "linux64", "choom",
    "fakeroot", "systemd-run", "dbus-run-session", "ssh-agent", "pkexec", "runuser", "script",
    "parallel", "valgrind", "start-stop-daemon",
];

/// Shell built-ins that give a name another meaning.
const RENAMES: &[&str] = &["alias", "hash", "enable"];

/// Built-ins of bash that run the substitutions in the index of a variable, quoted or not.
#[rustfmt::skip]
const TAKES_VARIABLES: &[&str] = &[
    "test", "[", "[[", "printf", "read", "unset", "declare", "typeset", "local", "export",
    "readonly", "let", "mapfile", "readarray", "wait", "getopts",
];

/// Programs that run the text behind `-c`, and take other arguments too.
const TAKES_TEXT: &[&str] = &["su", "runuser", "script", "flock", "watch", "parallel"];

/// The commands that were found, and a flag for those that were not.
#[derive(Debug, Default)]
pub(super) struct NestedCommands {
    pub(super) commands: Vec<CommandSegment>,
    pub(super) unparsed: bool,
    /// If a shell expands it: which program is started depends on that.
    pub(super) expanded: bool,
    depth: usize,
    /// Bytes looked at so far: a line can name itself in itself many times.
    looked_at: usize,
}

impl NestedCommands {
    /// Everything that a command starts.
    pub(super) fn by(&mut self, words: &[String]) {
        let Some(program) = words.first() else { return };
        let name = program.rsplit('/').next().unwrap_or_default();
        // Another spelling of this name.
        if name != program && !name.is_empty() {
            let mut respelled = words.to_vec();
            respelled[0] = name.to_owned();
            self.add_as(&respelled, Certainty::Other);
            return;
        }
        let rest = &words[1..];
        let runs_index = TAKES_VARIABLES.contains(&name) || is_assignment(name);
        self.unparsed |= RENAMES.contains(&name)
            || OTHER_SHELLS.contains(&name)
            || runs_index && words.iter().any(|word| has_index(word));
        if SHELLS.contains(&name) {
            self.text_of_shell(rest);
        }
        if TAKES_TEXT.contains(&name) {
            self.text_behind(rest, 'c', "--command");
        }
        match name {
            "eval" => self.text(&rest.join(" ")),
            "trap" => rest.iter().for_each(|word| self.trapped(word)),
            "git" => self.by_git(rest),
            "find" | "gfind" => self.behind_exec(rest),
            "fd" | "fdfind" => self.behind_x(rest),
            "watch" | "parallel" => self.text(&rest.join(" ")),
            "mapfile" | "readarray" => self.text_behind(rest, 'C', "--callback"),
            "env" => {
                self.text_behind(rest, 'S', "--split-string");
                self.unparsed |= splits_with_signs(rest);
            }
            "." | "source" => {
                let given = |word: &&String| !word.starts_with('-');
                self.unparsed |= rest.iter().find(given).is_none_or(|file| is_input(file));
            }
            _ => {}
        }
        for (_, short, long) in RUN_A_VALUE.iter().filter(|row| row.0.contains(&name)) {
            self.values_of(rest, short, long);
        }
        if ["tar", "gtar", "bsdtar"].contains(&name) {
            self.by_tar(rest);
        }
        if SOMEWHERE.contains(&name) {
            self.any_suffix(rest);
        }
        if let Some(carrier) = CARRIERS.iter().find(|one| one.names.contains(&name)) {
            self.carried(carrier, rest);
        }
        if name == "xargs" {
            self.put_together(rest);
        }
    }

    /// A text or a signal of `trap`.
    fn trapped(&mut self, word: &str) {
        let mut letters = word.chars();
        let reading = match letters.all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()) {
            true => Certainty::Other,
            false => Certainty::Program,
        };
        self.text_as(word, reading);
    }

    /// The command of git without the options before it, which change no rule, and the programs that
    /// it starts.
    fn by_git(&mut self, rest: &[String]) {
        let Some(at) = git_command_at(rest) else {
            self.unparsed = true;
            return;
        };
        let [command, own @ ..] = &rest[at..] else {
            return;
        };
        if at > 0 {
            let plain = [&["git".to_owned()], &rest[at..]].concat();
            self.add_as(&plain, Certainty::Other);
        }
        let behind = |word: &str| {
            let at = own.iter().position(|own| own == word);
            at.map_or(&[][..], |at| &own[at + 1..])
        };
        match command.as_str() {
            "submodule" => {
                let given = |word: &&String| word.starts_with('-');
                let words = behind("foreach");
                let options = words.iter().take_while(given).count();
                self.text(&words[options..].join(" "));
            }
            "bisect" => drop(self.add(behind("run"))),
            "filter-branch" => self.unparsed = true,
            _ => {}
        }
        let rows = GIT_RUNS_A_VALUE.iter().filter(|row| row.0 == command);
        for (_, short, long) in rows {
            self.values_of(own, short, long);
        }
    }

    /// The values of options that are commands.
    fn values_of(&mut self, words: &[String], short: &str, long: &[&str]) {
        for option in long {
            self.text_behind(words, '\0', option);
        }
        for letter in short.chars() {
            self.text_behind(words, letter, "--");
        }
    }

    /// The programs that `tar` starts.
    fn by_tar(&mut self, rest: &[String]) {
        for (at, word) in rest.iter().enumerate() {
            let next = rest.get(at + 1).map_or("", String::as_str);
            let (name, action) = word.split_once('=').unwrap_or((word, next));
            let is_action =
                name.starts_with("--checkpoint-") && "--checkpoint-action".starts_with(name);
            if let Some(action) = action.strip_prefix("exec=").filter(|_| is_action) {
                self.text(action);
            }
        }
        // `tar xIf PROGRAM FILE`: which word belongs to which letter is not told by its place.
        let bundle = rest.first().filter(|word| !word.starts_with('-'));
        self.unparsed |= bundle.is_some_and(|letters| letters.contains(['I', 'F']));
    }

    /// A text that a shell is given.
    pub(super) fn text(&mut self, text: &str) {
        self.text_as(text, Certainty::Program);
    }

    fn text_as(&mut self, text: &str, reading: Certainty) {
        // A text without a command runs none.
        if text.trim().is_empty() || !self.enter(text.len()) {
            return;
        }
        let outside = std::mem::take(&mut self.expanded);
        match CommandLine::parse_within(text, self) {
            Ok(line) => {
                self.unparsed |= line.has_hidden_commands;
                for segment in line.segments {
                    self.keep(CommandSegment { reading, ..segment });
                }
                self.unparsed |= line.approval_reason.is_some() && self.expanded;
            }
            Err(error) => self.unparsed |= !error.is_empty_line(),
        }
        self.expanded = outside;
        self.leave();
    }

    /// Enters a deeper level, unless that is too deep or too much. Each entry needs an exit.
    pub(super) fn enter(&mut self, bytes: usize) -> bool {
        self.looked_at = self.looked_at.saturating_add(bytes + 1);
        let bounded = self.depth < MAX_DEPTH
            && self.looked_at <= MAX_BYTES
            && self.commands.len() < MAX_FOUND;
        if bounded {
            self.depth += 1;
        } else {
            self.unparsed = true;
        }
        bounded
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// False: no more is looked at.
    fn add(&mut self, words: &[String]) -> bool {
        // No program is called by a name that looks like an option.
        let option = words.first().is_some_and(|word| word.starts_with('-'));
        self.add_as(
            words,
            if option {
                Certainty::Other
            } else {
                Certainty::Program
            },
        )
    }

    fn add_as(&mut self, words: &[String], reading: Certainty) -> bool {
        // `time ! rm x`
        let prefix = |word: &&String| RESERVED_WORDS.contains(&word.as_str());
        let words = &words[words.iter().take_while(prefix).count()..];
        if words.is_empty() {
            return true;
        }
        let bytes = words.iter().map(|word| word.len() + 1).sum();
        if !self.enter(bytes) {
            return false;
        }
        self.by(words);
        self.leave();
        self.keep(CommandSegment {
            words: words.to_vec(),
            reading,
        });
        true
    }

    pub(super) fn keep(&mut self, segment: CommandSegment) {
        let Some(program) = segment.words.first() else {
            return;
        };
        self.expanded |= segment.is_expanded();
        // The word that another program puts in its place.
        self.unparsed |= program.contains("{}");
        if self.commands.len() >= MAX_FOUND {
            self.unparsed = true;
            return;
        }
        match self
            .commands
            .iter_mut()
            .find(|one| one.words == segment.words)
        {
            Some(known) if segment.is_program() => known.reading = Certainty::Program,
            Some(_) => {}
            None => self.commands.push(segment),
        }
    }

    /// The command that follows the options.
    fn carried(&mut self, carrier: &WrapperProgram, words: &[String]) {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            if word == "--" {
                at += 1;
                break;
            }
            if word == "-" || sets(word) {
                at += 1;
                continue;
            }
            if !word.starts_with('-') {
                break;
            }
            match carrier.value_of(word) {
                Some(OptionValue::None | OptionValue::Same) => at += 1,
                Some(OptionValue::Next) => at += 2,
                None => {
                    self.expanded |= words[..at].iter().any(|word| super::is_expanded(word));
                    return self.any_suffix(&words[at + 1..]);
                }
            }
        }
        at += carrier.operands;
        while words.get(at).is_some_and(|word| sets(word)) {
            at += 1;
        }
        let before = &words[..at.min(words.len())];
        self.expanded |= before.iter().any(|word| super::is_expanded(word));
        if let Some(command) = words.get(at..) {
            self.add(command);
        }
    }

    /// Everything from some word on may be the command.
    fn any_suffix(&mut self, words: &[String]) {
        for start in 0..words.len() {
            if !self.add(&words[start..]) {
                return;
            }
        }
    }

    /// `xargs` adds words to its command, or puts them into it: unparsed where they name the
    /// program.
    fn put_together(&mut self, words: &[String]) {
        let runs = |word: &String| {
            let name = word.rsplit('/').next().unwrap_or_default();
            SHELLS.contains(&name)
                || OTHER_SHELLS.contains(&name)
                || TAKES_TEXT.contains(&name)
                || SOMEWHERE.contains(&name)
                || matches!(name, "eval" | "find" | "fd" | "fdfind")
                || CARRIERS.iter().any(|one| one.names.contains(&name))
        };
        if let Some(at) = words.iter().rposition(runs) {
            let behind = &words[at + 1..];
            let given = |word: &String| word != "{}" && !word.starts_with('-');
            let put = |word: &String| word.contains("{}") && given(word);
            let shell = words[at].rsplit('/').next().unwrap_or_default();
            let is_shell = SHELLS.contains(&shell);
            self.unparsed |= !behind.iter().any(given) || is_shell && behind.iter().any(put);
        }
        let mark = words.iter().enumerate().find_map(|(at, word)| {
            let mark = word
                .strip_prefix("-I")
                .or(word.strip_prefix("--replace="))?;
            let next = words.get(at + 1).map_or("", String::as_str);
            Some(if mark.is_empty() {
                (at + 2, next)
            } else {
                (at + 1, mark)
            })
        });
        // Another mark than the usual one: each occurrence could be the program.
        if let Some((behind, mark)) = mark
            && mark != "{}"
        {
            let mut behind = words.iter().skip(behind);
            self.unparsed |= mark.is_empty() || behind.any(|word| word.contains(mark));
        }
    }

    /// `sh -c TEXT`, also as `-lc` and with options of its own in between.
    fn text_of_shell(&mut self, words: &[String]) {
        let given = words.iter().position(|word| {
            word.starts_with('-') && !word.starts_with("--") && word.contains('c')
        });
        let mut behind = words[given.map_or(0, |given| given + 1)..].iter();
        let mut from_input = given.is_none();
        while let Some(word) = behind.next() {
            match word.as_str() {
                "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file" => drop(behind.next()),
                "--" => {}
                word if word.starts_with(['-', '+']) => {
                    from_input |= !word.starts_with("--") && word.contains('s');
                }
                text if given.is_some() => return self.text(text),
                script => {
                    self.unparsed |= from_input && words.iter().any(|word| word == "-s");
                    self.unparsed |= is_input(script);
                    return;
                }
            }
        }
        // Commands come in at run time.
        self.unparsed |= from_input;
    }

    /// `-c TEXT`, also as `-xc TEXT`, `-cTEXT`, `--command=TEXT` and shortened.
    fn text_behind(&mut self, words: &[String], short: char, long: &str) {
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1).map_or("", String::as_str);
            if word.starts_with("--") {
                let (name, text) = word.split_once('=').unwrap_or((word, next));
                if name.len() > 2 && long.starts_with(name) {
                    self.text(text);
                }
            } else if let Some((_, text)) = word
                .strip_prefix('-')
                .and_then(|letters| letters.split_once(short))
            {
                self.text(next);
                self.text(text.strip_prefix('=').unwrap_or(text));
            }
        }
    }

    /// `find … -exec COMMAND ;`, any number of times.
    fn behind_exec(&mut self, words: &[String]) {
        let mut rest = words;
        loop {
            let at = rest
                .iter()
                .position(|word| matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir"));
            let before = &rest[..at.unwrap_or(rest.len())];
            self.expanded |= before.iter().any(|word| word.contains(['$', '`']));
            let Some(at) = at else { return };
            rest = &rest[at + 1..];
            let end = (0..rest.len())
                .find(|&at| rest[at] == ";" || at > 0 && rest[at] == "+" && rest[at - 1] == "{}");
            let command = &rest[..end.unwrap_or(rest.len())];
            self.add(command);
            rest = &rest[command.len()..];
        }
    }

    /// `fd -x COMMAND`, also as `-Hx` and `--exec=COMMAND`.
    fn behind_x(&mut self, words: &[String]) {
        for (at, word) in words.iter().enumerate() {
            let (given, own) = if let Some(name) = word.strip_prefix("--exec") {
                (true, name.split_once('=').map_or("", |(_, own)| own))
            } else {
                let letters = word.strip_prefix('-').unwrap_or_default();
                letters
                    .split_once(['x', 'X'])
                    .map_or((false, ""), |(_, own)| (true, own))
            };
            if given {
                self.add(&words[at + 1..]);
                if !own.is_empty() {
                    let rest = words[at + 1..].iter().cloned();
                    self.add(
                        &std::iter::once(own.to_owned())
                            .chain(rest)
                            .collect::<Vec<_>>(),
                    );
                }
            }
        }
    }
}

/// `true` if a string that `env` splits has signs of its own for blanks and variables.
fn splits_with_signs(rest: &[String]) -> bool {
    let split = |word: &String| word.starts_with('-') && word.contains(['S', 's']);
    let at = rest.iter().position(split);
    at.is_some_and(|at| {
        rest[at..]
            .iter()
            .take(2)
            .any(|word| word.contains(['\\', '$', '#']))
    })
}

/// Returns the place of git's command behind git's own options; `None` if one of them could name a
/// program, or another directory of programs.
fn git_command_at(words: &[String]) -> Option<usize> {
    let harmless = |setting: &String| {
        let setting = setting.to_ascii_lowercase();
        HARMLESS_GIT_KEYS.iter().any(|key| setting.starts_with(key))
    };
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += match word.as_str() {
            "-c" if !words.get(at + 1).is_some_and(harmless) => return None,
            "-c" | "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--attr-source" => 2,
            word if word.starts_with("--config-env") || word.starts_with("--exec-path=") => {
                return None;
            }
            word if word.starts_with('-') => 1,
            _ => return Some(at),
        };
    }
    Some(words.len())
}

/// As `env` and `sudo` see it.
fn sets(word: &str) -> bool {
    word.contains('=') && !word.starts_with('-')
}

/// `a[$(rm x)]`, which some built-in commands look into.
fn has_index(word: &str) -> bool {
    word.split_once('[')
        .is_some_and(|(_, index)| index.contains("$(") || index.contains(['`', '$']))
}

/// A file whose content comes in at run time.
fn is_input(path: &str) -> bool {
    path == "-" || path.starts_with("/dev/") || path.starts_with("/proc/")
}

/// Where the value of an option is.
enum OptionValue {
    None,
    Same,
    Next,
}

impl WrapperProgram {
    /// Returns `None` if no table knows the option.
    fn value_of(&self, word: &str) -> Option<OptionValue> {
        if word.starts_with("--") {
            return if word.contains('=') {
                Some(OptionValue::Same)
            } else if self.long.contains(&word) {
                Some(OptionValue::Next)
            } else if LONG_FLAGS.contains(&word) {
                Some(OptionValue::None)
            } else {
                None
            };
        }
        let mut letters = word.chars().skip(1);
        while let Some(letter) = letters.next() {
            if self.valued.contains(letter) {
                return Some(match letters.next() {
                    Some(_) => OptionValue::Same,
                    None => OptionValue::Next,
                });
            }
            // `nice -5`.
            if !self.flags.contains(letter) && !letter.is_ascii_digit() {
                return None;
            }
        }
        Some(OptionValue::None)
    }
}
