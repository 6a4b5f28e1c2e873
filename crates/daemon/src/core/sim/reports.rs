//! Frames of starters that are nearly right: an enrolled program of a hostile user may say anything in one's
//! place. The core goes on within its bounds, and the jobs of another user stay as they are. And the records
//! of starters that a daemon finds in files.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tutti_protocol::wire::{Cause, Counted, Ended, Kind, Library, Reached, Reattach, Report, Stalled, Used};
use tutti_testkit::Random;

use super::requests::{Alone, HOSTILE, alone, plain};
use super::seeds;
use super::world::World;
use crate::core::Core;
use crate::core::clocks::Clocks;
use crate::core::event::{Event, StarterEnd};
use crate::core::record::StarterRecord;
use crate::ids::ClientId;
use crate::message::{JobId, Request, Submit};

/// Frames for one job, at most.
const FRAMES_EACH: u64 = 24;
/// Kinds of frames that a starter sends, and some that it never does.
const KINDS: [Kind; 13] = [
    Kind::Report,
    Kind::Output,
    Kind::Errors,
    Kind::Held,
    Kind::Released,
    Kind::ContextDone,
    Kind::Ask,
    Kind::Spawned,
    Kind::Fence,
    Kind::Reattach,
    Kind::Opened,
    Kind::Answer,
    Kind::Kill,
];

fn reports() -> Vec<Report> {
    let cause = Cause::Signal { signal: 9, core_dumped: false };
    let address = "127.0.0.1:4000".parse().expect("an address");
    vec![
        Report::Addresses(Reached { addresses: vec![address], later: vec![address], datagram_bytes: 1400 }),
        Report::Started { pids: vec![100], cores: vec!["0-1".into()] },
        Report::Later { pids: vec![101, 102], gone: vec![100] },
        Report::InputTaken,
        Report::InputUnwanted,
        Report::Suspended,
        Report::Stopped,
        Report::Continued,
        Report::Detached,
        Report::Ending { status: 3 },
        Report::Ended(Ended { rank: 0, pid: 100, cause }),
        Report::Ended(Ended { rank: 0, pid: 100, cause: Cause::UserMemory }),
        Report::Warning("a line".into()),
        Report::Stalled(Some(Stalled { number: 1, deadlock: Some("0 -> 0".into()), cycle: vec![0] })),
        Report::Idle(true),
        Report::Connected(vec![1, 2, 3]),
        Report::Refused("no room".into()),
        Report::Empty(1),
        Report::Left,
        Report::Used(Used { cpu_us: 5, largest_bytes: 1 << 20 }),
        Report::End { status: 0 },
        Report::Counted(Counted::default()),
        Report::Library(Library::Tutti),
        Report::Stands { node: 0, place: 5 },
        Report::Pieces(7),
    ]
}

/// A frame as one sample: number of its kind, the rank or number that it is about, and its payload.
fn sample(kind: Kind, number: u32, payload: &[u8]) -> Vec<u8> {
    [&(kind as u32).to_le_bytes(), &number.to_le_bytes(), payload].concat()
}

fn samples() -> Vec<Vec<u8>> {
    let report = |report: &Report| serde_json::to_vec(report).expect("a report");
    let mut all: Vec<_> = reports().iter().map(|one| sample(Kind::Report, 0, &report(one))).collect();
    let back = Reattach {
        job: 1,
        token: 5,
        base: 0,
        piece: 0,
        taken: true,
        told: Default::default(),
        greeting: None,
    };
    let two = [1_u64.to_le_bytes(), 1_u64.to_le_bytes()].concat();
    let view = br#"{"ranks":[{"rank":0,"pid":100,"state":"frozen"}]}"#;
    all.extend([
        sample(Kind::Output, 0, b"a line\n"),
        sample(Kind::Errors, 0, &[b'x'; 500]),
        sample(Kind::Held, 0, &[&1_u64.to_le_bytes()[..], view].concat()),
        sample(Kind::Released, 0, &two),
        sample(Kind::ContextDone, 0, &two),
        sample(Kind::Ask, 1, b"mcmd=spawn"),
        sample(Kind::Spawned, 1, &two),
        sample(Kind::Fence, 1, b"key=value;"),
        sample(Kind::Reattach, 0, &serde_json::to_vec(&back).expect("a starter that is back")),
    ]);
    all
}

/// JSON in which some values are others, and some keys are missing or not its own. What is no JSON stays.
pub(crate) fn nearly_json(random: &mut Random, text: &[u8]) -> Vec<u8> {
    let Ok(value) = serde_json::from_slice(text) else { return text.to_vec() };
    nearly_value(random, &value).to_string().into_bytes()
}

fn nearly_value(random: &mut Random, value: &Value) -> Value {
    if random.chance(60) {
        let odd = [
            Value::Null,
            json!(0),
            json!(-1),
            json!(u32::MAX),
            json!(1_u64 << 40),
            json!(u64::MAX),
            json!(1e308),
            json!("\u{202e}\u{0}\u{1b}[2J/../.."),
            json!("x".repeat(random.below(5000) as usize)),
            json!([]),
            json!(vec![7; random.below(300) as usize]),
            json!(random.chance(500)),
        ];
        return odd[random.below(odd.len() as u64) as usize].clone();
    }
    match value {
        Value::Array(all) => all.iter().map(|one| nearly_value(random, one)).collect(),
        Value::Object(all) => {
            let mut changed = Map::new();
            for (key, one) in all {
                match random.below(40) {
                    0 => {}
                    1 => drop(changed.insert(format!("{key}_"), one.clone())),
                    _ => drop(changed.insert(key.clone(), nearly_value(random, one))),
                }
            }
            Value::Object(changed)
        }
        other => other.clone(),
    }
}

/// Decodes a sample; none: its kind is none.
fn frame(bytes: &[u8]) -> Option<(Kind, u32, Vec<u8>)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (number, payload) = (word(4)?, bytes.get(8..)?);
    let kind = KINDS.into_iter().find(|kind| Some(*kind as u32) == word(0))?;
    Some((kind, number, payload.to_vec()))
}

/// Jobs of the hostile user whose starters are here.
#[derive(Default)]
struct Hostile {
    /// Front ends that stay.
    clients: Vec<ClientId>,
    /// Jobs that have begun.
    begun: u64,
}

impl Hostile {
    /// A job whose starter may say something.
    fn job(&mut self, alone: &mut Alone, random: &mut Random, submit: &Submit) -> Option<JobId> {
        if alone.started.is_empty() || random.chance(30) {
            let request = match random.below(3) {
                0 => Request::Run(Box::new(submit.clone())),
                1 => Request::Submit(Box::new(submit.clone())),
                _ => Request::Enrol(Box::new(submit.clone())),
            };
            let before = alone.started.len();
            self.clients.push(alone.begin(HOSTILE, request).0);
            self.begun += u64::from(alone.started.len() > before);
        }
        let count = alone.started.len() as u64;
        (count > 0).then(|| alone.started[random.below(count) as usize])
    }

    /// Ends what has been begun; the next jobs begin anew.
    fn end(&mut self, alone: &mut Alone) {
        for client in self.clients.drain(..) {
            alone.handle(client, Event::ClientGone(client));
        }
        for job in alone.started.clone() {
            let died = StarterEnd::Died("it was killed".into());
            alone.handle(ClientId(0), Event::StarterGone(job, died));
            alone.started.retain(|started| *started != job);
        }
    }
}

#[test]
fn frames_of_starters_that_are_nearly_right_change_no_job_of_another_user() {
    let (mut alone, _, submit) = alone();
    let (submit, before) = (plain(&submit), alone.rows.clone());
    let (mut hostile, mut random) = (Hostile::default(), Random::new(tutti_testkit::seed()));
    let (mut given, mut kinds) = (0_u64, BTreeMap::<&str, u64>::new());
    let samples = samples();
    tutti_testkit::nearly::read_frames(&samples, |bytes| {
        // Bytes that are nearly a frame, or a frame whose values are nearly right.
        let sample = &samples[random.below(samples.len() as u64) as usize];
        let is_whole = random.chance(500);
        let Some((kind, number, mut payload)) = frame(if is_whole { sample } else { bytes }) else { return };
        if is_whole {
            payload = nearly_json(&mut random, &payload);
        }
        let Some(job) = hostile.job(&mut alone, &mut random, &submit) else { return };
        given += 1;
        let read = serde_json::from_slice::<Report>(&payload);
        let shown = match (kind, &read) {
            (Kind::Report, Ok(_)) => "report",
            (Kind::Report, Err(_)) => "no report",
            (Kind::Reattach, _) => "reattach",
            _ => "other",
        };
        *kinds.entry(shown).or_default() += 1;
        let event = match (kind, serde_json::from_slice(&payload)) {
            (Kind::Reattach, Ok(back)) => Event::Reattach(job, back),
            _ => Event::Starter(job, vec![(kind, number, payload)]),
        };
        alone.handle(ClientId(0), event);
        alone.clocks = Clocks::from(alone.clocks.wall_ms + 1);
        if given.is_multiple_of(FRAMES_EACH) {
            alone.handle(ClientId(0), Event::Tick);
            assert_eq!(alone.jobs(), before);
        }
        if given.is_multiple_of(10 * FRAMES_EACH) {
            hostile.end(&mut alone);
        }
    });
    hostile.end(&mut alone);
    assert_eq!(alone.jobs(), before);
    println!("{given} frames of {} jobs: {kinds:?}", hostile.begun);
    assert!(hostile.begun >= given / 1000 && kinds.len() == 4, "{} jobs, {kinds:?}", hostile.begun);
}

/// Records of starters as a daemon leaves them, by job.
fn left() -> (Alone, BTreeMap<JobId, StarterRecord>) {
    let (mut alone, _, submit) = alone();
    let submit = plain(&submit);
    for request in [Request::Submit(Box::new(submit.clone())), Request::Enrol(Box::new(submit))] {
        alone.begin(HOSTILE, request);
    }
    let records = alone.records.clone();
    assert!(!records.is_empty(), "a starter has left a record");
    (alone, records)
}

/// Records of starters as a daemon leaves them.
pub(crate) fn left_records() -> Vec<StarterRecord> {
    left().1.into_values().collect()
}

/// A daemon finds what another has left, with other bytes than were written: it goes on within its bounds.
#[test]
fn records_of_starters_that_are_nearly_right_are_taken_or_refused() {
    let (alone, records) = left();
    let samples: Vec<Vec<u8>> =
        records.iter().map(|record| serde_json::to_vec(&record).expect("a record")).collect();
    let world = World::new(seeds(1)[0], 1, 2);
    let (mut taken, mut refused, mut random) = (0_u64, 0_u64, Random::new(tutti_testkit::seed()));
    let frames = self::samples();
    tutti_testkit::nearly::read_frames(&samples, |bytes| {
        let mut bytes = bytes.to_vec();
        if random.chance(500) {
            let sample = &samples[random.below(samples.len() as u64) as usize];
            bytes = nearly_json(&mut random, sample);
        }
        let Ok((job, record)) = serde_json::from_slice::<(JobId, StarterRecord)>(&bytes) else {
            refused += 1;
            return;
        };
        taken += 1;
        let (is_alive, mut clocks) = (record.alive, alone.clocks);
        let config = world.config(0, 5, vec![(job, record)]);
        let mut core = Core::new(config, clocks);
        let mut events = vec![Event::Tick];
        if is_alive && random.chance(500) {
            let one = &frames[random.below(frames.len() as u64) as usize];
            events.extend(frame(one).map(|frame| Event::Starter(job, vec![frame])));
        }
        events.push(Event::StarterGone(job, StarterEnd::Died("it is gone".into())));
        for event in events {
            clocks = Clocks::from(clocks.wall_ms + 1_000);
            core.handle(clocks, event);
            while core.poll_action().is_some() {}
            core.check_bounds();
        }
    });
    println!("{taken} taken, {refused} refused");
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
}
