use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;

use proptest::prelude::*;
use tutti_datatype::Buffer;
use tutti_shm::opened::Opened;

use crate::engine::bulk::{GET_BYTES_MIN, GETS_MAX, GETS_SERVED_MAX, PUT_BYTES_MIN};
use crate::engine::{Engine, Offered, Port, Pushed, Room};
use crate::operation::{Action, Operation};
use crate::region::{Region, Rights};
use crate::wire::{Name, Refusal};

const FRAGMENT_BYTES: usize = 24 << 10;
const ROOMS_MAX: usize = 3;

/// Room that a rank has made for a message.
#[derive(Clone, Copy, Debug)]
struct Made {
    name: u64,
    bytes: usize,
    tag: u64,
}

/// A message that a rank sends.
#[derive(Debug)]
struct Sent {
    name: u64,
    bytes: usize,
    tag: u64,
    left: Vec<usize>,
}

/// Records and messages that the channel has of each rank.
#[derive(Debug, Default)]
struct Side {
    records: VecDeque<Vec<u8>>,
    rooms: Vec<Made>,
    sent: Vec<Sent>,
    names: u64,
}

struct End<'a>(&'a RefCell<Side>);

impl Port for End<'_> {
    fn offer(&mut self, _to: usize, head: &[u8], body: &[u8]) -> Offered {
        let records = &mut self.0.borrow_mut().records;
        if records.len() == 4 {
            return Offered::Full;
        }
        records.push_back([head, body].concat());
        Offered::Taken
    }

    fn accept_bulk(&mut self, _from: usize, bytes: usize, tag: u64) -> Room {
        let side = &mut *self.0.borrow_mut();
        if side.rooms.len() == ROOMS_MAX {
            return Room::Full;
        }
        side.names += 1;
        side.rooms.push(Made { name: side.names, bytes, tag });
        Room::Named(side.names)
    }

    fn send_bulk(&mut self, _to: usize, name: u64, bytes: usize, tag: u64) -> Offered {
        let left = (0..bytes.div_ceil(FRAGMENT_BYTES)).collect();
        self.0.borrow_mut().sent.push(Sent { name, bytes, tag, left });
        Offered::Taken
    }

    fn cancel_bulk(&mut self, _from: usize, name: u64) {
        self.0.borrow_mut().rooms.retain(|room| room.name != name);
    }

    fn has_bulk(&self) -> bool {
        true
    }
}

struct Pair {
    engines: [Engine; 2],
    sides: [RefCell<Side>; 2],
    chance: u64,
    /// Records are changed on their way.
    is_hostile: bool,
    /// Whether senders of messages learn last that they have arrived.
    is_acknowledged_late: bool,
    /// Messages that have arrived, and their senders.
    unacknowledged: Vec<(usize, u64)>,
}

impl Pair {
    fn new(chance: u64) -> Self {
        Pair {
            engines: [0, 1].map(|me| Engine::new(me, 4096)),
            sides: Default::default(),
            chance,
            is_hostile: false,
            is_acknowledged_late: false,
            unacknowledged: Vec::new(),
        }
    }

    fn below(&mut self, most: usize) -> usize {
        self.chance =
            self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) as usize % most
    }

    fn push(&mut self, operation: &mut Operation) -> Pushed {
        self.engines[0].push(operation, &mut End(&self.sides[0]))
    }

    /// A record arrives, or a fragment: any of those that have not, perhaps for a second time.
    fn step(&mut self) {
        for to in [1, 0] {
            let from = 1 - to;
            let record = self.sides[from].borrow_mut().records.pop_front();
            if let Some(mut record) = record {
                if self.is_hostile && self.below(3) == 0 {
                    let at = self.below(record.len());
                    record[at] ^= 1 << self.below(8);
                    let length = self.below(8 * record.len());
                    record.truncate(length);
                }
                self.engines[to].take(from, &record);
            }
            self.engines[to].pump(&mut End(&self.sides[to]));
            let sent = self.sides[from].borrow_mut().sent.pop();
            let Some(mut sent) = sent else { continue };
            if sent.left.is_empty() {
                // The channel has nothing to send of it.
                self.engines[from].handle_bulk_sent(sent.tag);
                continue;
            }
            let at = self.below(sent.left.len());
            let index = sent.left.swap_remove(at);
            let offset = index * FRAGMENT_BYTES;
            let mut bytes = vec![0; FRAGMENT_BYTES.min(sent.bytes - offset)];
            self.engines[from].load_bulk(sent.tag, offset as u64, &mut bytes);
            let room = self.sides[to].borrow().rooms.iter().find(|room| room.name == sent.name).copied();
            let Some(room) = room else {
                self.engines[from].handle_bulk_refused(sent.tag);
                continue;
            };
            if room.bytes != sent.bytes {
                assert!(self.is_hostile, "a message of {} bytes for {}", sent.bytes, room.bytes);
                self.engines[from].handle_bulk_refused(sent.tag);
                continue;
            }
            self.engines[to].store_bulk(room.tag, offset as u64, &bytes);
            if !sent.left.is_empty() {
                let waiting = self.sides[from].borrow().sent.len();
                let place = self.below(waiting + 1);
                self.sides[from].borrow_mut().sent.insert(place, sent);
                continue;
            }
            self.sides[to].borrow_mut().rooms.retain(|other| other.name != room.name);
            self.engines[to].handle_bulk_received(room.tag);
            self.unacknowledged.push((from, sent.tag));
            if !self.is_acknowledged_late {
                self.acknowledge();
            }
        }
    }

    fn acknowledge(&mut self) {
        for (from, tag) in self.unacknowledged.drain(..) {
            self.engines[from].handle_bulk_sent(tag);
        }
    }

    fn run(&mut self, operation: &mut Operation) {
        while self.push(operation) == Pushed::Part {
            self.step();
        }
    }

    fn settle(&mut self) {
        let is_idle =
            |side: &RefCell<Side>| side.borrow().records.is_empty() && side.borrow().sent.is_empty();
        while self.engines[0].outstanding(1) > 0 || !self.sides.iter().all(is_idle) {
            self.step();
        }
        self.step();
        self.acknowledge();
        assert!(self.engines.iter().all(Engine::is_flushed), "{:?}", self.engines);
        assert!(self.sides.iter().all(|side| side.borrow().rooms.is_empty()), "room is left over");
    }

    fn open(&mut self, memory: &mut [u8], rights: Rights) -> Name {
        // SAFETY: the memory of a test outlives its operations.
        let opened = unsafe { Opened::new(NonNull::from(&mut memory[0]), memory.len()) };
        self.engines[1].open(Region::plain(opened).with_rights(rights))
    }
}

fn put(region: Name, offset: usize, from: &[u8]) -> Operation {
    let buffer = Buffer::contiguous(from.as_ptr().cast_mut(), from.len());
    // SAFETY: tests keep what they name until the operation is complete.
    unsafe { Operation::new(1, region, Action::Write { from: buffer }, vec![(offset as u64, from.len())]) }
}

fn get(region: Name, offset: usize, into: &mut [u8]) -> Operation {
    let buffer = Buffer::contiguous(into.as_mut_ptr(), into.len());
    // SAFETY: as above.
    unsafe { Operation::new(1, region, Action::Read { into: buffer }, vec![(offset as u64, into.len())]) }
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(seed | 1) >> 3) as u8 ^ seed as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Long and short ones, in any mixture, are done in the order of the calls.
    #[test]
    fn long_operations_of_a_pair_are_done_in_order(
        steps in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>(), 0_usize..4000), 1..8),
        chance in any::<u64>(),
    ) {
        let mut pair = Pair::new(chance);
        let mut memory = pattern(PUT_BYTES_MIN + 9000, 5);
        let mut expected = memory.clone();
        let region = pair.open(&mut memory, Rights::ALL);
        let mut origins = Vec::new();
        let mut results: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (number, (is_put, is_long, lasts, shift)) in steps.into_iter().enumerate() {
            let bytes = if is_long { PUT_BYTES_MIN + shift } else { 8 + shift };
            if is_put {
                let data = pattern(bytes, number + 77);
                expected[shift..shift + bytes].copy_from_slice(&data);
                origins.push(data);
                let operation = put(region, shift, origins.last().expect("one"));
                let mut operation = if lasts { operation.with_lasting_origin() } else { operation };
                pair.run(&mut operation);
                if !lasts {
                    // It may be used again.
                    origins.last_mut().expect("one").fill(0);
                }
            } else {
                results.push((vec![0; bytes], expected[shift..shift + bytes].to_vec()));
                let (into, _) = results.last_mut().expect("one");
                let mut operation = get(region, shift, into);
                pair.run(&mut operation);
            }
        }
        pair.settle();
        prop_assert_eq!(pair.engines[0].take_refusal(1, region), None);
        prop_assert!(memory == expected);
        for (found, expected) in results {
            prop_assert!(found == expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever becomes of the records, nothing outside of what was opened and named changes, nothing panics,
    /// and nobody keeps a message of a rank that has left.
    #[test]
    fn long_operations_take_changed_records(chance in any::<u64>(), steps in prop::collection::vec(any::<bool>(), 1..6)) {
        const EDGE: usize = 4096;
        let bytes = PUT_BYTES_MIN + 5000;
        let mut pair = Pair::new(chance);
        pair.is_hostile = true;
        let mut memory = vec![7; EDGE + bytes + EDGE];
        let region = pair.open(&mut memory[EDGE..EDGE + bytes], Rights::ALL);
        let data = pattern(PUT_BYTES_MIN, 3);
        let mut results = Vec::new();
        for is_put in steps {
            let mut operation = if is_put {
                put(region, 1000, &data).with_lasting_origin()
            } else {
                results.push(vec![7; EDGE + GET_BYTES_MIN + EDGE]);
                get(region, 1000, &mut results.last_mut().expect("one")[EDGE..EDGE + GET_BYTES_MIN])
            };
            for _ in 0..60 {
                if pair.push(&mut operation) != Pushed::Part {
                    break;
                }
                pair.step();
            }
        }
        for _ in 0..200 {
            pair.step();
        }
        let is_edge = |memory: &[u8]| {
            memory[..EDGE].iter().chain(&memory[memory.len() - EDGE..]).all(|byte| *byte == 7)
        };
        prop_assert!(is_edge(&memory) && results.iter().all(|result| is_edge(result)));
        for rank in [0, 1] {
            // As the channel does: what it sends ends when its receiver leaves.
            for sent in std::mem::take(&mut pair.sides[rank].borrow_mut().sent) {
                pair.engines[rank].handle_bulk_refused(sent.tag);
            }
            pair.engines[rank].handle_exit(1 - rank);
            pair.engines[rank].pump(&mut End(&pair.sides[rank]));
            prop_assert!(pair.engines[rank].is_flushed() && pair.sides[rank].borrow().rooms.is_empty());
        }
    }
}

#[test]
fn long_operations_that_are_refused_leave_no_room_behind() {
    let mut pair = Pair::new(1);
    let mut memory = vec![7; PUT_BYTES_MIN];
    let region = pair.open(&mut memory, Rights::NONE);
    let data = vec![1; PUT_BYTES_MIN];
    let mut into = vec![9; GET_BYTES_MIN];
    for round in 0..2 * ROOMS_MAX + GETS_MAX {
        pair.run(&mut put(region, 0, &data));
        pair.settle();
        assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::NoRight), "put {round}");
        pair.run(&mut get(region, 0, &mut into));
        pair.settle();
        assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::NoRight), "get {round}");
    }
    assert!(memory.iter().all(|byte| *byte == 7) && into.iter().all(|byte| *byte == 9));
    let open = pair.open(&mut memory, Rights::ALL);
    pair.run(&mut put(open, 1, &data));
    pair.settle();
    assert_eq!(pair.engines[0].take_refusal(1, open), Some(Refusal::OutOfRange));
}

#[test]
fn long_gets_begin_before_the_ends_of_others_are_acknowledged() {
    let mut pair = Pair::new(1);
    pair.is_acknowledged_late = true;
    let mut memory = pattern(GET_BYTES_MIN, 5);
    let region = pair.open(&mut memory, Rights::READ);
    let mut into = vec![0; GET_BYTES_MIN];
    for round in 0..8 * GETS_MAX {
        pair.run(&mut get(region, 0, &mut into));
        assert_eq!(pair.engines[0].take_refusal(1, region), None, "get {round}");
    }
    pair.settle();
    assert_eq!(pair.engines[0].take_refusal(1, region), None);
    assert_eq!(into, memory);
}

#[test]
fn long_gets_that_are_served_at_once_are_bounded() {
    let mut pair = Pair::new(1);
    pair.is_acknowledged_late = true;
    let mut memory = pattern(GET_BYTES_MIN, 5);
    let region = pair.open(&mut memory, Rights::READ);
    let mut into = vec![0; GET_BYTES_MIN];
    // Some of them go by records, where there is no room.
    for _ in 0..4 * GETS_SERVED_MAX {
        pair.run(&mut get(region, 0, &mut into));
    }
    pair.settle();
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::Malformed));
}

#[test]
fn long_operations_do_not_touch_memory_that_is_closed() {
    let mut pair = Pair::new(3);
    let mut memory = vec![7; PUT_BYTES_MIN];
    let region = pair.open(&mut memory, Rights::ALL);
    let data = vec![1; PUT_BYTES_MIN];
    let mut operation = put(region, 0, &data).with_lasting_origin();
    assert_eq!(pair.push(&mut operation), Pushed::All);
    while memory[..].iter().all(|byte| *byte == 7) {
        pair.step();
    }
    pair.engines[1].close(region);
    let before = memory.clone();
    pair.settle();
    assert!(memory == before && before.contains(&7), "it was closed in between");
}

#[test]
fn long_operations_under_way_outlast_the_retirement_of_their_memory() {
    let mut pair = Pair::new(8);
    let mut memory = vec![7; PUT_BYTES_MIN];
    let region = pair.open(&mut memory, Rights::ALL);
    let data = vec![1; PUT_BYTES_MIN];
    let mut operation = put(region, 0, &data).with_lasting_origin();
    assert_eq!(pair.push(&mut operation), Pushed::All);
    while !pair.engines[1].is_in_use(region) {
        pair.step();
    }
    pair.engines[1].retire(region);
    // What comes now is refused; what is under way is done whole.
    let mut into = vec![9; GET_BYTES_MIN];
    pair.run(&mut get(region, 0, &mut into));
    pair.settle();
    assert!(!pair.engines[1].is_in_use(region));
    assert!(memory.iter().all(|byte| *byte == 1) && into.iter().all(|byte| *byte == 9));
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::NoRegion));
    pair.engines[1].close(region);
    let again = pair.open(&mut memory, Rights::ALL);
    assert_ne!(again, region);
    pair.run(&mut get(again, 0, &mut into));
    pair.settle();
    assert!(into.iter().all(|byte| *byte == 1));
}

#[test]
fn long_put_is_refused_when_its_room_was_taken_back() {
    let mut pair = Pair::new(9);
    let mut memory = vec![7; PUT_BYTES_MIN];
    let region = pair.open(&mut memory, Rights::ALL);
    let data = vec![1; PUT_BYTES_MIN];
    assert_eq!(pair.push(&mut put(region, 0, &data).with_lasting_origin()), Pushed::All);
    while pair.sides[1].borrow().rooms.is_empty() {
        pair.step();
    }
    pair.sides[1].borrow_mut().rooms.clear();
    while pair.engines[0].outstanding(1) > 0 {
        pair.step();
    }
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::Malformed));
}

#[test]
fn long_operations_note_their_end() {
    use crate::done::{Done, DoneAt};
    use std::sync::atomic::Ordering::*;
    let mut pair = Pair::new(10);
    let mut memory = vec![7; PUT_BYTES_MIN];
    let region = pair.open(&mut memory, Rights::READ);
    let data = vec![1; PUT_BYTES_MIN];
    let mut into = vec![9; GET_BYTES_MIN];
    let ends: [Done; 3] = Default::default();
    // SAFETY: the words outlast the operations.
    let [read, refused, left] = std::array::from_fn(|at| unsafe { DoneAt::new(NonNull::from(&ends[at])) });
    pair.run(&mut get(region, 0, &mut into).noted(read));
    assert_eq!(ends[0].count.load(Acquire), 0);
    pair.settle();
    assert_eq!((ends[0].count.load(Acquire), ends[0].refusal(), into[GET_BYTES_MIN - 1]), (1, None, 7));
    pair.run(&mut put(region, 0, &data).with_lasting_origin().noted(refused));
    pair.settle();
    assert_eq!((ends[1].count.load(Acquire), ends[1].refusal()), (1, Some(Refusal::NoRight)));
    // Whoever noted the end has it from there alone.
    assert_eq!(pair.engines[0].take_refusal(1, region), None);
    pair.run(&mut get(region, 0, &mut into).noted(left));
    pair.engines[0].handle_exit(1);
    assert_eq!((ends[2].count.load(Acquire), ends[2].refusal()), (1, Some(Refusal::Gone)));
}

#[test]
fn long_put_whose_target_leaves_before_it_is_handed_over_notes_its_end_once() {
    use crate::done::{Done, DoneAt};
    use std::sync::atomic::Ordering::*;
    let mut pair = Pair::new(11);
    let mut memory = vec![7; PUT_BYTES_MIN];
    let region = pair.open(&mut memory, Rights::ALL);
    let (data, ends) = (vec![1; PUT_BYTES_MIN], [Done::default(), Done::default()]);
    // SAFETY: the words outlast the operations.
    let [begun, late] = std::array::from_fn(|at| unsafe { DoneAt::new(NonNull::from(&ends[at])) });
    let mut operation = put(region, 0, &data).noted(begun);
    assert_eq!(pair.push(&mut operation), Pushed::Part);
    pair.engines[0].handle_exit(1);
    for mut operation in [operation, put(region, 0, &data).noted(late)] {
        assert_eq!([pair.push(&mut operation), pair.push(&mut operation)], [Pushed::Gone; 2]);
    }
    for end in ends {
        assert_eq!((end.count.load(Acquire), end.refusal()), (1, Some(Refusal::Gone)));
    }
}

#[test]
fn long_operations_end_when_their_target_leaves() {
    let mut pair = Pair::new(4);
    let mut memory = vec![7; PUT_BYTES_MIN];
    let region = pair.open(&mut memory, Rights::ALL);
    let mut into = vec![9; GET_BYTES_MIN];
    let mut operation = get(region, 0, &mut into);
    assert_eq!(pair.push(&mut operation), Pushed::All);
    pair.engines[0].handle_exit(1);
    pair.engines[0].pump(&mut End(&pair.sides[0]));
    assert!(pair.sides[0].borrow().rooms.is_empty());
    assert_eq!((pair.engines[0].outstanding(1), pair.engines[0].is_flushed()), (0, true));
    assert_eq!(pair.push(&mut get(region, 0, &mut into)), Pushed::Gone);
}

/// Answers that no rank of ours would send change nothing and end nothing.
#[test]
fn long_operations_survive_unexpected_answers() {
    use crate::wire;
    let mut pair = Pair::new(5);
    let mut memory = vec![7; PUT_BYTES_MIN];
    let region = pair.open(&mut memory, Rights::ALL);
    let data = vec![1; PUT_BYTES_MIN];
    for answer in 0..8 {
        let mut operation = put(region, 0, &data).with_lasting_origin();
        assert_eq!(pair.push(&mut operation), Pushed::All);
        let record = match answer % 4 {
            0 => wire::clear(0, 99),
            1 => wire::reply(0, 0),
            2 => wire::status(0, region, Refusal::Malformed),
            _ => wire::clear(0, 99),
        };
        if answer >= 4 {
            pair.step();
        }
        pair.engines[0].take(1, &record);
        pair.engines[0].take(1, &record);
        for _ in 0..100 {
            pair.step();
        }
        let _ = pair.engines[0].take_refusal(1, region);
        assert_eq!(pair.engines[0].outstanding(1), 0, "{answer}");
        // Room that the target has made for what does not come is freed when the initiator leaves.
        pair.engines[1].handle_exit(0);
        pair.engines[1].pump(&mut End(&pair.sides[1]));
        assert!(pair.engines[1].is_flushed() && pair.sides[1].borrow().rooms.is_empty());
        let engine = std::mem::replace(&mut pair.engines[1], Engine::new(1, 4096));
        drop(engine);
        assert_eq!(pair.open(&mut memory, Rights::ALL), region);
        pair.sides[1].borrow_mut().records.clear();
    }
}

/// The channel goes on reading the origin: the program may not have it back.
#[test]
fn long_put_that_is_being_sent_is_not_ended_by_an_answer() {
    use crate::wire;
    let mut pair = Pair::new(9);
    let mut memory = vec![7; PUT_BYTES_MIN];
    let region = pair.open(&mut memory, Rights::ALL);
    let data = vec![1; PUT_BYTES_MIN];
    for answer in [wire::status(0, region, Refusal::Malformed), wire::reply(0, 0)] {
        let mut operation = put(region, 0, &data).with_lasting_origin();
        assert_eq!(pair.push(&mut operation), Pushed::All);
        while pair.sides[0].borrow().sent.is_empty() {
            pair.step();
        }
        pair.engines[0].take(1, &answer);
        assert_eq!((pair.engines[0].outstanding(1), pair.sides[0].borrow().sent.len()), (1, 1));
        pair.settle();
        assert_eq!(pair.engines[0].take_refusal(1, region), None);
    }
    assert_eq!(memory, data);
}

/// A rank that ends a get by a record and asks for a get itself, before the room of the first is taken back,
/// does not write into what is open for reading.
#[test]
fn long_get_that_was_ended_leaves_its_name_to_no_later_one() {
    use crate::wire::{self, Begin, Range};
    let mut pair = Pair::new(3);
    let mut memory = vec![7; GET_BYTES_MIN];
    let region = pair.open(&mut memory, Rights::ALL);
    let mut own = vec![5; GET_BYTES_MIN];
    // SAFETY: the memory of a test outlives its operations.
    let opened = unsafe { Opened::new(NonNull::from(&mut own[0]), own.len()) };
    let readable = pair.engines[0].open(Region::plain(opened).with_rights(Rights::READ));
    let mut into = vec![0; GET_BYTES_MIN];
    assert_eq!(pair.push(&mut get(region, 0, &mut into)), Pushed::All);
    let tag = pair.sides[0].borrow().rooms[0].tag;
    pair.engines[0].take(1, &wire::status(0, region, Refusal::Malformed));
    let mut fetch = Vec::new();
    let range = Range { offset: 0, bytes: GET_BYTES_MIN as u32 };
    wire::write_request(Begin::Fetch, readable, 0, &[range], &mut fetch);
    fetch.extend_from_slice(&77_u64.to_le_bytes());
    pair.engines[0].take(1, &fetch);
    pair.engines[0].store_bulk(tag, 0, &[9; 100]);
    assert!(pair.engines[0].bulk_place(tag, 0, 100).is_none());
    assert!(own.iter().all(|byte| *byte == 5) && into.iter().all(|byte| *byte == 0));
}
