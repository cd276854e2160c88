use super::*;
use proptest::prelude::*;
use vte::{Params, Parser, Perform};

/// Sequences that pass, each whole, and text between them.
const PASSED: &[&[u8]] = &[
    b"plain text\r\n",
    "日本語 Ý ü € 𝄞 \u{a0}".as_bytes(),
    b"\x1b[1;38;2;255;100;0m",
    b"\x1b[38:2::1:2:3m",
    b"\x1b[?1049h\x1b[?2004h",
    b"\x1b[?2026h\x1b[?2026l",
    b"\x1b[>1u\x1b[<u\x1b[?u",
    b"\x1b[18t\x1b[14t\x1b[8;24;80t",
    b"\x1b[1;2;3;4;0$t",
    b"\x1b(B\x1b7\x1b8\x1bc\x1b%G\x1b#8\x1bM",
    b"\x1b]8;;https://example.com/a?b=c\x1b\\link\x1b]8;;\x07",
    b"\x1b]4;1;rgb:00/00/00\x1b\\\x1b]104\x1b\\\x1b]11;?\x07",
    b"\x1b]8;id=1;file:///a\x07x\x1b]8;;MailTo:a@b\x07\x1b]8;;\x1b\\",
    b"\x1b]10;red;#00f\x07\x1b]11;[80]rgb:1/2/3\x1b\\\x1b]12;light blue\x07\x1b]4;0;?\x07",
    b"\x1b]110\x07\x1b]30001\x1b\\\x1b]30101\x1b\\\x1b]22;pointer\x07\x1b]66;s=2;big\x07",
    b"\x1b]R\x1b\\\x1b]P0000000\x1b\\",
    b"\x1b]133;A\x07\x1b]133;C\x1b\\",
    b"\x1b]99;;done\x07\x1b]99;i=1:d=0:p=title:u=2;done\x1b\\",
    b"\x1b]777;notify;title;text\x07",
    b"\x1b[?1;25l\x1b[2l\x1b[1;2;3t\x1b[24t",
    b"\x1b]9;4;1;50\x1b\\\x1b]9;done\x07\x1b]9;5 tests failed\x07",
    b"\x1bPq#0;2;0;0;0#0~~@@vv$-\x1b\\",
    b"\x1bP0;1;0q~\x1b\\",
    b"\x1bP+q544e\x1b\\",
    b"\x1bP=1s\x1b\\",
    b"\x1b_Ga=T,f=100;iVBORw0KGgo=\x1b\\",
    b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24,z=-1;AAAA\x1b\\\x1b_Ga=d\x1b\\\x1b_Gm=1;AAAA\x9c",
    b"\x9b31m",
    b"\xc2\x9b31m",
    b"\x1b[3\n1m",
    b"\x07\x08\x0b\x0c\x0e\x0f\x00",
];

/// Sequences of which nothing passes.
const WITHHELD: &[(&[u8], WithheldKind)] = &[
    (b"\x1b]52;c;aGVsbG8=\x07", WithheldKind::Clipboard),
    (b"\x1b]52;c;?\x1b\\", WithheldKind::Clipboard),
    (b"\x1b]0052;c;aGVsbG8=\x1b\\", WithheldKind::Clipboard),
    (b"\x1b]5\n2;c;aGVsbG8=\x1b\\", WithheldKind::Clipboard),
    (b"\x1b\n]52;c;aGVsbG8=\x1b\\", WithheldKind::Clipboard),
    (b"\x9d52;c;aGVsbG8=\x9c", WithheldKind::Clipboard),
    (b"\xc2\x9d52;c;aGVsbG8=\xc2\x9c", WithheldKind::Clipboard),
    (b"\x1b]5522;type=write\x1b\\", WithheldKind::Clipboard),
    ("\x1b]0;title \u{65e5}\x07".as_bytes(), WithheldKind::Title),
    (b"\x1b]1;icon\x1b\\", WithheldKind::Title),
    (b"\x1b]2;title\x1b\\", WithheldKind::Title),
    (b"\x1b];title\x1b\\", WithheldKind::Title),
    (b"\x1b]ltitle\x1b\\", WithheldKind::Title),
    (b"\x1bktitle\x1b\\", WithheldKind::Title),
    (b"\x1b[22;0t", WithheldKind::Untold),
    (b"\x1b[23;2t", WithheldKind::Untold),
    (b"\x1bPzz\x1b\\", WithheldKind::Untold),
    (b"\x1bP1zz\x1b\\", WithheldKind::Other),
    (b"\x1b[>2t", WithheldKind::Title),
    (b"\x1b[20t", WithheldKind::Answer),
    (b"\x1b[21t", WithheldKind::Answer),
    (b"\x1b[021;0t", WithheldKind::Answer),
    (b"\x1b[2\n1t", WithheldKind::Answer),
    (b"\x1b\n[21t", WithheldKind::Answer),
    (b"\x9b21t", WithheldKind::Answer),
    (b"\xc2\x9b21t", WithheldKind::Answer),
    (b"\x1b[1;1;1;1;1;1*y", WithheldKind::Answer),
    (b"\x1bP$qm\x1b\\", WithheldKind::Answer),
    (b"\x1bP0;1|17/6c73\x1b\\", WithheldKind::Answer),
    (b"\x1b]50;#1\x07", WithheldKind::Answer),
    (b"\x05", WithheldKind::Answer),
    // Names that Terminology, foot, kitty and others repeat.
    (b"\x1b]21;rm -rf=?\x1b\\", WithheldKind::Answer),
    (b"\x1b]99;i=a:p=?;\x1b\\", WithheldKind::Answer),
    (b"\x1b]99;a=report;x\x07", WithheldKind::Answer),
    (b"\x1b]99;i=a b;x\x07", WithheldKind::Answer),
    (b"\x1b]99;p=buttons;x\x07", WithheldKind::Answer),
    (b"\x1b]176;name\x07", WithheldKind::Title),
    // Numbers that wrap around: 2^32 + 21, 2^16 + 20, 2^32 + 52.
    (b"\x1b[4294967317t", WithheldKind::Answer),
    (b"\x1b[65556t", WithheldKind::Answer),
    (b"\x1b]4294967348;c;aGVsbG8=\x07", WithheldKind::Other),
    // Files and directories: images of kitty by name, in shared memory, and deleted after the read.
    (b"\x1b_Gt=f;L2V0Yy9wYXNzd2Q=\x1b\\", WithheldKind::File),
    (b"\x1b_Ga=T,f=100,t=t;L3RtcC9h\x1b\\", WithheldKind::File),
    (b"\x1b_Ga=q,t=s;bmFtZQ==\x1b\\", WithheldKind::File),
    (b"\x1b_Gt=d,t=f;L2E=\x1b\\", WithheldKind::File),
    (b"\x1b_Ga=T,t=f\x1b\\", WithheldKind::File),
    (b"\x1b_G t=f;L2E=\x1b\\", WithheldKind::File),
    (b"\x1b_Gtt=f;L2E=\x1b\\", WithheldKind::File),
    (b"\x1b_Gt=df;L2E=\x1b\\", WithheldKind::File),
    (b"\x1b_Gt;L2E=\x1b\\", WithheldKind::File),
    (b"\x9fGt=f;L2E=\x9c", WithheldKind::File),
    (b"\xc2\x9fGt=f;L2E=\xc2\x9c", WithheldKind::File),
    (b"\x1b_Gt\n=f;L2E=\x1b\\", WithheldKind::Other),
    (b"\x1b]5113;ac=send\x1b\\", WithheldKind::File),
    // The directory of the next shell (VTE, iTerm2, Terminal), a background (rxvt), logs (xterm, rxvt),
    // sound and icon (mintty), any file (Terminology).
    (b"\x1b]7;file:///tmp\x1b\\", WithheldKind::File),
    (b"\x1b]6;file:///tmp/a\x07", WithheldKind::File),
    (b"\x1b]20;/etc/passwd\x07", WithheldKind::File),
    (b"\x1b]46;/tmp/log\x07", WithheldKind::File),
    (b"\x1b]55;/tmp/log\x07", WithheldKind::File),
    (b"\x1b]440;/tmp/a.wav\x07", WithheldKind::File),
    (b"\x1b]7773;/tmp/a.ico\x07", WithheldKind::File),
    (b"\x1b}", WithheldKind::File),
    // Strings that multiplexers hand on to the terminal behind them.
    (b"\x1bPtmux;abc\x1b\\", WithheldKind::Other),
    (b"\x1bP]52;c;aGVsbG8=\x07\x1b\\", WithheldKind::Other),
    (b"\x1bP1000p\x1b\\", WithheldKind::Other),
    (b"\x1bP2000p\x1b\\", WithheldKind::Other),
    (b"\x1b^message\x1b\\", WithheldKind::Other),
    (b"\x1bXstring\x1b\\", WithheldKind::Other),
    (b"\x1b_string\x1b\\", WithheldKind::Other),
    (b"\x1b_\x1b\\", WithheldKind::Other),
    // Macros, keys, and the state of the terminal (DECDMAC, DECPFK, DECRSPS).
    (b"\x1bP1;0;0!zrm\x1b\\", WithheldKind::Other),
    (b"\x1bP1;0\"xrm\x1b\\", WithheldKind::Other),
    (b"\x1bP1$trm\x1b\\", WithheldKind::Other),
    // Programs: GNU screen, Emacs and Vim, mlterm, rxvt, iTerm2, VS Code, ConEmu.
    (b"\x1b]83;exec rm\x07", WithheldKind::Other),
    (b"\x1b]51;[\"call\",\"Tapi\",1]\x07", WithheldKind::Other),
    (b"\x1b]5379;exec rm\x07", WithheldKind::Other),
    (b"\x1b]777;background;x\x07", WithheldKind::Other),
    (b"\x1b]777;notif\x07", WithheldKind::Other),
    (b"\x1b]1337;Copy=:aGVsbG8=\x07", WithheldKind::Other),
    (
        b"\x1b]1337;RequestUpload=format=tgz\x07",
        WithheldKind::Other,
    ),
    (b"\x1b]633;E;rm\x07", WithheldKind::Other),
    (b"\x1b]9;7;program\x1b\\", WithheldKind::Other),
    (b"\x1b]9;42;x\x1b\\", WithheldKind::Other),
    // Links that start a program with the command's text by a click.
    (b"\x1b]8;;vscode://x/install\x07", WithheldKind::Other),
    (
        b"\x1b]8;id=1;ssh://-oProxyCommand=x/\x1b\\",
        WithheldKind::Other,
    ),
    (b"\x1b]8;; https://a/\x1b\\", WithheldKind::Other),
    (b"\x1b]4711;x\x07", WithheldKind::Other),
    (b"\x1b]52:c;aGVsbG8=\x07", WithheldKind::Other),
    (b"\x1b]xname\x07", WithheldKind::Other),
    // The printer, also by VT52, and another coding.
    (b"\x1b[5i", WithheldKind::Other),
    (b"\x1b[i", WithheldKind::Other),
    (b"\x1b[?5i", WithheldKind::Other),
    (b"\x1b[?2l", WithheldKind::Other),
    (b"\x1b[?1;2l", WithheldKind::Other),
    (b"\x1b%@", WithheldKind::Other),
];

fn filtered(bytes: &[u8], splits: &[usize]) -> (Vec<u8>, Withheld) {
    let mut filter = OutputFilter::default();
    let mut out = Vec::new();
    let mut rest = bytes;
    for split in splits {
        let (piece, more) = rest.split_at((*split).min(rest.len()));
        filter.push(piece, &mut out);
        rest = more;
    }
    filter.push(rest, &mut out);
    assert!(filter.held.len() <= MAX_HELD_BYTES);
    filter.finish(&mut out);
    (out, filter.withheld())
}

#[test]
fn each_of_the_lists_in_every_split() {
    for bytes in PASSED {
        for at in 0..=bytes.len() {
            let (out, withheld) = filtered(bytes, &[at]);
            assert_eq!(
                out.escape_ascii().to_string(),
                bytes.escape_ascii().to_string()
            );
            assert_eq!(withheld, Withheld::default(), "{}", bytes.escape_ascii());
        }
    }
    for (bytes, kind) in WITHHELD {
        let mut expected = Withheld::default();
        expected.add(*kind);
        for at in 0..=bytes.len() {
            let (out, withheld) = filtered(bytes, &[at]);
            assert_eq!(
                out.escape_ascii().to_string(),
                "",
                "{}",
                bytes.escape_ascii()
            );
            assert_eq!(withheld, expected, "{}", bytes.escape_ascii());
        }
    }
}

/// Texts of models, commands and names, which forge prints itself, have no such sequence either.
#[test]
fn texts_of_forge_have_no_sequence() {
    use crate::output::escape::{escape, escape_json, escape_lines};
    for bytes in PASSED.iter().chain(WITHHELD.iter().map(|(bytes, _)| bytes)) {
        let text = String::from_utf8_lossy(bytes);
        let json = escape_json(&serde_json::json!(text).to_string());
        for shown in [escape(&text), escape_lines(&text), json] {
            let is_hidden = |c: char| c.is_control() && !"\n\t".contains(c);
            assert!(!shown.contains(is_hidden), "{shown:?}");
        }
    }
}

/// The pieces around a withheld sequence do not join to one, and a string ends where a sequence begins.
#[test]
fn what_is_withheld_leaves_nothing_open() {
    for (input, expected) in [
        (&b"\x1b\x1b]0;x\x07]0;evil\x07"[..], &b"]0;evil\x07"[..]),
        (b"\x1b[2\x1b]0;x\x071t", b"1t"),
        (b"\xc2\x1b]0;x\x07\x9d0;evil\x07.", b"."),
        (
            b"\x1b]8;;https:a\x1b]0;x\x07b\x07c",
            b"\x1b]8;;https:a\x1b\\b\x07c",
        ),
        (b"\x1b]8;;https:a", b"\x1b]8;;https:a\x1b\\"),
        (b"a\x1b]0;open", b"a"),
        (b"a\x1b[12", b"a"),
        (b"a\xc2", b"a"),
        (b"\x1b]0;x\x18text", b"\x18text"),
        (b"\x1bPtmux;\x1b\x1b]52;c;x\x07\x1b\\text", b"\x1b\\text"),
        // foot repeats what is not a number, mintty reads a file.
        (b"\x1bP+q41\rrm\r\x1b\\text", b"\x1bP+q41\x1b\\text"),
        (b"\x1bP+qrm\x1b\\text", b"\x1bP+q\x1b\\text"),
        (b"\x1b]11;*/etc/a\x07text", b"\x1b]11;\x1b\\text"),
        (b"\x1b]10;red;*/etc/a\x07text", b"\x1b]10;red;\x1b\\text"),
    ] {
        let (out, _) = filtered(input, &[]);
        assert_eq!(
            out.escape_ascii().to_string(),
            expected.escape_ascii().to_string(),
            "{}",
            input.escape_ascii()
        );
    }
}

#[test]
fn a_sequence_without_end_is_not_kept() {
    for start in [&b"\x1b["[..], b"\x1b]", b"\x1b]9;", b"\x1bP", b"\x1b("] {
        let mut bytes = start.to_vec();
        bytes.resize(1 << 20, b'0');
        filtered(&bytes, &[7]);
    }
}

#[test]
fn one_line_tells_all_of_it() {
    assert_eq!(Withheld::default().describe(), None);
    let mut withheld = Withheld::default();
    withheld.add(WithheldKind::Untold);
    assert_eq!(withheld.describe(), None);
    withheld.add(WithheldKind::Title);
    withheld.add(WithheldKind::Title);
    withheld.add(WithheldKind::Clipboard);
    assert_eq!(
        withheld.describe().unwrap(),
        "note: not passed on to your terminal: 1 use of the clipboard, 2 window titles"
    );
}

/// Finds withheld sequences in the output, by another parser.
#[derive(Default)]
struct Judge(Vec<String>);

impl Perform for Judge {
    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        let number = params.first().copied().unwrap_or_default();
        let number = std::str::from_utf8(number).unwrap_or_default();
        if matches!(number.parse(), Ok(0 | 1 | 2 | 50 | 52u32)) {
            self.0.push(format!("OSC {number}"));
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _: bool, action: char) {
        let first = params.iter().next().and_then(|first| first.first());
        if action == 't' && intermediates.is_empty() && matches!(first, Some(20..=23)) {
            self.0.push(format!("CSI {first:?} t"));
        }
    }

    fn hook(&mut self, _: &Params, intermediates: &[u8], _: bool, action: char) {
        if action == 'q' && intermediates == b"$" {
            self.0.push("DECRQSS".to_owned());
        }
    }
}

fn pieces() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    let passed = proptest::sample::select(PASSED).prop_map(|bytes| (true, bytes.to_vec()));
    let withheld =
        proptest::sample::select(WITHHELD).prop_map(|(bytes, _)| (false, bytes.to_vec()));
    let text = "[ -~äöü日\n]{0,20}".prop_map(|text| (true, text.into_bytes()));
    proptest::collection::vec(prop_oneof![passed, withheld, text], 0..12)
}

fn hostile() -> impl Strategy<Value = Vec<u8>> {
    const BYTES: &[u8] =
        b"\x1b\x1b\x1b][P_k\\;;0125t$qyq%@ \n\x05\x07\x18\x9b\x9c\x9d\xc2\xc2\xe0\x9f";
    const TOKENS: &[&[u8]] = &[
        b"\x1b]", b"\x1b[", b"52;", b"0;", b"21t", b"22t", b"\x07", b"\x1b\\", b"\x1bP",
    ];
    let byte = proptest::sample::select(BYTES);
    let token = proptest::sample::select(TOKENS);
    let one = prop_oneof![
        byte.prop_map(|byte| vec![byte]),
        token.prop_map(<[u8]>::to_vec)
    ];
    proptest::collection::vec(one, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn exactly_the_withheld_ones_are_missing(
        pieces in pieces(),
        splits in proptest::collection::vec(0..40usize, 0..20),
    ) {
        let all: Vec<u8> = pieces.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let kept = pieces.iter().filter(|(passes, _)| *passes);
        let kept: Vec<u8> = kept.flat_map(|(_, bytes)| bytes.clone()).collect();
        let (out, withheld) = filtered(&all, &splits);
        prop_assert_eq!(out.escape_ascii().to_string(), kept.escape_ascii().to_string());
        let missing = pieces.iter().filter(|(passes, _)| !passes).count() as u64;
        prop_assert_eq!(withheld.0.iter().sum::<u64>(), missing);
    }

    #[test]
    fn no_bytes_get_a_sequence_through(
        bytes in hostile(),
        splits in proptest::collection::vec(0..9usize, 0..20),
    ) {
        let (out, withheld) = filtered(&bytes, &splits);
        prop_assert_eq!(&(out.clone(), withheld), &filtered(&bytes, &[]));
        let mut judge = Judge::default();
        Parser::new().advance(&mut judge, &out);
        prop_assert!(judge.0.is_empty(), "{:?} in {}", judge.0, out.escape_ascii());
        // The output has nothing left to withhold.
        prop_assert_eq!(filtered(&out, &[]).1, Withheld::default(), "{}", out.escape_ascii());
    }
}
