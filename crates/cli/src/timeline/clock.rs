//! Times of day for the axis and the tables: in the time zone of the machine that draws, with its offset when
//! the span begins.
//!
//! The page's script writes the same labels at the same steps: it is given [`STEPS_US`] and local times.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use super::log::Span;

const MINUTE_US: u64 = 60_000_000;
const HOUR_US: u64 = 60 * MINUTE_US;
const DAY_US: u64 = 24 * HOUR_US;
/// Ticks of an axis, at most: labels with microseconds do not touch each other.
const TICKS: u64 = 9;

/// Distances between ticks. Ticks are at their multiples since local midnight.
pub const STEPS_US: [u64; 41] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    15_000_000,
    30_000_000,
    MINUTE_US,
    2 * MINUTE_US,
    5 * MINUTE_US,
    10 * MINUTE_US,
    15 * MINUTE_US,
    30 * MINUTE_US,
    HOUR_US,
    2 * HOUR_US,
    3 * HOUR_US,
    6 * HOUR_US,
    12 * HOUR_US,
    DAY_US,
    2 * DAY_US,
    5 * DAY_US,
    10 * DAY_US,
    30 * DAY_US,
    100 * DAY_US,
];

/// The wall clock of a picture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    offset_s: i32,
}

impl Clock {
    /// The clock of this machine's time zone, with the offset that holds at this moment (in us since 1970).
    pub fn of_system(us: u64) -> Self {
        let offset = timestamp(us).map(|at| TimeZone::system().to_offset(at).seconds());
        Clock { offset_s: offset.unwrap_or(0) }
    }

    /// Date and time of day to the second.
    pub fn date(self, us: u64) -> String {
        self.format(us, "%Y-%m-%d %H:%M:%S")
    }

    /// Date and time of day to the millisecond where days matter, else the time alone.
    pub fn moment(self, us: u64, span: Span) -> String {
        let is_one_day = self.local_us(span.0) / DAY_US == self.local_us(span.1) / DAY_US;
        self.format(us, if is_one_day { "%H:%M:%S%.3f" } else { "%m-%d %H:%M:%S%.3f" })
    }

    /// The offset, as UTC+01:00.
    pub fn zone(self) -> String {
        let (sign, minutes) = (if self.offset_s < 0 { '-' } else { '+' }, self.offset_s.unsigned_abs() / 60);
        if minutes == 0 { "UTC".into() } else { format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60) }
    }

    /// Microseconds since 1970 as if the local time were UTC.
    pub fn local_us(self, us: u64) -> u64 {
        us.saturating_add_signed(i64::from(self.offset_s) * 1_000_000)
    }

    /// The moments of a span to be marked, with their labels.
    pub fn ticks(self, (from, to): Span) -> Vec<(u64, String)> {
        let length = to.saturating_sub(from).max(1);
        let step = STEPS_US.into_iter().find(|step| length / step <= TICKS).unwrap_or(length);
        let (local, ahead) = (self.local_us(from), self.local_us(from) as i64 - from as i64);
        let moments = (local.div_ceil(step)..=self.local_us(to) / step).map(|number| number * step);
        moments.map(|local| (local.saturating_add_signed(-ahead), label(local, step))).collect()
    }

    fn format(self, us: u64, pattern: &str) -> String {
        let offset = Offset::from_seconds(self.offset_s).unwrap_or(Offset::UTC);
        match timestamp(us) {
            Some(at) => at.to_zoned_datetime(TimeZone::fixed(offset)).strftime(pattern).to_string(),
            None => "?".into(),
        }
    }
}

fn timestamp(us: u64) -> Option<Timestamp> {
    Timestamp::from_microsecond(i64::try_from(us).ok()?).ok()
}

/// A time of day with the digits that a step needs; at midnight the date. `local_us` is a multiple of the
/// step.
fn label(local_us: u64, step_us: u64) -> String {
    let of_day = local_us % DAY_US;
    if of_day == 0 && step_us >= MINUTE_US {
        return Clock::default().format(local_us, "%m-%d");
    }
    let seconds = of_day / 1_000_000;
    let mut text = format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    if step_us < MINUTE_US {
        text.push_str(&format!(":{:02}", seconds % 60));
    }
    if step_us < 1_000_000 {
        let places = (1_u64..=6).find(|places| step_us.is_multiple_of(10_u64.pow(6 - *places as u32)));
        let micros = format!("{:06}", of_day % 1_000_000);
        text.push_str(&format!(".{}", &micros[..places.unwrap_or(6) as usize]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeline_dates_match_the_calendar() {
        let utc = Clock::default();
        assert_eq!(utc.date(0), "1970-01-01 00:00:00");
        assert_eq!(utc.date(951_782_400_000_000), "2000-02-29 00:00:00");
        assert_eq!(utc.date(1_795_327_262_000_000), "2026-11-22 06:01:02");
        assert_eq!(utc.zone(), "UTC");
        let india = Clock { offset_s: 19_800 };
        assert_eq!((india.date(0), india.zone()), ("1970-01-01 05:30:00".into(), "UTC+05:30".into()));
        assert_eq!(Clock { offset_s: -12_600 }.zone(), "UTC-03:30");
    }

    #[test]
    fn timeline_ticks_are_round_local_times() {
        let noon = 1_795_348_800_000_000;
        let labels = |clock: Clock, length: u64| -> Vec<String> {
            clock.ticks((noon + 1, noon + length)).into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(Clock::default(), 3_000_000)[..2], ["12:00:00.5", "12:00:01.0"]);
        assert_eq!(labels(Clock::default(), 100)[..2], ["12:00:00.00001", "12:00:00.00002"]);
        assert_eq!(labels(Clock::default(), 25 * MINUTE_US)[..2], ["12:05", "12:10"]);
        let half_past = Clock { offset_s: 1_800 };
        assert_eq!(labels(half_past, 4 * HOUR_US)[..2], ["13:00", "13:30"]);
        assert_eq!(half_past.ticks((noon + 1, noon + 4 * HOUR_US))[0].0, noon + 30 * MINUTE_US);
        assert!(labels(Clock::default(), 30 * HOUR_US).contains(&"11-23".to_owned()));
        for length in [5, 1_000, 123_456, 7_654_321, 100 * HOUR_US] {
            let ticks = Clock::default().ticks((noon, noon + length));
            assert!((2..=TICKS as usize + 1).contains(&ticks.len()), "{length}: {ticks:?}");
        }
    }
}
