//! The reason why a provider did not answer, in its words and in our kinds: the words are for
//! people, the kind decides whether a retry is worthwhile.
//!
//! Servers like to repeat a key. It is taken out before a text is cut: no rest of it stays.

use std::time::SystemTime;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::key::ProviderKey;
use crate::model::ModelError;
use crate::shortened::shortened;

/// Longer words of a provider are cut.
const MAX_CHARS: usize = 1_000;

/// Returns the error for an answer with a status other than success.
pub(super) fn refused(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    key: Option<&ProviderKey>,
) -> ModelError {
    let body = String::from_utf8_lossy(body);
    let error = serde_json::from_str::<Value>(&body).ok();
    let message = match &error {
        Some(error) => words(error.get("error").unwrap_or(error)),
        None => plain(&body, key),
    };
    // Not even a later request is paid for.
    let is_used_up = error
        .as_ref()
        .is_some_and(|error| error.pointer("/error/code") == Some(&"insufficient_quota".into()));
    match status {
        401 | 403 if key.is_some() => ModelError::Credentials(format!(
            "the provider refused the key ({status}): {message}"
        )),
        401 | 403 => {
            ModelError::Credentials(format!("the provider wants a key ({status}): {message}"))
        }
        300..=399 => ModelError::Rejected {
            status: Some(status),
            message: "it sends us elsewhere, where we do not go with a key; is the base URL right?"
                .to_owned(),
        },
        429 if is_used_up => ModelError::Rejected {
            status: Some(status),
            message,
        },
        408 | 429 | 500..=599 => ModelError::Busy {
            status: Some(status),
            message,
            retry_after_ms: retry_after_ms(headers, SystemTime::now()),
        },
        _ => ModelError::Rejected {
            status: Some(status),
            message,
        },
    }
}

/// An error in the middle of an answer. The request was taken before, so that most of these are
/// the provider's own trouble and pass.
pub(super) fn in_stream(error: &Value) -> ModelError {
    let message = words(error);
    let kind = |field| error.get(field).and_then(Value::as_str).unwrap_or("");
    let kinds = [kind("type"), kind("code")];
    let is = |names: &[&str]| kinds.iter().any(|kind| names.contains(kind));
    let status = error
        .get("code")
        .and_then(Value::as_u64)
        .and_then(|status| u16::try_from(status).ok())
        .filter(|status| (400..600).contains(status));
    if is(&[
        "authentication_error",
        "permission_error",
        "invalid_api_key",
    ]) || matches!(status, Some(401 | 403))
    {
        return ModelError::Credentials(format!("the provider refused the key: {message}"));
    }
    let is_ours = is(&[
        "invalid_request_error",
        "invalid_prompt",
        "not_found_error",
        "request_too_large",
        "billing_error",
        "context_length_exceeded",
        "insufficient_quota",
        "BadRequestError",
    ]);
    let is_ours = is_ours || status.is_some_and(|status| !matches!(status, 408 | 429 | 500..));
    match is_ours {
        true => ModelError::Rejected { status, message },
        false => ModelError::Busy {
            status,
            message,
            retry_after_ms: None,
        },
    }
}

/// Returns the error for an answer of an unexpected type.
pub(super) fn other_type(content_type: &str, body: &[u8], key: Option<&ProviderKey>) -> ModelError {
    let seen = plain(&String::from_utf8_lossy(body), key);
    ModelError::Malformed(format!(
        "it is {}; is the base URL right? It begins: {seen}",
        shortened(&hidden(content_type, key), 100)
    ))
}

/// Returns the message of an error, at any length. Servers differ in its field.
fn words(error: &Value) -> String {
    let text = match error {
        Value::String(text) => Some(text.as_str()),
        _ => ["message", "error", "detail", "type", "code"]
            .iter()
            .find_map(|field| error.get(field).and_then(Value::as_str)),
    };
    match text.map(str::trim) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ if error.is_null() => "it gives no reason".to_owned(),
        _ => error.to_string(),
    }
}

/// The beginning of a text that is not of the protocol: a page of a proxy, say.
fn plain(body: &str, key: Option<&ProviderKey>) -> String {
    let line = body.lines().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(
        || "it gives no reason".to_owned(),
        |line| shortened(&hidden(line, key), 200),
    )
}

fn hidden(text: &str, key: Option<&ProviderKey>) -> String {
    key.map_or_else(|| text.to_owned(), |key| key.hide(text))
}

/// An error as it may be shown: without the key, and then no longer than people read.
pub(super) fn sanitized(error: ModelError, key: Option<&ProviderKey>) -> ModelError {
    let fit = |text: String| shortened(&hidden(&text, key), MAX_CHARS);
    match error {
        ModelError::Expectation(text) => ModelError::Expectation(fit(text)),
        ModelError::Playbook(text) => ModelError::Playbook(fit(text)),
        ModelError::Cut => ModelError::Cut,
        ModelError::Credentials(text) => ModelError::Credentials(fit(text)),
        ModelError::Rejected { status, message } => ModelError::Rejected {
            status,
            message: fit(message),
        },
        ModelError::Busy {
            status,
            message,
            retry_after_ms,
        } => ModelError::Busy {
            status,
            message: fit(message),
            retry_after_ms,
        },
        ModelError::Unreachable(text) => ModelError::Unreachable(fit(text)),
        ModelError::NoConnection(text) => ModelError::NoConnection(fit(text)),
        ModelError::Malformed(text) => ModelError::Malformed(fit(text)),
    }
}

/// Returns the requested pause: milliseconds as some servers send it, seconds, or a date.
fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|ms| number(ms, 1.0)) {
        return Some(ms);
    }
    let after = text(RETRY_AFTER.as_str())?;
    if let Some(ms) = number(after, 1_000.0) {
        return Some(ms);
    }
    let until = httpdate::parse_http_date(after).ok()?;
    let wait = until.duration_since(now).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

fn number(text: &str, times: f64) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    let is_time = number.is_finite() && number >= 0.0;
    // A cast of floats stays in bounds.
    is_time.then_some((number * times).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn when_to_come_again() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let rows = [
            ("retry-after", "7", Some(7_000)),
            ("retry-after", " 1.5 ", Some(1_500)),
            ("retry-after", "0", Some(0)),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
            (
                "retry-after",
                "Sunday, 06-Nov-94 08:49:47 GMT",
                Some(10_000),
            ),
            // Gone by.
            ("retry-after", "Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("retry-after", "soon", None),
            ("retry-after", "-3", None),
            ("retry-after", "inf", None),
            ("retry-after", "1e300", Some(u64::MAX)),
        ];
        for (name, value, ms) in rows {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(retry_after_ms(&headers, now), ms, "{name}: {value}");
        }
        assert_eq!(retry_after_ms(&HeaderMap::new(), now), None);
    }
}
