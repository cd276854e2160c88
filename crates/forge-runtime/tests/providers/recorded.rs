//! Every recorded answer, through the real client and in every way that bytes can come.

use std::time::Duration;

use forge_runtime::{ModelEvent, ProviderEndpoint, read_stream, read_whole};
use proptest::prelude::*;
use serde_json::Value;

use crate::events::{fits, hello, lines, turn};
use crate::fixture::{Fixture, Framing};
use crate::server::{Reply, Server};

#[track_caller]
fn check(name: &str, how: &str, found: &[ModelEvent], expected: &[Value]) {
    let found = lines(found);
    assert!(
        fits(&found, expected),
        "{name}, {how}:\nfound    {found:#?}\nexpected {expected:#?}"
    );
}

/// Over a socket, with every framing of HTTP.
#[tokio::test]
async fn as_they_are() {
    let framings = [
        Framing::Length,
        Framing::Close,
        Framing::Chunks(1),
        Framing::Chunks(100),
    ];
    for fixture in Fixture::all() {
        for framing in framings {
            let replies = vec![Reply::new(fixture.response(framing))];
            let server = Server::start(replies).await;
            let provider = ProviderEndpoint::new("test", fixture.wire, &server.url, 64)
                .unwrap()
                .stream(fixture.is_stream());
            let provider = match fixture.name.ends_with("/401") || fixture.name.ends_with("/403") {
                true => provider.key(forge_runtime::ProviderKey::new("canary-key").unwrap()),
                false => provider,
            };
            let found = turn(&provider.model("m").unwrap(), hello()).await;
            let how = format!("{framing:?}");
            check(&fixture.name, &how, &found, &fixture.expected);
            assert_eq!(server.seen().len(), 1, "{}", fixture.name);
        }
    }
}

/// Streams in pieces of every size, with the line ends of every system, and comments between
/// their events.
#[test]
fn in_pieces() {
    for fixture in Fixture::all() {
        if !fixture.is_stream() {
            if fixture.head.contains(" 200 ") && fixture.head.contains("json") {
                let found = read_whole(fixture.wire, &fixture.body);
                check(&fixture.name, "whole", &found, &fixture.expected);
            }
            continue;
        }
        let text = String::from_utf8(fixture.body.clone()).unwrap();
        let shapes = [
            ("as it is", text.clone()),
            ("CRLF", text.replace('\n', "\r\n")),
            ("CR", text.replace('\n', "\r")),
            (
                "comments",
                format!(": hi\n\n{}", text.replace("\n\n", "\n\n: still here\n\n")),
            ),
            (
                "no blanks",
                text.replace("data: ", "data:").replace("event: ", "event:"),
            ),
            ("a mark before it", format!("\u{feff}{text}")),
            (
                "no last line",
                text.trim_end_matches('\n').to_owned() + "\n",
            ),
        ];
        for (shape, text) in shapes {
            let bytes = text.as_bytes();
            for size in [usize::MAX, 1, 2, 3, 7, 64] {
                let how = format!("{shape} by {size}");
                let found = read_stream(fixture.wire, bytes, &[size]);
                check(&fixture.name, &how, &found, &fixture.expected);
            }
            if !matches!(shape, "as it is" | "CRLF") {
                continue;
            }
            for at in 1..bytes.len() {
                let how = format!("{shape}, in two at {at}");
                let found = read_stream(fixture.wire, bytes, &[at, usize::MAX]);
                check(&fixture.name, &how, &found, &fixture.expected);
            }
        }
    }
}

/// A stream that ends too early is a cut one, wherever it ends; and whatever was whole before,
/// no call of it comes out.
#[test]
fn cut_at_every_byte() {
    for fixture in Fixture::all().iter().filter(|each| each.is_stream()) {
        for at in 0..fixture.body.len() {
            let found = read_stream(fixture.wire, &fixture.body[..at], &[]);
            let as_lines = lines(&found);
            // The reason to stop came: what is missing says nothing more, but for the tokens.
            let is_end = |event: &ModelEvent| matches!(event, ModelEvent::End(_));
            if found.last().is_some_and(is_end) || fails(&fixture.expected) {
                let without_usage = |lines: &[Value]| -> Vec<Value> {
                    let is_usage = |line: &&Value| line.get("usage").is_none();
                    lines.iter().filter(is_usage).cloned().collect()
                };
                let (found, expected) = (&as_lines, &fixture.expected);
                if fits(&without_usage(found), &without_usage(expected)) {
                    continue;
                }
            }
            let last = as_lines.last().unwrap();
            assert_eq!(
                last["failed"]["kind"], "cut",
                "{} at {at}: {last}",
                fixture.name
            );
            let handed_on =
                |event: &ModelEvent| matches!(event, ModelEvent::Call(_) | ModelEvent::End(_));
            assert!(!found.iter().any(handed_on), "{} at {at}", fixture.name);
        }
    }
}

fn fails(lines: &[Value]) -> bool {
    lines
        .last()
        .is_some_and(|last| last.get("failed").is_some())
}

/// The same over a socket, where the end of a connection shows in three ways.
#[tokio::test]
async fn cut_connections() {
    for name in [
        "anthropic/parallel-calls",
        "openai-chat/parallel-calls",
        "openai-responses/parallel-calls",
    ] {
        let fixture = Fixture::named(name);
        for framing in [Framing::Length, Framing::Close, Framing::Chunks(40)] {
            let bytes = fixture.response(framing);
            let body = bytes.len() - fixture.body.len().min(bytes.len());
            // In its head, at the beginning of its body, and in each tenth of it.
            let cuts = (0..10).map(|tenth| body + (bytes.len() - body) * tenth / 10);
            for at in [10, 60].into_iter().chain(cuts) {
                let server = Server::start(vec![Reply::new(&bytes[..at])]).await;
                let provider =
                    ProviderEndpoint::new("test", fixture.wire, &server.url, 64).unwrap();
                let found = turn(&provider.model("m").unwrap(), hello()).await;
                // The reason to stop came, and nothing says that there was to be more.
                let ended = matches!(found.last(), Some(ModelEvent::End(_)));
                if ended && matches!(framing, Framing::Close) {
                    let told = String::from_utf8_lossy(&bytes[..at]);
                    assert!(
                        ["finish_reason\":\"", "stop_reason\":\""]
                            .iter()
                            .any(|it| told.contains(it))
                    );
                    continue;
                }
                let Some(ModelEvent::Failed(error)) = found.last() else {
                    panic!("{name}, {framing:?}, cut at {at}: {found:?}");
                };
                assert!(
                    error.is_transient(),
                    "{name}, {framing:?}, cut at {at}: {error:?}"
                );
                let is_call = |event: &ModelEvent| matches!(event, ModelEvent::Call(_));
                assert!(
                    !found.iter().any(is_call),
                    "{name}, {framing:?}, cut at {at}"
                );
            }
        }
    }
}

/// The first piece of a text is handed on while the server still thinks about the next.
#[tokio::test]
async fn text_comes_at_once() {
    for name in [
        "anthropic/text",
        "openai-chat/text",
        "openai-responses/text",
    ] {
        let fixture = Fixture::named(name);
        let whole = fixture.response(Framing::Close);
        let text = String::from_utf8(whole.clone()).unwrap();
        let first = text.find("Guten Tag").unwrap();
        let end = first + text[first..].find("\n\n").unwrap() + 2;
        let hangs = Reply::new(&whole[..end]).then(crate::server::Then::Hang);
        let server = Server::start(vec![hangs]).await;
        let provider = ProviderEndpoint::new("test", fixture.wire, &server.url, 64).unwrap();
        let mut turn = {
            use forge_runtime::Model as _;
            provider.model("m").unwrap().turn(hello())
        };
        let text = async {
            loop {
                if let ModelEvent::Text(text) = turn.recv().await.unwrap() {
                    return text;
                }
            }
        };
        let text = tokio::time::timeout(Duration::from_secs(600), text).await;
        assert_eq!(text.as_deref(), Ok("Guten Tag, "), "{name}");
    }
}

/// Recorded streams with something in them changed: whatever it is, a turn has one end, its
/// calls come right before it, and no way of cutting it into pieces changes what comes out.
#[test]
fn changed_anyhow() {
    let all: Vec<Fixture> = Fixture::all()
        .into_iter()
        .filter(Fixture::is_stream)
        .collect();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), 0..5_u8, any::<u8>()), 1..6);
    let strategy = (
        0..all.len(),
        changes,
        prop::collection::vec(1..400_usize, 1..8),
    );
    let config = ProptestConfig {
        cases: test_sample::count("providers: changed answers", 500, 2_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest::test_runner::TestRunner::new(config)
        .run(&strategy, |(nth, changes, pieces)| {
            let mut bytes = all[nth].body.clone();
            for (at, what, byte) in changes {
                let at = at.index(bytes.len().max(1)).min(bytes.len());
                let to = (at + usize::from(byte)).min(bytes.len());
                match what {
                    0 if at < bytes.len() => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    2 => drop(bytes.drain(at..to)),
                    3 => {
                        let again = bytes[at..to].to_vec();
                        bytes.splice(at..at, again);
                    }
                    _ => bytes.splice(at..at, *b"\n\n").for_each(drop),
                }
            }
            let found = read_stream(all[nth].wire, &bytes, &[]);
            let is_end =
                |event: &ModelEvent| matches!(event, ModelEvent::End(_) | ModelEvent::Failed(_));
            prop_assert_eq!(found.iter().filter(|event| is_end(event)).count(), 1);
            prop_assert!(found.last().is_some_and(is_end));
            if let Some(first) = found
                .iter()
                .position(|event| matches!(event, ModelEvent::Call(_)))
            {
                let late = |event: &ModelEvent| {
                    matches!(
                        event,
                        ModelEvent::Call(_) | ModelEvent::Usage(_) | ModelEvent::End(_)
                    )
                };
                prop_assert!(found[first..].iter().all(late), "{:?}", found);
            }
            prop_assert_eq!(read_stream(all[nth].wire, &bytes, &pieces), found);
            Ok(())
        })
        .unwrap();
}
