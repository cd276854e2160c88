//! Takes a command line apart, so that rules can be matched on words and most
//! commands need no shell at all.
//!
//! The grammar is the quoting part of the POSIX shell (XCU 2.2 and 2.3). A line
//! that is one plain command runs directly: no variable, glob or substitution is
//! expanded, since nothing is there to expand it. A line with operators needs a
//! shell, and then anything that the shell would expand into words we cannot see
//! (`$x`, `` `x` ``, an unquoted `*` or `~`, a redirection to a file, `&`) makes it
//! *opaque*: no rule may approve it in advance.
//!
//! Where shells differ (`{a,b}`, `12>x`, `|&`), the reading that hides more holds.

use std::fmt;

/// Longest accepted line, in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Words that start something else than a command (XCU 2.4).
const RESERVED_WORDS: &[&str] = &[
    "!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then",
    "until", "while",
];

/// A parsed command line.
///
/// ```
/// use forge_tools::CommandLine;
///
/// let plain = CommandLine::parse("grep -n 'a b' x").unwrap();
/// assert_eq!(plain.argv().unwrap(), ["grep", "-n", "a b", "x"]);
///
/// let piped = CommandLine::parse("grep a x | wc -l").unwrap();
/// assert!(piped.argv().is_none());
/// assert_eq!(piped.segments().len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    text: String,
    segments: Vec<Segment>,
    needs_shell: bool,
    opaque: Option<&'static str>,
    hides_commands: bool,
}

/// One command of a line.
///
/// ```
/// let line = forge_tools::CommandLine::parse("ls -l").unwrap();
/// assert_eq!(line.segments()[0].words(), ["ls", "-l"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segment {
    words: Vec<String>,
}

impl Segment {
    /// The words, quotes removed.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

impl CommandLine {
    /// Takes `text` apart.
    ///
    /// # Errors
    ///
    /// What is wrong and at which character.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        if text.len() > MAX_LINE_BYTES {
            return Err(LineError::at(0, Fault::TooLong));
        }
        if let Some(position) = text.chars().position(|c| c == '\0') {
            return Err(LineError::at(position, Fault::Nul));
        }
        Parser::new(text).run()
    }

    /// The words to execute, if the line is one plain command.
    pub fn argv(&self) -> Option<&[String]> {
        match self.segments.as_slice() {
            [only] if !self.needs_shell => Some(only.words()),
            _ => None,
        }
    }

    /// Every command of the line, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Why no rule may approve this line in advance, if none may.
    pub fn opaque(&self) -> Option<&'static str> {
        // A plain command is executed as the words we see, whatever they contain.
        if self.needs_shell { self.opaque } else { None }
    }

    /// Whether a command may be run that is none of the [segments](Self::segments):
    /// a substitution in quotes, a here-document.
    pub fn hides_commands(&self) -> bool {
        self.needs_shell && self.hides_commands
    }

    /// The line as it came.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a line could not be taken apart.
///
/// ```
/// let error = forge_tools::CommandLine::parse("echo 'x").unwrap_err();
/// assert_eq!(error.to_string(), "a quote is not closed (character 6)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineError {
    position: usize,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Empty,
    TooLong,
    Nul,
    OpenQuote,
    EmptySegment,
    TrailingBackslash,
}

impl LineError {
    fn at(position: usize, fault: Fault) -> Self {
        LineError { position, fault }
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.position + 1;
        match self.fault {
            Fault::Empty => f.write_str("the command is empty"),
            Fault::TooLong => write!(f, "the command is longer than {MAX_LINE_BYTES} bytes"),
            Fault::Nul => write!(f, "the command contains a NUL (character {place})"),
            Fault::OpenQuote => write!(f, "a quote is not closed (character {place})"),
            Fault::EmptySegment => write!(f, "an operator joins nothing (character {place})"),
            Fault::TrailingBackslash => {
                write!(f, "a backslash ends the command (character {place})")
            }
        }
    }
}

impl std::error::Error for LineError {}

struct Parser {
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
}

impl Parser {
    fn new(text: &str) -> Self {
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
        }
    }

    fn run(mut self) -> Result<CommandLine, LineError> {
        while let Some(c) = self.next() {
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
                    self.end_segment_if_any()?;
                }
                ';' | '\n' => self.end_segment_if_any()?,
                '<' | '>' => self.redirection(c),
                // What stands inside is a command of its own, and rules that block
                // it have to see it.
                '(' | ')' => {
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
        })
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
                    None => return Err(LineError::at(start, Fault::OpenQuote)),
                },
                Some(c @ ('$' | '`')) => {
                    self.hide("it expands a variable or a substitution");
                    if c == '`' || self.chars.get(self.at) == Some(&'(') {
                        self.needs_shell = true;
                        self.hides_commands = true;
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

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (line, words of each segment joined by `,` and segments by ` / `, plain?, opaque?)
    const ROWS: &[(&str, &str, bool, bool)] = &[
        ("ls", "ls", true, false),
        ("  ls   -l  ", "ls,-l", true, false),
        ("grep 'a b' \"c d\" e\\ f", "grep,a b,c d,e f", true, false),
        ("echo ''", "echo,", true, false),
        ("echo a''b", "echo,ab", true, false),
        ("echo \"a\\\"b\\$c\\d\"", "echo,a\"b$c\\d", true, false),
        ("echo $HOME", "echo,$HOME", true, false),
        ("echo `id`", "echo / id", false, true),
        ("echo $(id -u)", "echo,$ / id,-u", false, true),
        ("echo \"`id`\"", "echo,`id`", false, true),
        ("echo \"$(id)\"", "echo,$(id)", false, true),
        ("echo \"$HOME\"", "echo,$HOME", true, false),
        ("echo *", "echo,*", true, false),
        ("a | b", "a / b", false, false),
        ("a || b && c; d\ne", "a / b / c / d / e", false, false),
        ("a |& b", "a / b", false, false),
        ("a;", "a", false, false),
        ("a & b", "a / b", false, true),
        ("a &", "a", false, true),
        ("a 2>&1", "a", false, false),
        ("a >/dev/null 2>&1 | b", "a / b", false, false),
        ("a > /dev/null", "a", false, false),
        ("a > /dev/nullx", "a,/dev/nullx", false, true),
        ("a > out", "a,out", false, true),
        ("a < in", "a,in", false, true),
        ("a >> out", "a,out", false, true),
        ("a $(b) | c", "a,$ / b / c", false, true),
        ("a \"$x\" | c", "a,$x / c", false, true),
        ("(a; b)", "a / b", false, true),
        ("(a; b) | c && `d` || e", "a / b / c / d / e", false, true),
        ("{ a; b; }", "{,a / a / b / }", false, true),
        (
            "if a; then b; fi",
            "if,a / a / then,b / b / fi",
            false,
            true,
        ),
        ("! a b", "!,a,b / a,b", false, true),
        ("X=1 a", "X=1,a / a", false, true),
        ("X=1", "X=1", false, true),
        // What a shell would expand to names of files is not in sight.
        ("a * | b", "a,* / b", false, true),
        ("a x? | b", "a,x? / b", false, true),
        ("a [x] | b", "a,[x] / b", false, true),
        ("a '*' \\? \"[x]\" | b", "a,*,?,[x] / b", false, false),
        ("a ~/x | b", "a,~/x / b", false, true),
        ("a x~ '~' | b", "a,x~,~ / b", false, false),
        ("a {x,y} | b", "a,{x,y} / b", false, true),
        ("a x{1..3} | b", "a,x{1..3} / b", false, true),
        ("a {} x{} | b", "a,{},x{} / b", false, false),
        // A word before `>` is a descriptor only if every shell says so.
        ("a 2 >/dev/null", "a,2", false, false),
        ("a '2'>/dev/null", "a,2", false, false),
        ("a \\2>/dev/null", "a,2", false, false),
        ("a ''>/dev/null", "a,", false, false),
        ("a 15>/dev/null", "a,15", false, true),
        ("a x2>/dev/null", "a,x2", false, false),
        // Blanks are what the shell takes for blanks.
        ("a >/dev/null\u{a0}b", "a,/dev/null\u{a0}b", false, true),
        ("a\u{a0}b\r", "a\u{a0}b\r", true, false),
        // The rest of a here-document is data, or it is not.
        (
            "a <</dev/null\na '\n/dev/null\nb\n#'",
            "a,/dev/null / a,\n/dev/null\nb\n#",
            false,
            true,
        ),
        ("a X=1", "a,X=1", true, false),
        ("a # comment | b", "a", true, false),
        ("a#b", "a#b", true, false),
        (
            "find . -exec sh -c 'x; y' ;",
            "find,.,-exec,sh,-c,x; y",
            false,
            false,
        ),
        (
            "find . -exec sh -c 'x; y' \\;",
            "find,.,-exec,sh,-c,x; y,;",
            true,
            false,
        ),
        ("find . -exec rm {} +", "find,.,-exec,rm,{},+", true, false),
    ];

    #[test]
    fn rows() {
        for (line, segments, plain, opaque) in ROWS {
            let parsed = CommandLine::parse(line).unwrap();
            let shown: Vec<String> = parsed
                .segments()
                .iter()
                .map(|segment| segment.words().join(","))
                .collect();
            assert_eq!(shown.join(" / "), *segments, "{line}");
            assert_eq!(parsed.argv().is_some(), *plain, "{line}");
            assert_eq!(parsed.opaque().is_some(), *opaque, "{line}");
        }
    }

    #[test]
    fn faults() {
        for (line, text) in [
            ("", "the command is empty"),
            ("   ", "the command is empty"),
            ("# only a comment", "the command is empty"),
            ("a 'b", "a quote is not closed (character 3)"),
            ("a \"b\\", "a quote is not closed (character 3)"),
            ("a \\", "a backslash ends the command (character 3)"),
            ("| a", "an operator joins nothing (character 1)"),
            ("a && && b", "an operator joins nothing (character 7)"),
            ("a\0b", "the command contains a NUL (character 2)"),
        ] {
            let shown = CommandLine::parse(line)
                .map(|_| ())
                .map_err(|e| e.to_string());
            assert_eq!(shown, Err(text.to_owned()), "{line:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_a_plain_line_is_one_segment(line in ".{0,80}") {
            if let Ok(parsed) = CommandLine::parse(&line) {
                proptest::prop_assert!(!parsed.segments().is_empty() );
                if let Some(argv) = parsed.argv() {
                    proptest::prop_assert!(!argv.is_empty());
                    proptest::prop_assert!(parsed.opaque().is_none());
                }
            }
        }
    }
}
