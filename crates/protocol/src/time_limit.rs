//! How long a job may run, as batch users write it: Slurm's forms, and numbers with a unit.

use std::time::Duration;

/// Forms that can be read, for the line about what cannot.
pub const EXPECTED: &str =
    "a time above 0 such as 90s, 10m, 2h, 1d, or minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS";

/// Between TERM and KILL at a limit, where the user has not said it (`--kill-after`). A script gets TERM when
/// half of it has passed since its steps got it.
pub const GRACE_MS: u64 = 10_000;

/// Seconds of a year: a limit is no longer.
const SECONDS_MAX: u64 = 366 * DAY;
const DAY: u64 = 24 * 3600;

/// Reads a limit; `None`: it is none.
pub fn parse(text: &str) -> Option<Duration> {
    let seconds = match (text.split_once('-'), text.contains(':')) {
        (Some((days, rest)), _) => number(days)?.checked_mul(DAY)?.checked_add(clock(rest, 3600)?)?,
        // Two fields are minutes and seconds, three begin with hours.
        (None, true) if text.matches(':').count() == 1 => clock(text, 60)?,
        (None, true) => clock(text, 3600)?,
        (None, false) if text.ends_with(|c: char| c.is_ascii_digit()) => number(text)?.checked_mul(60)?,
        (None, false) => with_units(text)?,
    };
    (1..=SECONDS_MAX).contains(&seconds).then(|| Duration::from_secs(seconds))
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Fields with colons between them; a unit of the first one has so many seconds, of each other one a sixtieth
/// of that before it.
fn clock(text: &str, first: u64) -> Option<u64> {
    let mut unit = first;
    text.split(':').try_fold(0_u64, |sum, field| {
        let seconds = number(field)?.checked_mul(unit).filter(|_| unit > 0)?;
        unit /= 60;
        sum.checked_add(seconds)
    })
}

/// `90s`, `1h30m`.
fn with_units(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let unit = match rest.as_bytes()[digits] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => DAY,
            _ => return None,
        };
        sum = sum.checked_add(number(&rest[..digits]).filter(|_| digits > 0)?.checked_mul(unit)?)?;
        rest = &rest[digits + 1..];
    }
    Some(sum)
}

/// A limit in ms for people.
pub fn text_ms(limit_ms: u64) -> String {
    text(Duration::from_millis(limit_ms))
}

/// A limit for people: `1-02:03:04`, `2:03:04`, `3:04`.
pub fn text(limit: Duration) -> String {
    let seconds = limit.as_millis().div_ceil(1000) as u64;
    let (days, hours, minutes, seconds) =
        (seconds / DAY, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limit_is_read_in_slurms_forms_and_with_units() {
        for (text, seconds) in [
            ("10", 600),
            ("1:30", 90),
            ("90:00", 5400),
            ("1:02:03", 3723),
            ("2-3", 2 * DAY + 3 * 3600),
            ("1-02:03", DAY + 7380),
            ("1-02:03:04", DAY + 7384),
            ("90s", 90),
            ("10m", 600),
            ("2h", 7200),
            ("1d", DAY),
            ("1h30m", 5400),
        ] {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "0",
            "0s",
            "-1",
            "1-",
            "-",
            ":",
            "1:",
            ":1",
            "1:2:3:4",
            "1-2:3:4:5",
            "ten",
            "10 m",
            "10x",
            "s",
            "1.5h",
            "+5",
            "999999999999999999999",
            "99999999999d",
            "400-0",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn time_limit_is_shown_as_slurm_does() {
        let shown = |seconds| text(Duration::from_secs(seconds));
        assert_eq!([shown(90), shown(3723), shown(DAY + 7384)], ["1:30", "1:02:03", "1-02:03:04"]);
    }
}
