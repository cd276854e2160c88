//! The quoting part of the POSIX shell's grammar, character by character.

use super::started::Started;
use super::{CommandLine, Fault, LineError, Segment, is_assignment};

/// Words that start something else than a command (XCU 2.4).
const RESERVED_WORDS: &[&str] = &[
    "!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then",
    "until", "while",
];

pub(super) struct Parser {
    chars: Vec<char>,
    at: usize,
    text: String,
    segments: Vec<Segment>,
    current: Segment,
    word: Option<String>,
    /// A part of the word stood in quotes or behind a backslash.
    word_is_quoted: bool,
    /// Nothing stood between here and the end of a group: an operator may follow.
    group_ended: bool,
    needs_shell: bool,
    opaque: Option<&'static str>,
    hides_commands: bool,
    /// Inside a substitution: how many parentheses of its own are open.
    enclosing: Option<usize>,
}

impl Parser {
    pub(super) fn new(text: &str) -> Self {
        Parser {
            chars: text.chars().collect(),
            at: 0,
            text: text.to_owned(),
            segments: Vec::new(),
            current: Segment::default(),
            word: None,
            word_is_quoted: false,
            group_ended: false,
            needs_shell: false,
            opaque: None,
            hides_commands: false,
            enclosing: None,
        }
    }

    /// Takes the whole text apart.
    pub(super) fn run(mut self, started: &mut Started) -> Result<CommandLine, LineError> {
        while let Some(c) = self.next() {
            self.step(c, started)?;
        }
        self.end_word();
        if self.current.words.is_empty() {
            if self.segments.is_empty() {
                return Err(LineError::at(0, Fault::Empty));
            }
        } else {
            self.segments.push(std::mem::take(&mut self.current));
        }
        self.look_behind_prefixes();
        if self.segments.len() > 1 {
            self.needs_shell = true;
        }
        Ok(CommandLine {
            text: self.text,
            segments: self.segments,
            needs_shell: self.needs_shell,
            opaque: self.opaque,
            hides_commands: self.hides_commands,
            starts: Vec::new(),
            unseen: false,
            session: None,
        })
    }

    /// Takes in one character, and what belongs to it.
    fn step(&mut self, c: char, started: &mut Started) -> Result<(), LineError> {
        match c {
            ' ' | '\t' => self.end_word(),
            '\'' => self.single_quoted()?,
            '"' => self.double_quoted(started)?,
            '\\' => self.escaped()?,
            '|' => {
                if !self.take('|') {
                    self.take('&');
                }
                self.end_segment()?;
            }
            '&' if self.take('&') => self.end_segment()?,
            '&' => {
                self.hide("it starts a background process");
                self.end_segment_if_any()?;
            }
            ';' | '\n' => self.end_segment_if_any()?,
            '<' | '>' => self.redirection(c),
            // What stands inside is a command of its own, and rules that block
            // it have to see it.
            ')' if self.enclosing == Some(0) => self.at = self.chars.len(),
            '(' | ')' => {
                if let Some(open) = &mut self.enclosing {
                    *open = if c == '(' { *open + 1 } else { *open - 1 };
                }
                self.hide("it groups commands");
                self.end_segment_if_any()?;
                self.group_ended = c == ')';
            }
            '$' => {
                self.hide("it expands a variable or a substitution");
                self.push('$');
            }
            '`' => {
                self.hide("it contains a command substitution");
                self.end_segment_if_any()?;
                self.group_ended = true;
            }
            '*' | '?' | '[' => {
                self.hide("it expands a pattern into file names; quote it to avoid that");
                self.push(c);
            }
            '~' if self.word.is_none() => {
                self.hide("it expands `~`");
                self.push(c);
            }
            // `{}` is a word, `{a,b}` is several to some shells.
            '{' if self.word.is_some() || !self.at_word_end() => {
                if self.chars.get(self.at) != Some(&'}') {
                    self.hide("it expands braces");
                }
                self.push(c);
            }
            '#' if self.word.is_none() => self.comment(),
            c => self.push(c),
        }
        Ok(())
    }

    /// The commands of a substitution in double quotes, which begin here. What follows its end is
    /// left alone, and a mistake ends it: nothing is allowed by what is found.
    fn look_into(&mut self, backquoted: bool, started: &mut Started) {
        let behind = &self.chars[self.at..];
        if !started.enter(behind.len()) {
            return;
        }
        let text: String = if backquoted {
            let mut escaped = false;
            let inside = behind.iter().take_while(|c| {
                let ends = **c == '`' && !escaped;
                escaped = **c == '\\' && !escaped;
                !ends
            });
            inside.collect::<String>().replace("\\`", "`")
        } else {
            behind.iter().skip(1).collect()
        };
        let mut inner = Parser::new(&text);
        inner.enclosing = Some(0);
        while let Some(c) = inner.next() {
            if inner.step(c, started).is_err() {
                break;
            }
        }
        inner.end_word();
        inner.segments.push(std::mem::take(&mut inner.current));
        inner.look_behind_prefixes();
        for segment in inner.segments {
            started.by(segment.words());
            started.keep(segment);
        }
        started.leave();
    }

    /// `X=1 rm y` and `then rm y` run `rm y`: rules are asked about both, so that
    /// what blocks the command blocks it behind a prefix too. Without a shell the
    /// first word would be taken for a program's name.
    fn look_behind_prefixes(&mut self) {
        for segment in std::mem::take(&mut self.segments) {
            let command = segment.words.iter().position(|word| {
                let reserved = RESERVED_WORDS.contains(&word.as_str());
                if reserved {
                    self.hide("it uses a reserved word of the shell");
                } else if is_assignment(word) {
                    self.hide("it sets a variable");
                } else {
                    return true;
                }
                self.needs_shell = true;
                false
            });
            let behind = command.filter(|&at| at > 0).map(|at| Segment {
                words: segment.words[at..].to_vec(),
            });
            self.segments.push(segment);
            self.segments.extend(behind);
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied()?;
        self.at += 1;
        Some(c)
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.chars.get(self.at) == Some(&wanted);
        if found {
            self.at += 1;
        }
        found
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_with(String::new).push(c);
    }

    fn hide(&mut self, why: &'static str) {
        self.opaque.get_or_insert(why);
    }

    fn at_word_end(&self) -> bool {
        self.chars
            .get(self.at)
            .is_none_or(|c| matches!(c, ' ' | '\t' | '\n'))
    }

    fn end_word(&mut self) {
        self.word_is_quoted = false;
        if let Some(word) = self.word.take() {
            self.current.words.push(word);
        }
    }

    fn end_segment(&mut self) -> Result<(), LineError> {
        self.needs_shell = true;
        self.end_word();
        if std::mem::take(&mut self.group_ended) && self.current.words.is_empty() {
            return Ok(());
        }
        if self.current.words.is_empty() {
            return Err(LineError::at(
                self.at.saturating_sub(1),
                Fault::EmptySegment,
            ));
        }
        self.segments.push(std::mem::take(&mut self.current));
        Ok(())
    }

    /// Quotes make a word even around nothing, and a digit in them is no descriptor.
    fn start_quoted(&mut self) {
        self.word.get_or_insert_with(String::new);
        self.word_is_quoted = true;
    }

    /// `;`, `&` and newlines may end the line or stand alone.
    fn end_segment_if_any(&mut self) -> Result<(), LineError> {
        self.end_word();
        if self.current.words.is_empty() {
            self.needs_shell = true;
            return Ok(());
        }
        self.end_segment()
    }

    fn single_quoted(&mut self) -> Result<(), LineError> {
        let start = self.at - 1;
        self.start_quoted();
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some(c) => self.push(c),
                None => return Err(LineError::at(start, Fault::OpenQuote)),
            }
        }
    }

    fn double_quoted(&mut self, started: &mut Started) -> Result<(), LineError> {
        let start = self.at - 1;
        let mut backquoted = false;
        self.start_quoted();
        loop {
            match self.next() {
                Some('"') => return Ok(()),
                Some('\\') => match self.next() {
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.push(c),
                    Some('\n') => {}
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                    None => return Err(LineError::at(start, Fault::OpenQuote)),
                },
                Some(c @ ('$' | '`')) => {
                    self.hide("it expands a variable or a substitution");
                    if c == '`' || self.chars.get(self.at) == Some(&'(') {
                        self.needs_shell = true;
                        self.hides_commands = true;
                        // The second of two backquotes ends what the first began.
                        if c == '`' {
                            backquoted = !backquoted;
                        }
                        // The second of two backquotes ends what the first began.
                        if c == '$' || backquoted {
                            self.look_into(c == '`', started);
                        }
                    }
                    self.push(c);
                }
                Some(c) => self.push(c),
                None => return Err(LineError::at(start, Fault::OpenQuote)),
            }
        }
    }

    fn escaped(&mut self) -> Result<(), LineError> {
        match self.next() {
            Some('\n') => Ok(()),
            Some(c) => {
                self.start_quoted();
                self.push(c);
                Ok(())
            }
            None => Err(LineError::at(self.at - 1, Fault::TrailingBackslash)),
        }
    }

    /// `2>&1` and `>/dev/null` are harmless and common; every other redirection
    /// opens a file that no rule has seen.
    fn redirection(&mut self, operator: char) {
        self.needs_shell = true;
        // One plain digit is a descriptor to every shell, several to some. To the
        // others they are an argument, so they stay in sight.
        let is_descriptor = !self.word_is_quoted
            && self.word.as_deref().is_some_and(|word| {
                word.len() == 1 && word.bytes().all(|byte| byte.is_ascii_digit())
            });
        if is_descriptor {
            self.word = None;
        } else if self.word.is_some() && !self.word_is_quoted {
            let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
            if self.word.as_deref().is_some_and(digits) {
                self.hide("it redirects a descriptor above 9");
            }
        }
        self.end_word();
        if self.take(operator) && operator == '<' {
            // What follows is data until a line of its choosing: where the commands
            // go on is no longer ours to say.
            self.hide("it contains a here-document");
            self.hides_commands = true;
            return;
        }
        let rest: String = self.chars[self.at..].iter().take(64).collect();
        let harmless = ["&1", "&2", "/dev/null", " /dev/null"]
            .into_iter()
            .find(|target| {
                rest.strip_prefix(target).is_some_and(|after| {
                    after
                        .chars()
                        .next()
                        .is_none_or(|c| " \t\n|&;<>)".contains(c))
                })
            });
        match harmless {
            Some(target) => self.at += target.chars().count(),
            None => self.hide("it redirects to or from a file"),
        }
    }

    fn comment(&mut self) {
        while let Some(c) = self.chars.get(self.at) {
            if *c == '\n' {
                break;
            }
            self.at += 1;
        }
    }
}
