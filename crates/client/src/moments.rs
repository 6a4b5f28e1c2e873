//! Times as people read them.

use std::time::{SystemTime, UNIX_EPOCH};

use tutti_protocol::time_limit;

/// A moment of this machine's time zone, to the second.
pub fn instant(ms: u64) -> String {
    let moment = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let zone = jiff::tz::TimeZone::system();
    moment.map_or_else(
        || "-".into(),
        |moment| moment.to_zoned_datetime(zone).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

/// Forms that [`parse`] reads, for the line about what cannot.
pub const EXPECTED: &str = "a moment such as 2026-11-28, \"2026-11-28 14:30\", or how long ago: 90m, 12h, 7d";

/// A moment that a user has written, in ms since 1970: how long before `now_ms`, or a date of this machine's
/// time zone.
pub fn parse(text: &str, now_ms: u64) -> Option<u64> {
    if let Some(moment) = date(text, &jiff::tz::TimeZone::system()) {
        return u64::try_from(moment.as_millisecond()).ok();
    }
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    let ago = tutti_protocol::time_limit::parse(text).filter(|_| has_unit)?;
    Some(now_ms.saturating_sub(ago.as_millis() as u64))
}

/// A date: of its own zone if it names one (`+05:00`, `Z`, `[Europe/Berlin]`), else of the given one.
fn date(text: &str, zone: &jiff::tz::TimeZone) -> Option<jiff::Timestamp> {
    if let Ok(moment) = text.parse::<jiff::ZonedDateTime>() {
        return Some(moment.timestamp());
    }
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Some(moment);
    }
    // Where a zone is named that nobody knows it is no date at all.
    let names_zone = text.contains(['+', '[']) || text.matches('-').count() > 2;
    let moment: jiff::civil::DateTime = text.parse().ok().filter(|_| !names_zone)?;
    zone.to_ambiguous_timestamp(moment).compatible().ok()
}

/// Refuses a span that ends before it begins: nothing can be in it.
///
/// # Errors
/// A text for the user.
pub fn check_order(since_ms: Option<u64>, until_ms: Option<u64>) -> Result<(), String> {
    match (since_ms, until_ms) {
        (Some(since_ms), Some(until_ms)) if since_ms > until_ms => {
            Err(format!("--until {} is before --since {}", instant(until_ms), instant(since_ms)))
        }
        _ => Ok(()),
    }
}

/// Forms that [`moment`] reads, for the line about what cannot be read.
pub const BEGIN_EXPECTED: &str = "a time such as +2h, 17:30, 2026-12-24 or 2026-12-24T17:30";

/// Reads a time, in ms since 1970: from now on (`+2h`, `now+30m`, `now`), of this day or the next (`17:30`),
/// or a date with or without a time of this machine's zone. None: it is none.
pub fn moment(text: &str) -> Option<u64> {
    moment_from(text, &jiff::ZonedDateTime::now())
}

fn moment_from(text: &str, now: &jiff::ZonedDateTime) -> Option<u64> {
    let now_ms = u64::try_from(now.timestamp().as_millisecond()).ok()?;
    if text == "now" {
        return Some(now_ms);
    }
    if let Some(after) = text.strip_prefix("now").unwrap_or(text).strip_prefix('+') {
        return now_ms.checked_add(u64::try_from(time_limit::parse(after)?.as_millis()).ok()?);
    }
    let zone = || now.time_zone().clone();
    let found = if text.contains('-') {
        date(text, now.time_zone())?.to_zoned_datetime(zone())
    } else {
        let is_plain = text.contains(':') && text.chars().all(|c| c.is_ascii_digit() || ":.".contains(c));
        let time = is_plain.then(|| text.parse::<jiff::civil::Time>().ok())??;
        let today = now.date().to_datetime(time).to_zoned_datetime(zone()).ok()?;
        let tomorrow = || now.date().tomorrow().ok()?.to_datetime(time).to_zoned_datetime(zone()).ok();
        if today < *now { tomorrow()? } else { today }
    };
    u64::try_from(found.timestamp().as_millisecond()).ok()
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
    fn span_that_ends_before_it_begins_is_refused() {
        let refused = check_order(Some(2000), Some(1000)).unwrap_err();
        assert!(refused.starts_with("--until ") && refused.contains(" is before --since "), "{refused}");
        for (since_ms, until_ms) in [(None, None), (Some(2), None), (None, Some(2)), (Some(2), Some(2))] {
            assert_eq!(check_order(since_ms, until_ms), Ok(()));
        }
    }

    #[test]
    fn moment_is_a_date_or_how_long_ago() {
        assert_eq!(parse("2h", 10_000_000), Some(2_800_000));
        assert_eq!(parse("7d", 0), Some(0));
        let day = parse("2026-11-28", 0).expect("a date");
        assert_eq!(parse("2026-11-28 01:30", 0), Some(day + 90 * 60 * 1000));
        assert_eq!(parse("2026-11-28T01:30:05", 0), Some(day + 90 * 60 * 1000 + 5000));
        assert_eq!(parse("2026-12-24T17:30+05:00", 0), Some(1_798_115_400_000));
        assert_eq!(parse("2026-12-24 12:30Z", 0), Some(1_798_115_400_000));
        for wrong in ["", "yesterday", "90", "2026-13-01", "-1h", "1e9d", "2026-12-24T17:30[Nowhere/No]"] {
            assert_eq!(parse(wrong, 0), None, "{wrong}");
        }
    }

    #[test]
    fn moments_are_from_now_on_of_the_day_or_of_a_date() {
        let now: jiff::ZonedDateTime = "2026-11-28T23:00:00+00:00[UTC]".parse().expect("a time");
        let of = |text: &str| {
            let ms = moment_from(text, &now)?;
            Some(jiff::Timestamp::from_millisecond(ms as i64).expect("a time").to_string())
        };
        for (text, expected) in [
            ("now", "2026-11-28T23:00:00Z"),
            ("+2h", "2026-11-29T01:00:00Z"),
            ("now+90s", "2026-11-28T23:01:30Z"),
            ("23:30", "2026-11-28T23:30:00Z"),
            ("07:15", "2026-11-29T07:15:00Z"),
            ("07:15:30", "2026-11-29T07:15:30Z"),
            ("2026-12-24", "2026-12-24T00:00:00Z"),
            ("2026-12-24T17:30", "2026-12-24T17:30:00Z"),
            ("2026-12-24T17:30+05:00", "2026-12-24T12:30:00Z"),
            ("2026-12-24T17:30-0230", "2026-12-24T20:00:00Z"),
            ("2026-12-24T17:30Z", "2026-12-24T17:30:00Z"),
        ] {
            assert_eq!(of(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["", "+", "soon", "25:00", "2026-13-01", "+-3m", "12", "17:30+05:00"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
