//! Moments as Slurm's commands take them: `now+2hours`, `17:30`, `tomorrow`, `2026-12-24T17:30`. Called by
//! `sbatch --begin`, where a time of the day is the next one, and by `sacct`, where it is that of today.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, ZonedDateTime};

use crate::query;

/// Day that a time of the day belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Day {
    /// The current day.
    Today,
    /// The current day, or the next if the time has passed.
    Next,
}

/// Dates; those without a year are of this year.
const DATES: [&str; 7] = ["%Y-%m-%d", "%m/%d/%y", "%m/%d", "%m.%d.%y", "%m.%d", "%m%d%y", "%m%d"];
/// Times of a day, with or without seconds and half of the day.
const TIMES: [&str; 6] = ["%H:%M:%S", "%H:%M", "%I:%M:%S%p", "%I:%M%p", "%I:%M:%S %p", "%I:%M %p"];

/// Reads a moment of this machine's zone, in ms since 1970.
///
/// # Errors
/// With the text for the user.
pub fn moment(text: &str, day: Day) -> Result<u64, String> {
    let now = Timestamp::from_millisecond(query::now_ms() as i64)
        .map_err(|error| format!("cannot tell the time: {error}"))?
        .to_zoned_datetime(TimeZone::system());
    moment_at(text, day, &now).ok_or_else(|| format!("Invalid time specification: {text}"))
}

fn moment_at(text: &str, day: Day, now: &ZonedDateTime) -> Option<u64> {
    let ms = |moment: &ZonedDateTime| u64::try_from(moment.timestamp().as_millisecond()).ok();
    if let Some(distance) = text.strip_prefix("now") {
        return from_now(distance, ms(now)?);
    }
    let zoned = |time: DateTime| time.to_zoned_datetime(now.time_zone().clone()).ok();
    let today = now.date();
    let date_alone = match text {
        "today" => Some(today),
        "tomorrow" => Some(today.checked_add(1.day()).ok()?),
        _ => DATES.iter().find_map(|form| date(form, text, today)),
    };
    if let Some(date) = date_alone {
        return ms(&zoned(date.to_datetime(Time::midnight()))?);
    }
    let time_alone = match text {
        "midnight" => Some(Time::midnight()),
        "noon" => Some(Time::constant(12, 0, 0, 0)),
        "fika" => Some(Time::constant(15, 0, 0, 0)),
        "teatime" => Some(Time::constant(16, 0, 0, 0)),
        _ => TIMES.iter().find_map(|form| Time::strptime(form, text).ok()),
    };
    if let Some(time) = time_alone {
        let of_today = zoned(today.to_datetime(time))?;
        let is_past = day == Day::Next && of_today <= *now;
        return ms(&if is_past { of_today.checked_add(1.day()).ok()? } else { of_today });
    }
    ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%m/%d/%y-%H:%M:%S", "%m/%d/%y-%H:%M"]
        .iter()
        .find_map(|form| DateTime::strptime(form, text).ok())
        .and_then(zoned)
        .and_then(|moment| ms(&moment))
}

/// A date; one without a year is of this year.
fn date(form: &str, text: &str, today: Date) -> Option<Date> {
    if form.contains("%y") || form.contains("%Y") {
        return Date::strptime(form, text).ok();
    }
    Date::strptime(format!("%Y {form}"), format!("{} {text}", today.year())).ok()
}

/// `+2hours`, `-30` (seconds), or nothing, behind `now`.
fn from_now(distance: &str, now_ms: u64) -> Option<u64> {
    if distance.is_empty() {
        return Some(now_ms);
    }
    let count = distance.strip_prefix(['+', '-'])?;
    let split = count.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(count.len());
    let seconds = match &count[split..] {
        "" | "second" | "seconds" => 1,
        "minute" | "minutes" => 60,
        "hour" | "hours" => 3600,
        "day" | "days" => 86_400,
        "week" | "weeks" => 604_800,
        _ => return None,
    };
    let distance_ms = count[..split].parse::<u64>().ok()?.checked_mul(seconds * 1000)?;
    if distance.starts_with('-') {
        Some(now_ms.saturating_sub(distance_ms))
    } else {
        now_ms.checked_add(distance_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half past three in the afternoon of a Saturday, in a zone without summer time.
    fn now() -> ZonedDateTime {
        let time = jiff::civil::date(2026, 11, 28).at(15, 30, 0, 0);
        time.to_zoned_datetime(TimeZone::fixed(jiff::tz::offset(1))).expect("a moment")
    }

    fn hours_from_now(text: &str, day: Day) -> Option<f64> {
        let now_ms = now().timestamp().as_millisecond();
        Some((moment_at(text, day, &now())? as i64 - now_ms) as f64 / 3_600_000.0)
    }

    #[test]
    fn moments_have_the_forms_of_slurm() {
        for (text, hours) in [
            ("now", 0.0),
            ("now+2hours", 2.0),
            ("now+90minutes", 1.5),
            ("now+3600", 1.0),
            ("now+1week", 168.0),
            ("now-1day", -24.0),
            ("16:00", 0.5),
            ("16:30:00", 1.0),
            ("teatime", 0.5),
            ("tomorrow", 8.5),
            ("2026-11-29", 8.5),
            ("11/29/26", 8.5),
            ("11/29", 8.5),
            ("112926", 8.5),
            ("1129", 8.5),
            ("11.29.26", 8.5),
            ("11.29", 8.5),
            ("4:30pm", 1.0),
            ("04:30:00 PM", 1.0),
            ("2026-11-28T16:30", 1.0),
            ("2026-11-28T16:30:00", 1.0),
            ("11/28/26-16:30", 1.0),
        ] {
            assert_eq!(hours_from_now(text, Day::Next), Some(hours), "{text}");
        }
    }

    #[test]
    fn moments_of_a_day_that_have_passed_are_of_the_next_day_where_a_job_begins() {
        assert_eq!(hours_from_now("noon", Day::Today), Some(-3.5));
        assert_eq!(hours_from_now("noon", Day::Next), Some(20.5));
        assert_eq!(hours_from_now("midnight", Day::Next), Some(8.5));
    }

    #[test]
    fn moments_that_are_none_are_refused() {
        for text in [
            "",
            "soon",
            "now+",
            "20261129",
            "3pm",
            "13:15pm",
            "now+2fortnights",
            "25:00",
            "2026-13-01",
            "now+99999999999999999999",
        ] {
            assert_eq!(moment_at(text, Day::Next, &now()), None, "{text}");
        }
    }
}
