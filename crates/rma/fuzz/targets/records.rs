//! A rank whose memory is open takes records of another one, whatever they are: nothing beside the open
//! memory changes, nothing panics, no answer is longer than a record, and every refusal is answered and
//! counted by its reason. For `make fuzz` and for `tests/hostile.rs`.
//!
//! The input is records, each behind its length of two bytes.

use std::ptr::NonNull;

use tutti_datatype::reduce::Operation as Reduction;
use tutti_datatype::{Buffer, Element};
use tutti_rma::accumulate::Update;
use tutti_rma::control::{Control, Layout, Thread};
use tutti_rma::engine::{Engine, Offered, Port, Room};
use tutti_rma::operation::{Action, Operation};
use tutti_rma::region::{Region, Rights};
use tutti_rma::wire::{self, Code, Name, Record, Refusal};
use tutti_shm::LINE_BYTES;
use tutti_shm::opened::Opened;
use tutti_shm::queue::Queue;
use tutti_shm::window_lock::Mode;

/// Bytes of a record, at most.
pub(crate) const RECORD_BYTES_MAX: usize = 400;
const LINES: usize = 8;
const GUARD: u8 = 0xa5;
/// Bytes of a message of the queue.
const MESSAGE_BYTES: usize = 300;
/// Records of one input that are taken, at most.
const RECORDS_MAX: usize = 400;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; LINE_BYTES]);

/// Memory between two lines that nobody may write.
struct Guarded(Vec<Line>);

impl Guarded {
    fn new(lines: usize) -> Self {
        let mut all = vec![Line([0; LINE_BYTES]); lines + 2];
        (all[0], all[lines + 1]) = (Line([GUARD; LINE_BYTES]), Line([GUARD; LINE_BYTES]));
        Guarded(all)
    }

    fn inner(&mut self) -> NonNull<u8> {
        NonNull::from(&mut self.0[1]).cast()
    }

    fn opened(&mut self) -> Opened {
        let bytes = (self.0.len() - 2) * LINE_BYTES;
        // SAFETY: the lines outlive the engine, which alone works on them.
        unsafe { Opened::new(self.inner(), bytes) }
    }

    fn is_whole(&self) -> bool {
        let guards = [self.0.first(), self.0.last()];
        guards.iter().flatten().all(|line| line.0 == [GUARD; LINE_BYTES])
    }
}

/// Answers of a rank: they are judged and forgotten.
#[derive(Default)]
struct Answers {
    refusals: [u64; Refusal::ALL.len()],
    has_bulk: bool,
    bulks: u64,
}

impl Port for Answers {
    fn offer(&mut self, _to: usize, head: &[u8], body: &[u8]) -> Offered {
        let record = [head, body].concat();
        assert!(record.len() <= RECORD_BYTES_MAX, "an answer of {} bytes", record.len());
        match wire::parse(&record) {
            Some(Record::Status { refusal, .. }) => self.refusals[refusal as usize - 1] += 1,
            Some(_) => {}
            None => panic!("an answer is no record: {record:?}"),
        }
        Offered::Taken
    }

    fn accept_bulk(&mut self, _from: usize, _bytes: usize, _tag: u64) -> Room {
        self.bulks += 1;
        if self.has_bulk { Room::Named(self.bulks) } else { Room::Never }
    }

    fn send_bulk(&mut self, _to: usize, _name: u64, _bytes: usize, _tag: u64) -> Offered {
        if self.has_bulk { Offered::Taken } else { Offered::Gone }
    }

    fn has_bulk(&self) -> bool {
        self.has_bulk
    }
}

/// Takes the records of an input.
pub(crate) fn take(input: &[u8]) {
    let layout = Layout::new(2, 4);
    let mut words = Guarded::new(layout.bytes() / LINE_BYTES);
    // SAFETY: zeroed lines that outlive the engine.
    let control = unsafe { Control::new(words.inner(), layout) };
    let queue_lines = Queue::bytes_for(MESSAGE_BYTES).div_ceil(LINE_BYTES);
    let [mut gated, mut plain, mut fixed, mut into] = [(); 4].map(|()| Guarded::new(LINES));
    let mut queue = Guarded::new(queue_lines);
    let mut engine = Engine::new(1, RECORD_BYTES_MAX);
    let gate = control.gate(1, Thread::Service);
    engine.open(Region::gated(gated.opened(), gate).with_control(control));
    engine.open(Region::plain(plain.opened()));
    engine.open(Region::plain(fixed.opened()).with_rights(Rights::READ));
    let messages = Queue::create(queue.opened()).expect("it is long enough");
    engine.open(Region::queue(messages));
    let mut port = Answers { has_bulk: input.len() % 2 == 1, ..Answers::default() };
    // An answer to this is awaited.
    let memory = Buffer::contiguous(into.inner().as_ptr(), LINES * LINE_BYTES / 2);
    let places = vec![(0, LINES * LINE_BYTES / 2)];
    // SAFETY: the memory outlives the engine.
    let mut read =
        unsafe { Operation::new(0, Name { id: 0, generation: 0 }, Action::Read { into: memory }, places) };
    let _ = engine.push(&mut read, &mut port);
    let mut rest = input;
    for _ in 0..RECORDS_MAX {
        let Some((length, behind)) = rest.split_first_chunk::<2>() else { break };
        let length = usize::from(u16::from_le_bytes(*length)) % (RECORD_BYTES_MAX + 1);
        let (record, behind) = behind.split_at(length.min(behind.len()));
        rest = behind;
        if let Some(Record::Request { region, number, .. }) = wire::parse(record) {
            assert_eq!(wire::names(record), Some((region, number)));
        }
        engine.take(0, record);
        engine.pump(&mut port);
        if let Some(message) = messages.peek() {
            let mut data = vec![0; message.bytes];
            // SAFETY: so many bytes; this thread is the receiver.
            unsafe { messages.take(message, data.as_mut_ptr()) };
        }
    }
    for refusal in Refusal::ALL {
        let (counted, told) = (engine.refused_for(refusal), port.refusals[refusal as usize - 1]);
        assert_eq!(counted, told, "{refusal}");
    }
    assert!([&words, &gated, &plain, &fixed, &into, &queue].iter().all(|memory| memory.is_whole()));
    assert!(
        fixed.0[1..=LINES].iter().all(|line| line.0 == [0; LINE_BYTES]),
        "what may only be read was written"
    );
}

/// Records of a rank that uses all of this as it should, one input for each region.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    (0..4).map(sample).collect()
}

struct Written(Vec<u8>);

impl Port for Written {
    fn offer(&mut self, _to: usize, head: &[u8], body: &[u8]) -> Offered {
        self.0.extend(((head.len() + body.len()) as u16).to_le_bytes());
        self.0.extend([head, body].concat());
        Offered::Taken
    }
}

fn sample(id: u32) -> Vec<u8> {
    let region = Name { id, generation: 0 };
    let mut engine = Engine::new(0, RECORD_BYTES_MAX);
    let mut written = Written(Vec::new());
    let mut memory = [7_u8; 1000];
    let (all, some) =
        (Buffer::contiguous(memory.as_mut_ptr(), 1000), Buffer::contiguous(memory.as_mut_ptr(), 64));
    let (eight, place) = (Buffer::contiguous(memory.as_mut_ptr(), 8), memory.as_mut_ptr().cast());
    let code = |update| Code { element: Element::Signed(8), update };
    let sum = code(Update::Reduce(Reduction::SUM));
    let keep = code(Update::Keep);
    let change = |code, result| Action::Change { code, origin: place, result };
    let actions = if id == 3 {
        vec![
            (Action::Enqueue { from: Buffer::contiguous(memory.as_mut_ptr(), 300) }, vec![(0, 300)]),
            (Action::Enqueue { from: eight }, vec![(0, 8)]),
        ]
    } else {
        vec![
            (Action::Write { from: some.clone() }, vec![(0, 32), (64, 32)]),
            (Action::Read { into: some }, vec![(8, 32), (64, 32)]),
            (Action::Read { into: all }, vec![(0, 500), (12, 500)]),
            (change(sum, None), vec![(0, 64)]),
            (change(sum, Some(place)), vec![(8, 64)]),
            (change(keep, Some(place)), vec![(0, 256)]),
            (Action::Swap { operands: vec![0; 16], result: place }, vec![(16, 8)]),
        ]
    };
    for (action, places) in actions {
        // SAFETY: the memory outlives the engine, and no answer comes.
        let mut operation = unsafe { Operation::new(1, region, action, places) };
        let _ = engine.push(&mut operation, &mut written);
    }
    let _ = engine.lock(1, region, Mode::Exclusive, &mut written);
    let _ = engine.count(1, region, tutti_rma::control::Count::Posted, 2, &mut written);
    let _ = engine.unlock(1, region, &mut written);
    let _ = engine.settle(1, region, &mut written);
    let bulk = [wire::Begin::Offer, wire::Begin::Fetch];
    let mut head = Vec::new();
    for begin in bulk {
        wire::write_request(begin, region, 9, &[wire::Range { offset: 8, bytes: 100 }], &mut head);
        let name = if begin == wire::Begin::Fetch { &b"its name"[..] } else { b"" };
        written.offer(1, &head, name);
    }
    for answer in [wire::reply(0, 0), wire::clear(0, 77), wire::status(0, region, Refusal::OutOfRange)] {
        written.offer(1, &answer, b"");
    }
    written.0
}
