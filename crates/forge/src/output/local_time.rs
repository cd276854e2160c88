//! Times for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Local};

/// The last second of the year 9999: an edited record may say any time.
const LATEST: Duration = Duration::from_secs(253_402_300_799);

/// Returns the time of a record, at the latest the last one of the format.
pub(crate) fn recorded_time(since_epoch: Duration) -> SystemTime {
    UNIX_EPOCH + since_epoch.min(LATEST)
}

/// Returns a time in the person's time zone, with its distance from UTC.
pub(crate) fn local_time(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = DateTime::<Local>::from(recorded_time(since));
    at.format("%Y-%m-%d %H:%M:%S %:z").to_string()
}
