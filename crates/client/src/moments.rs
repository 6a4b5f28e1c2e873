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

/// What [`parse`] can read, for the line about what cannot.
pub const EXPECTED: &str = "a moment such as 2026-11-28, \"2026-11-28 14:30\", or how long ago: 90m, 12h, 7d";

/// A moment that a user has written, in ms since 1970: how long before `now_ms`, or a date of this machine's
/// time zone.
pub fn parse(text: &str, now_ms: u64) -> Option<u64> {
    if let Ok(moment) = text.parse::<jiff::civil::DateTime>() {
        let zone = jiff::tz::TimeZone::system();
        let moment = zone.to_ambiguous_timestamp(moment).compatible().ok()?;
        return u64::try_from(moment.as_millisecond()).ok();
    }
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    let ago = tutti_protocol::time_limit::parse(text).filter(|_| has_unit)?;
    Some(now_ms.saturating_sub(ago.as_millis() as u64))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moment_is_a_date_or_how_long_ago() {
        assert_eq!(parse("2h", 10_000_000), Some(2_800_000));
        assert_eq!(parse("7d", 0), Some(0));
        let day = parse("2026-11-28", 0).expect("a date");
        assert_eq!(parse("2026-11-28 01:30", 0), Some(day + 90 * 60 * 1000));
        assert_eq!(parse("2026-11-28T01:30:05", 0), Some(day + 90 * 60 * 1000 + 5000));
        for wrong in ["", "yesterday", "90", "2026-13-01", "-1h", "1e9d"] {
            assert_eq!(parse(wrong, 0), None, "{wrong}");
        }
    }
}
