//! Any bytes as the answer of a provider, on each wire, in a stream and in one piece: it ends once,
//! and no call is handed on before the provider said that the turn is over. The last two bytes say
//! into what pieces a stream is cut, and how it is cut changes nothing of what is read.
#![no_main]

use forge_runtime::{ModelEvent, Wire, read_stream, read_whole};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Recorded answers, with which this begins, have a head.
    let head = bytes.windows(2).position(|pair| pair == b"\n\n");
    let body = match head {
        Some(end) if bytes.starts_with(b"HTTP/1.1 ") => &bytes[end + 2..],
        Some(_) | None => bytes,
    };
    let Some((_, pieces)) = body.split_last_chunk::<2>() else {
        return;
    };
    let pieces = pieces.map(usize::from);
    for wire in [Wire::Anthropic, Wire::OpenAiChat, Wire::OpenAiResponses] {
        let whole = read_stream(wire, body, &[]);
        ends_once(&whole);
        assert_eq!(read_stream(wire, body, &pieces), whole);
        ends_once(&read_whole(wire, body));
    }
});

fn ends_once(events: &[ModelEvent]) {
    let (last, before) = events.split_last().expect("an end");
    let before_the_end = |event: &ModelEvent| match event {
        ModelEvent::Text(_)
        | ModelEvent::Thinking(_)
        | ModelEvent::Call(_)
        | ModelEvent::Heartbeat
        | ModelEvent::Usage(_) => true,
        ModelEvent::Retry(_) | ModelEvent::End(_) | ModelEvent::Failed(_) => false,
    };
    assert!(before.iter().all(before_the_end), "{events:?}");
    match last {
        ModelEvent::End(_) => {}
        ModelEvent::Failed(error) => {
            assert!(!error.to_string().is_empty());
            let calls = |event: &ModelEvent| matches!(event, ModelEvent::Call(_));
            assert!(!before.iter().any(calls), "{events:?}");
        }
        ModelEvent::Text(_)
        | ModelEvent::Thinking(_)
        | ModelEvent::Call(_)
        | ModelEvent::Heartbeat
        | ModelEvent::Retry(_)
        | ModelEvent::Usage(_) => panic!("{last:?} does not end an answer"),
    }
}
