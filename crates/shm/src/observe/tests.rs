use super::*;
use crate::arena::Mapping;
use crate::directory::{Directory, Line};
use crate::layout::Geometry;
use crate::opened::Opened;
use crate::queue::Queue;

const RANK: usize = 1;

/// A rank that has opened regions.
struct Owner {
    segment: Segment,
    arena: crate::arena::Arena,
    directory: Directory,
    memory: Vec<Mapping>,
}

impl Owner {
    fn take(segment: &Segment, arena: &mut crate::arena::Arena, bytes: usize) -> (Mapping, Opened) {
        let range = arena.allocate(bytes as u64).expect("there is room");
        let mapping = Mapping::new(segment.descriptor(), range).expect("there is memory");
        // SAFETY: the mapping has so many bytes; each test keeps it as long as what is in it.
        let memory = unsafe { Opened::new(mapping.base(), bytes) };
        (mapping, memory)
    }

    fn new() -> Self {
        let segment = Segment::create(Geometry {
            world_ranks: 2,
            local_ranks: 2,
            first_rank: 0,
            cores: 2,
            starter_pid: 1,
            node: 0,
            room: 0,
            universe: 0,
            nodes: 0,
            world_room: 0,
            job: 1,
        })
        .expect("there is memory");
        assert_eq!(segment.signals(RANK), Some(Signals::default()), "it has opened nothing");
        let mut arena = segment.arena(RANK as u32).expect("there is an arena");
        let (mapping, memory) = Owner::take(&segment, &mut arena, Directory::bytes(2));
        let directory = Directory::new(memory, 2).expect("it is long enough");
        segment.words_of(RANK).1.directory.store(mapping.range().offset, Ordering::Release);
        Owner { segment, arena, directory, memory: vec![mapping] }
    }

    fn open_queue(&mut self, region: usize, rights: u64) -> (Queue, u64) {
        let bytes = Queue::bytes_for(200);
        let (mapping, memory) = Owner::take(&self.segment, &mut self.arena, bytes);
        let queue = Queue::create(memory).expect("it is long enough");
        let line = Line { rights, range: mapping.range(), begin: 0, bytes: bytes as u64 };
        self.memory.push(mapping);
        (queue, self.directory.open(region, line))
    }

    /// How many are open, and how many of their threads have nothing to do.
    fn seen(&self) -> Option<(u32, u32)> {
        self.segment.signals(RANK).map(|signals| (signals.open, signals.at_rest))
    }
}

fn put(queue: &Queue, data: [u8; 8]) {
    let reservation = queue.reserve(0, data.len()).expect("there is room");
    // SAFETY: a slice.
    unsafe { queue.fill(reservation, 0, data.as_ptr(), data.len()) };
    queue.commit(reservation);
}

fn take(queue: &Queue) {
    let message = queue.peek().expect("there is one");
    let mut data = vec![0; message.bytes];
    // SAFETY: so many bytes; this thread is the receiver.
    unsafe { queue.take(message, data.as_mut_ptr()) };
}

#[test]
fn signals_with_a_message_or_a_running_function_are_not_at_rest() {
    let mut owner = Owner::new();
    // Its messages start nothing.
    let (plain, _) = owner.open_queue(0, 8);
    assert_eq!(owner.seen(), Some((0, 0)));
    let (queue, generation) = owner.open_queue(7, 8 | SIGNAL);
    let (other, _) = owner.open_queue(8, 8 | SIGNAL);
    put(&plain, [1; 8]);
    assert_eq!(owner.seen(), Some((2, 2)), "both are new");
    let before = owner.segment.signals(RANK);

    let reservation = queue.reserve(0, 8).expect("there is room");
    assert_eq!(owner.seen(), None, "reserved");
    queue.commit(reservation);
    assert_eq!(owner.seen(), None, "whole");
    take(&queue);
    assert_eq!(owner.seen(), Some((2, 1)), "a function runs");
    put(&queue, [2; 8]);
    assert_eq!(owner.seen(), None, "the next one waits behind it");
    queue.finish();
    assert_eq!(owner.seen(), None, "it still waits");
    take(&queue);
    put(&other, [3; 8]);
    take(&other);
    assert_eq!(owner.seen(), Some((2, 0)));
    queue.finish();
    other.finish();
    assert_eq!(owner.seen(), Some((2, 2)));
    assert_ne!(owner.segment.signals(RANK), before, "it was not at rest in between");

    assert!(owner.directory.close(7, generation));
    assert_eq!(owner.seen(), Some((1, 1)));
    assert_eq!(owner.segment.signals(0), Some(Signals::default()), "of another rank");
}

/// The thread wakes up now and then without a message; a look meanwhile sees it at rest.
#[test]
fn signal_thread_that_wakes_up_for_nothing_stays_at_rest() {
    let mut owner = Owner::new();
    let (queue, _) = owner.open_queue(0, SIGNAL);
    let before = owner.segment.signals(RANK);
    queue.sleep(std::time::Duration::from_millis(1), || {
        assert_eq!(owner.seen(), Some((1, 1)));
        false
    });
    queue.finish();
    assert_eq!(owner.segment.signals(RANK), before);
}

/// A message that no sender writes is dropped, and holds nothing up.
#[test]
fn signal_whose_queue_holds_nonsense_comes_to_rest() {
    let mut owner = Owner::new();
    let (queue, _) = owner.open_queue(0, SIGNAL);
    let reservation = queue.reserve(0, 8).expect("there is room");
    // SAFETY: the length of the message, in the first line; the receiver is this thread.
    unsafe { queue.base().byte_add(3 * LINE_BYTES + 8).cast::<u64>().write(u64::from(u32::MAX)) };
    queue.commit(reservation);
    assert_eq!(queue.peek(), None);
    assert_eq!(owner.seen(), Some((1, 0)));
    queue.finish();
    assert_eq!(owner.seen(), Some((1, 1)));
}

#[test]
fn signals_of_a_rank_that_writes_anything_are_bounded() {
    let mut owner = Owner::new();
    owner.open_queue(0, SIGNAL);
    let report = owner.segment.words_of(RANK).1;
    let directory = report.directory.load(Ordering::Acquire);
    for offset in [1, 63, u64::MAX, i64::MAX as u64, i64::MAX as u64 - 8, (1 << 46) - 8, 1 << 60] {
        report.directory.store(offset, Ordering::Release);
        let seen = owner.segment.signals(RANK);
        assert!(seen.is_none_or(|signals| signals.open <= REGIONS_MAX as u32), "{offset}: {seen:?}");
    }
    report.directory.store(directory, Ordering::Release);
    for (offset, begin) in [(u64::MAX, 1), (u64::MAX, 0), (1 << 60, 0), (i64::MAX as u64, 0)] {
        let range = crate::arena::Range { offset, bytes: 0 };
        let generation = owner.directory.open(3, Line { rights: SIGNAL, range, begin, bytes: 0 });
        assert_eq!(owner.seen(), None, "{offset} {begin}");
        assert!(owner.directory.close(3, generation));
    }
    assert_eq!(owner.seen(), Some((1, 1)));
    // More regions than there may be.
    // SAFETY: the first word of the directory, which this test alone writes.
    unsafe { owner.memory[0].base().cast::<u64>().write(REGIONS_MAX as u64 + 1) };
    assert_eq!(owner.seen(), None);
}

/// KiB that the kernel has given for a segment.
fn kib(segment: &Segment) -> i64 {
    // SAFETY: stat is plain data, filled by the kernel before it is read.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        assert_eq!(libc::fstat(segment.descriptor().as_raw_fd(), &mut stat), 0);
        stat.st_blocks / 2
    }
}

/// Rings of so many ranks would take 40 GiB.
#[test]
fn observe_of_2048_ranks_reads_used_rings_and_flows_and_makes_no_page() {
    const RANKS: u32 = 2048;
    let geometry = Geometry { world_ranks: RANKS + 100, local_ranks: RANKS, ..Geometry::default() };
    let segment = Segment::create(Geometry { cores: 2, nodes: 2, ..geometry }).expect("its file is sparse");
    let layout = *segment.layout();
    let envelope = Envelope { kind: EAGER, flags: 0, context: 1, tag: 7, length: 3 };
    for (from, to) in [(3, 2000), (3, 9), (2047, 0)] {
        // SAFETY: the layout says what lies there, and the test is the only producer.
        let mut ring = unsafe {
            let (lines, consumed) =
                (segment.at(layout.envelopes_at(from, to)), segment.at(layout.pair_at(from, to)));
            crate::envelope_ring::Producer::new(lines, layout.envelope_lines, consumed)
        };
        assert!(ring.try_push(&envelope, b"abc"));
    }
    // SAFETY: as above.
    let words = unsafe { segment.at::<crate::flow::FlowWords>(layout.flow_words_at(5, 2100)).as_ref() };
    words.words[0].store(1, Ordering::Relaxed);
    let before = kib(&segment);
    let receivers = segment.receivers();
    // A page may hold words of pairs beside it: it has been used, and has no message for them.
    let used: Vec<(usize, usize)> = receivers
        .iter()
        .enumerate()
        .flat_map(|(from, receivers)| receivers.iter().map(move |to| (from, *to)))
        .collect();
    let with_messages: Vec<(usize, usize)> =
        used.iter().copied().filter(|(from, to)| !segment.in_ring(*from, *to).is_empty()).collect();
    assert_eq!(with_messages, [(3, 9), (3, 2000), (2047, 0)]);
    assert!(used.len() < 2048, "{} pairs", used.len());
    assert_eq!(segment.in_ring(3, 2000), [(envelope, b"abc".to_vec())]);
    let flows: Vec<usize> = (0..RANKS as usize).filter(|from| segment.used_flows(*from)(2100)).collect();
    assert_eq!(flows, [5]);
    // The head of a ring may cross the end of a page.
    assert!(kib(&segment) <= before + 8 * used.len() as i64, "{} KiB, {before} before", kib(&segment));
}
