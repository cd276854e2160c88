//! `--since`: a while ago (`90s`, `15m`, `2h`, `3d`), or a day or moment (UTC).

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{Datelike, NaiveDate, NaiveDateTime, Timelike};

use crate::exit::CliError;

/// Milliseconds since 1970.
pub(super) fn parse(text: &str) -> Result<u64, CliError> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let seconds = ago(text)
        .map(|seconds| now.saturating_sub(seconds))
        .or_else(|| moment(text));
    match seconds {
        Some(seconds) => Ok(seconds.saturating_mul(1000)),
        None => Err(CliError::usage(format!(
            "invalid time `{}`",
            forge_tools::escape_controls(text)
        ))
        .hint("2h, 15m, 3d, 2026-11-21 or 2026-11-21T18:40:05Z")),
    }
}

fn ago(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let each = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let number = text
        .strip_suffix(unit)
        .filter(|text| !text.starts_with('+'))?;
    number.parse::<u64>().ok()?.checked_mul(each)
}

fn moment(text: &str) -> Option<u64> {
    // chrono also takes signs and blanks.
    let is_plain = |byte: u8| byte.is_ascii_digit() || b"-:TZ".contains(&byte);
    if !text.bytes().all(is_plain) {
        return None;
    }
    let moment = match text.strip_suffix('Z') {
        Some(text) => NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok()?,
        None => NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.into(),
    };
    // chrono also takes leap seconds, and longer years.
    let is_usual = (0..=9999).contains(&moment.year()) && moment.nanosecond() < 1_000_000_000;
    u64::try_from(moment.and_utc().timestamp())
        .ok()
        .filter(|_| is_usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        for (text, seconds) in [
            ("1970-01-01", Some(0)),
            ("2000-02-29", Some(951_782_400)),
            ("2024-02-29T23:59:59Z", Some(1_709_251_199)),
            ("2024-03-01", Some(1_709_251_200)),
            ("2026-11-21T18:40:05Z", Some(1_795_286_405)),
            ("2023-02-29", None),
            ("2026-13-01", None),
            ("2026-00-01", None),
            ("2026-1", None),
            ("2026-11-21T18:40:05", None),
            ("2026-11-21T24:00:00Z", None),
            ("2026-11-21T23:59:60Z", None),
            ("12026-11-21", None),
            (" 2026-11-21", None),
            ("+2026-11-21", None),
            ("+970-01-01", None),
            ("", None),
        ] {
            assert_eq!(moment(text), seconds, "{text}");
        }
        for (text, seconds) in [
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("2h", Some(7200)),
            ("3d", Some(259_200)),
            ("h", None),
            ("-2h", None),
            ("2 h", None),
            ("99999999999999999999h", None),
            ("18446744073709551615h", None),
            ("2é", None),
        ] {
            assert_eq!(ago(text), seconds, "{text}");
        }
    }
}
