//! Histories of two jobs that take turns, and of everything that may happen to a database.

use rusqlite::{StatementStatus, params_from_iter};
use serde_json::json;
use tutti_client::filter::Filter;
use tutti_client::report::{Answers, Before};

use super::read::{Meant, Span, State};
use super::*;
use crate::samples;

mod full_disk;

const BOUNDS: Bounds = Bounds { keep_ms: 30 * 24 * 3600 * 1000, day_bytes: 1 << 20 };
const ALL: Span = Span { from_ms: 0, until_ms: i64::MAX / 2 };
/// Begin of the samples, in ms: no part of the first day.
const BEGIN_MS: i64 = 1_000_000_000_000;

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tutti-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn events(lines: &[&str]) -> Vec<Event> {
    lines.iter().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

fn report(answers: &Answers) -> Report {
    Report::new(answers, &Before::default(), &Filter::default())
}

/// Jobs of a span and a user, with the gaps there.
fn jobs(folder: &Path, span: Span, uids: &[u32], limit: u32) -> serde_json::Value {
    let meant = Meant { uids: uids.to_vec(), ..Meant::default() };
    json!(read::jobs(folder, span, &meant, limit).expect("a history"))
}

fn picture(folder: &Path, span: Span) -> serde_json::Value {
    json!(read::timeline(folder, span).expect("a picture"))
}

fn put(history: &mut History, now_ms: i64, events: &[Event], report: Option<&Report>) -> bool {
    let position = Some(Position { inode: 3, offset: now_ms as u64 });
    history.record(&Entry { now_ms, pause_ms: 1000, events, position, is_lost: false, report })
}

/// Record that comes when it was to come, long behind the one before.
fn put_later(history: &mut History, now_ms: i64) {
    let (position, pause_ms) = (Some(Position { inode: 3, offset: now_ms as u64 }), keep::EVERY_MS);
    let entry = Entry { now_ms, pause_ms, events: &[], position, is_lost: false, report: None };
    assert!(history.record(&entry));
}

/// Removes what is too old: behind a jump of the clock the second of two times does.
fn tidy(history: &mut History, now_ms: i64) {
    put_later(history, now_ms);
    put_later(history, now_ms + keep::EVERY_MS);
}

/// From, until, rows, slots of the stretches of a job.
fn places(folder: &Path, job: u64) -> Vec<(i64, Option<i64>, String)> {
    let found = read::one(folder, job).expect("a history");
    let places = found["places"].as_array().cloned().unwrap_or_default();
    let place = |place: &serde_json::Value| {
        let text = place[3].as_str().expect("rows").to_owned();
        (place[1].as_i64().expect("from"), place[2].as_i64(), text)
    };
    places.iter().map(place).collect()
}

#[test]
fn history_has_jobs_of_the_log_and_their_rows() {
    let folder = Folder::new("history-rows");
    let mut history = History::open(&folder.0, BOUNDS);
    let begin = BEGIN_MS as u64;
    let lines = [
        format!(
            r#"{{"ms":{begin},"event":"submitted","job":1,"uid":7,"ranks":2,"name":"a","nodes":["n0"],"text":"./x"}}"#
        ),
        format!(r#"{{"ms":{},"event":"started","job":1}}"#, begin + 10),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut answers = samples::answers(begin + 1000, [0, 0]);
    for row in &mut answers.jobs {
        (row.submitted_ms, row.started_ms) = (begin, row.started_ms.map(|_| begin + 10));
    }
    assert!(put(&mut history, BEGIN_MS + 1000, &events(&lines), Some(&report(&answers))));
    // Nothing has changed, then job 1 moves to the other row.
    assert!(put(&mut history, BEGIN_MS + 2000, &[], Some(&report(&answers))));
    answers.prices.places[0].rows = vec![1];
    answers.prices.places[0].served_ms = 900;
    assert!(put(&mut history, BEGIN_MS + 3000, &[], Some(&report(&answers))));
    answers.jobs.remove(0);
    let over = format!(
        r#"{{"ms":{},"event":"over","job":1,"status":3,"cpu_us":5,"largest_bytes":6,"text":"why"}}"#,
        begin + 3500
    );
    assert!(put(&mut history, BEGIN_MS + 4000, &events(&[&over]), Some(&report(&answers))));
    assert_eq!(
        places(&folder.0, 1),
        [
            (BEGIN_MS + 10, Some(BEGIN_MS + 3000), "0".to_owned()),
            (BEGIN_MS + 3000, Some(BEGIN_MS + 3500), "1".to_owned())
        ]
    );
    let found = jobs(&folder.0, ALL, &[7], 10);
    let job = &found["jobs"][0];
    assert_eq!(
        (job["ended_ms"].as_i64(), job["status"].clone(), job["cause"].clone(), job["cpu_us"].clone()),
        (Some(BEGIN_MS + 3500), json!(3), json!("why"), json!(5)),
        "{found:#}"
    );
    assert_eq!(jobs(&folder.0, ALL, &[8], 10)["jobs"], json!([]));
    let later = Span { from_ms: BEGIN_MS + 3501, until_ms: ALL.until_ms };
    assert_eq!(jobs(&folder.0, later, &[], 10)["jobs"], json!([]));
    let picture = picture(&folder.0, ALL);
    assert_eq!(
        picture["gaps"],
        json!([[0, BEGIN_MS + 1000, "the history begins behind this"]]),
        "{picture:#}"
    );
    // The same lines again change nothing.
    assert!(put(&mut history, BEGIN_MS + 5000, &events(&lines[..1]), Some(&report(&answers))));
    assert_eq!(read::one(&folder.0, 1).expect("a history")["status"], json!(3));
}

#[test]
fn history_shows_gaps() {
    let folder = Folder::new("history-gaps");
    let mut history = History::open(&folder.0, BOUNDS);
    let answers = samples::answers(BEGIN_MS as u64, [0, 0]);
    let line = format!(r#"{{"ms":{BEGIN_MS},"event":"submitted","job":1,"uid":7,"ranks":2,"text":"x"}}"#);
    put(&mut history, BEGIN_MS, &events(&[&line]), Some(&report(&answers)));
    // Away, then no daemon, then a clock that was set back.
    drop(history);
    let mut history = History::open(&folder.0, BOUNDS);
    assert_eq!(history.position(), Some(Position { inode: 3, offset: BEGIN_MS as u64 }));
    put(&mut history, BEGIN_MS + 60_000, &[], Some(&report(&answers)));
    put(&mut history, BEGIN_MS + 61_000, &[], Some(&Report::default()));
    put(&mut history, BEGIN_MS + 62_000, &[], Some(&Report::default()));
    put(&mut history, BEGIN_MS + 63_000, &[], Some(&report(&answers)));
    put(&mut history, BEGIN_MS + 33_000, &[], Some(&report(&answers)));
    let found = jobs(&folder.0, ALL, &[], 1);
    let gaps: Vec<(i64, i64, &str)> = found["gaps"]
        .as_array()
        .expect("gaps")
        .iter()
        .map(|gap| {
            let ms = |at: usize| gap[at].as_i64().expect("ms") - BEGIN_MS;
            (ms(0), ms(1), gap[2].as_str().expect("why"))
        })
        .collect();
    assert_eq!(
        gaps,
        [
            (0, 60_000, "the history was not being written"),
            (33_000, 63_000, "the clock was set back"),
            (61_000, 63_000, "no daemon answered"),
        ]
    );
    // A stretch that was open ended with the last moment seen.
    assert_eq!(places(&folder.0, 1)[0].1, Some(BEGIN_MS));
}

/// Jobs of before, of while the clock was set back by an hour, and of behind: each is there in a span that
/// has it, none ends before it began, and the hour that came twice is a gap.
#[test]
fn history_keeps_jobs_in_order_where_the_clock_is_set_back() {
    let folder = Folder::new("history-clock");
    let mut history = History::open(&folder.0, BOUNDS);
    let hour_ms = 3_600_000;
    // Job 1 runs all the time, 2 is over before, 3 waits through it, 4 is of behind.
    let (begin, back) = (BEGIN_MS + hour_ms, BEGIN_MS + 10_000);
    let line = |ms: i64, event: &str, job: u64| match event {
        "submitted" => json!({ "ms": ms, "event": event, "job": job, "uid": 7, "ranks": 2, "text": "x" }),
        "over" => json!({ "ms": ms, "event": event, "job": job, "status": 0 }),
        _ => json!({ "ms": ms, "event": event, "job": job }),
    };
    let take = |lines: &[serde_json::Value]| -> Vec<Event> {
        lines.iter().map(|line| serde_json::from_value(line.clone()).expect("an event")).collect()
    };
    let mut answers = samples::answers(begin as u64, [0, 0]);
    let before = take(&[
        line(begin, "submitted", 1),
        line(begin + 10, "started", 1),
        line(begin + 20, "submitted", 2),
        line(begin + 30, "started", 2),
        line(begin + 40, "over", 2),
        line(begin + 50, "submitted", 3),
    ]);
    answers.jobs.retain(|row| row.job.0 == 1);
    assert!(put(&mut history, begin + 1000, &before, Some(&report(&answers))));
    assert!(put(&mut history, begin + 2000, &[], Some(&report(&answers))));
    let behind =
        take(&[line(back, "started", 3), line(back + 10, "over", 3), line(back + 20, "submitted", 4)]);
    assert!(put(&mut history, back + 1000, &behind, Some(&report(&answers))));
    answers.jobs.clear();
    let ends =
        take(&[line(back + 1500, "over", 1), line(back + 1600, "started", 4), line(back + 1700, "over", 4)]);
    assert!(put(&mut history, back + 2000, &ends, Some(&report(&answers))));
    let found = jobs(&folder.0, ALL, &[], 10);
    assert_eq!(found["gaps"], json!([[back + 1000, begin + 2000, "the clock was set back"]]), "{found:#}");
    let times: Vec<(i64, i64, i64, i64)> = found["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| {
            let of = |name: &str| job[name].as_i64().expect("a time");
            (of("job"), of("submitted_ms"), of("started_ms"), of("ended_ms"))
        })
        .collect();
    assert!(times.iter().all(|(_, from, start, end)| from <= start && start <= end), "{times:?}");
    let numbers: Vec<i64> = times.iter().map(|job| job.0).collect();
    assert_eq!(numbers, [3, 2, 1, 4], "by when they were submitted, as the clock said");
    let in_span = |from_ms: i64, until_ms: i64| -> Vec<i64> {
        let found = jobs(&folder.0, Span { from_ms, until_ms }, &[], 10);
        found["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["job"].as_i64()).collect()
    };
    assert_eq!(in_span(begin, begin + 2000), [3, 2, 1]);
    assert_eq!(in_span(back, back + 2000), [4]);
    let of_first = places(&folder.0, 1);
    assert!(
        of_first.iter().all(|(from, until, _)| until.is_some_and(|until| until >= *from)),
        "{of_first:?}"
    );
}

/// A clock that is two months ahead for a few seconds: what it takes for old is not old.
#[test]
fn history_loses_nothing_where_the_clock_jumps_ahead_and_back() {
    let folder = Folder::new("history-ahead");
    let mut history = History::open(&folder.0, BOUNDS);
    let line = format!(r#"{{"ms":{BEGIN_MS},"event":"submitted","job":1,"uid":7,"ranks":2,"text":"x"}}"#);
    let over = format!(r#"{{"ms":{},"event":"over","job":1,"status":0}}"#, BEGIN_MS + 900);
    assert!(put(&mut history, BEGIN_MS + 1000, &events(&[&line, &over]), None));
    let ahead = BEGIN_MS + 2 * BOUNDS.keep_ms;
    (0..5).for_each(|second| assert!(put(&mut history, ahead + second * 1000, &[], None)));
    (7..12).for_each(|second| assert!(put(&mut history, BEGIN_MS + second * 1000, &[], None)));
    let found = jobs(&folder.0, ALL, &[], 10);
    assert_eq!((found["jobs"].as_array().map(Vec::len), &found["jobs"][0]["job"]), (Some(1), &json!(1)));
    let gaps = json!([
        [BEGIN_MS + 1000, ahead, "the history was not being written"],
        [BEGIN_MS + 7000, ahead + 4000, "the clock was set back"]
    ]);
    assert_eq!(found["gaps"], gaps);
    // What is really old goes, as soon as the clock has gone on for a while.
    assert!(put(&mut history, ahead, &[], None));
    put_later(&mut history, ahead + keep::EVERY_MS);
    assert_eq!(jobs(&folder.0, ALL, &[], 10)["jobs"], json!([]));
}

#[test]
fn history_sets_aside_what_it_cannot_use() {
    let folder = Folder::new("history-aside");
    let path = folder.0.join(FILE);
    let answers = samples::answers(BEGIN_MS as u64, [0, 0]);
    for (content, aside) in [(&b"rubbish that is no database at all"[..], "damaged"), (b"", "newer")] {
        if content.is_empty() {
            let newer = Connection::open(&path).expect("a database");
            newer.execute_batch("PRAGMA user_version = 7; DELETE FROM gap").expect("another version");
        } else {
            std::fs::write(&path, content).expect("a file");
        }
        let mut history = History::open(&folder.0, BOUNDS);
        put(&mut history, BEGIN_MS, &[], Some(&report(&answers)));
        assert!(put(&mut history, BEGIN_MS + 1000, &[], Some(&report(&answers))), "{aside}");
        assert!(folder.0.join(format!("history.{aside}.db")).exists(), "{aside}");
        assert_eq!(places(&folder.0, 2).len(), 0, "the log alone has jobs");
    }
    // Damaged while it is written.
    let mut history = History::open(&folder.0, BOUNDS);
    put(&mut history, BEGIN_MS + 2000, &[], Some(&report(&answers)));
    drop(history);
    std::fs::remove_file(folder.0.join("history.damaged.db")).expect("it was there");
    let mut bytes = std::fs::read(&path).expect("a database");
    bytes[100..].fill(0x5a);
    std::fs::write(&path, bytes).expect("a file");
    let mut history = History::open(&folder.0, BOUNDS);
    put(&mut history, BEGIN_MS + 3000, &[], Some(&report(&answers)));
    assert!(put(&mut history, BEGIN_MS + 4000, &[], Some(&report(&answers))));
    assert!(folder.0.join("history.damaged.db").exists());
}

#[test]
fn history_keeps_its_bytes_of_a_day_and_forgets() {
    let folder = Folder::new("history-bounds");
    let day_ms = 24 * 3600 * 1000;
    let bounds = Bounds { keep_ms: 2 * day_ms, day_bytes: 20_000 };
    let mut history = History::open(&folder.0, bounds);
    let answers = samples::answers(BEGIN_MS as u64, [0, 0]);
    let submitted = |job: u64, ms: i64| {
        let text = "x".repeat(200);
        let line =
            format!(r#"{{"ms":{ms},"event":"submitted","job":{job},"uid":7,"ranks":1,"text":"{text}"}}"#);
        serde_json::from_str::<Event>(&line).expect("an event")
    };
    let today_ms = BEGIN_MS / day_ms * day_ms;
    for batch in 0..20 {
        let ms = today_ms + batch * 1000;
        let jobs: Vec<Event> = (1..=20).map(|job| submitted(batch as u64 * 20 + job, ms)).collect();
        assert!(put(&mut history, ms, &jobs, Some(&report(&answers))));
    }
    let count = |span: Span| self::jobs(&folder.0, span, &[], 1000)["jobs"].as_array().map(Vec::len);
    let first = count(ALL).expect("jobs");
    assert!((60..140).contains(&first), "{first} jobs of 400 had room");
    let found = jobs(&folder.0, ALL, &[], 1);
    assert_eq!(found["gaps"][0][2], "the 20000 bytes of the day are used up", "{found:#}");
    // A new day has room again, and the days before yesterday go.
    let over = |job: u64, ms: i64| {
        let line = format!(r#"{{"ms":{ms},"event":"over","job":{job},"status":0,"text":""}}"#);
        serde_json::from_str::<Event>(&line).expect("an event")
    };
    for day in 1..=4 {
        let (ms, job) = (today_ms + day * day_ms, 1000 + day as u64);
        let first = (1..=400).map(|job| over(job, today_ms + day_ms)).filter(|_| day == 1);
        let events: Vec<Event> = first.chain([submitted(job, ms), over(job, ms)]).collect();
        assert!(put(&mut history, ms, &events, Some(&report(&answers))));
        put_later(&mut history, ms + keep::EVERY_MS);
    }
    assert_eq!(count(ALL), Some(2), "of the last two days");
}

#[test]
fn history_keeps_jobs_that_run_longer_than_it_keeps() {
    let folder = Folder::new("history-long");
    let day_ms = 24 * 3600 * 1000;
    let mut history = History::open(&folder.0, Bounds { keep_ms: day_ms, ..BOUNDS });
    let begin = BEGIN_MS;
    let long = format!(r#"{{"ms":{begin},"event":"submitted","job":1,"uid":7,"ranks":1,"text":"long"}}"#);
    assert!(put(&mut history, begin, &events(&[&long]), None));
    tidy(&mut history, begin + 3 * day_ms);
    let end = begin + 4 * day_ms;
    let over = format!(r#"{{"ms":{end},"event":"over","job":1,"status":3,"text":""}}"#);
    assert!(put(&mut history, end, &events(&[&over]), None));
    let found = read::one(&folder.0, 1).expect("a history");
    assert_eq!(found["status"], 3, "{found:#}");
    tidy(&mut history, end + 2 * day_ms);
    assert_eq!(jobs(&folder.0, ALL, &[], 10)["jobs"], json!([]), "of a day after its end");
}

#[test]
fn history_knows_load_that_has_not_changed_for_a_day() {
    let folder = Folder::new("history-steady");
    let mut history = History::open(&folder.0, BOUNDS);
    let answers = samples::answers(BEGIN_MS as u64, [0, 0]);
    assert!(put(&mut history, BEGIN_MS, &[], Some(&report(&answers))));
    let later = BEGIN_MS + 25 * 3600 * 1000;
    tidy(&mut history, later);
    let span = Span { from_ms: later - 3600 * 1000, until_ms: later };
    let nodes = picture(&folder.0, span)["nodes"].clone();
    let points = nodes.as_object().expect("nodes").values();
    assert!(points.clone().count() > 0 && points.clone().all(|points| points != &json!([])), "{nodes:#}");
}

#[test]
fn history_parts_jobs_of_one_number() {
    let folder = Folder::new("history-numbers");
    let mut history = History::open(&folder.0, Bounds { day_bytes: 400, ..BOUNDS });
    let submitted = |ms: i64, text: &str| {
        let line = r#"{"ms":MS,"event":"submitted","job":1,"uid":7,"ranks":1,"text":"TEXT"}"#;
        line.replace("MS", &ms.to_string()).replace("TEXT", text)
    };
    let over =
        |ms: i64, status: u8| format!(r#"{{"ms":{ms},"event":"over","job":1,"status":{status},"text":""}}"#);
    let [first, later] = [BEGIN_MS, BEGIN_MS + 1000];
    let lines = [submitted(first, &"x".repeat(500)), over(first + 1, 0)];
    assert!(put(&mut history, first + 1, &events(&[&lines[0], &lines[1]]), None));
    // Without room for the later one, the earlier one's row is not the later one's.
    let lines = [submitted(later, "new"), over(later + 1, 9)];
    assert!(put(&mut history, later + 1, &events(&[&lines[0], &lines[1]]), None));
    assert_eq!(jobs(&folder.0, ALL, &[], 10)["jobs"], json!([]));
}

#[test]
fn history_that_cannot_be_written_is_a_gap() {
    let folder = Folder::new("history-full");
    let mut history = History::open(&folder.0, BOUNDS);
    let answers = samples::answers(BEGIN_MS as u64, [0, 0]);
    assert!(put(&mut history, BEGIN_MS, &[], Some(&report(&answers))));
    // A database that has no page left, as on a full disk.
    let writer = history.writer.as_mut().expect("it is open");
    writer.bound_pages(1).expect("a bound");
    let many: Vec<Event> = (0..200)
        .map(|job| {
            let line = format!(
                r#"{{"ms":{BEGIN_MS},"event":"submitted","job":{job},"uid":7,"ranks":1,"text":"{}"}}"#,
                "x".repeat(500)
            );
            serde_json::from_str(&line).expect("an event")
        })
        .collect();
    assert!(!put(&mut history, BEGIN_MS + 1000, &many, Some(&report(&answers))));
    assert!(history.is_open(), "it is tried again");
    assert_eq!(history.position(), Some(Position { inode: 3, offset: BEGIN_MS as u64 }));
    assert!(put(&mut history, BEGIN_MS + 2000, &many, Some(&report(&answers))));
    let found = jobs(&folder.0, ALL, &[], 1000);
    assert_eq!(found["jobs"].as_array().map(Vec::len), Some(200));
    assert_eq!(found["gaps"][0][2], "the history could not be written", "{found:#}");
}

/// Of thousands of jobs those that are meant are found by the database, so that a page of them is whole.
#[test]
fn history_lists_jobs_by_user_name_and_state() {
    let folder = Folder::new("history-meant");
    let mut history = History::open(&folder.0, BOUNDS);
    let mut lines = Vec::new();
    for job in 1..=60_i64 {
        let ms = BEGIN_MS + job;
        let name = if job % 3 == 0 { "a b" } else { "" };
        lines.push(
            json!({ "ms": ms, "event": "submitted", "job": job, "uid": job % 2, "ranks": 1, "text": "x",
            "name": name }),
        );
        if job > 10 {
            lines.push(json!({ "ms": ms, "event": "started", "job": job }));
        }
        if job > 20 {
            lines.push(json!({ "ms": ms, "event": "over", "job": job, "status": 0 }));
        }
    }
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert!(put(&mut history, BEGIN_MS + 100, &events(&lines), None));
    let of = |uids: &[u32], names: &[&str], states: &[State], limit| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let meant = Meant { uids: uids.to_vec(), names, states: states.to_vec(), behind: None };
        let found = json!(read::jobs(&folder.0, ALL, &meant, limit).expect("jobs"));
        let jobs: Vec<i64> =
            found["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["job"].as_i64()).collect();
        (jobs.len(), jobs.first().copied(), found["more"] == true)
    };
    assert_eq!(of(&[], &[], &[], 100), (60, Some(60), false));
    assert_eq!(of(&[1], &[], &[], 100), (30, Some(59), false));
    assert_eq!(of(&[0, 1], &["a b"], &[], 60), (20, Some(60), false));
    assert_eq!(of(&[], &[], &[State::Waiting], 10), (10, Some(10), false));
    assert_eq!(of(&[], &[], &[State::Running], 9), (9, Some(20), true));
    assert_eq!(of(&[1], &["a b", "other"], &[State::Running, State::Waiting], 100), (3, Some(15), false));
    assert_eq!(of(&[], &[], &[State::Over], 40), (40, Some(60), false));
    assert_eq!(of(&[7], &[], &[], 40), (0, None, false));
}

/// Database of so many jobs, each a second behind the one before, of eight users and eight names.
fn many(folder: &Path, jobs: i64) -> Connection {
    drop(History::open(folder, BOUNDS));
    let connection = Connection::open(folder.join(FILE)).expect("a database");
    connection
        .execute(
            "INSERT INTO job WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             SELECT i, i % 8, 'case ' || (i / 8 % 8), './solve --input case.dat', 4, 'n0 n1', ?2 + i / 2 * 2000,
               ?2 + i / 2 * 2000 + 10, CASE WHEN i % 1000 = 0 THEN NULL ELSE ?2 + i / 2 * 2000 + 900 END, 0, '',
               1, 1 FROM n",
            [jobs, BEGIN_MS],
        )
        .expect("jobs");
    connection
}

/// Users, names, states, and the index that has them in order.
type Case = (&'static [u32], &'static [&'static str], &'static [State], &'static str);

const CASES: [Case; 7] = [
    (&[], &[], &[], "job_span"),
    (&[3], &[], &[], "job_user"),
    (&[], &["case 3"], &[], "job_name"),
    (&[], &[], &[State::Over], "job_span"),
    (&[], &[], &[State::Running, State::Waiting], "job_span"),
    (&[3], &["case 3"], &[State::Over], "job_"),
    (&[1, 3], &["case 1", "case 3"], &[], "job_"),
];

fn meant_by((uids, names, states, _): Case) -> Meant {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Meant { uids: uids.to_vec(), names, states: states.to_vec(), behind: None }
}

/// Pages of a list take the same however long the history is: an index has the rows in order. The few jobs
/// that run are found in the index alone.
#[test]
fn history_lists_a_page_of_a_hundred_thousand_jobs_by_an_index() {
    let folder = Folder::new("history-plan");
    let connection = many(&folder.0, 100_000);
    let week = Span { from_ms: BEGIN_MS + 50_000_000, until_ms: BEGIN_MS + 90_000_000 };
    for case in CASES {
        for (span, behind) in [(ALL, None), (ALL, Some((BEGIN_MS + 60_000_000, 60_000))), (week, None)] {
            let meant = Meant { behind, ..meant_by(case) };
            let (sql, values) = read::question(span, &meant, 50);
            let plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).and_then(|mut plan| {
                let rows = plan.query_map(params_from_iter(values.clone()), |row| row.get::<_, String>(3))?;
                rows.collect::<rusqlite::Result<Vec<String>>>()
            });
            let plan = plan.expect("a plan").join("; ");
            assert!(plan.contains(&format!("USING INDEX {}", case.3)), "{case:?}: {plan}");
            let is_one = case.0.len().max(case.1.len()) < 2;
            assert!(!is_one || !plan.contains("B-TREE"), "{case:?}: {plan}");
            let mut statement = connection.prepare(&sql).expect("a statement");
            let began = std::time::Instant::now();
            let rows = statement.query_map(params_from_iter(values), |row| row.get::<_, i64>(0));
            let rows: Vec<i64> = rows.expect("rows").map(|row| row.expect("a row")).collect();
            let steps = statement.get_status(StatementStatus::VmStep);
            println!("{plan}: {} rows, {steps} steps, {} us", rows.len(), began.elapsed().as_micros());
            assert!(rows.len() >= 50, "{case:?}: {} rows", rows.len());
            // A few steps a row that is given; for those that run, a few a row of the index.
            let bound = if case.2.contains(&State::Running) || !is_one { 2_000_000 } else { 50_000 };
            assert!(steps < bound, "{case:?}: {steps} steps, {plan}");
        }
    }
}

#[test]
fn history_pages_are_the_whole_list() {
    let folder = Folder::new("history-pages");
    drop(many(&folder.0, 1000));
    let listed = |meant: &Meant, limit| {
        let found = json!(read::jobs(&folder.0, ALL, meant, limit).expect("a history"));
        let key = |job: &serde_json::Value| {
            (job["submitted_ms"].as_i64().expect("ms"), job["job"].as_i64().expect("a job"))
        };
        let keys: Vec<(i64, i64)> = found["jobs"].as_array().expect("jobs").iter().map(key).collect();
        (keys, found["more"] == true)
    };
    for case in CASES {
        let (all, is_cut) = listed(&meant_by(case), read::JOBS_MAX);
        assert!(!is_cut && !all.is_empty(), "{case:?}");
        let (mut pages, mut behind) = (Vec::new(), None);
        loop {
            let (page, is_cut) = listed(&Meant { behind, ..meant_by(case) }, 7);
            behind = page.last().copied();
            pages.extend(page);
            if !is_cut {
                break;
            }
        }
        assert_eq!(pages, all, "{case:?}");
    }
}

#[test]
fn history_names_each_user_with_jobs_once() {
    let folder = Folder::new("history-users");
    let connection = many(&folder.0, 1000);
    connection.execute_batch("INSERT INTO job(job, submitted_ms) VALUES (5000, 1)").expect("a job of nobody");
    let known = "SELECT DISTINCT uid FROM job WHERE uid IS NOT NULL ORDER BY uid";
    let known: rusqlite::Result<Vec<u32>> = connection
        .prepare(known)
        .and_then(|mut all| all.query_map((), |row| row.get(0)).and_then(Iterator::collect));
    let found = json!(read::all_users(&folder.0).expect("a history"));
    let uids: Vec<serde_json::Value> =
        found.as_array().expect("users").iter().map(|one| one["uid"].clone()).collect();
    assert_eq!(json!(uids), json!(known.expect("users")));
    assert!(uids.len() > 1 && found[0]["user"].is_string(), "{found:#}");
}

/// A database of before has other indices: it gets the new ones, and keeps what it has.
#[test]
fn history_of_the_version_before_is_taken_over() {
    let folder = Folder::new("history-before");
    let path = folder.0.join(FILE);
    let before = Connection::open(&path).expect("a database");
    before
        .execute_batch(&format!("{SETTINGS} {TABLES} {INDICES_BEFORE} PRAGMA user_version = 1;"))
        .expect("tables");
    let job = "INSERT INTO job(job, uid, submitted_ms) VALUES (4, 7, 1000000000000)";
    before.execute_batch(job).expect("a job");
    drop(before);
    for _ in 0..2 {
        let mut history = History::open(&folder.0, BOUNDS);
        assert!(put(&mut history, BEGIN_MS, &[], None));
        assert_eq!(jobs(&folder.0, ALL, &[7], 10)["jobs"][0]["job"], 4);
    }
    assert!(!folder.0.join("history.damaged.db").exists());
    let now = Connection::open(&path).expect("a database");
    assert_eq!(statements(&now).expect("statements"), own_statements(INDICES).expect("statements"));
    assert_eq!(now.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)), Ok(VERSION));
}

#[test]
fn history_answers_with_ten_thousand_jobs() {
    const JOBS: i64 = 10_000;
    let folder = Folder::new("history-many");
    let mut history = History::open(&folder.0, Bounds { day_bytes: 64 << 20, ..BOUNDS });
    for minute in 0..10 {
        let mut lines = Vec::new();
        for number in 0..JOBS / 10 {
            let (job, ms) = (1 + minute * JOBS / 10 + number, BEGIN_MS + minute * 60_000 + number * 60);
            let submitted = json!({ "ms": ms, "event": "submitted", "job": job, "uid": 7, "ranks": 4,
                "text": "./solve --input case-17.dat", "name": "case" });
            let started = json!({ "ms": ms + 10, "event": "started", "job": job, "nodes": ["n0", "n1"] });
            let over = json!({ "ms": ms + 900, "event": "over", "job": job, "status": 0, "text": "" });
            lines.extend([submitted, started, over].map(|line| line.to_string()));
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert!(put(&mut history, BEGIN_MS + (minute + 1) * 60_000, &events(&lines), None));
    }
    let bytes = read::bytes(&folder.0);
    assert!(bytes < 20 << 20, "{bytes} bytes");
    let began = std::time::Instant::now();
    let all = jobs(&folder.0, ALL, &[], read::JOBS_MAX);
    let jobs_ms = began.elapsed().as_millis();
    assert_eq!(all["jobs"].as_array().map(Vec::len), Some(JOBS as usize));
    assert_eq!(all["jobs"][0]["job"], JOBS, "the newest first");
    assert_eq!(all["more"], false);
    let few = jobs(&folder.0, ALL, &[], 100);
    assert_eq!((few["jobs"].as_array().map(Vec::len), &few["more"]), (Some(100), &json!(true)));
    assert_eq!((&few["jobs"][0], &few["jobs"][99]["job"]), (&all["jobs"][0], &json!(JOBS - 99)));
    let span = Span { from_ms: BEGIN_MS, until_ms: BEGIN_MS + 600_000 };
    let began = std::time::Instant::now();
    let picture = picture(&folder.0, span);
    println!("{bytes} bytes, {jobs_ms} ms for all jobs, {} ms for a picture", began.elapsed().as_millis());
    assert_eq!(picture["jobs"].as_array().map(Vec::len), Some(JOBS as usize));
    assert_eq!(read::one(&folder.0, 5000).expect("a history")["status"], 0);
}

/// Bytes of a database that has jobs, nodes and a gap.
fn sample(folder: &Path) -> Vec<u8> {
    let mut history = History::open(folder, BOUNDS);
    let answers = samples::answers(BEGIN_MS as u64, [0, 0]);
    let line = format!(r#"{{"ms":{BEGIN_MS},"event":"submitted","job":2,"uid":7,"ranks":4,"text":"./a"}}"#);
    for second in [0, 1, 60, 61] {
        let now_ms = BEGIN_MS + second * 1000;
        assert!(put(&mut history, now_ms, &events(&[&line]), Some(&report(&answers))));
    }
    drop(history);
    let connection = Connection::open(folder.join(FILE)).expect("a database");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).expect("one file");
    drop(connection);
    std::fs::read(folder.join(FILE)).expect("a file")
}

/// Beginning of a report that is written after a few seconds, as it is or anew.
#[track_caller]
fn check_begun(folder: &Path, bytes: &[u8], what: &str) {
    for more in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.join(format!("{FILE}{more}")));
    }
    std::fs::write(folder.join(FILE), bytes).expect("a file");
    let mut history = History::open(folder, BOUNDS);
    let answers = samples::answers(BEGIN_MS as u64, [0, 0]);
    let written: Vec<bool> = (120..124)
        .map(|second| put(&mut history, BEGIN_MS + second * 1000, &[], Some(&report(&answers))))
        .collect();
    assert!(written.ends_with(&[true]), "{what}: {written:?}");
    let _ = (read::one(folder, 2), read::timeline(folder, ALL));
    let _ = read::timeline(folder, Span { from_ms: i64::MIN, until_ms: i64::MAX });
}

#[test]
fn history_survives_databases_that_are_nearly_right() {
    let scratch = tutti_testkit::Scratch::in_memory("history-nearly");
    let folder = scratch.path();
    let samples = [sample(folder)];
    let first = tutti_testkit::seed();
    // Each is a few files: fewer than of frames that are only read.
    for number in 0..tutti_testkit::nearly::count() / 40 {
        let seed = first.wrapping_add(number);
        let bytes = tutti_testkit::nearly::frame(&mut tutti_testkit::Random::new(seed), &samples);
        check_begun(folder, &bytes, &format!("TUTTI_TEST_SEED={seed}"));
    }
}

#[test]
fn history_begins_anew_behind_tables_and_values_that_are_not_its_own() {
    let folder = Folder::new("history-strange");
    let bytes = sample(&folder.0);
    for (change, is_aside) in [
        ("DROP TABLE gap", true),
        ("ALTER TABLE job DROP COLUMN cause", true),
        ("CREATE TRIGGER no BEFORE INSERT ON mark BEGIN SELECT RAISE(FAIL, 'no'); END", true),
        ("UPDATE mark SET value = 'many'", true),
        ("UPDATE mark SET value = -9223372036854775808", false),
        ("UPDATE mark SET value = 9223372036854775807 WHERE name <> 'day_bytes'", false),
        ("DELETE FROM mark", false),
    ] {
        let aside = folder.0.join("history.damaged.db");
        let _ = std::fs::remove_file(&aside);
        std::fs::write(folder.0.join(FILE), &bytes).expect("a file");
        let connection = Connection::open(folder.0.join(FILE)).expect("a database");
        connection.execute_batch(change).expect(change);
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).expect("one file");
        drop(connection);
        let changed = std::fs::read(folder.0.join(FILE)).expect("a file");
        check_begun(&folder.0, &changed, change);
        assert_eq!(aside.exists(), is_aside, "{change}");
    }
    // The head of one that a later SQLite writes.
    let mut later = bytes.clone();
    later[18] = 3;
    check_begun(&folder.0, &later, "a later SQLite's");
    // A statement that is no text.
    let mut garbled = bytes;
    let at = garbled.windows(8).position(|part| part == b"why TEXT").expect("the statement of a table");
    garbled[at] = 0xff;
    check_begun(&folder.0, &garbled, "a statement that is no text");
}

/// All of it, what a crash has left in its log too; where its other name is taken it stays as it is.
#[test]
fn history_that_cannot_be_used_loses_nothing() {
    let folder = Folder::new("history-whole");
    std::fs::write(folder.0.join(FILE), sample(&folder.0)).expect("a file");
    let newer = Connection::open(folder.0.join(FILE)).expect("a database");
    newer.pragma_update(None, "user_version", VERSION + 1).expect("a version");
    newer.execute_batch("CREATE TABLE later (word TEXT); INSERT INTO later VALUES ('kept')").expect("a row");
    let files = ["", "-wal"].map(|more| folder.0.join(format!("{FILE}{more}")));
    let bytes = || files.each_ref().map(|file| std::fs::read(file).expect("a file"));
    let before = bytes();
    assert!(!before[1].is_empty(), "the row is in the log still");
    // Its process is killed: nothing moves the row into the database.
    std::mem::forget(newer);
    let aside = folder.0.join("history.newer.db");
    std::fs::create_dir_all(aside.join("taken")).expect("a folder");
    let mut history = History::open(&folder.0, BOUNDS);
    for ms in 0..3 {
        assert!(!put(&mut history, BEGIN_MS + ms, &[], None));
    }
    assert_eq!(bytes(), before);
    std::fs::remove_dir_all(&aside).expect("a folder");
    assert!(put(&mut history, BEGIN_MS + 3, &[], None));
    let kept = Connection::open(aside).expect("a database");
    let word = kept.query_row("SELECT word FROM later", (), |row| row.get::<_, String>(0));
    assert_eq!(word.as_deref(), Ok("kept"));
}

/// The line of a damaged log is left out, and those behind it are kept.
#[test]
fn history_leaves_out_events_with_numbers_that_have_no_room() {
    let folder = Folder::new("history-numbers");
    let mut history = History::open(&folder.0, BOUNDS);
    let many = u64::MAX;
    let lines = [
        format!(r#"{{"ms":{BEGIN_MS},"event":"submitted","job":{many},"uid":7,"ranks":4}}"#),
        format!(r#"{{"ms":{many},"event":"submitted","job":5,"uid":7,"ranks":4}}"#),
        format!(r#"{{"ms":{BEGIN_MS},"event":"submitted","job":6,"uid":7,"ranks":{many}}}"#),
        format!(r#"{{"ms":{BEGIN_MS},"event":"over","job":6,"cpu_us":{many},"largest_bytes":{many}}}"#),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert!(put(&mut history, BEGIN_MS, &events(&lines), None));
    let found = jobs(&folder.0, ALL, &[], 10);
    assert_eq!((found["jobs"].as_array().map(Vec::len), &found["jobs"][0]["job"]), (Some(1), &json!(6)));
    assert!(found["jobs"][0]["ranks"].is_null() && found["jobs"][0]["ended_ms"].is_i64(), "{found:#}");
}
