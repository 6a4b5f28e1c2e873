//! Times as people read them.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment of this machine's time zone, to the second.
pub fn instant(ms: u64) -> String {
    let moment = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let zone = jiff::tz::TimeZone::system();
    moment.map_or_else(
        || "-".into(),
        |moment| moment.to_zoned_datetime(zone).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

/// From a moment to another, or to now: minutes and seconds, with hours where there are any.
pub fn elapsed(since_ms: u64, until_ms: Option<u64>) -> String {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let seconds = until_ms.unwrap_or(now_ms).saturating_sub(since_ms) / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}
