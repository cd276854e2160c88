//! A played turn as the bytes of an answer, with the scripted faults.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use forge_runtime::{ModelError, PlayedTurn, StreamScript, Wire};
use futures_util::{Stream, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame as BodyFrame;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::parsed_request::ParsedRequest;
use super::stream_event::StreamEvent;
use super::{anthropic, chat, responses};

/// A body, whole or in pieces, or cut.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, ConnectionCut>;

/// The connection ends here, in the middle of an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut, as the playbook says")]
pub(super) struct ConnectionCut;

/// The answer to try number `tries` (from 0) of a turn.
pub(super) fn answer(
    wire: Wire,
    parsed: &ParsedRequest,
    played: &PlayedTurn,
    id: &str,
    tries: u32,
) -> Response<ResponseBody> {
    let failing = played.fail.as_ref().map_or(0, |fail| fail.times);
    if let Some(fail) = &played.fail
        && tries < failing
    {
        let mut answer = refusal(wire, fail.status, &fail.message);
        if let Some(seconds) = fail.retry_after_s {
            answer
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        return answer;
    }
    let mut faults = played.stream.clone();
    if tries - failing >= faults.times {
        faults.cut_after = None;
        faults.malformed = None;
        faults.in_stream_error = None;
    }
    let played = played.clone().sealed(wire);
    if parsed.stream {
        streamed(wire, parsed, &played, id, &faults)
    } else {
        in_one_piece(wire, parsed, &played, id, &faults)
    }
}

/// The vendor's way to say no.
pub(super) fn refusal(wire: Wire, status: u16, message: &str) -> Response<ResponseBody> {
    let data = match wire {
        Wire::Anthropic => anthropic::failure(status, message),
        Wire::OpenAiChat => chat::failure(status, message),
        Wire::OpenAiResponses => responses::failure(status, message),
    };
    let mut answer = json(Bytes::from(data.to_string()));
    *answer.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}

/// Returns the refusal for a turn that cannot be played. The loop gets the reason from the pending
/// turn.
pub(super) fn unplayable(wire: Wire, error: &ModelError) -> Response<ResponseBody> {
    refusal(wire, 400, &error.to_string())
}

fn streamed(
    wire: Wire,
    parsed: &ParsedRequest,
    played: &PlayedTurn,
    id: &str,
    faults: &StreamScript,
) -> Response<ResponseBody> {
    let model = &parsed.model;
    let mut frames = match wire {
        Wire::Anthropic => anthropic::stream(played, id, model),
        Wire::OpenAiChat => chat::stream(played, id, model, parsed.usage_in_stream),
        Wire::OpenAiResponses => responses::stream(played, id, model),
    };
    if let Some(message) = &faults.in_stream_error {
        frames.truncate(frames.len() / 2);
        frames.push(match wire {
            Wire::Anthropic => anthropic::failure_in_stream(message),
            Wire::OpenAiChat => chat::failure_in_stream(message),
            Wire::OpenAiResponses => responses::failure_in_stream(message),
        });
    }
    if let Some(frame) = faults
        .malformed
        .and_then(|nth| frames.get_mut(nth.saturating_sub(1)))
    {
        *frame = frame.garbled();
    }
    if let Some(events) = faults.cut_after {
        // The last one says that the turn is over.
        frames.truncate(events.min(frames.len() - 1));
    }
    let mut answer = Response::new(body(
        chunks(&frames, faults.chunk_bytes),
        faults.slow_ms,
        faults.cut_after.is_some(),
    ));
    answer.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    answer
}

fn in_one_piece(
    wire: Wire,
    parsed: &ParsedRequest,
    played: &PlayedTurn,
    id: &str,
    faults: &StreamScript,
) -> Response<ResponseBody> {
    if let Some(message) = &faults.in_stream_error {
        return refusal(wire, 503, message);
    }
    let model = &parsed.model;
    let data = match wire {
        Wire::Anthropic => anthropic::whole(played, id, model),
        Wire::OpenAiChat => chat::whole(played, id, model),
        Wire::OpenAiResponses => responses::whole(played, id, model),
    };
    let mut data = Bytes::from(data.to_string());
    if faults.malformed.is_some() || faults.cut_after.is_some() {
        data.truncate(data.len() / 2);
    }
    if faults.cut_after.is_none() && faults.slow_ms == 0 {
        return json(data);
    }
    let mut answer = json(Bytes::new());
    *answer.body_mut() = body(vec![data], faults.slow_ms, faults.cut_after.is_some());
    answer
}

fn json(data: Bytes) -> Response<ResponseBody> {
    let whole = Full::new(data).map_err(|never: Infallible| match never {});
    let mut answer = Response::new(whole.boxed_unsync());
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// An event each, or pieces of `length` bytes.
fn chunks(frames: &[StreamEvent], length: Option<usize>) -> Vec<Bytes> {
    let each = frames.iter().map(StreamEvent::bytes);
    let Some(length) = length else {
        return each.collect();
    };
    let mut all = BytesMut::new();
    each.for_each(|bytes| all.extend_from_slice(&bytes));
    let all = all.freeze();
    (0..all.len())
        .step_by(length.max(1))
        .map(|start| all.slice(start..all.len().min(start + length)))
        .collect()
}

fn body(chunks: Vec<Bytes>, slow_ms: u64, cut: bool) -> ResponseBody {
    StreamBody::new(paced(chunks, slow_ms, cut)).boxed_unsync()
}

fn paced(
    chunks: Vec<Bytes>,
    slow_ms: u64,
    cut: bool,
) -> impl Stream<Item = Result<BodyFrame<Bytes>, ConnectionCut>> {
    let steps = chunks
        .into_iter()
        .map(Ok)
        .chain(cut.then_some(Err(ConnectionCut)));
    stream::unfold(steps, move |mut steps| async move {
        let step = steps.next()?;
        if slow_ms > 0 {
            tokio::time::sleep(Duration::from_millis(slow_ms)).await;
        }
        Some((step.map(BodyFrame::data), steps))
    })
}
