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
    /// A multiplexer, a printer, or another program behind the terminal.
    Other,
}

/// The numbers of withheld sequences, by their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Withheld([u64; 4]);

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
    /// DCS
    DeviceControl,
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
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.characters = CharacterDecoder::default();
        self.held.clear();
        self.close_string(out);
        self.state = SequenceState::Ground;
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

    /// Ends a system command by BEL. Returns `false` outside of one.
    fn end_command(&mut self, out: &mut Vec<u8>) -> bool {
        if self.state == SequenceState::Header(StringKind::SystemCommand) {
            self.decide_command(None, out);
        }
        let SequenceState::String(StringKind::SystemCommand, fate) = self.state else {
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
            SequenceState::Header(kind) => {
                if kind == StringKind::Application && byte == b'G' {
                    self.pass_string(kind, byte, out);
                } else {
                    self.withhold_string(kind, WithheldKind::Other, out);
                }
            }
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
        let kind = StringKind::SystemCommand;
        let verdict = system_command(&self.held, next);
        match (verdict, next) {
            (CommandVerdict::Undecided, Some(byte)) => self.hold(byte, out),
            (CommandVerdict::Undecided | CommandVerdict::Pass, None) => {
                self.pass(out);
                self.has_open_string = true;
                self.state = SequenceState::String(kind, StringFate::Passed);
            }
            (CommandVerdict::Pass, Some(byte)) => self.pass_string(kind, byte, out),
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
            self.pass_string(kind, last, out);
            return;
        }
        let why = match last {
            // DECRQSS, and user-defined keys.
            b'q' | b'|' => WithheldKind::Answer,
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
    has_parameters: bool,
    intermediates: Vec<u8>,
    last: u8,
}

impl ControlSequence {
    fn parse(held: &[u8], last: u8) -> ControlSequence {
        let mut body = body(held).peekable();
        let marker = body.next_if(|byte| (b'<'..=b'?').contains(byte));
        let mut first = 0u32;
        let mut has_parameters = false;
        while let Some(byte) = body.next_if(u8::is_ascii_digit) {
            has_parameters = true;
            first = first
                .saturating_mul(10)
                .saturating_add(u32::from(byte - b'0'));
        }
        let rest: Vec<u8> = body.collect();
        let is_parameter = |byte: &&u8| (0x30..=0x3f).contains(*byte);
        ControlSequence {
            marker,
            first,
            has_parameters: has_parameters || rest.iter().any(|byte| is_parameter(&byte)),
            intermediates: rest.into_iter().filter(|byte| *byte < 0x30).collect(),
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
            // Reports of the icon name and the title.
            (b't', None, []) if matches!(self.first, 20 | 21) => Some(WithheldKind::Answer),
            // The stack of titles.
            (b't', None, []) if matches!(self.first, 22 | 23) => Some(WithheldKind::Title),
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
    Withhold(WithheldKind),
}

/// Returns the verdict about a system command by its introducer and first bytes, which are held, and
/// the next byte.
fn system_command(held: &[u8], next: Option<u8>) -> CommandVerdict {
    let mut body = body(held).chain(next).peekable();
    let (number, digits) = take_number(&mut body);
    let Some(separator) = body.next() else {
        // All of it was digits: more of them can come, unless the string ends here.
        return match next {
            Some(_) => CommandVerdict::Undecided,
            None => command_verdict(number),
        };
    };
    if digits == 0 {
        return match separator {
            // Titles of Sun's and DEC's terminals; without a number it is 0.
            b'l' | b'L' | b'I' | b';' => CommandVerdict::Withhold(WithheldKind::Title),
            _ => CommandVerdict::Pass,
        };
    }
    // ConEmu starts programs by it. Progress, and the notifications of others, pass.
    if number == 9 && separator == b';' {
        let (operation, digits) = take_number(&mut body);
        return match (body.next(), next) {
            (Some(b';') | None, _) if digits > 0 && operation == 4 => match next {
                Some(byte) if byte.is_ascii_digit() => CommandVerdict::Undecided,
                _ => CommandVerdict::Pass,
            },
            (None, Some(_)) => CommandVerdict::Undecided,
            (Some(b';'), _) | (None, None) if digits > 0 => {
                CommandVerdict::Withhold(WithheldKind::Other)
            }
            _ => CommandVerdict::Pass,
        };
    }
    command_verdict(number)
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

fn take_number(bytes: &mut std::iter::Peekable<impl Iterator<Item = u8>>) -> (u32, usize) {
    let (mut number, mut digits) = (0u32, 0);
    while let Some(byte) = bytes.next_if(u8::is_ascii_digit) {
        digits += 1;
        number = number
            .saturating_mul(10)
            .saturating_add(u32::from(byte - b'0'));
    }
    (number, digits)
}

fn command_verdict(number: u32) -> CommandVerdict {
    match number {
        // Icon name and title; a property of the window; tab of Konsole.
        0..=3 | 30 => CommandVerdict::Withhold(WithheldKind::Title),
        // The selection, and kitty's protocol for it.
        52 | 5522 => CommandVerdict::Withhold(WithheldKind::Clipboard),
        // Fonts, whose report repeats the command's text (CVE-2022-45063), and profiles.
        50 => CommandVerdict::Withhold(WithheldKind::Answer),
        // Log file; functions of Emacs and Vim; clipboard, variables and downloads of iTerm2; files of
        // kitty.
        46 | 51 | 1337 | 5113 => CommandVerdict::Withhold(WithheldKind::Other),
        _ => CommandVerdict::Pass,
    }
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
        const NAMES: [[&str; 2]; 4] = [
            ["use of the clipboard", "uses of the clipboard"],
            ["window title", "window titles"],
            [
                "question whose answer is typed",
                "questions whose answers are typed",
            ],
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
        (!parts.is_empty()).then(|| {
            format!(
                "note: not passed on to your terminal: {} (a preset's `terminal` allows them)",
                parts.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests;
