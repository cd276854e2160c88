//! Takes a command line apart, so that rules can be matched on words and most
//! commands need no shell at all.
//!
//! The grammar is the quoting part of the POSIX shell (XCU 2.2 and 2.3). A line
//! that is one plain command runs directly: no variable, glob or substitution is
//! expanded, since nothing is there to expand it. A line with operators needs a
//! shell, and then anything that the shell would expand into words we cannot see
//! (`$x`, `` `x` ``, an unquoted `*` or `~`, a redirection to a file, `&`) makes it
//! *unapprovable in advance* ([`CommandLine::approval_reason`]).
//!
//! Commands that the words of a command start by themselves (`env`, `sh -c`, `find -exec`) are
//! found separately, for rules that forbid.
//!
//! Where shells differ (`{a,b}`, `12>x`, `$'x'`), the parser takes the reading that hides more. A
//! line that could start an unseen command says so ([`CommandLine::has_hidden_commands`]): lists of
//! programs refuse it, and where a rule blocks any command it is asked about in every approval
//! mode.

mod nested_commands;
mod parser;
mod run_files;

use std::fmt;
use std::sync::Arc;

use nested_commands::NestedCommands;
use parser::Parser;
pub(crate) use run_files::RunWord;

use crate::shell_session::ShellState;

/// Longest accepted line, in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;

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
    segments: Vec<CommandSegment>,
    needs_shell: bool,
    approval_reason: Option<&'static str>,
    has_hidden_commands: bool,
    starts: Vec<CommandSegment>,
    unparsed: bool,
    session: Option<Arc<ShellState>>,
}

/// One command of a line.
///
/// ```
/// let line = forge_tools::CommandLine::parse("ls -l").unwrap();
/// assert_eq!(line.segments()[0].words(), ["ls", "-l"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandSegment {
    words: Vec<String>,
    reading: Certainty,
}

/// How sure it is that a command is started as its words say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Certainty {
    /// A program of its own.
    #[default]
    Program,
    /// Another spelling of a command that is judged by itself, or words that are rarely a command.
    Other,
}

impl CommandSegment {
    /// The words, quotes removed.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns whether the words name a program of their own: not `rm x` for `/bin/rm x`, which is
    /// judged as it was written. Where no rule speaks about such a program, the default does.
    pub fn is_program(&self) -> bool {
        self.reading == Certainty::Program
    }

    /// Returns `true` if a shell could make its program's name out of something else. `[`, `{` and
    /// `{}` are words of their own.
    fn is_expanded(&self) -> bool {
        self.words.first().is_some_and(|word| is_expanded(word))
    }
}

fn is_expanded(word: &str) -> bool {
    word.contains(['$', '`', '*', '?', '~'])
        || !["[", "[[", "{", "{}"].contains(&word) && word.contains(['[', '{'])
}

impl CommandLine {
    /// Takes `text` apart.
    ///
    /// # Errors
    ///
    /// Returns the mistake and the position of its character.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let mut started = NestedCommands::default();
        let mut line = CommandLine::parse_within(text, &mut started)?;
        line.has_hidden_commands |= line.approval_reason.is_some()
            && (started.expanded
                || line.segments.iter().any(CommandSegment::is_expanded)
                || started.commands.iter().any(CommandSegment::is_expanded));
        line.unparsed = started.unparsed;
        line.starts = started.commands;
        Ok(line)
    }

    /// Parses a text inside a line; the commands that both start are collected together.
    fn parse_within(text: &str, started: &mut NestedCommands) -> Result<Self, LineError> {
        if text.len() > MAX_LINE_BYTES {
            return Err(LineError::at(0, LineFault::TooLong));
        }
        if let Some(position) = text.chars().position(|c| c == '\0') {
            return Err(LineError::at(position, LineFault::Nul));
        }
        let line = Parser::new(text).run(text)?;
        for segment in &line.segments {
            started.by(segment.words());
        }
        Ok(line)
    }

    /// The words to execute, if the line is one plain command.
    pub fn argv(&self) -> Option<&[String]> {
        match self.segments.as_slice() {
            [only] if !self.needs_shell => Some(only.words()),
            _ => None,
        }
    }

    sandbox_names::getters! {
        /// Every command of the line, in order.
        pub segments: &[CommandSegment] = &segments;
        /// Returns the commands that the programs of the line start in turn, as far as their words show
        /// it: `rm x` for `env A=1 rm x`, `sh -c 'rm x'` and `/bin/rm x`. Ambiguous words are read in
        /// every possible way, so this is for rules that forbid, never for rules that allow.
        ///
        /// ```
        /// let line = forge_tools::CommandLine::parse("find . -exec rm {} +").unwrap();
        /// assert_eq!(line.starts()[0].words(), ["rm", "{}"]);
        /// ```
        pub starts: &[CommandSegment] = &starts;
        pub(crate) session: Option<&Arc<ShellState>> = session.as_ref();
        /// The line as it came.
        pub as_str: &str = &text;
    }

    /// Why no rule may approve this line in advance, if none may.
    pub fn approval_reason(&self) -> Option<&'static str> {
        if self.unparsed {
            return Some("it hands on a command that cannot be taken apart");
        }
        // As with a variable in front of it.
        if self
            .session
            .as_ref()
            .is_some_and(|state| state.has_variables())
        {
            return Some("commands before it set variables, which can change what it does");
        }
        // A plain command is executed as the words we see, with any content.
        if self.needs_shell {
            self.approval_reason
        } else {
            None
        }
    }

    /// Returns `true` if a command may be run that is none of the [segments](Self::segments) and
    /// none of [`starts`](Self::starts): a here-document, a program's name out of a variable, a
    /// text that shells read differently.
    pub fn has_hidden_commands(&self) -> bool {
        self.unparsed || self.needs_shell && self.has_hidden_commands
    }

    /// Where it begins, in a session.
    pub(crate) fn in_session(mut self, state: Arc<ShellState>) -> Self {
        self.session = Some(state);
        self
    }

    /// Sets the session state in which the line was judged, as [`CommandSpec::line`] has it.
    /// `None` if the arguments are not a state.
    ///
    /// [`CommandSpec::line`]: crate::CommandSpec::line
    pub fn in_session_of(self, arguments: &[String]) -> Option<Self> {
        match arguments {
            [] => Some(self),
            _ => Some(self.in_session(Arc::new(ShellState::from_arguments(arguments)?))),
        }
    }
}

sandbox_names::display!(CommandLine = &text);

/// Why a line could not be taken apart.
///
/// ```
/// let error = forge_tools::CommandLine::parse("echo 'x").unwrap_err();
/// assert_eq!(error.to_string(), "a quote is not closed (character 6)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineError {
    position: usize,
    fault: LineFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineFault {
    Empty,
    TooLong,
    Nul,
    OpenQuote,
    EmptySegment,
    TrailingBackslash,
    NoCommand,
    TooDeep,
}

impl LineError {
    fn at(position: usize, fault: LineFault) -> Self {
        LineError { position, fault }
    }

    /// `true` if the line is merely empty.
    fn is_empty_line(self) -> bool {
        self.fault == LineFault::Empty
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.position + 1;
        match self.fault {
            LineFault::Empty => f.write_str("the command is empty"),
            LineFault::TooLong => write!(f, "the command is longer than {MAX_LINE_BYTES} bytes"),
            LineFault::Nul => write!(f, "the command contains a NUL (character {place})"),
            LineFault::OpenQuote => write!(f, "a quote is not closed (character {place})"),
            LineFault::NoCommand => {
                f.write_str("there are redirections and no command; `:` is one")
            }
            LineFault::TooDeep => write!(f, "commands are nested too deeply (character {place})"),
            LineFault::EmptySegment => write!(f, "an operator joins nothing (character {place})"),
            LineFault::TrailingBackslash => {
                write!(f, "a backslash ends the command (character {place})")
            }
        }
    }
}

impl std::error::Error for LineError {}

/// To any shell: `a+=b` and `a[0]=b` are programs to some.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = match name.split_once('[') {
        Some((name, index)) if index.ends_with(']') => name,
        Some(_) | None => name,
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
        (".", ".", true, true),
        ("  ls   -l  ", "ls,-l", true, false),
        ("grep 'a b' \"c d\" e\\ f", "grep,a b,c d,e f", true, false),
        ("echo ''", "echo,", true, false),
        ("echo a''b", "echo,ab", true, false),
        ("echo \"a\\\"b\\$c\\d\"", "echo,a\"b$c\\d", true, false),
        ("echo $HOME", "echo,$HOME", true, false),
        ("echo `id`", "id / echo,`id`", false, true),
        ("echo $(id -u)", "id,-u / echo,$(id -u)", false, true),
        ("echo \"`id`\"", "id / echo,`id`", false, true),
        ("echo \"$(id)\"", "id / echo,$(id)", false, true),
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
        ("a > /dev/nullx", "a", false, true),
        ("a > out", "a", false, true),
        ("a < in", "a", false, true),
        ("a >> out", "a", false, true),
        ("a $(b) | c", "b / a,$(b) / c", false, true),
        ("a \"$x\" | c", "a,$x / c", false, true),
        ("(a; b)", "a / b", false, true),
        (
            "(a; b) | c && `d` || e",
            "a / b / c / d / `d` / e",
            false,
            true,
        ),
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
        ("a >/dev/null\u{a0}b", "a", false, true),
        ("a\u{a0}b\r", "a\u{a0}b\r", true, false),
        // The rest of a here-document is data, or it is not.
        (
            "a <</dev/null\na '\n/dev/null\nb\n#'",
            "a / a,\n/dev/null\nb\n#",
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
        // Newlines end commands; a backslash takes one away, also in a word.
        ("a\nb", "a / b", false, false),
        ("a \\\nb c\\\nd", "a,b,cd", true, false),
        ("a \"b\\\nc\"", "a,bc", true, false),
        ("a &&\n  b", "a / b", false, false),
        ("a # b\nc", "a / c", false, false),
        ("a '# b' \\#c", "a,# b,#c", true, false),
        // Letters that look like others are others, and so are signs.
        ("g\u{456}t status", "g\u{456}t,status", true, false),
        ("a \u{ff1b} b", "a,\u{ff1b},b", true, false),
        (
            "a \u{2018}b c\u{2019}",
            "a,\u{2018}b,c\u{2019}",
            true,
            false,
        ),
        ("a\u{2028}b", "a\u{2028}b", true, false),
        // Everything that is read or written besides is out of sight.
        ("a >|out", "a", false, true),
        ("a <>x", "a", false, true),
        ("a 2>>log", "a", false, true),
        ("a &>out", "a", false, true),
        ("a <<<x", "a", false, true),
        ("a <(b) >(c)", "b / c / a,<(b),>(c)", false, true),
        ("a 3>&1", "a", false, false),
        ("f() { a; }", "f / {,a / a / }", false, true),
        ("A=b C=\"d e\" f", "A=b,C=d e,f / f", false, true),
        ("env -i f", "env,-i,f", true, false),
        ("coproc a", "coproc,a", true, false),
        // Where a redirection leads is no word, wherever it stands.
        (">cat rm x", "rm,x", false, true),
        ("<x rm y", "rm,y", false, true),
        ("2>&1 rm x", "rm,x", false, false),
        (">>f rm x", "rm,x", false, true),
        (">|f rm x", "rm,x", false, true),
        ("<>f rm x", "rm,x", false, true),
        ("&>f rm x", "rm,x", false, true),
        (">f 2>\"g h\" rm <$(i) x", "i / rm,x", false, true),
        ("rm >f x; >g; a", "rm,x / a", false, true),
        (">\\\nf rm\\\n x", "rm,x", false, true),
        ("2\\\n>f rm", "2,rm", false, true),
        // Behind a part of a word, `#` is one too.
        ("a $(b)#; c", "b / a,$(b)# / c", false, true),
        ("a `b`#; c", "b / a,`b`# / c", false, true),
        ("a \"$(b)\"#c; d", "b / a,$(b)#c / d", false, true),
        ("(a)#b; c\nd", "a / d", false, true),
        ("a `# b`; c", "a,`# b` / c", false, true),
        ("a $# | b", "a,$# / b", false, true),
        // A substitution ends where its own commands do.
        (
            "\"$(a \"'\")\"; b; c \"'\"",
            "a,' / $(a \"'\") / b / c,'",
            false,
            true,
        ),
        ("a \"$$(\"; b; c \")\"", "a,$$( / b / c,)", false, true),
        ("a \"${x}(\"; b \")\"", "a,${x}( / b,)", false, true),
        ("a $((1 + 2))# | b", "a,$((1 + 2))# / b", false, true),
        ("a \"$\\\n(b)\" | c", "b / a,$\\\n(b) / c", false, true),
        (
            "for x do a y; done",
            "for,x,do,a,y / x,do,a,y / a,y / done",
            false,
            true,
        ),
        ("A+=1 a", "A+=1,a / a", false, true),
        ("a[0]=1 b c", "a[0]=1,b,c / b,c", false, true),
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
            assert_eq!(parsed.approval_reason().is_some(), *opaque, "{line}");
        }
    }

    /// What may start a program that is among no words.
    #[test]
    fn what_is_concealed() {
        for (line, hides) in [
            ("a $(b \"$(c)\") `d` | e", false),
            ("a \"$((1 + 2))\" ${x} ${x:-y} ${#x} ${x%.c} | b", false),
            ("a *.c [x] ~/y {z,} | b", false),
            ("[ a = b ] && { c; }", false),
            ("xargs -I{} cp {} x | a", false),
            ("find . -name '*.c' -exec cp {} \"$y\" \\; | a", false),
            ("f() { a; }; f", false),
            ("case x in a) b;; esac", false),
            ("$'a'", false),
            ("$x a", false),
            ("$'a'; b", true),
            ("$\"a\"; b", true),
            ("$x a; b", true),
            ("`a` b", true),
            ("/bin/r? x; a", true),
            ("{rm,x}; a", true),
            ("~ x; a", true),
            ("env $x rm; a", true),
            ("timeout $x rm; a", true),
            ("find $x; a", true),
            ("a $[b]; c", true),
            ("a $((b)); c", true),
            ("a ${x:-$(b)}; c", true),
            ("a ${x@P}; c", true),
            ("a x(b); c", true),
            ("a=(b c)", true),
            ("((a))", true),
            ("[[ a -eq b ]]; c", true),
            ("function f { a; }", true),
            ("select x in a; do b; done", true),
            ("coproc a; b", true),
            ("15>f a", true),
            ("{x}>f a", true),
            ("a &>f", true),
            ("a <<E\nE", true),
            ("a \"`b \\\"c\\\"`\"", true),
            ("a $\\\n(b)", true),
            ("a &\\\n& b", true),
            ("a $(case x in a) b;; esac)", true),
            ("test -v 'a[$(b)]'", true),
            ("a='b[$(c)]'; d", true),
            ("sh -c '$a b'", true),
            ("sh -c 'a <<E'", true),
            ("sh -c 'env $a b'", true),
            ("sh", true),
            ("sh -s a", true),
            ("sh /dev/stdin", true),
            ("sh a", false),
            (". /dev/stdin", true),
            ("alias a=b", true),
            ("fish -c a", true),
            ("xargs sh -c", true),
            ("xargs env", true),
            ("xargs -I{} sh -c {}", true),
            ("xargs -I{} sh -c 'rm {}'", true),
            ("xargs -I x x y", true),
            ("find . -exec {} \\;", true),
            ("env -S 'a\\_b'", true),
            ("env -S '${A} b'", true),
        ] {
            let parsed = CommandLine::parse(line).unwrap();
            assert_eq!(parsed.has_hidden_commands(), hides, "{line}");
            assert!(!hides || parsed.approval_reason().is_some(), "{line}");
        }
    }

    /// (line, what its programs start, whether there is more)
    const STARTED: &[(&str, &str, bool)] = &[
        ("git status", "", false),
        ("/usr/bin/git status", "git,status", false),
        ("./git status", "git,status", false),
        ("../x/git", "git", false),
        ("/", "", false),
        ("git -c alias.x=!sh x", "", true),
        ("git -c color.ui=never -C x log -c", "git,log,-c", false),
        ("git --no-pager -P push -x y", "git,push,-x,y", false),
        ("git --git-dir=a --work-tree b push", "git,push", false),
        ("git rebase -x 'git push' x", "git,push", false),
        ("git rebase --exec='git push' x", "git,push", false),
        (
            "git submodule foreach --recursive git push",
            "git,push",
            false,
        ),
        ("git submodule foreach 'git push; b'", "git,push / b", false),
        ("git bisect run git push", "git,push", false),
        ("git fetch --upload-pack 'rm x' y", "rm,x", false),
        ("git filter-branch x", "", true),
        ("git -C", "", false),
        ("git", "", false),
        ("git --exec-path=x log", "", true),
        ("rg --pre 'sh -c y' x", "y / sh,-c,y", false),
        ("sort --compress=./z x", "z / ./z", false),
        ("rsync -ave 'ssh -p 1' a b", "ssh,-p,1", false),
        ("tar -xf a --to-command='rm x'", "rm,x", false),
        ("tar xf a --checkpoint-action=exec=rm", "rm", false),
        ("tar xf a --checkpoint-act=exec=rm", "rm", false),
        ("tar xf a --checkpoint-action exec=rm", "rm", false),
        ("tar xIf z a", "", true),
        ("split --filter 'rm $FILE' a", "rm,$FILE", false),
        ("env", "", false),
        ("env git log", "git,log", false),
        ("env -i A=b git log", "git,log", false),
        ("env -u A --unset B --chdir=/x -- git log", "git,log", false),
        ("/usr/bin/env git log", "git,log / env,git,log", false),
        ("env -S 'git log' x", "git,log / git log,x / x", false),
        ("env '-Sgit log'", "git,log", false),
        ("env --what git log", "git,log / log", false),
        ("sudo -u root -- rm x", "rm,x", false),
        ("sudo -nu root rm x", "rm,x", false),
        ("sudo -uroot rm x", "rm,x", false),
        ("sudo A=b rm x", "rm,x", false),
        ("nice -n 5 rm x", "rm,x", false),
        ("nice -5 rm x", "rm,x", false),
        ("timeout -k 1 --signal KILL 5 rm x", "rm,x", false),
        (
            "nohup nice env rm x",
            "rm,x / env,rm,x / nice,env,rm,x",
            false,
        ),
        ("xargs -0 -n1 -I {} rm {}", "rm,{}", false),
        ("find . -name x | xargs rm", "rm", false),
        ("command -p rm x", "rm,x", false),
        ("exec -a y rm x", "rm,x", false),
        ("busybox rm x", "rm,x", false),
        ("stdbuf -oL rm x", "rm,x", false),
        ("flock -n lock rm x", "rm,x", false),
        ("flock lock -c 'rm x'", "rm,x / -c,rm x", false),
        (
            "find . -exec rm {} ';' -execdir mv y {} +",
            "rm,{} / mv,y,{}",
            false,
        ),
        (
            "find . -ok sh -c 'rm $1' _ {} \\;",
            "rm,$1 / sh,-c,rm $1,_,{}",
            false,
        ),
        ("sh -c 'git log; rm x'", "git,log / rm,x", false),
        ("bash -lc 'rm x' rm", "rm,x", false),
        ("bash -o pipefail -c 'rm x'", "rm,x", false),
        ("sh -c -e 'rm x'", "rm,x", false),
        ("sh -c \"sh -c 'rm x'\"", "rm,x / sh,-c,rm x", false),
        ("sh script rm", "", false),
        ("eval rm 'x y'", "rm,x,y", false),
        ("trap 'rm x' EXIT; a", "rm,x / EXIT", false),
        ("a \"$(/bin/rm x)\"", "rm,x", false),
        ("a \"`env rm x`\" 'y z'", "rm,x", false),
        ("a \"$(b \"$(env rm x)\") c\" d", "rm,x", false),
        // In every spelling of its options.
        ("env -vS 'rm x'", "rm,x / rm x", false),
        ("env --split-string='rm x'", "rm,x", false),
        ("env --split='rm x' y", "rm,x / y", false),
        ("env - rm x", "rm,x", false),
        ("env a-b=c = rm x", "rm,x", false),
        ("timeout -k 5 10 rm x", "rm,x", false),
        ("timeout --foreground 5 rm x", "rm,x", false),
        ("timeout --what 5 rm x", "5,rm,x / rm,x / x", false),
        ("setsid -w rm x", "rm,x", false),
        ("time -p rm x", "rm,x", false),
        ("time ! rm x", "rm,x", false),
        (
            "builtin command -p exec rm",
            "rm / exec,rm / command,-p,exec,rm",
            false,
        ),
        ("sudo -u root A=b -n rm x", "rm,x", false),
        ("runuser -u a rm", "-u,a,rm / a,rm / rm", false),
        ("setarch x86_64 rm", "x86_64,rm / rm", false),
        ("su -lc 'rm x'", "rm,x", false),
        (
            "script -qc 'rm x' y",
            "rm,x / -qc,rm x,y / rm x,y / y",
            false,
        ),
        ("fd -Hx rm", "rm", false),
        ("fd --exec=rm x", "x / rm,x", false),
        (
            "xargs -I{} sh -c 'rm x' _ {}",
            "rm,x / sh,-c,rm x,_,{}",
            false,
        ),
        (
            "find . -exec env -u + rm {} \\;",
            "rm,{} / env,-u,+,rm,{}",
            false,
        ),
        ("echo '$(rm x)'", "", false),
        // What cannot be taken apart is not seen.
        ("sh -c \"echo 'x\"", "", true),
        ("eval 'a | | b'", "", true),
        ("sh -c '# nothing'", "", false),
    ];

    #[test]
    fn what_the_words_start() {
        for (line, starts, unseen) in STARTED {
            let parsed = CommandLine::parse(line).unwrap();
            let shown: Vec<String> = parsed
                .starts()
                .iter()
                .map(|segment| segment.words().join(","))
                .collect();
            assert_eq!(shown.join(" / "), *starts, "{line}");
            assert_eq!(parsed.unparsed, *unseen, "{line}");
            assert!(!unseen || parsed.approval_reason().is_some(), "{line}");
        }
    }

    /// Whatever is nested how often: bounded, and said where it was too much.
    #[test]
    fn looking_ends() {
        for line in [
            "env ".repeat(16_000),
            "env --x eval ".repeat(4_000),
            "/a/env --x ".repeat(5_000),
            "\"$(".repeat(10_000) + "x",
            format!("a {}", "\"$(b)\" ".repeat(9_000)),
            "find -exec ".repeat(5_000),
        ] {
            match CommandLine::parse(&line) {
                Ok(parsed) => assert!(parsed.approval_reason().is_some(), "{}", &line[..20]),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
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
            (">out", "there are redirections and no command; `:` is one"),
            ("a `b", "a quote is not closed (character 3)"),
            ("a && && b", "an operator joins nothing (character 7)"),
            (
                &format!("{}a", "$(".repeat(30)),
                "commands are nested too deeply (character 50)",
            ),
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
                    // `.` alone reads what nobody sees.
                    proptest::prop_assert!(parsed.approval_reason().is_none() || parsed.unparsed);
                }
            }
        }
    }
}
