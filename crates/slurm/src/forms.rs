//! Values as Slurm's users write them, and as its commands print them: times, memory, arrays, dependencies,
//! signals.

use std::collections::BTreeSet;

use rustix::process::Signal;
use tutti_protocol::array::ARRAY_TASKS_MAX;

use crate::note::Shape;

/// Elements of one array, at most, and the largest index; `scontrol show config` shows one more, as Slurm.
pub const ARRAY_SIZE_MAX: u32 = ARRAY_TASKS_MAX as u32;

/// A time limit in ms: `MIN`, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`. Without a limit (`0`,
/// `UNLIMITED`, `INFINITE`) it is `Some(None)`; none: it is no time.
#[must_use]
pub fn time_limit(text: &str) -> Option<Option<u64>> {
    if ["unlimited", "infinite", "-1", "0"].contains(&text.to_ascii_lowercase().as_str()) {
        return Some(None);
    }
    if !text.ends_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    tutti_protocol::time_limit::parse(text).map(|limit| Some(limit.as_millis() as u64))
}

/// Memory in bytes: M without a letter.
#[must_use]
pub fn memory(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let word = lower.strip_suffix('b').unwrap_or(&lower);
    let (number, shift) = match word.chars().last()? {
        'k' => (&word[..word.len() - 1], 10),
        'm' => (&word[..word.len() - 1], 20),
        'g' => (&word[..word.len() - 1], 30),
        't' => (&word[..word.len() - 1], 40),
        _ => (word, 20),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Elements of an array in order, and how many run at once: `0-5%2`, `0,4,7`, `0-11:3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// The elements.
    pub tasks: Vec<u32>,
    /// Number that runs at once; none: all.
    pub at_once: Option<u32>,
    /// The step of its first range.
    pub step: u32,
}

impl Array {
    /// Tasks of the array, as the daemon takes them.
    #[must_use]
    pub fn tasks(&self) -> tutti_protocol::array::Array {
        tutti_protocol::array::Array { tasks: self.tasks.clone(), at_once: self.at_once.unwrap_or(0) }
    }

    /// Shape of the array.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let (min, max) = (self.tasks.first(), self.tasks.last());
        Shape {
            count: self.tasks.len() as u32,
            min: min.copied().unwrap_or(0),
            max: max.copied().unwrap_or(0),
            step: self.step,
            at_once: self.at_once.unwrap_or(0),
        }
    }
}

/// Reads an array; none: it is none, or too large.
#[must_use]
pub fn array(text: &str) -> Option<Array> {
    let (list, at_once) = match text.split_once('%') {
        // `%0` is no limit, as in Slurm.
        Some((list, count)) => (list, Some(count.parse().ok()?).filter(|count| *count > 0)),
        None => (text, None),
    };
    let mut tasks = BTreeSet::new();
    let mut first_step = None;
    for word in list.split(',') {
        let (range, step) = match word.split_once(':') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)?),
            None => (word, 1),
        };
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        if to < from || to > ARRAY_SIZE_MAX {
            return None;
        }
        first_step.get_or_insert(step);
        tasks.extend((from..=to).step_by(step as usize));
    }
    let tasks: Vec<u32> = tasks.into_iter().collect();
    Some(Array { tasks, at_once, step: first_step? })
        .filter(|array| array.tasks.len() <= ARRAY_SIZE_MAX as usize)
}

/// Time of processors: `MM:SS.mmm`, and whole seconds from an hour on.
#[must_use]
pub fn cpu_time(us: u64) -> String {
    let seconds = us / 1_000_000;
    match seconds < 3600 {
        true => format!("{:02}:{:02}.{:03}", seconds / 60, seconds % 60, us / 1000 % 1000),
        false => long_time(seconds),
    }
}

/// Numbers in order as ranges, in brackets where there are several: `2-5,7`.
#[must_use]
pub fn tasks(numbers: &[u32]) -> String {
    let words = numbers.chunk_by(|one, next| one + 1 == *next).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    words.collect::<Vec<_>>().join(",")
}

/// Condition that a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The job has begun.
    Begun,
    /// The job is over.
    Over,
    /// The job has ended with status 0.
    Ok,
    /// The job has ended otherwise.
    NotOk,
}

/// Conditions of `--dependency`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependency {
    /// Jobs, as they were named.
    pub jobs: Vec<(Condition, String)>,
    /// Whether it waits for earlier jobs of the user with the same name.
    pub singleton: bool,
}

/// Reads `afterok:1:2,afterany:3`, `afterok:1,2`, `singleton`.
///
/// # Errors
/// A text with what is wrong.
pub fn dependency(text: &str) -> Result<Dependency, String> {
    let mut found = Dependency::default();
    if text.contains('?') {
        return Err("dependencies with ? (any of them) are not supported by Tutti: all must hold".into());
    }
    let mut condition = None;
    for word in text.split(',') {
        let mut words = word.split(':');
        let first = words.next().unwrap_or_default();
        match first {
            "singleton" => {
                found.singleton = true;
                continue;
            }
            "after" => condition = Some(Condition::Begun),
            "afterany" => condition = Some(Condition::Over),
            "afterok" => condition = Some(Condition::Ok),
            "afternotok" => condition = Some(Condition::NotOk),
            "aftercorr" | "expand" | "afterburstbuffer" => {
                return Err(format!("dependency {first} is not supported by Tutti"));
            }
            number if number.starts_with(|letter: char| letter.is_ascii_digit()) => words = word.split(':'),
            _ => return Err(format!("Job dependency problem: {word:?}")),
        }
        let condition = condition.ok_or_else(|| format!("Job dependency problem: {word:?}"))?;
        for job in words {
            // `+MINUTES` behind a job is a delay.
            if job.contains('+') || job_id(job).is_none() {
                return Err(format!("Job dependency problem: {job:?}"));
            }
            found.jobs.push((condition, job.to_owned()));
        }
    }
    Ok(found)
}

/// A job as users name it: `17`, `17_3`, `17_[2-5,7]`, `17.0`, `17.batch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedJob {
    /// The job, or the array.
    pub job: u64,
    /// Elements of the array; none: all.
    pub tasks: Option<Vec<u32>>,
    /// A step of it.
    pub step: Option<String>,
}

/// Reads the name of a job; none: it is none.
#[must_use]
pub fn job_id(text: &str) -> Option<NamedJob> {
    let (text, step) = match text.split_once('.') {
        Some((job, step)) => (job, Some(step.to_owned()).filter(|step| !step.is_empty())),
        None => (text, None),
    };
    let (job, list) = match text.split_once('_') {
        Some((job, list)) => (job, Some(list)),
        None => (text, None),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let job = Some(job).filter(|job| is_number(job))?.parse().ok()?;
    let tasks = match list {
        None | Some("*") => None,
        Some(list) => {
            let list = list.strip_prefix('[').map_or(Some(list), |list| list.strip_suffix(']'))?;
            Some(array(list)?.tasks)
        }
    };
    Some(NamedJob { job, tasks, step })
}

/// Names of several jobs, with commas between them outside of brackets.
///
/// # Errors
/// The word that is none.
pub fn job_ids(text: &str) -> Result<Vec<NamedJob>, String> {
    let mut depth = 0;
    let words = text.split(|letter| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        letter == ',' && depth == 0
    });
    words
        .filter(|word| !word.is_empty())
        .map(|word| job_id(word.trim()).ok_or_else(|| word.to_owned()))
        .collect()
}

/// Signal by its name, with or without SIG, or its number.
#[must_use]
pub fn signal(text: &str) -> Option<u32> {
    const NAMES: [(&str, Signal); 14] = [
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("QUIT", Signal::QUIT),
        ("ABRT", Signal::ABORT),
        ("KILL", Signal::KILL),
        ("ALRM", Signal::ALARM),
        ("TERM", Signal::TERM),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("URG", Signal::URG),
        ("CONT", Signal::CONT),
        ("STOP", Signal::STOP),
        ("TSTP", Signal::TSTP),
        ("XCPU", Signal::XCPU),
    ];
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| signal.as_raw() as u32);
    known.or_else(|| name.parse().ok()).filter(|number| (1..=64).contains(number))
}

/// A signal before a time limit: `USR2@90`, `B:INT@30`. Its number, the seconds before the limit (60 if none
/// are given), and whether the script alone gets it.
#[must_use]
pub fn warning(text: &str) -> Option<(u32, u64, bool)> {
    let (flags, rest) = text.split_once(':').unwrap_or(("", text));
    if !flags.bytes().all(|flag| b"BR".contains(&flag)) {
        return None;
    }
    let (name, seconds) = match rest.split_once('@') {
        Some((name, seconds)) => (name, seconds.parse().ok().filter(|seconds| *seconds <= 65_535)?),
        None => (rest, 60),
    };
    Some((signal(name)?, seconds, flags.contains('B')))
}

/// Elapsed time as `squeue` prints it: `0:05`, `1:02:03`, `2-00:00:00`.
#[must_use]
pub fn short_time(seconds: u64) -> String {
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{rest:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{rest:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// Elapsed time as `sacct` and `scontrol` print it: `00:00:05`, `2-00:00:00`.
#[must_use]
pub fn long_time(seconds: u64) -> String {
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:{rest:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// Form of the moment above a long list: `Mon Nov 30 18:09:35 2026`.
pub const ABOVE_LISTS: &str = "%a %b %e %H:%M:%S %Y";

/// A moment, in ms since 1970, as `SLURM_TIME_FORMAT` wants it; by default `2026-11-28T04:00:05`.
#[must_use]
pub fn moment(ms: u64, format: Option<&str>) -> String {
    let seconds = ms / 1000;
    if format == Some("%s") {
        return seconds.to_string();
    }
    let Ok(time) = jiff::Timestamp::from_second(seconds as i64) else { return "Unknown".into() };
    let local = time.to_zoned_datetime(jiff::tz::TimeZone::system());
    let pattern = match format {
        None | Some("" | "standard") => "%Y-%m-%dT%H:%M:%S",
        Some("relative") => {
            let now = jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(time);
            relative(local.date(), now.to_zoned_datetime(jiff::tz::TimeZone::system()).date())
        }
        Some(other) => other,
    };
    jiff::fmt::strtime::format(pattern, &local).unwrap_or_else(|_| "Unknown".into())
}

/// Form of a moment of a day, by its distance from this one.
fn relative(day: jiff::civil::Date, today: jiff::civil::Date) -> &'static str {
    let days = today.until(day).map_or(0, |distance| distance.get_days());
    match days {
        -1 => "Ystday %H:%M",
        0 => "%H:%M:%S",
        1 => "Tomorr %H:%M",
        2..=6 => "%a %H:%M",
        -365..=365 => "%-d %b %H:%M",
        _ => "%-d %b %Y",
    }
}

/// A size in the largest unit that it is a whole number of: `4G`, `1500M`.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units = [(40, 'T'), (30, 'G'), (20, 'M')];
    let whole = units.iter().find(|(shift, _)| bytes >= 1 << shift && bytes.trailing_zeros() >= *shift);
    whole.map_or_else(|| format!("{}K", bytes >> 10), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limit_has_the_forms_of_all_tools() {
        let minutes = |count: u64| Some(Some(count * 60_000));
        for (text, expected) in [
            ("5", minutes(5)),
            ("05:00", minutes(5)),
            ("00:05:00", minutes(5)),
            ("0:5:0", minutes(5)),
            ("1-00:00:00", minutes(1440)),
            ("1-2:3:0", minutes(1440 + 123)),
            ("0", Some(None)),
            ("UNLIMITED", Some(None)),
            ("90s", None),
            ("x", None),
        ] {
            assert_eq!(time_limit(text), expected, "{text}");
        }
    }

    #[test]
    fn memory_is_in_mib_without_a_letter() {
        let of = |text| memory(text).map(|bytes| bytes >> 10);
        assert_eq!(
            [of("100"), of("4GB"), of("512MB"), of("4g")],
            [102_400, 4 << 20, 512 << 10, 4 << 20].map(Some)
        );
        assert_eq!([of("123K"), of("x"), of("1.5G"), of("")], [Some(123), None, None, None]);
    }

    #[test]
    fn array_has_ranges_lists_steps_and_a_limit() {
        let of = |text| array(text).map(|array| (array.tasks, array.at_once));
        assert_eq!(of("0-5%2"), Some(((0..=5).collect(), Some(2))));
        assert_eq!(of("0,4,7"), Some((vec![0, 4, 7], None)));
        assert_eq!(of("0-11:3"), Some((vec![0, 3, 6, 9], None)));
        assert_eq!(of("1-1000").map(|(tasks, _)| tasks.len()), Some(1000));
        assert_eq!(of("1-3%0"), Some((vec![1, 2, 3], None)));
        for wrong in ["", "5-1", "1-1000000", "0-1000", "1001", "a", "1-3%x", "0-5:0"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(tasks(&[2, 3, 4, 5, 7]), "2-5,7");
        assert_eq!(tasks(&[1, 2]), "1-2");
    }

    #[test]
    fn dependency_has_the_forms_of_all_tools() {
        let of = |text| {
            dependency(text).map(|found| {
                found
                    .jobs
                    .into_iter()
                    .map(|(condition, job)| format!("{condition:?}{job}"))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        assert_eq!(of("afterok:1:2"), Ok("Ok1 Ok2".into()));
        assert_eq!(of("afterok:1,2"), Ok("Ok1 Ok2".into()));
        assert_eq!(of("afterany:3,afternotok:4_5"), Ok("Over3 NotOk4_5".into()));
        assert!(dependency("singleton").unwrap().singleton);
        for wrong in ["aftercorr:1", "afterok:x", "sometime:1", "1", "afterok:1?afterok:2", "after:1+5"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn job_names_are_numbers_elements_and_steps() {
        let of =
            |job, tasks: Option<&[u32]>| Some(NamedJob { job, tasks: tasks.map(<[_]>::to_vec), step: None });
        assert_eq!(job_id("17"), of(17, None));
        assert_eq!(job_id("17_3"), of(17, Some(&[3])));
        assert_eq!(job_id("17_[2-3,5]"), of(17, Some(&[2, 3, 5])));
        assert_eq!(job_id("17.batch").and_then(|named| named.step), Some("batch".into()));
        assert_eq!(job_ids("1,2_[3-4,6],5").map(|found| found.len()), Ok(3));
        assert_eq!(job_ids("1,x"), Err("x".into()));
    }

    #[test]
    fn warning_has_a_signal_and_seconds() {
        assert_eq!(warning("USR2@90"), Some((12, 90, false)));
        assert_eq!(warning("B:INT@30"), Some((2, 30, true)));
        assert_eq!(warning("10"), Some((10, 60, false)));
        assert_eq!([warning("X:INT"), warning("FROB@1"), warning("INT@x")], [None; 3]);
    }

    #[test]
    fn times_and_sizes_are_printed_as_slurm_does() {
        assert_eq!([5, 3723, 172_800].map(short_time), ["0:05", "1:02:03", "2-00:00:00"]);
        assert_eq!([5, 3723, 172_800].map(long_time), ["00:00:05", "01:02:03", "2-00:00:00"]);
        assert_eq!([4 << 30, 1500 << 20, 5 << 10].map(size), ["4G", "1500M", "5K"]);
        assert_eq!(moment(1_700_000_000_123, Some("%s")), "1700000000");
        assert_eq!(moment(0, None).len(), "2026-11-28T04:00:05".len());
        assert_eq!(
            [signal("SIGUSR2"), signal("usr1"), signal("9"), signal("x")],
            [Some(12), Some(10), Some(9), None]
        );
    }
}
