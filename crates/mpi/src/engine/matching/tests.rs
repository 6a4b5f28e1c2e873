//! Matching with indexes is matching by the plain lists: the same calls on both, in random order, with queues
//! long enough for indexes to be built, used, brought up to date and dropped.

use proptest::prelude::*;

use tutti_datatype::{Buffer, SignatureWord};

use super::super::unexpected_message::SHORT_BYTES;
use super::*;
use crate::abi::MPI_ANY_TAG;
use crate::request::RequestKind;

const SOURCES: usize = 2;
const TAGS: i32 = 90;

/// Model of what the standard says, by looking through everything.
#[derive(Default)]
struct Model {
    /// Source or MPI_ANY_SOURCE, context, tag, name; in order of posting.
    posted: Vec<(i32, u32, i32, u32)>,
    /// Source, context, tag, name; in order of arrival.
    unexpected: Vec<(usize, u32, i32, usize)>,
}

fn takes_message(of: (i32, u32, i32), message: (usize, u32, i32)) -> bool {
    (of.0 == MPI_ANY_SOURCE || of.0 == message.0 as i32)
        && of.1 == message.1
        && (of.2 == MPI_ANY_TAG || of.2 == message.2)
}

impl Model {
    fn take_posted(&mut self, message: (usize, u32, i32)) -> Option<u32> {
        let position = self
            .posted
            .iter()
            .position(|&(source, context, tag, _)| takes_message((source, context, tag), message))?;
        Some(self.posted.remove(position).3)
    }

    /// Which messages a receive may take: the first of each source, at `turn` or behind it first.
    fn find(&self, receive: (i32, u32, i32), turn: usize) -> Option<usize> {
        (0..SOURCES).map(|i| (turn + i) % SOURCES).find_map(|from| {
            self.unexpected.iter().position(|&(source, context, tag, _)| {
                source == from && takes_message(receive, (source, context, tag))
            })
        })
    }
}

#[derive(Clone, Debug)]
enum Call {
    Post(i32, u32, i32),
    Arrive(usize, u32, i32),
    /// A message for the first receive of the queue of a source, as the fast path takes it.
    ArriveFirst(usize),
    /// The receive for the first short message of a source, as the fast path takes it.
    PostFirst(usize),
    CancelReceive(prop::sample::Index),
    CancelSend(prop::sample::Index),
    Probe(i32, u32, i32),
    MatchedProbe(i32, u32, i32),
    CompleteStream(prop::sample::Index),
}

/// Stretch of calls of one kind of mixture: queues grow in some stretches and are emptied in others.
fn stretch() -> impl Strategy<Value = Vec<Call>> {
    let source = prop_oneof![8 => 0..SOURCES as i32, 1 => Just(MPI_ANY_SOURCE)];
    let tag = prop_oneof![9 => 0..TAGS, 1 => Just(MPI_ANY_TAG)];
    let receive = (source, 0..2_u32, tag);
    let message = (0..SOURCES, 0..2_u32, 0..TAGS);
    let mixture = prop_oneof![Just((8, 0)), Just((0, 8)), Just((8, 2)), Just((2, 8)), Just((4, 4))];
    (mixture, 0..2_u32, 1..400_usize).prop_flat_map(move |((posts, arrivals), others, length)| {
        let (from, index) = (0..SOURCES, any::<prop::sample::Index>());
        let call = prop_oneof![
            posts * 2 => receive.clone().prop_map(|(source, context, tag)| Call::Post(source, context, tag)),
            arrivals * 2 => message.clone().prop_map(|(from, context, tag)| Call::Arrive(from, context, tag)),
            others => from.clone().prop_map(Call::ArriveFirst),
            others => from.prop_map(Call::PostFirst),
            others => index.clone().prop_map(Call::CancelReceive),
            others => index.clone().prop_map(Call::CancelSend),
            1 => receive.clone().prop_map(|(source, context, tag)| Call::Probe(source, context, tag)),
            others => receive.clone().prop_map(|(source, context, tag)| Call::MatchedProbe(source, context, tag)),
            others => index.clone().prop_map(Call::CompleteStream),
        ];
        prop::collection::vec(call, length)
    })
}

struct Both {
    matching: Matching,
    requests: Slab<Request>,
    model: Model,
    /// Number of the next message, which is also its length.
    next: usize,
}

impl Both {
    fn new() -> Self {
        Both {
            matching: Matching::new(SOURCES),
            requests: Slab::new(Kind::Request),
            model: Model::default(),
            next: 0,
        }
    }

    fn unexpected(&mut self, context: u32, tag: i32) -> Unexpected {
        self.next += 1;
        let number = self.next as u32;
        let body = match number % 4 {
            0 => Body::Short([0; SHORT_BYTES]),
            1 => Body::Streaming(number),
            2 => Body::Rendezvous { message: number, address: 0 },
            _ => Body::Signed(SignatureWord(1), Box::new(Body::Rendezvous { message: number, address: 0 })),
        };
        // The number is at least the length of short messages, which nothing reads here.
        Unexpected { context, tag, bytes: self.next, body }
    }

    fn call(&mut self, call: Call) {
        match call {
            Call::Post(source, context, tag) => self.post(source, context, tag),
            Call::Arrive(from, context, tag) => self.arrive(from, context, tag),
            Call::ArriveFirst(from) => self.arrive_first(from),
            Call::PostFirst(from) => self.post_first(from),
            Call::CancelReceive(which) if !self.model.posted.is_empty() => {
                let index = self.model.posted.remove(which.index(self.model.posted.len())).3;
                assert!(self.matching.is_posted(&self.requests, index));
                assert!(self.matching.withdraw(&mut self.requests, index));
                assert!(!self.matching.withdraw(&mut self.requests, index), "it is gone");
                self.requests.remove(index);
            }
            Call::CancelSend(which) if !self.model.unexpected.is_empty() => {
                let position = which.index(self.model.unexpected.len());
                let (from, _, _, name) = self.model.unexpected[position];
                let is_announced = name % 4 >= 2;
                assert_eq!(self.matching.withdraw_announced(from, name as u32), is_announced);
                if is_announced {
                    self.model.unexpected.remove(position);
                }
            }
            Call::Probe(source, context, tag) => {
                let expected = self.model.find((source, context, tag), self.matching.turn).map(|at| {
                    let (from, _, tag, bytes) = self.model.unexpected[at];
                    Found { source: from as u32, tag, bytes }
                });
                assert_eq!(self.matching.probe(context, source, tag), expected);
            }
            Call::MatchedProbe(source, context, tag) => {
                let expected = self.model.find((source, context, tag), self.matching.turn);
                let found = self.matching.extract(context, source, tag);
                let expected = expected.map(|at| self.model.unexpected.remove(at));
                assert_eq!(found.map(|(found, _)| found.bytes), expected.map(|message| message.3));
                if let Some((_, handle)) = found {
                    let index = self.matching.find_extracted(handle).expect("it was extracted just now");
                    self.matching.take_extracted(index);
                }
            }
            Call::CompleteStream(which) if !self.model.unexpected.is_empty() => {
                let (from, _, _, name) = self.model.unexpected[which.index(self.model.unexpected.len())];
                let streams = |(_, message): (usize, &Unexpected)| message.body.is_streaming(name as u32);
                if self.matching.unexpected().any(streams) {
                    self.matching.complete_stream(from, name as u32, Box::default());
                    assert!(!self.matching.unexpected().any(streams));
                }
            }
            _ => {}
        }
    }

    /// How many indexes there are, of posted and of unexpected queues.
    fn indexed(&self) -> [usize; 2] {
        [self.matching.posted_indexes.iter().flatten().count(), self.matching.unexpected.indexes()]
    }

    fn post(&mut self, source: i32, context: u32, tag: i32) {
        let request = Request::new(RequestKind::Receive, Buffer::empty(), context, source, tag);
        let expected = self.model.find((source, context, tag), self.matching.turn);
        let taken = self.matching.take_unexpected(&request).map(|(from, message)| (from, message.bytes));
        let expected = expected.map(|at| self.model.unexpected.remove(at));
        assert_eq!(taken, expected.map(|message| (message.0, message.3)));
        if taken.is_none() {
            let index = self.requests.insert(request);
            self.matching.post(&mut self.requests, index);
            self.model.posted.push((source, context, tag, index));
        }
    }

    fn arrive(&mut self, from: usize, context: u32, tag: i32) {
        let taken = self.matching.take_posted(&mut self.requests, from, context, tag);
        assert_eq!(taken, self.model.take_posted((from, context, tag)));
        match taken {
            Some(index) => drop(self.requests.remove(index)),
            None => {
                let message = self.unexpected(context, tag);
                self.model.unexpected.push((from, context, tag, message.bytes));
                self.matching.keep(from, message);
            }
        }
    }

    fn arrive_first(&mut self, from: usize) {
        let Some(index) = self.matching.only_candidate(from) else { return };
        let request = self.requests.get_mut(index);
        let tag = if request.tag == MPI_ANY_TAG { 7 } else { request.tag };
        let context = request.context;
        let next = std::mem::replace(&mut request.next, NONE);
        self.matching.take_candidate(from, next);
        assert_eq!(self.model.take_posted((from, context, tag)), Some(index));
        self.requests.remove(index);
    }

    fn post_first(&mut self, from: usize) {
        let position = self.model.unexpected.iter().position(|message| message.0 == from);
        let Some(position) = position else { return };
        let (_, context, tag, bytes) = self.model.unexpected[position];
        if bytes % 4 == 0 && bytes <= SHORT_BYTES {
            let taken = self.matching.take_first_short(from, context, tag, SHORT_BYTES, |_| {});
            assert_eq!(taken, Some((tag, bytes)));
            self.model.unexpected.remove(position);
        } else {
            self.post(from as i32, context, tag);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn matching_by_index_is_matching_by_list(stretches in prop::collection::vec(stretch(), 1..12)) {
        let mut both = Both::new();
        stretches.into_iter().flatten().for_each(|call| both.call(call));
        let names = |message: (usize, &Unexpected)| message.1.bytes;
        for from in 0..SOURCES {
            let left = both.model.unexpected.iter().filter(|message| message.0 == from).map(|message| message.3);
            prop_assert!(both.matching.unexpected().filter(|message| message.0 == from).map(names).eq(left));
        }
    }
}

#[test]
fn matching_builds_an_index_of_a_long_queue_and_drops_it_of_a_short_one() {
    let mut both = Both::new();
    for tag in 0..200 {
        both.post(0, 0, tag);
        both.arrive(1, 0, tag);
    }
    assert_eq!(both.indexed(), [0, 0], "nothing was searched for");
    both.arrive(0, 0, 199);
    both.post(1, 0, 199);
    assert_eq!(both.indexed(), [1, 1]);
    for tag in (0..199).rev() {
        both.arrive(0, 0, tag);
        both.post(1, 0, tag);
    }
    both.post(0, 0, 1);
    both.post(0, 0, 2);
    both.arrive(0, 0, 2);
    both.arrive(1, 0, 1);
    both.arrive(1, 0, 2);
    both.post(1, 0, 2);
    assert_eq!(both.indexed(), [0, 0]);
}

/// Streams from other nodes are numbered here, announced messages by their sender: one number may be both.
#[test]
fn matching_index_keeps_streams_and_announced_messages_apart() {
    let mut matching = Matching::new(SOURCES);
    let message = |tag: i32, body| Unexpected { context: 0, tag, bytes: 0, body };
    matching.keep(0, message(0, Body::Rendezvous { message: 0, address: 0 }));
    for tag in 1..200 {
        matching.keep(0, message(tag, Body::Short([0; SHORT_BYTES])));
    }
    assert!(matching.probe(0, 0, 777).is_none(), "the index is built");
    matching.keep(0, message(200, Body::Streaming(0)));
    assert!(matching.probe(0, 0, 777).is_none(), "and knows the stream");
    assert!(matching.withdraw_announced(0, 0), "the announced message is there");
    assert!(!matching.withdraw_announced(0, 0));
}
