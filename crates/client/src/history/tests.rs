//! Logs of few and of many jobs, whole and damaged, read from their end and from their beginning.

use super::*;

#[test]
fn history_has_jobs_that_are_over_and_what_became_of_them() {
    let folder = std::env::temp_dir().join(format!("tutti-history-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let old = r#"{"ms":1,"event":"submitted","job":1,"uid":7,"ranks":4,"nodes":["a"],"text":"./x 3"}
{"ms":2,"event":"started","job":1}
"#;
    let new = r#"{"ms":9,"event":"over","job":1,"status":3,"cpu_us":5,"largest_bytes":6,"text":"rank 0 exited with status 3"}
{"ms":10,"event":"submitted","job":2,"name":"test","nodes":["a"],"text":"./y"}
{"ms":11,"event":"started","job":2}
{"ms":12,"event":"submitted","job":3,"nodes":["a"],"text":"./z"}
{"ms":12,"event":"refused","job":3,"text":"a full disk"}
{"ms":13,"event":"ov"#;
    let of = |is_alone| rows(&folder, is_alone, Bound::LATELY, &|_| true).rows;
    std::fs::write(folder.join("events.jsonl.1"), old).unwrap();
    std::fs::write(folder.join("events.jsonl"), new).unwrap();
    let found = of(false);
    assert_eq!(found.len(), 1, "job 2 may run");
    let one = &found[0];
    assert_eq!((one.job, one.uid, one.ranks, one.status), (JobId(1), 7, 4, Some(3)));
    assert_eq!(used_in(&folder), [(JobId(1), Used { cpu_us: 5, largest_bytes: 6 })].into());
    assert_eq!((one.started_ms, one.ended_ms), (Some(2), Some(9)));
    assert_eq!(one.cause.as_deref(), Some("rank 0 exited with status 3"));
    let found = of(true);
    assert_eq!(
        (found[1].state, found[1].status, found[1].cause.as_deref()),
        (JobState::Over, None, Some(UNKNOWN))
    );
    let begun = r#"{"ms":20,"event":"begun"}"#;
    let now_ms = UNIX_EPOCH.elapsed().unwrap().as_millis();
    let lately = format!("{{\"ms\":{now_ms},\"event\":\"begun\"}}");
    for (line, lost) in [(begun, 2), (&*lately, 1)] {
        std::fs::write(
            folder.join("events.jsonl"),
            format!("{}\n{line}\n", new.replace("\n{\"ms\":13,\"event\":\"ov", "")),
        )
        .unwrap();
        assert_eq!(of(false).len(), lost, "{line}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(of(true).is_empty());
}

#[test]
fn history_of_a_user_is_not_pushed_out_by_another() {
    let folder = std::env::temp_dir().join(format!("tutti-history-of-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut log = String::new();
    for (job, uid) in std::iter::once((1, 7)).chain((2..JOBS_MAX as u64 + 50).map(|job| (job, 8))) {
        log.push_str(&format!(
            "{{\"ms\":1,\"event\":\"submitted\",\"job\":{job},\"uid\":{uid},\"text\":\"x\"}}\n\
             {{\"ms\":2,\"event\":\"over\",\"job\":{job},\"status\":{}}}\n",
            job % 2
        ));
    }
    std::fs::write(folder.join(paths::EVENTS), log).unwrap();
    let past = rows(&folder, false, Bound::LATELY, &|_| true);
    assert!(past.is_cut, "of user 8 there are more");
    let found = past.rows;
    assert_eq!((found[0].job, found[0].uid, found.len()), (JobId(1), 7, JOBS_MAX + 1));
    let oldest = row(&folder, JobId(2), false).expect("the log has it");
    assert_eq!((oldest.uid, oldest.status), (8, Some(0)));
    assert!(row(&folder, JobId(JOBS_MAX as u64 + 50), false).is_none());
    // Where there are as many as are listed, none is left out.
    let of = |bound, state: u8| {
        let past = rows(&folder, false, bound, &|row| row.status == Some(state));
        (past.rows.len(), past.is_cut, past.rows.last().map(|row| row.job.0))
    };
    assert_eq!(of(Bound { of_user: 5, ..Bound::LATELY }, 1), (6, true, Some(1049)));
    assert_eq!(of(Bound { of_user: 524, ..Bound::LATELY }, 0), (524, false, Some(1048)));
    assert_eq!(of(Bound { of_user: 523, ..Bound::LATELY }, 0), (523, true, Some(1048)));
    assert_eq!(of(Bound::newest(524), 0), (524, false, Some(1048)));
    assert_eq!(of(Bound::newest(523), 0), (523, true, Some(1048)));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn bound_keeps_the_newest_jobs_that_are_over_and_all_others() {
    let row = |job: u64, uid: u32, state| {
        let event = serde_json::json!({ "ms": 1, "event": "submitted", "job": job, "uid": uid });
        JobRow { state, ..submitted(job, serde_json::from_value(event).expect("an event"), 0) }
    };
    let all = || -> Vec<JobRow> {
        let states = [JobState::Running, JobState::Over, JobState::Over, JobState::Over, JobState::Over];
        (1..).zip(states).map(|(job, state)| row(job, (job % 2) as u32, state)).collect()
    };
    let kept = |bound: Bound| {
        let mut rows = all();
        let is_cut = bound.apply(&mut rows);
        (rows.iter().map(|row| row.job.0).collect::<Vec<_>>(), is_cut)
    };
    assert_eq!(kept(Bound::LATELY), (vec![1, 2, 3, 4, 5], false));
    assert_eq!(kept(Bound::newest(4)), (vec![1, 2, 3, 4, 5], false));
    assert_eq!(kept(Bound::newest(1)), (vec![1, 5], true));
    assert_eq!(kept(Bound { of_user: 1, ..Bound::LATELY }), (vec![1, 4, 5], true));
}

/// As many as there may be: what is read for the newest does not grow with what was before.
#[test]
fn history_of_ten_thousand_jobs_is_not_read_whole() {
    let scratch = tutti_testkit::Scratch::new("history-long");
    let mut log = String::new();
    let command = "x".repeat(2000);
    for job in 1..=10_000 {
        log.push_str(&format!(
            "{{\"ms\":1,\"event\":\"submitted\",\"job\":{job},\"uid\":8,\"text\":\"{command}\"}}\n\
             {{\"ms\":2,\"event\":\"over\",\"job\":{job},\"status\":0}}\n"
        ));
    }
    assert!(log.len() as u64 > READ_BYTES_MAX);
    std::fs::write(scratch.path().join(paths::EVENTS), log).expect("a log");
    let listed = |bound| {
        let past = rows(scratch.path(), false, bound, &|_| true);
        let [first, last] = [past.rows.first(), past.rows.last()].map(|row| row.map(|row| row.job.0));
        (past.rows.len(), past.is_cut, first, last)
    };
    assert_eq!(listed(Bound::LATELY), (JOBS_MAX, true, Some(9001), Some(10_000)));
    assert_eq!(listed(Bound::newest(50)), (50, true, Some(9951), Some(10_000)));
    assert_eq!(listed(Bound::newest(20_000)), (10_000, false, Some(1), Some(10_000)));
    let mut jobs = Jobs::open(scratch.path(), false, None).expect("a log");
    jobs.read_bytes_max = READ_BYTES_MAX;
    while jobs.next(|_| false).is_some() {}
    assert!(jobs.is_cut && jobs.log.read_bytes() < READ_BYTES_MAX + (1 << 20));
    let mut jobs = Jobs::open(scratch.path(), false, None).expect("a log");
    (0..51).for_each(|_| assert!(jobs.next(|_| true).is_some()));
    assert!(jobs.log.read_bytes() < 1 << 20, "{} bytes for 50 jobs", jobs.log.read_bytes());
    let mut jobs = Jobs::open(scratch.path(), false, Some(9_990)).expect("a log");
    assert_eq!(jobs.next(|_| true).map(|row| row.job.0), Some(9_990));
    assert!(jobs.log.read_bytes() < 1 << 20, "{} bytes for a job of lately", jobs.log.read_bytes());
}

/// The same from the beginning to the end, as a whole.
fn forwards(folder: &Path, is_alone: bool) -> Vec<JobRow> {
    let events: Vec<Event> = lines(&folder.join(paths::EVENTS), false).expect("a log");
    let of_job = |event: &Event, id: u64| event.event == "submitted" && event.job == Some(id);
    let behind = |id: JobId| {
        let at = events.iter().rposition(|event| of_job(event, id.0)).expect("it was submitted");
        events[at..].iter().any(|event| event.event == "begun" && event.ms < 1_000_000)
    };
    let lost: BTreeMap<u64, bool> = events
        .iter()
        .filter_map(|event| event.job.filter(|id| of_job(event, *id)))
        .map(|id| (id, behind(JobId(id))))
        .collect();
    let mut rows = from_events(events, rustix::process::geteuid().as_raw());
    for row in rows.iter_mut().filter(|row| row.state != JobState::Over) {
        if is_alone || lost[&row.job.0] {
            (row.state, row.cause) = (JobState::Over, Some(UNKNOWN.into()));
        }
    }
    rows.retain(|row| row.state == JobState::Over);
    rows
}

/// A line of a log; some are damaged, of another kind, or as long as several pieces.
fn random_line(random: &mut tutti_testkit::Random, piece_bytes: usize) -> Vec<u8> {
    let (ms, job) = (random.below(1000), 1 + random.below(30));
    let text = "x".repeat(if random.chance(100) { 3 * piece_bytes } else { random.below(60) as usize });
    let event = ["submitted", "submitted", "placed", "started", "over", "over", "refused", "waits"];
    let event = event[random.below(event.len() as u64) as usize];
    let begun = if random.chance(500) { ms } else { u64::MAX };
    let line = match random.below(20) {
        0 => serde_json::json!({ "ms": begun, "event": "begun" }),
        1 => serde_json::json!({ "ms": ms, "event": event, "job": job, "text": 7 }),
        2 => serde_json::json!({ "ms": ms, "event": event, "job": job, "status": 300 }),
        _ => serde_json::json!({ "ms": ms, "event": event, "job": job, "uid": 5 + job % 3,
            "text": text, "status": job % 5, "nodes": ["a"] }),
    };
    let mut bytes = line.to_string().into_bytes();
    match random.below(25) {
        0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
        1 => {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = [0, 0xff, b'"', b'}', b'\n'][random.below(5) as usize];
        }
        2 => bytes = br#"{"ms":3,"event":"\u006fver","job":7,"status":9}"#.to_vec(),
        _ => {}
    }
    bytes.push(b'\n');
    bytes
}

/// Whatever is in the log, wherever its pieces begin: what is listed is what a reader from its beginning
/// finds, and a bound leaves the newest of that.
#[test]
fn history_from_its_end_is_the_one_from_its_beginning() {
    let scratch = tutti_testkit::Scratch::new("history-both-ways");
    let seed = tutti_testkit::seed();
    let mut random = tutti_testkit::Random::new(seed);
    for round in 0..60 {
        let what = format!("TUTTI_TEST_SEED={seed}, round {round}");
        let piece_bytes = 1 + random.below(300);
        for name in [format!("{}.1", paths::EVENTS), paths::EVENTS.to_owned()] {
            let mut log: Vec<u8> = Vec::new();
            (0..random.below(100)).for_each(|_| log.extend(random_line(&mut random, piece_bytes as usize)));
            // A writer may be in the midst of its last line.
            if random.chance(500) {
                log.truncate(log.len().saturating_sub(random.below(40) as usize));
            }
            std::fs::write(scratch.path().join(name), log).expect("a log");
        }
        for is_alone in [false, true] {
            let wanted = forwards(scratch.path(), is_alone);
            let shown = |rows: &[JobRow]| rows.iter().map(|row| format!("{row:?}")).collect::<Vec<_>>();
            let mut jobs = Jobs::open(scratch.path(), is_alone, None).expect("a log");
            jobs.log.piece_bytes = piece_bytes;
            let mut found: Vec<JobRow> = std::iter::from_fn(|| jobs.next(|_| true)).collect();
            found.sort_by_key(|row| row.job);
            assert_eq!(shown(&found), shown(&wanted), "{what}, {is_alone}");
            let past = rows(scratch.path(), is_alone, Bound::WHOLE_LOG, &|_| true);
            assert_eq!((shown(&past.rows), past.is_cut), (shown(&wanted), false), "{what}");
            for one in wanted.iter().take(5) {
                let found = row(scratch.path(), one.job, is_alone);
                assert_eq!(found.map(|row| shown(&[row])), Some(shown(std::slice::from_ref(one))), "{what}");
            }
        }
    }
}

#[test]
fn begin_of_a_line_agrees_with_the_whole_line() {
    for (line, is_read) in [
        (r#"{"ms":5,"event":"over","job":7,"status":0}"#, true),
        (r#"{"ms":5,"event":"started","job":18446744073709551615}"#, true),
        (r#"{"ms":5,"event":"submitted","job":7,"text":"{\"job\":8}"}"#, true),
        (r#"{"ms":5,"event":"begun"}"#, false),
        (r#"{"ms":5,"event":"drained","nodes":["job"]}"#, false),
        (r#"{"event":"over","job":7,"ms":5}"#, false),
        (r#"{"ms":5,"event":"a\"b","job":7}"#, false),
        (r#"{"ms":5,"event":"over","job":7.5}"#, false),
        (r#"{"ms":5,"event":"over","job":-7}"#, false),
        (r#"{"ms":5,"event":"over","job":18446744073709551616}"#, false),
        (r#"{"ms":5,"event":"over","job":"#, false),
        (r#"{"ms":5,"event":"over","job":7"#, false),
        ("", false),
    ] {
        let begin = begin_of(line.as_bytes());
        assert_eq!(begin.is_some(), is_read, "{line}");
        let Some((event, job)) = begin else { continue };
        let head: Head<'_> = serde_json::from_str(line).unwrap();
        assert_eq!((event, Some(job)), (head.event.as_bytes(), head.job), "{line}");
    }
}
