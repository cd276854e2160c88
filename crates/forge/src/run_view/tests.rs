//! The view as a terminal shows it: events in, a screen out, at times that are made up.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_runtime::{
    ElapsedTime, Message, ModelEvent, Retry, RunEvent, Thinking, ToolCall, ToolResult, Usage,
};
use forge_tools::Caller;
use proptest::prelude::*;
use sandbox_config::MountSource;
use serde_json::json;

use super::lines::{LineLayout, Style};
use super::region;
use super::run::{DetailLevel, RunView};
use super::screen::Screen;

/// A view and the terminal that it is drawn on.
struct Shown {
    run: RunView,
    lines: LineLayout,
    screen: Screen,
    terminal: vt100::Parser,
    begun: Instant,
    now: Instant,
    style: Style,
}

impl Shown {
    fn new(columns: u16, rows: u16) -> Self {
        let some = |number| NonZeroU16::new(number).unwrap();
        let now = Instant::now();
        let style = Style { colour: true };
        let wanted = DetailLevel {
            more: false,
            answer: true,
        };
        Shown {
            run: RunView::new(wanted, Arc::default(), now),
            lines: LineLayout::new(style),
            screen: Screen::default(),
            terminal: vt100::Parser::new(some(rows), some(columns), 1000),
            begun: now,
            now,
            style,
        }
    }

    fn at(&mut self, ms: u64) -> &mut Self {
        self.now = self.begun + Duration::from_millis(ms);
        self
    }

    /// Takes an event, and draws.
    fn take(&mut self, event: RunEvent<'_>) -> &mut Self {
        let (rows, columns) = self.terminal.screen().size();
        let width = usize::from(columns.get()) - 1;
        let said = self.run.on_event(event, self.now);
        let above: Vec<_> = said
            .iter()
            .flat_map(|line| self.lines.rows(line, width))
            .collect();
        let height = usize::from(rows.get());
        let below = region::rows(&self.run, self.now, width, height, self.style);
        assert!(below.len() < height, "{} of {height}", below.len());
        let text = self.screen.draw(&above, below, width, false);
        self.terminal.process(text.as_bytes());
        self
    }

    fn begins(&mut self, caller: &Caller) -> &mut Self {
        self.take(RunEvent::Started {
            caller,
            drawn_from: MountSource::Caller,
        });
        self.take(RunEvent::TurnStarted {
            caller,
            turn: 1,
            model: "test:model",
            time: ElapsedTime::default(),
        })
    }

    fn on_text(&mut self, caller: &Caller, event: &ModelEvent) -> &mut Self {
        self.take(RunEvent::Streamed { caller, event })
    }

    fn line(&mut self, caller: &Caller, text: &str) -> &mut Self {
        self.on_text(caller, &ModelEvent::Text(text.to_owned()))
    }

    fn calls(&mut self, caller: &Caller, id: &str, tool: &str, path: &str) -> &mut Self {
        let call = ToolCall {
            id: id.to_owned(),
            tool: tool.to_owned(),
            arguments: json!({ "path": path }),
        };
        self.take(RunEvent::CallStarted {
            caller,
            call: &call,
        })
    }

    fn has(&mut self, caller: &Caller, id: &str, content: &str) -> &mut Self {
        let result = ToolResult {
            id: id.to_owned(),
            tool: "read_file".to_owned(),
            content: content.to_owned(),
            is_error: false,
            detail: json!({}),
        };
        self.take(RunEvent::CallEnded {
            caller,
            result: &result,
        })
    }

    fn seen(&self) -> String {
        let screen = self.terminal.screen();
        let (_, columns) = screen.size();
        let rows: Vec<String> = screen
            .rows(0, columns.get())
            .map(|row| row.trim_end().to_owned())
            .collect();
        rows.join("\n").trim_end().to_owned()
    }
}

fn family() -> (Caller, Caller, Caller) {
    let main = Caller::new("main").numbered(1);
    let (one, two) = (main.child("reader"), main.child("reader"));
    (main, one.numbered(2), two.numbered(3))
}

fn several(columns: u16) -> String {
    let (main, one, two) = family();
    let mut shown = Shown::new(columns, 24);
    shown.begins(&main);
    shown.line(&main, "Both halves at once.");
    shown.take(RunEvent::Said {
        caller: &main,
        message: &Message::Model {
            text: "Both halves at once.".to_owned(),
            thinking: Vec::new(),
            calls: Vec::new(),
        },
    });
    shown.take(RunEvent::Used {
        caller: &main,
        usage: Usage {
            input_tokens: 12_000,
            output_tokens: 345,
            ..Usage::default()
        },
        cost_nano_usd: Some(4_500_000),
    });
    shown.at(1_000).calls(&main, "a", "reader", "first half");
    shown.calls(&main, "b", "reader", "second half");
    shown.begins(&one).begins(&two);
    shown.calls(&one, "c", "read_file", "/data/one.md");
    shown.on_text(
        &two,
        &ModelEvent::Thinking(Thinking {
            text: "hm".to_owned(),
            signature: None,
        }),
    );
    shown.at(2_500).has(&one, "c", "1\n2\n3\n");
    shown.line(
        &one,
        "The first half is about 日本語 and wide letters, and it goes on for longer than one row holds, so ",
    );
    shown.at(4_200).on_text(
        &two,
        &ModelEvent::Retry(Retry {
            attempt: 2,
            wait_ms: 2_100,
            reason: "the provider is busy (529): Overloaded".to_owned(),
        }),
    );
    shown.at(5_000).line(&one, "it is broken.\n\nAnd");
    shown.seen()
}

#[test]
fn workers_side_by_side_at_eighty_columns() {
    insta::assert_snapshot!(several(80), @r##"
    ▸ main
      ▸ reader
      ▸ reader #2
      ▸ reader
        ✓ read_file /data/one.md: 3 lines
      ▸ reader #2
        ! provider is busy (529): Overloaded, again in 3 s
    ┄┄┄┄┄┄┄┄
    ▸ main  2 calls
      ⠋ reader first half  4 s
      ⠋ reader second half  4 s
      ▸ reader
        │ The first half is about 日本語 and wide letters, and it goes on for
        │ longer than one row holds, so it is broken.
        │
        │ And
      ▸ reader #2  provider is busy (529): Overloaded, again in 2 s
    ⠋ 5 s · 3 turns · 3 calls · 12.3k tokens · $0.0045
    "##);
}

#[test]
fn workers_side_by_side_at_two_hundred_columns() {
    insta::assert_snapshot!(several(200), @r##"
    ▸ main
      ▸ reader
      ▸ reader #2
      ▸ reader
        ✓ read_file /data/one.md: 3 lines
      ▸ reader #2
        ! provider is busy (529): Overloaded, again in 3 s
    ┄┄┄┄┄┄┄┄
    ▸ main  2 calls
      ⠋ reader first half  4 s
      ⠋ reader second half  4 s
      ▸ reader
        │ The first half is about 日本語 and wide letters, and it goes on for longer than one row holds, so it is broken.
        │
        │ And
      ▸ reader #2  provider is busy (529): Overloaded, again in 2 s
    ⠋ 5 s · 3 turns · 3 calls · 12.3k tokens · $0.0045
    "##);
}

/// A text longer than the screen: its end is seen, and once it is whole all of it scrolls by.
#[test]
fn a_long_text_is_followed() {
    let (main, _, _) = family();
    let mut shown = Shown::new(40, 10);
    shown.begins(&main);
    let all: Vec<String> = (1..=50)
        .map(|n| format!("line {n} of the text\n"))
        .collect();
    for line in &all {
        for piece in line.split_inclusive(' ') {
            shown.line(&main, piece);
        }
    }
    insta::assert_snapshot!(shown.seen(), @r##"
    ▸ main
    ┄┄┄┄┄┄┄┄
    ▸ main
      │ line 46 of the text
      │ line 47 of the text
      │ line 48 of the text
      │ line 49 of the text
      │ line 50 of the text
    ⠋ 0 s · 1 turn · 0 calls
    "##);
    let text = all.concat();
    shown.take(RunEvent::Said {
        caller: &main,
        message: &Message::Model {
            text: text.clone(),
            thinking: Vec::new(),
            calls: vec![ToolCall {
                id: "a".to_owned(),
                tool: "t".to_owned(),
                arguments: json!({}),
            }],
        },
    });
    let screen = shown.terminal.screen_mut();
    screen.set_scrollback(45);
    let above = shown.seen();
    assert!(above.contains("│ line 1 of the text"), "{above}");
}

/// Calls that fill the screen are counted.
#[test]
fn many_at_once_fit() {
    let main = Caller::new("main").numbered(1);
    let mut shown = Shown::new(60, 12);
    shown.begins(&main);
    for n in 2..40 {
        let child = main.child("reader").numbered(n);
        shown.begins(&child);
        for id in 0..n {
            shown.calls(&child, &id.to_string(), "read_file", "/data/a.md");
        }
        shown.line(&child, "some words");
    }
    let seen = shown.seen();
    assert!(seen.contains("… 39 workers at work"), "{seen}");
}

proptest! {
    /// Whatever models and tools say: the cursor goes nowhere else, and no row is broken.
    #[test]
    fn nothing_leaves_its_row(
        pieces in prop::collection::vec(r"(\p{Cc}|\p{Cf}|\PC|[a-z \n]|日|\x1b\[[0-9]{1,2}[A-HJKf]){0,30}", 0..12),
        columns in 20u16..90,
    ) {
        let (main, one, _) = family();
        let mut shown = Shown::new(columns, 16);
        shown.begins(&main).begins(&one);
        for (index, piece) in pieces.iter().enumerate() {
            let who = if index % 2 == 0 { &main } else { &one };
            shown.line(who, piece);
            shown.calls(who, piece, piece, piece);
            if index % 3 == 0 {
                shown.has(who, piece, piece);
            }
        }
        let screen = shown.terminal.screen();
        prop_assert!(!screen.hide_cursor() && !screen.alternate_screen());
        for row in 0..16 {
            prop_assert!(!screen.row_wrapped(row), "{}", shown.seen());
        }
        // The run as a whole is the last row, and the worker's name stands above.
        let seen = shown.seen();
        prop_assert!(seen.lines().last().unwrap().contains("0 s"), "{seen}");
    }
}
