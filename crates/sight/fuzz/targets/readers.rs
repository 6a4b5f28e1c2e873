//! Readers of answers of daemons, of lines of the controller's logs and of output of jobs, each by itself;
//! the first byte selects the reader. Nothing panics, and nothing that deceives people comes out. For `make
//! fuzz` and for the tests beside `main.rs`.

use serde_json::Value;
use tutti_client::filter::Filter;
use tutti_client::report::{Answers, Before, Report};
use tutti_os::stderr::is_deceptive;
use tutti_protocol::codec;
use tutti_protocol::users::watch::{Changes, Picture};

use crate::live::{self, Frame};
use crate::log::{self, Event, Turns};
use crate::metrics::{Format, Metrics, Own};
use crate::output;

/// Number of readers.
pub(crate) const READERS: u8 = 4;

/// Reads bytes; the first one selects the reader.
pub(crate) fn read(input: &[u8]) {
    let Some((&which, bytes)) = input.split_first() else { return };
    match which % READERS {
        0 => codec::decode(bytes).into_iter().for_each(changes),
        1 => serde_json::from_slice(bytes).into_iter().for_each(changes),
        2 => lines(bytes),
        _ => assert!(is_neutral(&output::shown(bytes).replace(['\n', '\t'], ""))),
    }
}

/// Changes that a daemon answers with, twice: frames of both moments are read again as JSON.
fn changes(mut changes: Changes) {
    // Users of every machine: others are looked for by another program.
    changes.items.jobs.iter_mut().for_each(|row| row.uid %= 4);
    changes.items.prices.iter_mut().for_each(|prices| prices.users.iter_mut().for_each(|one| one.user %= 4));
    changes.since = None;
    let mut picture = Picture::default();
    picture.take(changes);
    let (mut before, mut frame) = (Before::default(), Frame::default());
    for at_ms in [1_000_000, 1_002_500] {
        let answers = Answers { at_ms, ..Answers::of(&picture) };
        let report = Report::new(&answers, &before, &Filter::default());
        before.add(&answers);
        let next = Frame::after(&frame, &report, &answers.nodes);
        for last in [0, frame.number] {
            is_event(&next.event(last));
        }
        frame = next;
        is_scrape(&Metrics::default(), &report);
        answers.jobs.iter().for_each(|row| assert!(is_neutral(&live::details(row).to_string())));
    }
}

/// One event of three lines and an empty one, with an object.
fn is_event(event: &str) {
    assert!(event.lines().count() == 4 && event.ends_with("\n\n"), "{event}");
    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
    assert!(serde_json::from_str::<Value>(data).is_ok_and(|value| value.is_object()), "{data}");
    assert!(event.lines().all(is_neutral), "{event}");
}

fn is_scrape(metrics: &Metrics, report: &Report) {
    for format in [Format::OpenMetrics, Format::Text] {
        let text = metrics.text(report, Own::default(), format);
        assert!(text.lines().all(|line| line.starts_with("# ") || line.starts_with("tutti_")), "{text}");
        assert!(text.lines().all(is_neutral), "{text}");
    }
}

/// Lines of both logs.
fn lines(bytes: &[u8]) {
    let lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let mut metrics = Metrics::default();
    log::parse::<Event>(&lines).iter().for_each(|event| metrics.handle_event(event));
    log::parse::<Turns>(&lines).iter().for_each(|turns| metrics.handle_turns(&turns.batch));
    is_scrape(&metrics, &Report::default());
}

fn is_neutral(text: &str) -> bool {
    !text.contains(is_deceptive)
}
