//! What the words of one command start besides the program they name: behind `env` or `timeout`,
//! in `sh -c`, after `find -exec`. Rules and lists look at it too, so that another spelling of a
//! command is no way around what they say about it.
//!
//! It only ever tightens, so a doubt (an option that no table here knows) is read in every way it
//! could be meant. What a program does by itself is not in its words, and not here.

use super::{CommandLine, Segment};

/// Commands in commands, at most; what is nested deeper counts as unseen.
const MAX_DEPTH: usize = 8;

/// Commands found in one line, and bytes looked at for it, at most.
const MAX_FOUND: usize = 512;
const MAX_BYTES: usize = 1024 * 1024;

/// A program whose arguments are a command.
struct Carrier {
    names: &'static [&'static str],
    /// Short options without and with a value.
    flags: &'static str,
    valued: &'static str,
    /// Long options that take a value in the next word.
    long: &'static [&'static str],
    /// Words between the options and the command.
    operands: usize,
}

const CARRIERS: &[Carrier] = &[
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
    carrier(
        &["setpriv", "unshare", "nsenter", "prlimit"],
        "",
        "",
        &[],
        0,
    ),
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
) -> Carrier {
    Carrier {
        names,
        flags,
        valued,
        long,
        operands,
    }
}

const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "rbash"];

/// Programs that run the text behind `-c`, and take other arguments too.
const TAKES_TEXT: &[&str] = &["su", "runuser", "script", "flock", "watch", "parallel"];

/// What was found, and whether there is more that was not.
#[derive(Debug, Default)]
pub(super) struct Started {
    pub(super) commands: Vec<Segment>,
    pub(super) unseen: bool,
    depth: usize,
    /// Bytes looked at so far: a line can name itself in itself many times.
    looked_at: usize,
}

impl Started {
    /// Everything that a command starts.
    pub(super) fn by(&mut self, words: &[String]) {
        let Some(program) = words.first() else { return };
        let name = program.rsplit('/').next().unwrap_or_default();
        // Another spelling of the same name.
        if name != program && !name.is_empty() {
            let mut respelled = words.to_vec();
            respelled[0] = name.to_owned();
            self.add(&respelled);
            return;
        }
        let rest = &words[1..];
        if SHELLS.contains(&name) {
            self.text_of_shell(rest);
        }
        if TAKES_TEXT.contains(&name) {
            self.text_behind(rest, &["-c", "--command"]);
        }
        match name {
            "eval" => self.text(&rest.join(" ")),
            "trap" => rest.iter().for_each(|word| self.text(word)),
            "find" | "gfind" => self.behind_exec(rest),
            "fd" | "fdfind" => self.suffixes_behind(rest, &["-x", "-X", "--exec", "--exec-batch"]),
            "watch" => self.text(&rest.join(" ")),
            "env" => self.text_behind(rest, &["-S", "--split-string"]),
            _ => {}
        }
        if let Some(carrier) = CARRIERS.iter().find(|one| one.names.contains(&name)) {
            self.carried(carrier, rest);
        }
    }

    /// A text that a shell is given.
    pub(super) fn text(&mut self, text: &str) {
        // A text without a command runs none.
        if text.trim().is_empty() || !self.enter(text.len()) {
            return;
        }
        match CommandLine::parse_within(text, self) {
            Ok(line) => line.segments.into_iter().for_each(|one| self.keep(one)),
            Err(error) => self.unseen |= !error.is_empty_line(),
        }
        self.leave();
    }

    /// One level deeper, unless that is too deep or too much. Who enters leaves.
    pub(super) fn enter(&mut self, bytes: usize) -> bool {
        self.looked_at = self.looked_at.saturating_add(bytes + 1);
        let bounded = self.depth < MAX_DEPTH
            && self.looked_at <= MAX_BYTES
            && self.commands.len() < MAX_FOUND;
        if bounded {
            self.depth += 1;
        } else {
            self.unseen = true;
        }
        bounded
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// False: no more is looked at.
    fn add(&mut self, words: &[String]) -> bool {
        if words.is_empty() {
            return true;
        }
        let bytes = words.iter().map(|word| word.len() + 1).sum();
        if !self.enter(bytes) {
            return false;
        }
        self.by(words);
        self.leave();
        self.keep(Segment {
            words: words.to_vec(),
        });
        true
    }

    pub(super) fn keep(&mut self, segment: Segment) {
        if segment.words.is_empty() {
            return;
        }
        if self.commands.len() >= MAX_FOUND {
            self.unseen = true;
        } else if !self.commands.contains(&segment) {
            self.commands.push(segment);
        }
    }

    /// The command that follows the options.
    fn carried(&mut self, carrier: &Carrier, words: &[String]) {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            if word == "--" {
                at += 1;
                break;
            }
            if !word.starts_with('-') || word == "-" {
                break;
            }
            match carrier.value_of(word) {
                Some(Value::None | Value::Same) => at += 1,
                Some(Value::Next) => at += 2,
                // Everything behind it may be the command.
                None => {
                    for start in at + 1..words.len() {
                        if !self.add(&words[start..]) {
                            return;
                        }
                    }
                    return;
                }
            }
        }
        at += carrier.operands;
        while words.get(at).is_some_and(|word| super::is_assignment(word)) {
            at += 1;
        }
        if let Some(command) = words.get(at..) {
            self.add(command);
        }
    }

    /// `sh -c TEXT`, also as `-lc` and with options of its own in between.
    fn text_of_shell(&mut self, words: &[String]) {
        let given = words.iter().position(|word| {
            word.starts_with('-') && !word.starts_with("--") && word.contains('c')
        });
        let Some(given) = given else { return };
        let mut behind = words[given + 1..].iter();
        while let Some(word) = behind.next() {
            match word.as_str() {
                "-o" | "+o" | "-O" | "+O" => drop(behind.next()),
                "--" => {}
                word if word.starts_with(['-', '+']) => {}
                text => return self.text(text),
            }
        }
    }

    fn text_behind(&mut self, words: &[String], options: &[&str]) {
        for (at, word) in words.iter().enumerate() {
            for option in options {
                if word == option {
                    if let Some(text) = words.get(at + 1) {
                        self.text(text);
                    }
                } else if let Some(text) = word.strip_prefix(option) {
                    self.text(text.strip_prefix('=').unwrap_or(text));
                }
            }
        }
    }

    /// `find … -exec COMMAND ;`, any number of times.
    fn behind_exec(&mut self, words: &[String]) {
        let mut rest = words;
        while let Some(at) = rest
            .iter()
            .position(|word| matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir"))
        {
            rest = &rest[at + 1..];
            let end = rest.iter().position(|word| word == ";" || word == "+");
            let command = &rest[..end.unwrap_or(rest.len())];
            self.add(command);
            rest = &rest[command.len()..];
        }
    }

    fn suffixes_behind(&mut self, words: &[String], options: &[&str]) {
        if let Some(at) = words
            .iter()
            .position(|word| options.contains(&word.as_str()))
        {
            self.add(&words[at + 1..]);
        }
    }
}

/// Where the value of an option is.
enum Value {
    None,
    Same,
    Next,
}

impl Carrier {
    /// None: no table knows the option.
    fn value_of(&self, word: &str) -> Option<Value> {
        if word.starts_with("--") {
            return if word.contains('=') {
                Some(Value::Same)
            } else if self.long.contains(&word) {
                Some(Value::Next)
            } else {
                None
            };
        }
        let mut letters = word.chars().skip(1);
        while let Some(letter) = letters.next() {
            if self.valued.contains(letter) {
                return Some(match letters.next() {
                    Some(_) => Value::Same,
                    None => Value::Next,
                });
            }
            // `nice -5`.
            if !self.flags.contains(letter) && !letter.is_ascii_digit() {
                return None;
            }
        }
        Some(Value::None)
    }
}
