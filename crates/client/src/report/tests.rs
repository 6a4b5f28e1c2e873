//! Reports of two jobs that take turns, one that waits, and another user's.

use crate::filter::Filter;
use serde_json::json;

use super::shares::WINDOW_MS;
use super::*;

#[path = "samples.rs"]
mod samples;
use samples::{answers, place, row, with_rubbish_numbers};

fn of(answers: &Answers, before: &Before) -> Report {
    Report::new(answers, before, &Filter::default())
}

#[test]
fn report_has_shares_asked_and_had() {
    let mut before = Before::default();
    before.add(&answers(10_000, [1000, 1000]));
    before.add(&answers(11_000, [1700, 1200]));
    let report = of(&answers(14_000, [4000, 2000]), &before);
    let shares: Vec<_> =
        report.jobs.iter().map(|job| (job.share.asked_permille, job.share.had_permille)).collect();
    assert_eq!(
        shares,
        [
            (Some(750), Some(750)),
            (Some(250), Some(250)),
            (Some(1000), Some(1000)),
            (None, None),
            (None, None)
        ]
    );
}

#[test]
fn report_shares_without_an_earlier_report_are_since_the_start() {
    let report = of(&answers(11_000, [6000, 2500]), &Before::default());
    assert_eq!(report.jobs[0].share.had_permille, Some(600));
    assert_eq!(report.jobs[1].share.had_permille, Some(250));
    // A job of a moment ago has none yet.
    let report = of(&answers(1500, [400, 100]), &Before::default());
    assert_eq!(report.jobs[0].share.had_permille, None);
}

#[test]
fn report_survives_a_new_controller_and_a_clock_that_jumps() {
    let mut before = Before::default();
    before.add(&answers(10_000, [5000, 5000]));
    // Counted from 0 on again.
    assert_eq!(of(&answers(13_000, [100, 100]), &before).jobs[0].share.had_permille, Some(8));
    // Set back: nothing is known of the future.
    before.add(&answers(4000, [1, 1]));
    assert_eq!(before.len(), 1);
    assert_eq!(of(&answers(0, [1, 1]), &before).jobs[0].share.had_permille, None);
    // Long sleep: what is older than the window is forgotten.
    before.add(&answers(4000 + WINDOW_MS + 1, [2, 2]));
    assert_eq!(before.len(), 1);
    let wide = of(&answers(u64::MAX, [u64::MAX, 0]), &Before::default());
    assert_eq!(wide.jobs[0].share.had_permille, Some(1000));
}

#[test]
fn report_has_messages_in_a_second_where_an_earlier_report_has_the_job() {
    let mut before = Before::default();
    let now = answers(14_000, [5000, 2000]);
    assert_eq!(of(&now, &before).jobs[0].place.sent, Sent { messages: 50_000, per_s: None });
    before.add(&answers(10_000, [1000, 2000]));
    let sent: Vec<_> = of(&now, &before).jobs.iter().map(|job| job.place.sent.per_s).collect();
    assert_eq!(sent, [Some(10_000), Some(0), Some(0), None, None]);
    // Another process has taken the place of one.
    assert_eq!(of(&answers(14_000, [10, 2000]), &before).jobs[0].place.sent.per_s, None);
}

#[test]
fn report_places_jobs_in_slots_of_rows() {
    let mut found = answers(5000, [0, 0]);
    found
        .jobs
        .push(row(5, json!({ "gang": false, "ranks": 6, "nodes": ["n0", "n1"], "first_ranks": [0, 4] })));
    // A slot that the node does not have, a node that is not there.
    found.jobs.push(row(6, json!({})));
    found.prices.places.push(place(6, 0, &[7], &[(1, &[3, 99]), (9, &[0])]));
    let report = of(&found, &Before::default());
    assert_eq!(report.row_count, 8);
    let cell =
        |node: usize, row: u32, slot: u32| report.nodes[node].cells.get(&(row, slot)).map(|key| key.job);
    assert_eq!(
        [cell(0, 0, 0), cell(0, 1, 0), cell(0, 0, 2), cell(0, 1, 3)],
        [Some(1), Some(2), Some(3), Some(3)]
    );
    assert_eq!((cell(1, 7, 3), cell(1, 7, 99), cell(0, 2, 0)), (Some(6), None, None));
    let beside: Vec<_> = report.nodes.iter().map(|node| node.beside.clone()).collect();
    let five = Key { other: None, job: 5 };
    assert_eq!(beside, [vec![(five, 4)], vec![(five, 2)]]);
}

#[test]
fn report_has_users_with_use_and_limits() {
    let mut found = answers(5000, [0, 0]);
    let setting = |key: &str, value: &str| {
        let source = tutti_protocol::settings::Source::Default;
        Setting { key: key.into(), value: value.into(), source }
    };
    found.settings = vec![
        setting("limits.slots", "8"),
        setting("limits.user.4000000001.slots", "16"),
        setting("limits.user.other.slots", "1"),
        setting("limits.jobs", "4"),
    ];
    let standing = |user, used_ns| Standing { user, used_ns, share_ppm: 500_000, ..Standing::default() };
    found.prices.users = vec![standing(4_000_000_001, 30), standing(4_000_000_002, 10)];
    let report = of(&found, &Before::default());
    let first = &report.users[0];
    assert_eq!(
        (first.count.running, first.count.waiting, first.count.ranks, first.count.slots),
        (2, 1, 4, 4)
    );
    assert_eq!(first.used_ppm, Some(750_000));
    assert_eq!(limits_of(first), "jobs 2/4, slots 4/16");
    assert_eq!(limits_of(&report.users[1]), "jobs 1/4, slots 2/8");
    assert_eq!(report.users.len(), 3, "with the user of another daemon");
}

#[test]
fn report_filter_leaves_out_jobs_and_counts_them() {
    let filter = Filter { name: vec!["second".into()], ..Filter::default() };
    let report = Report::new(&answers(5000, [0, 0]), &Before::default(), &filter);
    assert_eq!(report.jobs.iter().map(|job| job.id.key.job).collect::<Vec<_>>(), [2]);
    assert_eq!((report.users.len(), report.nodes[0].cells.len()), (3, 8));
}

/// Numbers may be another user's daemon's, which says what it likes.
#[test]
fn report_of_rubbish_numbers_has_shares_of_a_whole() {
    for number in 0..400 {
        let seed = tutti_testkit::mix(tutti_testkit::seed().wrapping_add(number));
        let mut random = tutti_testkit::Random::new(seed);
        let mut before = Before::default();
        before.add(&with_rubbish_numbers(&answers(10_000, [1000, 1000]), &mut random));
        let report = of(&with_rubbish_numbers(&answers(14_000, [4000, 2000]), &mut random), &before);
        let shares = report.jobs.iter().flat_map(|job| [job.share.asked_permille, job.share.had_permille]);
        assert!(shares.flatten().all(|share| share <= 1000), "seed {seed}");
        assert!(report.users.iter().filter_map(|user| user.used_ppm).all(|ppm| ppm <= 1_000_000));
    }
}
