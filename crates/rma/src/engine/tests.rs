use std::collections::VecDeque;
use std::ptr::NonNull;

use proptest::prelude::*;
use tutti_datatype::Element;
use tutti_datatype::reduce::Operation as Reduction;
use tutti_shm::LINE_BYTES;
use tutti_shm::opened::Opened;
use tutti_shm::queue::Queue;

use super::refusals::OF_RANK_MAX;
use super::*;
use crate::accumulate::Update;
use crate::control::{Control, Layout, Thread};
use crate::operation::Action;
use crate::wire::Code;

const RECORD_BYTES_MAX: usize = 400;
const FIFO_RECORDS: usize = 5;

/// Two ranks and what is under way between them.
struct Pair {
    engines: [Engine; 2],
    ways: [VecDeque<Vec<u8>>; 2],
}

struct Way<'a>(&'a mut VecDeque<Vec<u8>>);

impl Port for Way<'_> {
    fn offer(&mut self, _to: usize, head: &[u8], body: &[u8]) -> Offered {
        assert!(head.len() + body.len() <= RECORD_BYTES_MAX, "{} + {} bytes", head.len(), body.len());
        if self.0.len() == FIFO_RECORDS {
            return Offered::Full;
        }
        self.0.push_back([head, body].concat());
        Offered::Taken
    }
}

impl Pair {
    fn new() -> Self {
        let engine = |me| Engine::new(me, RECORD_BYTES_MAX);
        Pair { engines: [engine(0), engine(1)], ways: [VecDeque::new(), VecDeque::new()] }
    }

    /// Rank 0 hands over what there is room for.
    fn push(&mut self, operation: &mut Operation) -> Pushed {
        self.engines[0].push(operation, &mut Way(&mut self.ways[0]))
    }

    /// One record arrives at each rank, and what is owed leaves.
    fn step(&mut self) {
        for to in [1, 0] {
            if let Some(record) = self.ways[1 - to].pop_front() {
                self.engines[to].take(1 - to, &record);
            }
            self.engines[to].pump(&mut Way(&mut self.ways[to]));
        }
    }

    fn run(&mut self, mut operation: Operation) {
        while self.push(&mut operation) == Pushed::Part {
            self.step();
        }
        self.settle();
    }

    fn settle(&mut self) {
        while self.engines[0].outstanding(1) > 0 || self.ways.iter().any(|way| !way.is_empty()) {
            self.step();
        }
        assert!(self.engines.iter().all(Engine::is_flushed));
    }
}

#[repr(C, align(64))]
#[derive(Clone)]
struct Line([u8; LINE_BYTES]);

/// Memory of rank 1 with a window's words beside it.
struct Window {
    memory: Vec<u64>,
    _words: Vec<Line>,
    control: Control,
}

impl Window {
    fn new(cells: usize) -> Self {
        let layout = Layout::new(2, 4);
        let mut words = vec![Line([0; LINE_BYTES]); layout.bytes() / LINE_BYTES];
        // SAFETY: zeroed lines that live as long as the value.
        let control = unsafe { Control::new(NonNull::from(&mut words[0]).cast(), layout) };
        Window { memory: vec![0; cells], _words: words, control }
    }

    fn opened(&mut self) -> Opened {
        let bytes = self.memory.len() * 8;
        // SAFETY: the memory lives as long as the test, and is looked at between operations.
        unsafe { Opened::new(NonNull::from(&mut self.memory[0]).cast(), bytes) }
    }

    fn open(&mut self, engine: &mut Engine) -> Name {
        let gate = self.control.gate(1, Thread::Service);
        engine.open(Region::gated(self.opened(), gate).with_control(self.control))
    }
}

fn operation(region: Name, action: Action, ranges: Vec<(u64, usize)>) -> Operation {
    // SAFETY: tests keep what they name until the operation is complete.
    unsafe { Operation::new(1, region, action, ranges) }
}

fn write(region: Name, data: &[u8], ranges: Vec<(u64, usize)>) -> Operation {
    let from = Buffer::contiguous(data.as_ptr().cast_mut(), data.len());
    operation(region, Action::Write { from }, ranges)
}

fn read(region: Name, into: &mut [u8], ranges: Vec<(u64, usize)>) -> Operation {
    let into = Buffer::contiguous(into.as_mut_ptr(), into.len());
    operation(region, Action::Read { into }, ranges)
}

// Paper: C5
#[test]
fn engine_long_operations_go_in_records() {
    let (mut pair, mut window) = (Pair::new(), Window::new(2000));
    let region = window.open(&mut pair.engines[1]);
    let data: Vec<u8> = (0..15_000_u32).map(|i| (i * 7 + (i >> 8)) as u8).collect();
    pair.run(write(region, &data, vec![(0, 1), (1100, 14_000), (8, 999)]));
    let mut found = vec![0; data.len()];
    pair.run(read(region, &mut found, vec![(0, 1), (1100, 14_000), (8, 999)]));
    assert!(found == data);
    assert_eq!(pair.engines[0].take_refusal(1, region), None);
}

#[test]
fn engine_records_behind_the_last_address_do_not_begin_at_the_first() {
    let (mut pair, mut window) = (Pair::new(), Window::new(2000));
    let region = window.open(&mut pair.engines[1]);
    let data = vec![7; 5000];
    pair.run(write(region, &data, vec![(u64::MAX - 999, data.len())]));
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::OutOfRange));
    let mut found = vec![9; 5000];
    pair.run(read(region, &mut found, vec![(u64::MAX - 999, 5000)]));
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::OutOfRange));
    assert!(window.memory.iter().all(|word| *word == 0) && found == [9; 5000]);
}

#[test]
fn engine_message_that_begins_inside_another_ends_both_and_the_queue_goes_on() {
    let (mut pair, mut memory) = (Pair::new(), Window::new(1000));
    let queue = Queue::create(memory.opened()).unwrap();
    let region = pair.engines[1].open(Region::queue(queue));
    let message = |data: &[u8]| {
        let from = Buffer::contiguous(data.as_ptr().cast_mut(), data.len());
        operation(region, Action::Enqueue { from }, vec![(0, data.len())])
    };
    let data = [1, 2, 3].map(|byte| vec![byte; 2500]);
    let [mut first, inside, behind] = [0, 1, 2].map(|at| message(&data[at]));
    assert_eq!(pair.push(&mut first), Pushed::Part);
    pair.settle();
    pair.run(inside);
    pair.run(first);
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::Malformed));
    assert_eq!(queue.peek(), None);
    pair.run(behind);
    let taken = queue.peek().unwrap();
    let mut found = vec![0; taken.bytes];
    // SAFETY: so many bytes; nobody else takes.
    unsafe { queue.take(taken, found.as_mut_ptr()) };
    assert!(found == data[2] && queue.peek().is_none());
}

#[test]
fn engine_changes_fetch_what_was_there() {
    let (mut pair, mut window) = (Pair::new(), Window::new(300));
    window.memory.iter_mut().enumerate().for_each(|(index, cell)| *cell = index as u64);
    let region = window.open(&mut pair.engines[1]);
    let (ones, mut before) = (vec![1_u64; 300], vec![0_u64; 300]);
    let code = Code { element: Element::Unsigned(8), update: Update::Reduce(Reduction::SUM) };
    let (origin, result) = (ones.as_ptr().cast(), Some(before.as_mut_ptr().cast()));
    pair.run(operation(region, Action::Change { code, origin, result }, vec![(0, 2400)]));
    assert!(before.iter().enumerate().all(|(index, cell)| *cell == index as u64));
    assert!(window.memory.iter().enumerate().all(|(index, cell)| *cell == index as u64 + 1));
    pair.run(operation(region, Action::Change { code, origin, result: None }, vec![(80, 8)]));
    assert_eq!(window.memory[9..12], [10, 12, 12]);
    for (expected, found) in [(12_u64, 12_u64), (12, 77)] {
        let operands = [12_u64.to_le_bytes(), 77_u64.to_le_bytes()].concat();
        let mut old = 0_u64;
        let result = (&raw mut old).cast();
        pair.run(operation(region, Action::Swap { operands, result }, vec![(80, 8)]));
        assert_eq!((old, window.memory[10]), (found, 77), "where {expected} was expected");
    }
}

// Paper: C8
#[test]
fn engine_refuses_and_changes_nothing() {
    let (mut pair, mut window) = (Pair::new(), Window::new(8));
    let region = window.open(&mut pair.engines[1]);
    let mut into = [9_u8; 16];
    let stale = Name { generation: region.generation + 1, ..region };
    for (bad, refusal) in [
        (write(region, &[1; 16], vec![(0, 8), (60, 8)]), Refusal::OutOfRange),
        (write(region, &[1; 16], vec![(u64::MAX - 3, 16)]), Refusal::OutOfRange),
        (read(region, &mut into, vec![(56, 16)]), Refusal::OutOfRange),
        (write(stale, &[1; 4], vec![(0, 4)]), Refusal::NoRegion),
        (write(Name { id: 99, generation: 0 }, &[1; 4], vec![(0, 4)]), Refusal::NoRegion),
    ] {
        let name = bad.region;
        pair.run(bad);
        assert_eq!(pair.engines[0].take_refusal(1, name), Some(refusal));
        assert_eq!(pair.engines[0].take_refusal(1, name), None, "each is told once");
    }
    assert!(window.memory.iter().all(|cell| *cell == 0) && into == [9; 16]);
    let only_read = Region::plain(window.opened()).with_rights(crate::region::Rights::READ);
    let region = pair.engines[1].open(only_read);
    pair.run(write(region, &[1; 4], vec![(0, 4)]));
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::NoRight));
    pair.engines[1].close(region);
    pair.run(read(region, &mut into, vec![(0, 16)]));
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::NoRegion));
    let again = pair.engines[1].open(Region::plain(window.opened()));
    assert_eq!((again.id, again.generation), (region.id, region.generation + 1));
    let target = &pair.engines[1];
    let counts = [Refusal::OutOfRange, Refusal::NoRegion, Refusal::NoRight, Refusal::Malformed]
        .map(|refusal| target.refused_for(refusal));
    assert_eq!((counts, target.refused()), ([3, 3, 1, 0], 7), "each is counted by its reason");
}

/// An answer is a record too: what asks for a longer one is refused, and nobody sends it.
#[test]
fn engine_refuses_what_has_no_room_in_an_answer() {
    let (mut pair, mut window) = (Pair::new(), Window::new(200));
    let region = window.open(&mut pair.engines[1]);
    let keep = Code { element: Element::Byte, update: Update::Keep };
    for begin in [Begin::Read, Begin::Change(keep)] {
        for (bytes, is_refused) in
            [(RECORD_BYTES_MAX - HEAD_BYTES, false), (RECORD_BYTES_MAX - HEAD_BYTES + 1, true)]
        {
            let mut record = Vec::new();
            wire::write_request(begin, region, 0, &[Range { offset: 0, bytes: bytes as u32 }], &mut record);
            let before = pair.engines[1].refused_for(Refusal::Malformed);
            pair.engines[1].take(0, &record);
            pair.engines[1].pump(&mut Way(&mut pair.ways[1]));
            pair.ways[1].clear();
            let refused = pair.engines[1].refused_for(Refusal::Malformed) - before;
            assert_eq!(refused, u64::from(is_refused), "{begin:?} of {bytes} bytes");
        }
    }
}

#[test]
fn engine_plain_memory_takes_aligned_elements_alone() {
    let (mut pair, mut window) = (Pair::new(), Window::new(40));
    let region = pair.engines[1].open(Region::plain(window.opened()));
    let ones = [1_u64; 40];
    let code = Code { element: Element::Unsigned(8), update: Update::Reduce(Reduction::SUM) };
    let action = || Action::Change { code, origin: ones.as_ptr().cast(), result: None };
    pair.run(operation(region, action(), vec![(0, 320)]));
    assert!(window.memory.iter().all(|cell| *cell == 1));
    pair.run(operation(region, action(), vec![(4, 8)]));
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::Unaligned));
}

#[test]
fn engine_lock_waits_for_its_turn() {
    let (mut pair, mut window) = (Pair::new(), Window::new(1));
    let region = window.open(&mut pair.engines[1]);
    let own = window.control.lock();
    let ticket = own.ask(Mode::Exclusive, 1);
    let pushed = pair.engines[0].lock(1, region, Mode::Exclusive, &mut Way(&mut pair.ways[0]));
    assert_eq!(pushed, Pushed::All);
    for _ in 0..10 {
        pair.step();
    }
    assert!(pair.engines[0].outstanding(1) == 1 && pair.engines[1].has_waiting());
    own.enter(ticket);
    let next = own.release(ticket);
    assert_eq!(next, Some(1), "the target holds the place of a rank of another node");
    pair.settle();
    assert!(!pair.engines[1].has_waiting());
    let behind = own.ask(Mode::Shared, 5);
    assert!(!own.is_due(behind));
    assert_eq!(pair.engines[0].unlock(1, region, &mut Way(&mut pair.ways[0])), Pushed::All);
    pair.settle();
    assert!(own.is_due(behind) && pair.engines[1].rings().eq([5]));
    assert_eq!(pair.engines[0].unlock(1, region, &mut Way(&mut pair.ways[0])), Pushed::All);
    pair.settle();
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::Malformed), "it has no lock");
}

#[test]
fn engine_lock_of_a_rank_that_leaves_comes_free() {
    let (mut pair, mut window) = (Pair::new(), Window::new(1));
    let region = window.open(&mut pair.engines[1]);
    assert_eq!(pair.engines[0].lock(1, region, Mode::Exclusive, &mut Way(&mut pair.ways[0])), Pushed::All);
    pair.settle();
    let own = window.control.lock();
    let ticket = own.ask(Mode::Exclusive, 1);
    assert!(!own.is_due(ticket));
    pair.engines[1].handle_exit(0);
    assert!(own.is_due(ticket));
    pair.engines[0].handle_exit(1);
    assert_eq!(pair.push(&mut write(region, &[1], vec![(0, 1)])), Pushed::Gone);
    assert_eq!((pair.engines[0].outstanding(1), pair.engines[0].has_left(1)), (0, true));
}

#[test]
fn engine_counts_come_behind_the_operations() {
    let (mut pair, mut window) = (Pair::new(), Window::new(1));
    let region = window.open(&mut pair.engines[1]);
    pair.push(&mut write(region, &7_u64.to_le_bytes(), vec![(0, 8)]));
    for rank in [3, 4] {
        pair.engines[0].count(1, region, Count::Completed, rank, &mut Way(&mut pair.ways[0]));
    }
    assert_eq!(window.control.get(3, Count::Completed), 0);
    pair.settle();
    assert_eq!((window.memory[0], window.control.get(3, Count::Completed)), (7, 1));
    assert_eq!(pair.engines[0].take_refusal(1, region), Some(Refusal::Malformed), "there is no rank 4");
}

#[test]
fn engine_owes_a_rank_no_more_than_it_may() {
    const BYTES: usize = 5 * ANSWER_BYTES_MAX;
    // Records are short here.
    let bound = ANSWER_BYTES_MAX.min(ANSWERS_MAX * RECORD_BYTES_MAX);
    let (mut pair, mut window) = (Pair::new(), Window::new(BYTES / 8));
    let region = window.open(&mut pair.engines[1]);
    let mut into = vec![0; BYTES];
    let mut long = read(region, &mut into, vec![(0, BYTES)]);
    let mut most = 0;
    // The requests arrive, and no answer leaves.
    while pair.push(&mut long) == Pushed::Part {
        let Some(record) = pair.ways[0].pop_front() else { break };
        pair.engines[1].take(0, &record);
        most = most.max(pair.engines[1].peers[0].owed_bytes());
    }
    assert!(most > bound / 2 && most <= ANSWER_BYTES_MAX + ANSWERS_MAX * HEAD_BYTES, "{most}");
    pair.run(long);
}

#[test]
fn engine_keeps_so_many_refusals_and_loses_none() {
    let mut engine = Engine::new(0, RECORD_BYTES_MAX);
    let name = |id| Name { id, generation: 0 };
    let ids = 0..10 * OF_RANK_MAX as u32;
    for id in ids.clone() {
        engine.take(1, &wire::status(NO_REPLY, name(id), Refusal::OutOfRange));
    }
    engine.take(2, &wire::status(NO_REPLY, name(7), Refusal::NoRight));
    assert_eq!(engine.take_refusal(2, name(7)), Some(Refusal::NoRight));
    assert!(ids.clone().any(|id| id > 5000 && engine.take_refusal(1, name(id)).is_some()));
    (0..OF_RANK_MAX as u32).for_each(|id| assert!(engine.take_refusal(1, name(id)).is_some(), "{id}"));
}

#[test]
fn engine_keeps_refusals_of_a_rank_apart_from_those_of_a_flooding_one() {
    let mut engine = Engine::new(0, RECORD_BYTES_MAX);
    let name = |id| Name { id, generation: 0 };
    for id in 0..2 * OF_RANK_MAX as u32 {
        engine.take(1, &wire::status(NO_REPLY, name(id), Refusal::OutOfRange));
    }
    engine.take(2, &wire::status(NO_REPLY, name(3), Refusal::NoRight));
    assert_eq!(engine.take_refusal(2, name(4)), None, "it is of another region");
    assert_eq!(engine.take_refusal(2, name(3)), Some(Refusal::NoRight));
}

proptest! {
    /// Whatever arrives, nothing outside the window changes, nothing panics, and refusals are counted.
    #[test]
    fn engine_takes_changed_records(
        seed in any::<u64>(),
        changes in proptest::collection::vec((any::<usize>(), any::<u8>(), any::<usize>()), 1..40),
    ) {
        let mut window = Window::new(64);
        window.memory[0] = u64::MAX;
        window.memory[63] = u64::MAX;
        // What is open lies between two cells that are not.
        let bytes = 62 * 8;
        // SAFETY: the memory lives as long as the test.
        let inner = unsafe { Opened::new(NonNull::from(&mut window.memory[1]).cast(), bytes) };
        let mut engine = Engine::new(1, RECORD_BYTES_MAX);
        let gate = window.control.gate(1, Thread::Service);
        let region = engine.open(Region::gated(inner, gate).with_control(window.control));
        let mut ways = VecDeque::new();
        let mut sender = Engine::new(0, RECORD_BYTES_MAX);
        let mut into = [0_u8; 64];
        let code = Code { element: Element::Signed(4), update: Update::Reduce(Reduction::MAX) };
        for mut sent in [
            write(region, &[seed as u8; 40], vec![(seed % 400, 20), (100, 20)]),
            read(region, &mut into, vec![(seed % 400, 64)]),
            operation(region, Action::Change { code, origin: into.as_ptr(), result: None }, vec![(8, 64)]),
        ] {
            sender.push(&mut sent, &mut Way(&mut ways));
        }
        let _ = sender.lock(1, region, Mode::Shared, &mut Way(&mut ways));
        let mut replies = VecDeque::new();
        for (index, (at, byte, cut)) in changes.into_iter().enumerate() {
            let mut record = ways[index % ways.len()].clone();
            let at = at % record.len();
            record[at] = byte;
            record.truncate(cut % (3 * record.len()));
            engine.take(0, &record);
            engine.pump(&mut Way(&mut replies));
            replies.clear();
        }
        prop_assert!(window.memory[0] == u64::MAX && window.memory[63] == u64::MAX);
    }
}
