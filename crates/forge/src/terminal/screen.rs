//! The state of a person's terminal that a command's output has changed, and the way back: a line of
//! forge must not appear hidden, in other letters, or on a screen that looks like a question of forge.
//!
//! Sources: ECMA-48, and the control sequences of xterm
//! (<https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>).

use std::collections::BTreeMap;

use super::filter::{C1_LEAD, ESC, body, is_control};

const SHIFT_OUT: u8 = 0x0e;
/// Modes that a terminal starts with: keys are not printed a second time; lines wrap, a key that is held
/// repeats, the cursor is visible.
const ON_AT_START: [TerminalMode; 4] = [
    TerminalMode::of_ecma(12),
    TerminalMode::private(7),
    TerminalMode::private(8),
    TerminalMode::private(25),
];
/// Private modes of the alternate screen.
const ALTERNATE: [u32; 3] = [47, 1047, 1049];
/// Private modes that move where rows and columns are counted from: origin, and margins left and right.
const MARGINS: [u32; 2] = [6, 69];
/// System commands that change colours: the palette, text, background, cursor, selection.
const COLOURS: [u32; 10] = [4, 5, 10, 11, 12, 13, 14, 17, 18, 19];
/// The system command of links.
const LINK: u32 = 8;
/// The number of xterm's coding of keys among those that a command sets (`CSI > 4 ; n m`).
const OTHER_KEYS: u32 = 4;
/// Bound on the modes that are kept. Terminals have fewer.
const MAX_MODES: usize = 256;

/// The state that a command's output has left.
#[derive(Debug, Default)]
pub(crate) struct ScreenState {
    /// `true` after any sequence, or other letters.
    is_changed: bool,
    /// Modes and their last setting.
    modes: BTreeMap<TerminalMode, bool>,
    /// Further modes were set.
    has_more_modes: bool,
    has_margins: bool,
    has_colours: bool,
    /// Another coding of keys, by the protocol of kitty or by xterm's.
    has_keys: bool,
    /// The value of xterm's coding (`modifyOtherKeys`).
    other_keys: Option<u32>,
    /// The number pad sends sequences.
    has_keypad: bool,
    /// Text may be part of a link.
    has_link: bool,
    /// The pointer of the mouse is hidden in another way.
    has_pointer: bool,
}

/// A switch of the terminal (`CSI n h`, `CSI n l`; with `?` a private one).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TerminalMode {
    is_private: bool,
    number: u32,
}

impl TerminalMode {
    /// One of ECMA-48: keys are dead (2), text is inserted (4), keys are printed by the program alone (12),
    /// a new line starts at the left (20).
    const fn of_ecma(number: u32) -> Self {
        TerminalMode {
            is_private: false,
            number,
        }
    }

    const fn private(number: u32) -> Self {
        TerminalMode {
            is_private: true,
            number,
        }
    }

    fn sequence(self, is_set: bool) -> String {
        let marker = if self.is_private { "?" } else { "" };
        format!(
            "\x1b[{marker}{}{}",
            self.number,
            if is_set { 'h' } else { 'l' }
        )
    }
}

impl ScreenState {
    /// Notes a sequence, or a control character, that the terminal gets.
    pub(super) fn note(&mut self, sequence: &[u8]) {
        match sequence {
            [SHIFT_OUT] => self.is_changed = true,
            [_] | [] => {}
            _ => {
                self.is_changed = true;
                self.note_sequence(sequence);
            }
        }
    }

    fn note_sequence(&mut self, sequence: &[u8]) {
        let mut plain = sequence.iter().copied().filter(|byte| !is_control(*byte));
        let introducer = match (sequence, plain.next(), plain.next()) {
            ([C1_LEAD, ..], _, Some(second)) => second.wrapping_sub(0x40),
            ([ESC, ..], Some(first), _) => first,
            (_, Some(first), _) => first.wrapping_sub(0x40),
            (_, None, _) => return,
        };
        let body: Vec<u8> = body(sequence).collect();
        let body = body.as_slice();
        match introducer {
            b'[' => self.note_control(body),
            b']' => {
                let number = numbers(body).next();
                self.has_colours |= number.is_some_and(|number| COLOURS.contains(&number));
                if number == Some(LINK) {
                    // Without an address the link ends.
                    let address = body.splitn(3, |byte| *byte == b';').nth(2);
                    let address = address.into_iter().flatten();
                    self.has_link = address.copied().any(|byte| byte.is_ascii_alphanumeric());
                }
            }
            b'=' => self.has_keypad = true,
            b'>' => self.has_keypad = false,
            // Everything is as at the start.
            b'c' => {
                *self = ScreenState {
                    is_changed: true,
                    ..ScreenState::default()
                }
            }
            _ => {}
        }
    }

    fn note_control(&mut self, body: &[u8]) {
        let (Some((last, rest)), marker) = (body.split_last(), body.first()) else {
            return;
        };
        match (marker, last) {
            (Some(b'?' | b'0'..=b'9' | b';'), b'h' | b'l') => {
                let is_private = body.starts_with(b"?");
                for number in numbers(&rest[usize::from(is_private)..]) {
                    let mode = TerminalMode { is_private, number };
                    self.has_margins |= is_private && MARGINS.contains(&number);
                    if self.modes.len() < MAX_MODES || self.modes.contains_key(&mode) {
                        self.modes.insert(mode, *last == b'h');
                    } else {
                        self.has_more_modes = true;
                    }
                }
            }
            // Saved private modes come back.
            (Some(b'?'), b'r') => self.has_margins = true,
            (Some(b'>' | b'='), b'u') => self.has_keys = true,
            (Some(b'>'), b'p') => self.has_pointer = true,
            (Some(b'>'), b'm') => {
                self.has_keys = true;
                let mut values = numbers(&rest[1..]);
                if values.next() == Some(OTHER_KEYS) {
                    self.other_keys = values.next();
                }
            }
            (Some(b'0'..=b'9' | b';' | b'r'), b'r') => self.has_margins = true,
            _ => {}
        }
    }

    /// `true` if a line of forge could be hidden, or look like another.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    fn is_alternate(&self) -> bool {
        self.alternates().next().is_some()
    }

    /// The modes of the alternate screen that are on.
    fn alternates(&self) -> impl Iterator<Item = TerminalMode> {
        let modes = ALTERNATE.map(TerminalMode::private).into_iter();
        modes.filter(|mode| self.modes.get(mode) == Some(&true))
    }

    /// The modes that are not as at the start, but for the alternate screen.
    fn changed_modes(&self) -> impl Iterator<Item = (TerminalMode, bool)> {
        let modes = self.modes.iter().map(|(mode, is_set)| (*mode, *is_set));
        modes.filter(|(mode, is_set)| {
            !ALTERNATE.map(TerminalMode::private).contains(mode)
                && *is_set != ON_AT_START.contains(mode)
        })
    }

    /// Returns the sequences after which text is seen as it is.
    fn plain(&self) -> String {
        // Letters and attributes.
        let mut text = "\x0f\x1b(B\x1b[0m".to_owned();
        for (mode, is_set) in self.changed_modes() {
            text += &mode.sequence(!is_set);
        }
        if self.has_more_modes {
            // Those that hide a line or keep keys from it.
            text += "\x1b[2;4;20l\x1b[12h\x1b[?7;8;25h";
        }
        if self.has_colours {
            text += "\x1b]104\x1b\\\x1b]105\x1b\\";
            for number in [110, 111, 112, 117, 119] {
                text += &format!("\x1b]{number}\x1b\\");
            }
        }
        if self.has_margins {
            text += "\x1b[?6l\x1b[?69l\x1b[r\x1b[999;1H";
        }
        if self.has_link {
            text += "\x1b]8;;\x1b\\";
        }
        if self.has_keypad {
            text += "\x1b>";
        }
        if self.has_pointer {
            text += "\x1b[>1p";
        }
        text
    }

    /// Returns the sequences for the end of the command: the terminal is as it was. Nothing if it is.
    pub(super) fn at_the_end(&self) -> String {
        if !self.is_changed {
            return String::new();
        }
        let mut text = self.plain();
        for mode in self.alternates() {
            text += &mode.sequence(false);
        }
        if self.has_more_modes {
            // One of these may be the alternate screen.
            text += "\x1b[?1047l";
        }
        if self.has_keys {
            text += "\x1b[=0;1u\x1b[>4m";
        }
        // The line that the command has begun can look like one of forge's.
        if self.has_margins && !self.is_alternate() {
            text += "\r\n";
        }
        text
    }

    /// Returns the sequences before a question while the command runs, on a terminal with so many rows:
    /// nothing of the command's is on the screen. Nothing if only text was written.
    pub(super) fn before_a_question(&self, rows: u16) -> String {
        if !self.is_changed {
            return String::new();
        }
        let mut text = self.plain();
        if self.has_keys {
            // Pushed, so that the command's coding comes back: without it, letters, Enter and Ctrl-C
            // are what forge reads.
            text += "\x1b[>0u\x1b[>4m";
        }
        match self.is_alternate() {
            true => text + "\x1b[2J\x1b[H",
            // What was there can be scrolled back to.
            false => text + "\x1b[999;1H" + &"\r\n".repeat(rows.into()) + "\x1b[H",
        }
    }

    /// Returns the sequences after the answer: the command's modes and its coding of keys.
    pub(super) fn after_a_question(&self) -> String {
        let modes = self.changed_modes();
        let mut text: String = modes.map(|(mode, is_set)| mode.sequence(is_set)).collect();
        if self.has_keys {
            text += "\x1b[<u";
        }
        if let Some(value) = self.other_keys {
            text += &format!("\x1b[>{OTHER_KEYS};{value}m");
        }
        if self.has_keypad {
            text += "\x1b=";
        }
        text
    }
}

/// Returns the numbers between the semicolons of a sequence.
fn numbers(body: &[u8]) -> impl Iterator<Item = u32> {
    let parts = body.split(|byte| *byte == b';');
    parts.filter_map(|part| {
        let digits: String = part
            .iter()
            .map_while(|byte| byte.is_ascii_digit().then_some(char::from(*byte)))
            .collect();
        digits.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::super::filter::OutputFilter;

    /// What a command can do to the screen before a text of forge's.
    const HOSTILE: [&str; 20] = [
        "\x1b[8m\x1b[30;40m",
        "\x1b[22;24r\x1b[22;1H\x1b[8m\x1b[30;40m\x1b(0",
        "\x1b[5;6r\x1b[?6h\x1b[1;1H",
        "\x1b(0",
        "\x0e\x1b)0",
        "\x1b[7m\x1b[1;4m",
        "\x1b[?1049h\x1b[10;10H",
        "\x1b[?1049h\x1b[?25l\x1b[3;4r",
        "\x1b[?47h",
        "\x1b[?25l\x1b[?7l\x1b[4h",
        "\x1b\n[8m\x1b[\n30;40m",
        "\u{9b}8m\u{9b}30;40m",
        "\x1b[?5h\x1b[?2026h",
        "\x1b]8;;https://evil.example/\x1b\\",
        "\x1b]10;#000000\x07\x1b]11;#000000\x07",
        "\x1b]8;;https://evil.example/ an open string",
        "\x1bPq an open image",
        "\x1b[31",
        "\x1b]4;1;rgb:00/00",
        "\x1b[?1000;1002;1006;2004h",
    ];

    fn screen(before: &[u8]) -> vt100::Parser {
        let mut parser = vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 100);
        parser.process(before);
        parser
    }

    /// Checks that a text has the first cells of a row as they are.
    fn check_text(parser: &vt100::Parser, row: u16, text: &str, at: &str) {
        let screen = parser.screen();
        for (column, letter) in text.chars().enumerate() {
            let cell = screen.cell(row, u16::try_from(column).unwrap()).unwrap();
            assert_eq!(cell.contents(), letter.to_string(), "{at:?}");
            let plain = (vt100::Color::Default, vt100::Color::Default, false);
            assert_eq!(
                (cell.fgcolor(), cell.bgcolor(), cell.inverse()),
                plain,
                "{at:?}"
            );
        }
        assert!(!screen.hide_cursor(), "{at:?}");
    }

    #[test]
    fn a_question_has_the_screen_to_itself() {
        for hostile in HOSTILE {
            let mut filter = OutputFilter::default();
            let mut out = b"Allow `good.example`?\r\n[y] this command > ".to_vec();
            filter.push(hostile.as_bytes(), &mut out);
            filter.interrupt_string(&mut out);
            out.extend(filter.screen().before_a_question(24).bytes());
            out.extend(b"Allow evil.example?");
            let parser = screen(&out);
            let is_incomplete = !filter.screen().is_changed();
            let row = parser.screen().cursor_position().0;
            assert!(is_incomplete || row == 0, "{hostile:?}");
            if is_incomplete {
                assert!(
                    parser.screen().contents().contains("Allow evil.example?"),
                    "{hostile:?}"
                );
                continue;
            }
            check_text(&parser, 0, "Allow evil.example?", hostile);
            assert!(!parser.screen().contents().contains("good"), "{hostile:?}");
            // The rest of a string that was open is no text.
            let mut rest = Vec::new();
            filter.push(b" more\x1b\\after", &mut rest);
            let rest = String::from_utf8(rest).unwrap();
            assert!(rest.ends_with("after"), "{hostile:?} {rest:?}");
        }
    }

    #[test]
    fn after_the_end_a_line_is_seen_as_it_is() {
        for hostile in HOSTILE {
            let mut filter = OutputFilter::default();
            let mut out = b"$ forge exec -- evil\r\n".to_vec();
            filter.push(hostile.as_bytes(), &mut out);
            filter.finish(&mut out);
            out.extend(filter.screen().at_the_end().bytes());
            out.extend(b"\r\nquarantined: x");
            let parser = screen(&out);
            assert!(!parser.screen().alternate_screen(), "{hostile:?}");
            let row = parser.screen().cursor_position().0;
            check_text(&parser, row, "quarantined: x", hostile);
        }
    }

    /// Output that is only text, and programs that tidy up, leave the cursor where it is.
    #[test]
    fn ordinary_programs_are_not_interfered_with() {
        for (output, end) in [
            ("plain\r\n", ""),
            ("\x07tab\tx", ""),
            ("\x1b[1;32mok\x1b[0m\r\n", "\x0f\x1b(B\x1b[0m"),
            (
                "\x1b[?1049h\x1b[?25l\x1b[s\x1b[uvim\x1b[?25h\x1b[?1049l",
                "\x0f\x1b(B\x1b[0m",
            ),
            ("\x1b[?2004h", "\x0f\x1b(B\x1b[0m\x1b[?2004l"),
            (
                "\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\",
                "\x0f\x1b(B\x1b[0m",
            ),
            (
                "\x1b]8;id=a;https://example.com\x07link\x1b]8;;\x07\x1b=\x1b>",
                "\x0f\x1b(B\x1b[0m",
            ),
            ("\x1b[?1049h\x1b[?1h\x1bc", "\x0f\x1b(B\x1b[0m"),
        ] {
            let mut filter = OutputFilter::default();
            filter.push(output.as_bytes(), &mut Vec::new());
            assert_eq!(filter.screen().at_the_end(), end, "{output:?}");
        }
    }

    /// These modes change the bytes that a terminal sends for `n`, Enter and Ctrl-C; a question needs the
    /// plain ones.
    #[test]
    fn a_question_reads_plain_keys_and_the_command_gets_its_own_back() {
        const KITTY: (&str, &str) = ("\x1b[>0u\x1b[>4m", "\x1b[<u");
        for (output, before, after) in [
            ("\x1b[=15;1u", KITTY.0, KITTY.1.to_owned()),
            ("\x1b[>1u", KITTY.0, KITTY.1.to_owned()),
            ("\x1b[>4;2m", KITTY.0, KITTY.1.to_owned() + "\x1b[>4;2m"),
            ("\x1b[>4;2m\x1b[>4m", KITTY.0, KITTY.1.to_owned()),
            (
                "\x1b[>4;1m\x1b[>7u",
                KITTY.0,
                KITTY.1.to_owned() + "\x1b[>4;1m",
            ),
            ("\x1b=", "\x1b>", "\x1b=".to_owned()),
            ("\x1b[?66h", "\x1b[?66l", "\x1b[?66h".to_owned()),
            ("\x1b[?1h", "\x1b[?1l", "\x1b[?1h".to_owned()),
            ("\x1b[2h", "\x1b[2l", "\x1b[2h".to_owned()),
            (
                "\x1b[4;20h",
                "\x1b[4l\x1b[20l",
                "\x1b[4h\x1b[20h".to_owned(),
            ),
            ("\x1b[12l", "\x1b[12h", "\x1b[12l".to_owned()),
            ("\x1b[?8l", "\x1b[?8h", "\x1b[?8l".to_owned()),
            ("\x1b[>3p", "\x1b[>1p", String::new()),
            (
                "\x1b]8;;https://evil.example/\x1b\\x",
                "\x1b]8;;\x1b\\",
                String::new(),
            ),
            (
                "\x1b]8;;https://evil.example/ open",
                "\x1b]8;;\x1b\\",
                String::new(),
            ),
            (
                "\x1b]8;id=a;https://evil.example/\x07x",
                "\x1b]8;;\x1b\\",
                String::new(),
            ),
        ] {
            let mut filter = OutputFilter::default();
            let mut out = Vec::new();
            filter.push(output.as_bytes(), &mut out);
            filter.interrupt_string(&mut out);
            if out.is_empty() {
                continue;
            }
            let question = filter.screen().before_a_question(24);
            assert!(question.contains(before), "{output:?}: {question:?}");
            let back = filter.screen().after_a_question();
            assert_eq!(back, after, "{output:?}");
        }
    }

    #[test]
    fn more_modes_than_are_kept_hide_nothing() {
        let mut filter = OutputFilter::default();
        let many: String = (1000..1300).map(|mode| format!("\x1b[?{mode}h")).collect();
        let hostile = format!("{many}\x1b[4h\x1b[?25l\x1b[?7l");
        let mut out = Vec::new();
        filter.push(hostile.as_bytes(), &mut out);
        let question = filter.screen().before_a_question(24);
        for undone in ["\x1b[2;4;20l", "\x1b[?7;8;25h"] {
            assert!(question.contains(undone), "{question:?}");
        }
    }

    #[test]
    fn a_command_gets_its_modes_back() {
        let mut filter = OutputFilter::default();
        filter.push(
            b"\x1b[?1049h\x1b[?25l\x1b[?1000;2004h\x1b[?7h",
            &mut Vec::new(),
        );
        let back = filter.screen().after_a_question();
        assert_eq!(back, "\x1b[?25l\x1b[?1000h\x1b[?2004h");
    }
}
