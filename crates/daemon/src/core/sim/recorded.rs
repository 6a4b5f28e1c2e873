//! Samples of what daemons say to each other and keep, as runs of the simulation have it, and the tests that
//! whatever is nearly like that is read or refused.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tutti_protocol::codec;
use tutti_protocol::turns::TurnBatch;
use tutti_shm::published::far::Wanted;
use tutti_testkit::Random;

use super::world::World;
use super::{ALL, seeds};
use crate::core::Core;
use crate::core::action::Action;
use crate::core::clocks::Clocks;
use crate::core::event::Event;
use crate::core::journal::Journal;
use crate::ids::{ClientId, LinkId};
use crate::members::NodeId;
use crate::message::{BoardLine, Change, JobId, MESSAGE_BYTES_MAX, Message, Request};

/// Kinds of messages: all that there are.
const KINDS: [&str; 12] = [
    "Hello", "Welcome", "Refused", "Members", "Orders", "States", "Gone", "Route", "Gang", "Down", "Alive",
    "Board",
];

/// Kind of a message; of one that is handed on also that of its content.
fn kind(message: &Message) -> String {
    match message {
        Message::Route { body, .. } => {
            let shown = format!("{body:?}");
            let end = shown.find(|c: char| !c.is_alphanumeric()).unwrap_or(shown.len());
            format!("Route {}", &shown[..end])
        }
        other => other.name().to_owned(),
    }
}

/// Samples of one kind.
const OF_KIND_MAX: usize = 6;

/// Samples of a run.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Messages by kind.
    messages: BTreeMap<String, Vec<Vec<u8>>>,
    journals: Vec<Vec<u8>>,
}

impl Recorded {
    fn samples(&self) -> Vec<Vec<u8>> {
        self.messages.values().flatten().cloned().collect()
    }

    /// Keeps a message as it travels.
    pub(super) fn note(&mut self, message: &Message, bytes: &[u8]) {
        let known = self.messages.entry(kind(message)).or_default();
        if known.len() < OF_KIND_MAX {
            known.push(bytes.to_vec());
        }
    }

    /// Keeps a journal as it is written.
    pub(super) fn note_journal(&mut self, journal: &Journal) {
        if self.journals.len() < 100 {
            self.journals.push(codec::encode(journal));
        }
    }
}

/// Some time of a cluster in which everything happens: what was said, and the cluster as it is then.
fn record() -> (Recorded, World) {
    let mut world = World::new(seeds(1)[0], 5, 2);
    let mut recorded = Recorded::default();
    // A switch thread, a board, the keeper and a daemon of another release say these.
    let by_others = [
        Message::Gang { number: 3, word: vec![7; 40] },
        Message::Down,
        Message::Refused("another release".into()),
        Message::Gone { node: NodeId(3), incarnation: 5, by: NodeId(1) },
        Message::Board(vec![BoardLine { node: NodeId(2), age_ms: 9, words: vec![(0, 1), (3, 4)] }]),
    ];
    by_others.iter().for_each(|message| recorded.note(message, &codec::encode(message)));
    world.recorded = Some(recorded);
    world.batch = Some(Random::new(seeds(1)[0]));
    world.holds = Some(Random::new(seeds(1)[0] + 1));
    world.run_until(3_000);
    for step in 0..150 {
        world.user_does_something();
        ask_for_more(&mut world, step);
        match step % 10 {
            3 => world.break_a_link(),
            7 => world.kill_a_daemon(ALL.controller_dies),
            _ => {}
        }
        world.run_until(world.now_ms + 200);
    }
    // A daemon that was killed is there again, and has its links.
    world.let_nothing_else_fail();
    world.run_until(world.now_ms + 10_000);
    (world.recorded.take().expect("it was put there"), world)
}

/// Asks for and reports what runs seldom have.
fn ask_for_more(world: &mut World, step: u64) {
    let client = ClientId((1 << 50) + step);
    let requests = [
        Request::Configuration,
        Request::Prices,
        Request::Watch(Box::default()),
        Request::Reservations,
        Request::Number,
        Request::Drain("node4".into(), "disk".into()),
        Request::Undrain("node4".into()),
        Request::Change(JobId(1), Change { weight: Some(7), ..Change::default() }),
        Request::Snapshot(JobId(1)),
    ];
    match step % 5 {
        0 => {
            let wanted = Wanted { owner: 7, name: "there".into(), node: "node3".into() };
            world.want_region(4, client, wanted);
        }
        1 => world.want_services(4, client),
        2 => {
            world.deliver(2, Event::Use(Box::default()));
            world.deliver(3, Event::Turns(TurnBatch::default()));
        }
        _ if world.has_daemon(2) => {
            world.user_requests(2, requests[(step % requests.len() as u64) as usize].clone());
        }
        _ => {}
    }
}

/// A daemon's core alone, with others that say anything.
struct Alone {
    core: Core,
    links: Vec<LinkId>,
    clocks: Clocks,
    /// Numbers of new links.
    next: u64,
}

impl Alone {
    fn new(world: &mut World, node: usize) -> Self {
        let (core, links, clocks) = world.take_core(node).expect("it lives");
        Alone { core, links, clocks, next: 1 << 40 }
    }

    fn handle(&mut self, event: Event) {
        self.core.handle(self.clocks, event);
    }

    fn open(&mut self) -> LinkId {
        self.next += 1;
        let link = LinkId(self.next);
        self.links.push(link);
        link
    }

    /// Gives it a message on the link of this number, and carries out what is about links: one that it closes
    /// is opened anew, with a `hello`.
    fn take(&mut self, link: u64, message: Message, hello: &Message) {
        let link = self.links[(link % self.links.len() as u64) as usize];
        self.handle(Event::Message(link, message));
        // What comes of a link that was opened anew is for the next message.
        let actions: Vec<Action> = std::iter::from_fn(|| self.core.poll_action()).collect();
        for action in actions {
            match action {
                Action::Close(link) if self.links.contains(&link) => {
                    self.links.retain(|open| *open != link);
                    self.handle(Event::LinkDown(link));
                    let link = self.open();
                    self.handle(Event::Accepted(link));
                    self.handle(Event::Message(link, hello.clone()));
                }
                Action::Dial(_) => {
                    let link = self.open();
                    self.handle(Event::Dialled(link));
                }
                Action::Send(_, message) => {
                    let bytes = codec::encode(&message).len();
                    assert!(bytes <= MESSAGE_BYTES_MAX, "a message of {bytes} bytes breaks its link");
                }
                _ => {}
            }
        }
        self.core.check_bounds();
    }
}

/// A controller and another node get them from their neighbours: they go on, within their bounds, and what
/// they say themselves has room in messages.
#[test]
fn cores_take_messages_of_daemons_that_are_nearly_right() {
    let (recorded, mut world) = record();
    let samples = recorded.samples();
    let decoded = samples.iter().map(|sample| codec::decode::<Message>(sample).expect("a sample"));
    let hellos: Vec<Message> =
        decoded.filter(|message| matches!(message, Message::Hello { node: Some(_), .. })).collect();
    for node in [0, 1] {
        let mut alone = Alone::new(&mut world, node);
        let (mut taken, mut kinds) = (0_u64, BTreeMap::<String, u64>::new());
        tutti_testkit::nearly::read_frames(&samples, |bytes| {
            let Ok(message) = codec::decode::<Message>(bytes) else { return };
            taken += 1;
            if !samples.iter().any(|sample| sample == bytes) {
                *kinds.entry(kind(&message)).or_default() += 1;
            }
            let hello = &hellos[(taken % hellos.len() as u64) as usize];
            alone.take(taken, message, hello);
            if taken.is_multiple_of(50) {
                alone.handle(Event::Tick);
            }
        });
        println!("node {node} has taken {taken}, of these kinds changed ones: {kinds:?}");
        assert!(kinds.len() >= 12, "{kinds:?}");
    }
}

/// Bytes that are a value are it again when it is written and read once more.
fn read_again<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> bool {
    let Ok(value) = codec::decode::<T>(bytes) else { return false };
    assert_eq!(codec::decode(&codec::encode(&value)), Ok(value));
    true
}

#[test]
fn messages_of_daemons_that_are_nearly_right_are_read_or_refused() {
    let (recorded, _) = record();
    let samples = recorded.samples();
    let missing: Vec<&str> = KINDS
        .into_iter()
        .filter(|name| !recorded.messages.keys().any(|kind| kind.split(' ').next() == Some(*name)))
        .collect();
    assert!(missing.is_empty(), "no sample of {missing:?}: {:?}", recorded.messages.keys());
    assert!(samples.iter().all(|sample| read_again::<Message>(sample)));
    let (mut read, mut refused) = (0_u64, 0_u64);
    tutti_testkit::nearly::read_frames(&samples, |bytes| {
        *(if read_again::<Message>(bytes) { &mut read } else { &mut refused }) += 1;
    });
    println!("{} kinds, {} samples: {read} read, {refused} refused", recorded.messages.len(), samples.len());
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
}

#[test]
fn journals_that_are_nearly_right_are_read_or_refused() {
    let samples = record().0.journals;
    assert!(samples.len() > 10, "{} journals", samples.len());
    let mut read = 0_u64;
    tutti_testkit::nearly::read_frames(&samples, |bytes| read += u64::from(read_again::<Journal>(bytes)));
    assert!(read > 0);
}
