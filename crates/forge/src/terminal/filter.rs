//! Filters the output of a command on its way to the terminal of a person: escape sequences that
//! reach past the screen are withheld, everything else passes byte for byte. See
//! `docs/decisions/0071-a-terminal-of-its-own.md` for the list and its sources.
//!
//! The output is always a row of complete characters and sequences, whatever was withheld in between:
//! a sequence is decided when its kind is known, and until then at most [`MAX_HELD_BYTES`] are held.
//! So the pieces around a withheld sequence never join to another one.

use super::screen::ScreenState;

/// Bound on the bytes of a sequence whose kind is not known yet. Longer ones are withheld.
const MAX_HELD_BYTES: usize = 1024;

const ENQ: u8 = 0x05;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
pub(super) const ESC: u8 = 0x1b;
const DEL: u8 = 0x7f;
/// The first byte of the characters U+0080 to U+00BF in UTF-8, among which are the C1 controls.
pub(super) const C1_LEAD: u8 = 0xc2;

/// A kind of withheld sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithheldKind {
    Clipboard,
    Title,
    /// The terminal would type text of the command's choice, or of the screen's.
    Answer,
    /// The terminal would read, write or delete a file, or start in a directory.
    File,
    /// A multiplexer, a printer, or another program behind the terminal.
    Other,
    /// Sent at each start by programs: the stack of titles (`less`, `vim`), and `vim`'s test whether the
    /// terminal skips a string. It is not told of.
    Untold,
}

/// The numbers of withheld sequences, by their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Withheld([u64; 6]);

/// The filter of one stream.
#[derive(Debug, Default)]
pub(crate) struct OutputFilter {
    state: SequenceState,
    /// The beginning of a sequence whose kind is not known yet.
    held: Vec<u8>,
    /// The terminal has the beginning of a string that passes, and not its end.
    has_open_string: bool,
    characters: CharacterDecoder,
    withheld: Withheld,
    screen: ScreenState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SequenceState {
    #[default]
    Ground,
    /// After ESC, in a string or outside.
    Escape(Option<StringFate>),
    /// After ESC and intermediate bytes.
    Designation,
    ControlSequence,
    /// A control sequence that was too long to be held.
    LongControlSequence,
    /// The beginning of a string, up to the bytes that tell its kind.
    Header(StringKind),
    String(StringKind, StringFate),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringKind {
    /// OSC, which BEL ends too.
    SystemCommand,
    /// An OSC about colours. Mintty takes some of their values for names of files.
    Colours,
    /// DCS
    DeviceControl,
    /// A question about capabilities (XTGETTCAP). Some terminals repeat all but numbers in base 16.
    Capabilities,
    /// APC
    Application,
    /// SOS, PM, and the title of GNU screen.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringFate {
    Passed,
    Withheld,
}

impl StringKind {
    /// Returns why the rest of a string is withheld from this byte on.
    fn refusal(self, byte: u8) -> Option<WithheldKind> {
        let is_in = |more: &[u8]| byte.is_ascii_alphanumeric() || more.contains(&byte);
        match self {
            StringKind::Colours if !is_in(b" #:;/?.,[]()-") => Some(WithheldKind::File),
            StringKind::Capabilities if !byte.is_ascii_hexdigit() && byte != b';' => {
                Some(WithheldKind::Answer)
            }
            _ => None,
        }
    }
}

/// A byte, or two of them that are one control character.
enum Unit {
    Control(u8),
    /// A C1 control, as its number and its bytes.
    C1(u8, &'static [u8]),
    Text(u8),
}

impl OutputFilter {
    /// Filters bytes and appends the rest to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some((byte, more)) = rest.split_first() {
            if self.state == SequenceState::Ground && self.characters.is_between() {
                let plain = rest.iter().take_while(|byte| is_plain(**byte)).count();
                if plain > 0 {
                    out.extend_from_slice(&rest[..plain]);
                    rest = &rest[plain..];
                    continue;
                }
            }
            let (first, second) = self.characters.decode(*byte);
            for unit in first.into_iter().chain(second) {
                self.take(unit, out);
            }
            rest = more;
        }
    }

    /// Ends the stream: the beginning of a sequence is withheld, and a string is closed, so that
    /// neither takes up the text that follows on the terminal.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.characters = CharacterDecoder::default();
        self.held.clear();
        self.close_string(out);
        self.state = SequenceState::Ground;
    }

    /// Ends the stream, and gives the terminal back as it was.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        self.finish(out);
        out.extend(self.screen.at_the_end().bytes());
    }

    /// Closes a string that the terminal has the beginning of, and withholds the rest of it: a text of
    /// forge's follows.
    pub(crate) fn interrupt_string(&mut self, out: &mut Vec<u8>) {
        let withheld = |state| match state {
            SequenceState::String(kind, _) => SequenceState::String(kind, StringFate::Withheld),
            SequenceState::Escape(Some(_)) => SequenceState::Escape(Some(StringFate::Withheld)),
            other => other,
        };
        if self.has_open_string {
            self.close_string(out);
            self.state = withheld(self.state);
        }
    }

    /// Returns the state of the terminal that the output has left.
    pub(crate) fn screen(&self) -> &ScreenState {
        &self.screen
    }

    pub(crate) fn withheld(&self) -> Withheld {
        self.withheld
    }

    fn take(&mut self, unit: Unit, out: &mut Vec<u8>) {
        match unit {
            // Terminals act upon it wherever it stands, and it is a part of nothing.
            Unit::Control(ENQ) => self.withheld.add(WithheldKind::Answer),
            Unit::Control(ESC) => {
                let string = self.interrupt(out);
                self.held.push(ESC);
                self.state = SequenceState::Escape(string);
            }
            Unit::Control(byte @ (CAN | SUB)) => {
                self.held.clear();
                self.has_open_string = false;
                self.state = SequenceState::Ground;
                out.push(byte);
            }
            Unit::Control(byte) => self.control(byte, out),
            Unit::C1(number, bytes) => {
                let string = self.interrupt(out);
                self.held.extend_from_slice(bytes);
                self.escape(number - 0x40, string, out);
            }
            Unit::Text(byte) => self.text(byte, out),
        }
    }

    /// Gives up the sequence that a new one begins in, and returns the string that it is in.
    fn interrupt(&mut self, out: &mut Vec<u8>) -> Option<StringFate> {
        match self.state {
            SequenceState::Header(StringKind::SystemCommand) => self.decide_command(None, out),
            SequenceState::Header(StringKind::Application) => self.decide_graphics(None, out),
            SequenceState::Header(kind) => self.withhold_string(kind, WithheldKind::Other, out),
            _ => {}
        }
        self.held.clear();
        match self.state {
            SequenceState::String(_, fate) => Some(fate),
            SequenceState::Escape(string) => string,
            _ => None,
        }
    }

    fn control(&mut self, byte: u8, out: &mut Vec<u8>) {
        if byte == BEL && self.end_command(out) {
            return;
        }
        if self.ends_passing(byte, out) {
            return;
        }
        match self.state {
            SequenceState::Ground | SequenceState::String(_, StringFate::Passed) => {
                self.screen.note(&[byte]);
                out.push(byte);
            }
            SequenceState::String(_, StringFate::Withheld) | SequenceState::LongControlSequence => {
            }
            // Terminals act upon it, and go on with the sequence.
            SequenceState::Escape(_)
            | SequenceState::Designation
            | SequenceState::ControlSequence
            | SequenceState::Header(_) => {
                self.hold(byte, out);
            }
        }
    }

    /// Withholds the rest of a string that this byte must not be a part of. Returns `false` elsewhere.
    fn ends_passing(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        let SequenceState::String(kind, StringFate::Passed) = self.state else {
            return false;
        };
        let refusal = kind.refusal(byte);
        if let Some(why) = refusal {
            self.withhold_string(kind, why, out);
        }
        refusal.is_some()
    }

    /// Ends a system command by BEL. Returns `false` outside of one.
    fn end_command(&mut self, out: &mut Vec<u8>) -> bool {
        if self.state == SequenceState::Header(StringKind::SystemCommand) {
            self.decide_command(None, out);
        }
        let SequenceState::String(StringKind::SystemCommand | StringKind::Colours, fate) =
            self.state
        else {
            return false;
        };
        if fate == StringFate::Passed {
            out.push(BEL);
        }
        self.has_open_string = false;
        self.state = SequenceState::Ground;
        true
    }

    fn text(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.ends_passing(byte, out) {
            return;
        }
        match self.state {
            SequenceState::Ground | SequenceState::String(_, StringFate::Passed) => out.push(byte),
            SequenceState::String(_, StringFate::Withheld) => {}
            SequenceState::Escape(string) => match byte {
                0x20..=0x2f => {
                    self.hold(byte, out);
                    self.state = SequenceState::Designation;
                }
                0x30..=0x7e => {
                    self.held.push(byte);
                    self.escape(byte, string, out);
                }
                _ => self.abandon(byte, out),
            },
            SequenceState::Designation => match byte {
                0x20..=0x2f => self.hold(byte, out),
                0x30..=0x7e => self.designation(byte, out),
                _ => self.abandon(byte, out),
            },
            SequenceState::ControlSequence => match byte {
                0x20..=0x3f => self.hold(byte, out),
                0x40..=0x7e => self.control_sequence(byte, out),
                _ => self.abandon(byte, out),
            },
            SequenceState::LongControlSequence => {
                if !(0x20..=0x3f).contains(&byte) {
                    self.state = SequenceState::Ground;
                }
            }
            SequenceState::Header(StringKind::SystemCommand) => {
                self.decide_command(Some(byte), out)
            }
            SequenceState::Header(StringKind::DeviceControl) => match byte {
                0x20..=0x3f => self.hold(byte, out),
                _ => self.decide_device(byte, out),
            },
            SequenceState::Header(_) => self.decide_graphics(Some(byte), out),
        }
    }

    /// Drops the beginning of a sequence that the byte does not belong to.
    fn abandon(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.held.clear();
        self.close_string(out);
        self.state = SequenceState::Ground;
        out.push(byte);
    }

    fn hold(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.held.len() < MAX_HELD_BYTES {
            self.held.push(byte);
            return;
        }
        match self.state {
            SequenceState::Header(kind) => self.withhold_string(kind, WithheldKind::Other, out),
            _ => {
                self.withhold(WithheldKind::Other, out);
                self.state = SequenceState::LongControlSequence;
            }
        }
    }

    /// Handles a sequence of ESC and one byte, which is held, or the C1 control with that meaning.
    fn escape(&mut self, byte: u8, string: Option<StringFate>, out: &mut Vec<u8>) {
        match byte {
            b'[' => self.state = SequenceState::ControlSequence,
            b']' => self.state = SequenceState::Header(StringKind::SystemCommand),
            b'P' => self.state = SequenceState::Header(StringKind::DeviceControl),
            b'_' => self.state = SequenceState::Header(StringKind::Application),
            b'X' | b'^' => {
                self.withhold_string(StringKind::Unknown, WithheldKind::Other, out);
            }
            // GNU screen and tmux.
            b'k' => self.withhold_string(StringKind::Unknown, WithheldKind::Title, out),
            // The end of a string.
            b'\\' if string == Some(StringFate::Withheld) => {
                self.held.clear();
                self.state = SequenceState::Ground;
            }
            // Terminology shows and fetches files by it.
            b'}' => self.withhold(WithheldKind::File, out),
            _ => self.pass(out),
        }
    }

    /// Handles a sequence of ESC, intermediate bytes and this one.
    fn designation(&mut self, last: u8, out: &mut Vec<u8>) {
        self.held.push(last);
        let intermediate = self.held.iter().copied().filter(|byte| !is_control(*byte));
        let is_coding = intermediate.clone().next() == Some(b'%');
        // Another coding than UTF-8, in which other bytes are controls.
        if is_coding && !intermediate.eq(*b"%G") {
            self.withhold(WithheldKind::Other, out);
        } else {
            self.pass(out);
        }
    }

    fn control_sequence(&mut self, last: u8, out: &mut Vec<u8>) {
        let sequence = ControlSequence::parse(&self.held, last);
        self.held.push(last);
        match sequence.withheld_kind() {
            Some(kind) => self.withhold(kind, out),
            None => self.pass(out),
        }
    }

    /// Decides about a system command once its number is known. `next`: the byte after the held ones,
    /// or the end of the string.
    fn decide_command(&mut self, next: Option<u8>, out: &mut Vec<u8>) {
        let body: Vec<u8> = body(&self.held).chain(next).collect();
        self.decide(
            system_command(&body, next.is_none()),
            StringKind::SystemCommand,
            next,
            out,
        );
    }

    /// Decides about an application's string by the part before its data. Only kitty's graphics pass.
    fn decide_graphics(&mut self, next: Option<u8>, out: &mut Vec<u8>) {
        let held = self.held.iter().copied();
        let has_control = held.skip(1).chain(next).any(is_control);
        let body: Vec<u8> = body(&self.held).chain(next).collect();
        let verdict = match (body.split_first(), has_control) {
            (Some((b'G', keys)), false) => graphics(keys, next.is_none()),
            _ => CommandVerdict::Withhold(WithheldKind::Other),
        };
        self.decide(verdict, StringKind::Application, next, out);
    }

    fn decide(
        &mut self,
        verdict: CommandVerdict,
        kind: StringKind,
        next: Option<u8>,
        out: &mut Vec<u8>,
    ) {
        match (verdict, next) {
            (CommandVerdict::Undecided, Some(byte)) => self.hold(byte, out),
            (
                CommandVerdict::Undecided | CommandVerdict::Pass | CommandVerdict::PassColours,
                None,
            ) => {
                self.pass(out);
                self.has_open_string = true;
                self.state = SequenceState::String(kind, StringFate::Passed);
            }
            (CommandVerdict::Pass, Some(byte)) => self.pass_string(kind, byte, out),
            (CommandVerdict::PassColours, Some(byte)) => {
                self.pass_string(StringKind::Colours, byte, out);
            }
            (CommandVerdict::Withhold(why), _) => self.withhold_string(kind, why, out),
        }
    }

    /// Decides about a device control string by its first bytes and this one. Only sixel images,
    /// questions about capabilities and synchronized output pass: multiplexers hand other strings on
    /// to the terminal behind them, unseen.
    fn decide_device(&mut self, last: u8, out: &mut Vec<u8>) {
        let kind = StringKind::DeviceControl;
        let sequence = ControlSequence::parse(&self.held, last);
        let is_sixel = last == b'q' && sequence.has_only_parameters();
        let is_capability = last == b'q' && sequence.is_bare(b"+");
        let is_synchronized = last == b's' && sequence.marker == Some(b'=');
        if is_sixel || is_capability || is_synchronized {
            let kind = if is_capability {
                StringKind::Capabilities
            } else {
                kind
            };
            self.pass_string(kind, last, out);
            return;
        }
        let why = match last {
            // DECRQSS, and user-defined keys.
            b'q' | b'|' => WithheldKind::Answer,
            b'z' if sequence.is_bare(b"") => WithheldKind::Untold,
            _ => WithheldKind::Other,
        };
        self.withhold_string(kind, why, out);
    }

    /// Passes the held bytes, a whole sequence.
    fn pass(&mut self, out: &mut Vec<u8>) {
        self.screen.note(&self.held);
        out.append(&mut self.held);
        // Any sequence ends a string.
        self.has_open_string = false;
        self.state = SequenceState::Ground;
    }

    fn pass_string(&mut self, kind: StringKind, next: u8, out: &mut Vec<u8>) {
        self.pass(out);
        out.push(next);
        self.has_open_string = true;
        self.state = SequenceState::String(kind, StringFate::Passed);
    }

    fn withhold(&mut self, kind: WithheldKind, out: &mut Vec<u8>) {
        self.withheld.add(kind);
        self.held.clear();
        self.close_string(out);
        self.state = SequenceState::Ground;
    }

    fn withhold_string(&mut self, kind: StringKind, why: WithheldKind, out: &mut Vec<u8>) {
        self.withhold(why, out);
        self.state = SequenceState::String(kind, StringFate::Withheld);
    }

    /// Ends a string in the place of the sequence that would have ended it.
    fn close_string(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.has_open_string) {
            out.extend_from_slice(b"\x1b\\");
        }
    }
}

/// A control sequence without its introducer, or the beginning of a device control string, which is
/// formed alike.
struct ControlSequence {
    /// One of `<=>?`, if it is the first byte.
    marker: Option<u8>,
    /// The first parameter; 0 without one.
    first: u32,
    /// Mode 2 is among the parameters.
    has_two: bool,
    has_parameters: bool,
    intermediates: Vec<u8>,
    last: u8,
}

impl ControlSequence {
    fn parse(held: &[u8], last: u8) -> ControlSequence {
        let mut body = body(held).peekable();
        let marker = body.next_if(|byte| (b'<'..=b'?').contains(byte));
        let (parameters, intermediates): (Vec<u8>, _) = body.partition(|byte| *byte >= 0x30);
        let mut numbers = parameters.split(|byte| !byte.is_ascii_digit()).map(number);
        ControlSequence {
            marker,
            first: numbers.clone().next().unwrap_or_default(),
            has_two: numbers.any(|number| number == 2),
            has_parameters: !parameters.is_empty(),
            intermediates,
            last,
        }
    }

    fn has_only_parameters(&self) -> bool {
        self.marker.is_none() && self.intermediates.is_empty()
    }

    fn is_bare(&self, intermediates: &[u8]) -> bool {
        self.marker.is_none() && !self.has_parameters && self.intermediates == intermediates
    }

    fn withheld_kind(&self) -> Option<WithheldKind> {
        match (self.last, self.marker, self.intermediates.as_slice()) {
            (b't', None, []) if matches!(self.first, 22 | 23) => Some(WithheldKind::Untold),
            // Reports of the icon name and the title, and numbers that can wrap around to theirs.
            (b't', None, []) if !matches!(self.first, 0..=19 | 24..=999) => {
                Some(WithheldKind::Answer)
            }
            // VT52, which has another grammar, and prints by it.
            (b'l', Some(b'?'), []) if self.has_two => Some(WithheldKind::Other),
            // The form of titles.
            (b't' | b'T', Some(b'>'), []) => Some(WithheldKind::Title),
            // Checksums of parts of the screen (DECRQCRA).
            (b'y', _, [b'*']) => Some(WithheldKind::Answer),
            // Media copy: the printer.
            (b'i', _, []) => Some(WithheldKind::Other),
            _ => None,
        }
    }
}

enum CommandVerdict {
    Undecided,
    Pass,
    PassColours,
    Withhold(WithheldKind),
}

/// Returns the verdict about a system command by its first bytes. A number that is not in the list is
/// withheld: terminals have commands for the same harm under many of them.
fn system_command(body: &[u8], is_whole: bool) -> CommandVerdict {
    let digits = body.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = body.split_at(digits);
    let arguments = match rest {
        [] if !is_whole => return CommandVerdict::Undecided,
        [] => rest,
        [b';', arguments @ ..] if !digits.is_empty() => arguments,
        // The palette of Linux's console.
        [b'P' | b'R', ..] if digits.is_empty() => return CommandVerdict::Pass,
        // Titles of Sun's and DEC's terminals; without a number it is 0.
        [b'l' | b'L' | b'I' | b';', ..] => return CommandVerdict::Withhold(WithheldKind::Title),
        _ => return CommandVerdict::Withhold(WithheldKind::Other),
    };
    CommandVerdict::Withhold(match number(digits) {
        4 | 5 | 10..=19 => return CommandVerdict::PassColours,
        // Back to the usual colours, and a stack of them; shape of the pointer, size of text, marks
        // of prompts.
        104 | 105 | 110..=119 | 30001 | 30101 | 22 | 66 | 133 => return CommandVerdict::Pass,
        8 => return link(arguments, is_whole),
        9 => return progress(arguments, is_whole),
        99 => return notification(arguments, is_whole),
        // Other words are functions of Perl in rxvt.
        777 => return begins_with(arguments, b"notify;", is_whole),
        // Icon name and title; a property of the window; tab of Konsole; application of foot.
        0..=3 | 30 | 176 => WithheldKind::Title,
        // The selection, and kitty's protocol for it.
        52 | 5522 => WithheldKind::Clipboard,
        // Fonts, whose report repeats the command's text (CVE-2022-45063), and profiles; colours of
        // kitty, which repeats names that it does not know.
        50 | 21 => WithheldKind::Answer,
        // Directory of the next shell; backgrounds, logs, sounds, icons; files of kitty.
        6 | 7 | 20 | 46 | 55 | 440 | 7773 | 5113 => WithheldKind::File,
        // Functions of GNU screen, Emacs, Vim, mlterm, iTerm2, VS Code, and unknown ones.
        _ => WithheldKind::Other,
    })
}

/// A link, which a click opens: other schemes start programs with text of the command's choice.
fn link(arguments: &[u8], is_whole: bool) -> CommandVerdict {
    const SCHEMES: [&[u8]; 4] = [b"https:", b"http:", b"file:", b"mailto:"];
    let mut parts = arguments.splitn(2, |byte| *byte == b';').skip(1);
    let (Some(url @ [_, ..]), false) = (parts.next(), is_whole) else {
        return CommandVerdict::Undecided;
    };
    let of_schemes = SCHEMES.map(|scheme| begins_with(&url.to_ascii_lowercase(), scheme, false));
    let chosen = |verdict: &CommandVerdict| !matches!(verdict, CommandVerdict::Withhold(_));
    let other = CommandVerdict::Withhold(WithheldKind::Other);
    of_schemes.into_iter().find(chosen).unwrap_or(other)
}

/// ConEmu starts programs by it. Progress, and the notifications of others, pass.
fn progress(arguments: &[u8], is_whole: bool) -> CommandVerdict {
    let digits = arguments.iter().take_while(|byte| byte.is_ascii_digit());
    let (operation, rest) = arguments.split_at(digits.count());
    match (operation, rest) {
        (_, []) if !is_whole => CommandVerdict::Undecided,
        ([_, ..], [] | [b';', ..]) if number(operation) != 4 => {
            CommandVerdict::Withhold(WithheldKind::Other)
        }
        _ => CommandVerdict::Pass,
    }
}

/// A notification of kitty, as a text: others have buttons, files, and answers.
fn notification(arguments: &[u8], is_whole: bool) -> CommandVerdict {
    let is_known = |field: &[u8]| match field {
        [] | b"p=title" | b"p=body" => true,
        [b'd' | b'e' | b'i' | b'o' | b'u' | b'w', b'=', value @ ..] => {
            let is_in = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+.".contains(byte);
            value.iter().all(is_in)
        }
        _ => false,
    };
    fields(arguments, b':', is_whole, is_known, WithheldKind::Answer)
}

/// Kitty's graphics with the image in them: others are read from a file or from shared memory, which
/// the terminal can delete.
fn graphics(keys: &[u8], is_whole: bool) -> CommandVerdict {
    let is_known = |field: &[u8]| match field {
        [] | b"t=d" => true,
        [key, b'=', value @ ..] => {
            let is_value = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
            *key != b't' && key.is_ascii_alphabetic() && value.iter().all(is_value)
        }
        _ => false,
    };
    fields(keys, b',', is_whole, is_known, WithheldKind::File)
}

/// Returns the verdict about fields, once the semicolon after them has come.
fn fields(
    text: &[u8],
    separator: u8,
    is_whole: bool,
    is_known: impl Fn(&[u8]) -> bool,
    why: WithheldKind,
) -> CommandVerdict {
    let Some(end) = text
        .iter()
        .position(|byte| *byte == b';')
        .or(is_whole.then_some(text.len()))
    else {
        return CommandVerdict::Undecided;
    };
    match text[..end].split(|byte| *byte == separator).all(is_known) {
        true => CommandVerdict::Pass,
        false => CommandVerdict::Withhold(why),
    }
}

fn begins_with(text: &[u8], start: &[u8], is_whole: bool) -> CommandVerdict {
    match text.starts_with(start) {
        true => CommandVerdict::Pass,
        false if start.starts_with(text) && !is_whole => CommandVerdict::Undecided,
        false => CommandVerdict::Withhold(WithheldKind::Other),
    }
}

/// Returns the bytes of a sequence after its introducer: ESC and a byte, or a C1 control. Terminals read
/// on past control characters, wherever in it they stand.
pub(super) fn body(held: &[u8]) -> impl Iterator<Item = u8> {
    let introducer = match held {
        [C1_LEAD, ..] => 2,
        _ => 1,
    };
    let bytes = held.iter().copied();
    bytes.filter(|byte| !is_control(*byte)).skip(introducer)
}

fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |number: u32, digit| {
        let digit = u32::from(digit - b'0');
        number.saturating_mul(10).saturating_add(digit)
    })
}

/// Tells controls from the bytes of characters in UTF-8.
#[derive(Debug, Default)]
struct CharacterDecoder {
    /// The first byte of a character that may be a C1 control.
    has_lead: bool,
    /// Bytes that the character still needs, and the bounds of the next one (RFC 3629, section 4).
    missing: u8,
    low: u8,
    high: u8,
}

impl CharacterDecoder {
    fn is_between(&self) -> bool {
        !self.has_lead && self.missing == 0
    }

    /// A stray byte is a control in a terminal that does not use UTF-8, so it counts as one.
    fn decode(&mut self, byte: u8) -> (Option<Unit>, Option<Unit>) {
        if std::mem::take(&mut self.has_lead) {
            return match byte {
                0x80..=0x9f => {
                    let at = usize::from(byte - 0x80) * 2;
                    (Some(Unit::C1(byte, &C1_IN_UTF8[at..at + 2])), None)
                }
                0xa0..=0xbf => (Some(Unit::Text(C1_LEAD)), Some(Unit::Text(byte))),
                b' '..=b'~' => (Some(Unit::Text(C1_LEAD)), Some(Unit::Text(byte))),
                // Why: alone it could become a control with a byte that passes later.
                _ => self.decode(byte),
            };
        }
        if self.missing > 0 && (self.low..=self.high).contains(&byte) {
            self.expect(self.missing - 1, 0x80, 0xbf);
            return (Some(Unit::Text(byte)), None);
        }
        self.missing = 0;
        match byte {
            0x80..=0x9f => {
                let at = usize::from(byte - 0x80) * 2 + 1;
                return (Some(Unit::C1(byte, &C1_IN_UTF8[at..=at])), None);
            }
            0..=0x1f | DEL => return (Some(Unit::Control(byte)), None),
            C1_LEAD => {
                self.has_lead = true;
                return (None, None);
            }
            0xc3..=0xdf => self.expect(1, 0x80, 0xbf),
            0xe0 => self.expect(2, 0xa0, 0xbf),
            0xed => self.expect(2, 0x80, 0x9f),
            0xe1..=0xef => self.expect(2, 0x80, 0xbf),
            0xf0 => self.expect(3, 0x90, 0xbf),
            0xf1..=0xf3 => self.expect(3, 0x80, 0xbf),
            0xf4 => self.expect(3, 0x80, 0x8f),
            _ => {}
        }
        (Some(Unit::Text(byte)), None)
    }

    fn expect(&mut self, missing: u8, low: u8, high: u8) {
        (self.missing, self.low, self.high) = (missing, low, high);
    }
}

/// The C1 controls in UTF-8.
const C1_IN_UTF8: [u8; 64] = {
    let mut bytes = [C1_LEAD; 64];
    let mut at = 0;
    while at < 32 {
        bytes[2 * at + 1] = 0x80 + at as u8;
        at += 1;
    }
    bytes
};

fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e | b'\n' | b'\r' | b'\t')
}

pub(super) fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == DEL
}

impl Withheld {
    fn add(&mut self, kind: WithheldKind) {
        self.0[kind as usize] += 1;
    }

    /// Returns one line about all of it. `None` if nothing was withheld.
    pub(crate) fn describe(&self) -> Option<String> {
        const NAMES: [[&str; 2]; 5] = [
            ["use of the clipboard", "uses of the clipboard"],
            ["window title", "window titles"],
            [
                "question whose answer is typed",
                "questions whose answers are typed",
            ],
            ["use of a file or directory", "uses of files or directories"],
            [
                "command to a program behind it",
                "commands to programs behind it",
            ],
        ];
        let parts = self.0.iter().zip(NAMES).filter(|(count, _)| **count > 0);
        let parts: Vec<String> = parts
            .map(|(count, [one, several])| match count {
                1 => format!("1 {one}"),
                _ => format!("{count} {several}"),
            })
            .collect();
        (!parts.is_empty())
            .then(|| format!("note: not passed on to your terminal: {}", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests;
