//! The part of the shell's grammar that says which words and commands a text is made of, character
//! by character.
//!
//! A text may be run by one shell or another (dash, bash). Syntax that they read differently, or
//! that only one of them knows, is *concealed*: it may start commands that are not among the
//! segments, so no rule may approve it and no list of programs lets it pass. Reading goes on behind
//! it as well as it can, because a forbidden command that is found is still one.

use super::{CommandLine, CommandSegment, LineError, LineFault, is_assignment};

/// Words that start something else than a command (XCU 2.4).
pub(super) const RESERVED_WORDS: &[&str] = &[
    "!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then",
    "until", "while",
];

/// Words that only some shells reserve, and that are not always followed by a command.
const SOMETIMES_RESERVED: &[&str] = &["[[", "coproc", "function", "let", "select"];

/// Substitutions and groups in each other, at most.
const MAX_DEPTH: usize = 24;

const DIFFERS: &str = "shells differ in how they read it";
const EXPANDS: &str = "it expands a variable or a substitution";

/// The target of a redirection's operator.
#[derive(Clone, Copy)]
enum RedirectTarget {
    File,
    Descriptor,
}

/// The command that is being read.
#[derive(Default)]
struct CommandState {
    words: Vec<String>,
    word: Option<String>,
    /// A part of the word stood in quotes or behind a backslash.
    word_is_quoted: bool,
    /// The next word is where a redirection leads, and none of the command.
    redirects_to: Option<RedirectTarget>,
    /// It has a redirection, or a group ended: it may do without words.
    may_be_empty: bool,
}

#[derive(Default)]
pub(super) struct Parser {
    chars: Vec<char>,
    at: usize,
    segments: Vec<CommandSegment>,
    now: CommandState,
    needs_shell: bool,
    approval_reason: Option<&'static str>,
    has_hidden_commands: bool,
    depth: usize,
}

impl Parser {
    pub(super) fn new(text: &str) -> Self {
        Parser {
            chars: text.chars().collect(),
            ..Parser::default()
        }
    }

    /// Takes the whole text apart.
    pub(super) fn run(mut self, text: &str) -> Result<CommandLine, LineError> {
        self.commands(false)?;
        if self.segments.is_empty() {
            let fault = if self.now.may_be_empty {
                LineFault::NoCommand
            } else {
                LineFault::Empty
            };
            return Err(LineError::at(0, fault));
        }
        self.look_behind_prefixes();
        if self.segments.len() > 1 {
            self.needs_shell = true;
        }
        Ok(CommandLine {
            text: text.to_owned(),
            segments: self.segments,
            needs_shell: self.needs_shell,
            approval_reason: self.approval_reason,
            has_hidden_commands: self.has_hidden_commands,
            starts: Vec::new(),
            unparsed: false,
            session: None,
        })
    }

    /// Reads commands up to the end of the text, or of their parentheses.
    fn commands(&mut self, in_parentheses: bool) -> Result<(), LineError> {
        while let Some(c) = self.next() {
            if c == ')' && in_parentheses {
                break;
            }
            self.step(c)?;
        }
        self.end_word();
        self.end_command();
        Ok(())
    }

    /// Takes one character, and the ones that belong to it.
    fn step(&mut self, c: char) -> Result<(), LineError> {
        match c {
            ' ' | '\t' => self.end_word(),
            '\'' => self.single_quoted()?,
            '"' => self.double_quoted()?,
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
                // One operator to some shells.
                if self.peek() == Some('>') {
                    self.conceal(DIFFERS);
                }
                self.end_segment_if_any();
            }
            ';' | '\n' => self.end_segment_if_any(),
            '<' | '>' => self.redirection(c)?,
            '(' => self.group()?,
            // The end of a pattern of `case`, or a mistake.
            ')' => {
                self.hide("it groups commands");
                self.end_segment_if_any();
                self.now.may_be_empty = true;
            }
            '$' => self.dollar(false)?,
            '`' => self.backquoted(false)?,
            '*' | '?' | '[' => {
                self.hide("it expands a pattern into file names; quote it to avoid that");
                self.push(c);
            }
            '~' if self.now.word.is_none() => {
                self.hide("it expands `~`");
                self.push(c);
            }
            // `{}` is a word, `{a,b}` is several to some shells.
            '{' if self.now.word.is_some() || !self.at_word_end() => {
                if self.peek() != Some('}') {
                    self.hide("it expands braces");
                }
                self.push(c);
            }
            // Behind anything that is part of a word it is one too.
            '#' if self.now.word.is_none() => self.comment(),
            c => self.push(c),
        }
        Ok(())
    }

    /// Behind `(`: commands of their own, which rules that forbid have to see.
    fn group(&mut self) -> Result<(), LineError> {
        let defines_function = self.peek_behind_blanks() == Some(')');
        let inside_command = self.now.word.is_some() || !self.now.words.is_empty();
        if self.peek() == Some('(') || inside_command && !defines_function {
            self.conceal(DIFFERS);
        }
        self.hide("it groups commands");
        self.end_segment_if_any();
        self.nested(|parser| parser.commands(true))?;
        self.now.may_be_empty = true;
        Ok(())
    }

    /// Reads a command inside of the current one, which goes on behind it.
    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<(), LineError>,
    ) -> Result<(), LineError> {
        if self.depth >= MAX_DEPTH {
            return Err(LineError::at(self.at.saturating_sub(1), LineFault::TooDeep));
        }
        let outer = std::mem::take(&mut self.now);
        self.depth += 1;
        read(self)?;
        self.depth -= 1;
        self.now = outer;
        Ok(())
    }

    /// Reads a `$` expression. The next character decides how far it reaches, in quotes too.
    fn dollar(&mut self, quoted: bool) -> Result<(), LineError> {
        let start = self.at - 1;
        self.hide(EXPANDS);
        if self.skip_continuations() {
            self.conceal(DIFFERS);
        }
        match self.peek() {
            Some('(') => {
                self.needs_shell = true;
                self.at += 1;
                if let Some(end) = self.end_of_sum() {
                    self.at = end;
                } else {
                    // A sum of variables can run commands in their values.
                    if self.peek() == Some('(') {
                        self.conceal(DIFFERS);
                    }
                    self.nested(|parser| parser.commands(true))?;
                }
                self.push_source(start);
            }
            Some('{') => match self.end_of_parameter() {
                Some(end) => {
                    self.at = end;
                    self.push_source(start);
                }
                None => {
                    self.conceal(DIFFERS);
                    self.push('$');
                }
            },
            Some('\'' | '"') if !quoted => {
                self.conceal(DIFFERS);
                self.push('$');
            }
            Some('[') => {
                self.conceal(DIFFERS);
                self.push('$');
            }
            // A parameter of one character: the next character is not part of it.
            Some('$' | '#' | '?' | '!' | '@' | '*' | '-' | '0'..='9') => {
                self.at += 1;
                self.push_source(start);
            }
            _ => self.push('$'),
        }
        Ok(())
    }

    /// Where `((1 + 2))` ends, if it is made of numbers alone; here is its second character.
    fn end_of_sum(&self) -> Option<usize> {
        let inside = self.chars[self.at..].strip_prefix(&['('])?;
        let length = inside
            .iter()
            .position(|c| !(c.is_ascii_digit() || " +-*/%".contains(*c)))?;
        inside[length..]
            .starts_with(&[')', ')'])
            .then_some(self.at + 1 + length + 2)
    }

    /// Where `{name}` ends, also with an operator and plain text, as every shell reads it.
    fn end_of_parameter(&self) -> Option<usize> {
        let inside = self.chars[self.at..].strip_prefix(&['{'])?;
        let length = inside.iter().position(|c| *c == '}')?;
        let inside = &inside[..length];
        let first = *inside.first()?;
        let plain = (first.is_ascii_alphanumeric() || first == '_' || first == '#')
            && inside.iter().enumerate().all(|(at, c)| match c {
                ':' => matches!(inside.get(at + 1), Some('-' | '=' | '+' | '?')),
                c => c.is_ascii_alphanumeric() || "_#%.,-=+?/".contains(*c),
            });
        plain.then_some(self.at + 1 + length + 1)
    }

    /// Behind a backquote: a text of its own, once its backslashes are taken away.
    fn backquoted(&mut self, quoted: bool) -> Result<(), LineError> {
        let start = self.at - 1;
        self.needs_shell = true;
        self.hide("it contains a command substitution");
        let mut text = String::new();
        loop {
            match self.next() {
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(c @ ('\\' | '`' | '$')) => text.push(c),
                    Some(c) => {
                        if c == '\n' || c == '"' && quoted {
                            self.conceal(DIFFERS);
                        } else {
                            text.push('\\');
                        }
                        text.push(c);
                    }
                    None => return Err(LineError::at(start, LineFault::OpenQuote)),
                },
                Some(c) => text.push(c),
                None => return Err(LineError::at(start, LineFault::OpenQuote)),
            }
        }
        // Where a comment or a quote in it ends is another matter to each shell.
        if text.contains('#') || quoted && text.contains('"') {
            self.conceal(DIFFERS);
        }
        let outside = std::mem::replace(&mut self.chars, text.chars().collect());
        let behind = std::mem::take(&mut self.at);
        let read = self.nested(|parser| parser.commands(false));
        self.chars = outside;
        self.at = behind;
        read.map_err(|error| LineError::at(start, error.fault))?;
        self.push_source(start);
        Ok(())
    }

    /// `X=1 rm y` and `then rm y` run `rm y`: rules are asked about both, so that a rule against
    /// the command blocks it behind a prefix too. Without a shell the first word would be taken for
    /// a program's name.
    fn look_behind_prefixes(&mut self) {
        for segment in std::mem::take(&mut self.segments) {
            let words = &segment.words;
            let mut behind = Vec::new();
            let command = words.iter().position(|word| {
                if RESERVED_WORDS.contains(&word.as_str()) {
                    self.hide("it uses a reserved word of the shell");
                } else if is_assignment(word) {
                    self.hide("it sets a variable");
                } else {
                    return true;
                }
                self.needs_shell = true;
                false
            });
            behind.extend(command.filter(|&at| at > 0));
            let first = command.map_or("", |at| words[at].as_str());
            if SOMETIMES_RESERVED.contains(&first) {
                self.conceal("it uses a word that some shells reserve");
            }
            // `for x do rm y; done`
            let head = words.first().map_or("", String::as_str);
            if ["for", "case"].contains(&head) || SOMETIMES_RESERVED.contains(&first) {
                let opens =
                    |(_, word): &(usize, &String)| ["do", "{", "then"].contains(&word.as_str());
                let places = words.iter().enumerate().filter(opens);
                behind.extend(places.map(|(at, _)| at + 1));
            }
            let commands: Vec<CommandSegment> = behind
                .into_iter()
                .filter(|&at| at < words.len())
                .map(|at| CommandSegment {
                    words: words[at..].to_vec(),
                    ..CommandSegment::default()
                })
                .collect();
            self.segments.push(segment);
            self.segments.extend(commands);
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn peek_behind_blanks(&self) -> Option<char> {
        let behind = self.chars[self.at..].iter();
        behind.copied().find(|c| !matches!(c, ' ' | '\t'))
    }

    /// A backslash takes the end of a line away, before anything else is read.
    fn skip_continuations(&mut self) -> bool {
        let start = self.at;
        while self.chars[self.at..].starts_with(&['\\', '\n']) {
            self.at += 2;
        }
        self.at > start
    }

    /// The rest of an operator. In the middle of one, not every shell joins lines.
    fn take(&mut self, wanted: char) -> bool {
        let start = self.at;
        let joined = self.skip_continuations();
        let found = self.peek() == Some(wanted);
        if found {
            self.at += 1;
            if joined {
                self.conceal(DIFFERS);
            }
        } else {
            self.at = start;
        }
        found
    }

    fn push(&mut self, c: char) {
        self.now.word.get_or_insert_with(String::new).push(c);
    }

    /// A substitution is kept as its source in its word.
    fn push_source(&mut self, start: usize) {
        let source = &self.chars[start..self.at];
        self.now
            .word
            .get_or_insert_with(String::new)
            .extend(source.iter());
    }

    fn hide(&mut self, why: &'static str) {
        self.approval_reason.get_or_insert(why);
    }

    /// Commands may be run that are none of the segments.
    fn conceal(&mut self, why: &'static str) {
        self.hide(why);
        self.has_hidden_commands = true;
    }

    fn at_word_end(&self) -> bool {
        self.peek().is_none_or(|c| matches!(c, ' ' | '\t' | '\n'))
    }

    fn end_word(&mut self) {
        let quoted = std::mem::take(&mut self.now.word_is_quoted);
        let Some(word) = self.now.word.take() else {
            return;
        };
        // `2>&1` and `>/dev/null` are harmless and common; every other redirection
        // opens a file that no rule has seen.
        match self.now.redirects_to.take() {
            Some(RedirectTarget::Descriptor) if !quoted && (word == "1" || word == "2") => {}
            Some(RedirectTarget::File) if !quoted && word == "/dev/null" => {}
            Some(RedirectTarget::File | RedirectTarget::Descriptor) => {
                self.hide("it redirects to or from a file")
            }
            None => {
                // The `)` of its patterns does not end the surrounding parentheses.
                if word == "case" && self.depth > 0 {
                    self.conceal(DIFFERS);
                }
                self.now.words.push(word);
            }
        }
    }

    /// Ends the command; whether there was one.
    fn end_command(&mut self) -> bool {
        if self.now.redirects_to.take().is_some() {
            self.conceal("a redirection leads nowhere");
        }
        let words = std::mem::take(&mut self.now.words);
        if words.is_empty() {
            return false;
        }
        self.segments.push(CommandSegment {
            words,
            ..CommandSegment::default()
        });
        true
    }

    fn end_segment(&mut self) -> Result<(), LineError> {
        self.needs_shell = true;
        self.end_word();
        let may_be_empty = std::mem::take(&mut self.now.may_be_empty);
        if self.end_command() || may_be_empty {
            Ok(())
        } else {
            let at = self.at.saturating_sub(1);
            Err(LineError::at(at, LineFault::EmptySegment))
        }
    }

    /// Ends the segment, if one has begun; `;`, `&` and newlines may end the line or be alone.
    fn end_segment_if_any(&mut self) {
        self.needs_shell = true;
        self.end_word();
        self.end_command();
        self.now.may_be_empty = false;
    }

    /// Quotes make a word even around nothing, and a digit in them is not a descriptor.
    fn start_quoted(&mut self) {
        self.now.word.get_or_insert_with(String::new);
        self.now.word_is_quoted = true;
    }

    fn single_quoted(&mut self) -> Result<(), LineError> {
        let start = self.at - 1;
        self.start_quoted();
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some(c) => self.push(c),
                None => return Err(LineError::at(start, LineFault::OpenQuote)),
            }
        }
    }

    fn double_quoted(&mut self) -> Result<(), LineError> {
        let start = self.at - 1;
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
                    None => return Err(LineError::at(start, LineFault::OpenQuote)),
                },
                Some('$') => self.dollar(true)?,
                Some('`') => self.backquoted(true)?,
                Some(c) => self.push(c),
                None => return Err(LineError::at(start, LineFault::OpenQuote)),
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
            None => Err(LineError::at(self.at - 1, LineFault::TrailingBackslash)),
        }
    }

    /// The target of a redirection is not a word of the command, in any position.
    fn redirection(&mut self, operator: char) -> Result<(), LineError> {
        self.needs_shell = true;
        // `<(a)`: a word to the shells that know it, with a command in it.
        if self.peek() == Some('(') {
            let start = self.at - 1;
            self.hide("it groups commands");
            if self.now.word.is_some() {
                self.conceal(DIFFERS);
            }
            self.at += 1;
            self.nested(|parser| parser.commands(true))?;
            self.push_source(start);
            return Ok(());
        }
        if let Some(word) = self.now.word.as_deref()
            && !self.now.word_is_quoted
        {
            // One plain digit is a descriptor to every shell, several to some. To the
            // others they are a word, so they stay in sight.
            let digits = word.bytes().all(|byte| byte.is_ascii_digit());
            let joined = self.at > 1 && self.chars[self.at - 2] == '\n';
            if joined || digits && word.len() > 1 || word.starts_with('{') {
                self.conceal("it redirects a descriptor that is not one digit");
            } else if digits {
                self.now.word = None;
            }
        }
        self.end_word();
        if self.now.redirects_to.is_some() {
            self.conceal(DIFFERS);
        }
        self.now.may_be_empty = true;
        let target = if operator == '<' && self.take('<') {
            // The next lines are data until a line of its choosing: the end of the data cannot be
            // determined safely.
            self.conceal("it contains a here-document");
            self.take('-');
            RedirectTarget::File
        } else if self.take('&') {
            RedirectTarget::Descriptor
        } else {
            let _known = self.take('>') || operator == '>' && self.take('|');
            RedirectTarget::File
        };
        self.now.redirects_to = Some(target);
        Ok(())
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }
}
