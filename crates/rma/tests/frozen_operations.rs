//! A rank stands still at every instruction of one operation on remote memory: a write, an atomic, a long
//! accumulation, a lock, a message for a queue; first inside a node, then as records between nodes, begun and
//! served. At each stop another rank looks at the memory and works on it. Each operation is done once.
//!
//! ```text
//! stepped rank (child)            test                              mate (a thread of the test)
//! stop_here(); operation   <----- look; perhaps call the mate ----> adds 1 to some cell, or waits at the gate
//!   one instruction        <----- step
//! done = 1                        the sums are exact
//! ```

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use tutti_datatype::{Buffer, Element, reduce};
use tutti_rma::accumulate::{Change, Target, Update};
use tutti_rma::control::{Control, Layout};
use tutti_rma::engine::{Engine, Offered, Port, Pushed};
use tutti_rma::operation::{Action, Operation};
use tutti_rma::region::Region;
use tutti_rma::wire::{Code, Name};
use tutti_shm::gate::{self, Gate};
use tutti_shm::opened::Opened;
use tutti_shm::queue::Queue;
use tutti_shm::window_lock::{Mode, WindowLock};
use tutti_testkit::Random;
use tutti_testkit::stepper::{Child, Shareable, Shared, Step, stop_here};

/// Number that the stepped rank adds; the mate adds ones.
const ADDED: u64 = 1 << 32;
const CELLS: usize = 300;
/// Cells of a long accumulation, which goes by loops with the gate closed.
const MANY: usize = 120;
const SLOTS: u32 = 2;
const STEPPED: u32 = 0;
const MATE: u32 = 1;
/// Looks of the test whether the mate is done, before it goes on: the mate may wait at the gate.
const LOOKS: u32 = 200;

#[repr(C, align(64))]
struct Lines<const BYTES: usize>([u8; BYTES]);

#[repr(C)]
struct Ground {
    cells: [AtomicU64; CELLS],
    gate: Lines<{ gate::bytes(SLOTS) }>,
    control: Lines<4096>,
    queue: Lines<4096>,
    /// Ranks between lock and unlock.
    holders: AtomicU32,
    found: AtomicU64,
    done: AtomicU32,
}

// SAFETY: zeroes are a valid value; the bytes are those of atomics alone.
unsafe impl Shareable for Ground {}

impl Ground {
    fn opened(&self) -> Opened {
        // SAFETY: the mapping outlives all that is done with it in a test.
        unsafe { Opened::new(NonNull::from(&self.cells).cast(), size_of_val(&self.cells)) }
    }

    fn gate(&self, slot: u32) -> Gate {
        // SAFETY: so many bytes, zeroed at the beginning; each slot has one user.
        unsafe { Gate::new(NonNull::from(&self.gate).cast(), SLOTS, slot) }
    }

    fn target(&self, slot: u32) -> Target {
        Target::new(self.opened(), self.gate(slot))
    }

    fn control(&self) -> Control {
        let layout = Layout::new(2, 2);
        assert!(layout.bytes() <= size_of_val(&self.control));
        // SAFETY: zeroed at the beginning, aligned to a line, and large enough.
        unsafe { Control::new(NonNull::from(&self.control).cast(), layout) }
    }

    fn lock(&self) -> WindowLock {
        self.control().lock()
    }

    fn queue_memory(&self) -> Opened {
        // SAFETY: the mapping outlives all that is done with it in a test.
        unsafe { Opened::new(NonNull::from(&self.queue).cast(), size_of_val(&self.queue)) }
    }

    fn cell(&self, index: usize) -> u64 {
        self.cells[index].load(SeqCst)
    }
}

/// Steps a child through what lies between its stop and `done`; `look` is called at each stop.
fn step_through(child: &mut Child, ground: &Ground, mut look: impl FnMut()) {
    child.wait_stopped();
    let mut instructions = 0;
    while ground.done.load(SeqCst) == 0 {
        look();
        if child.step_or_sleep() == Step::Sleeps {
            // The mate is in its way, and goes on.
            child.wait_stopped();
        }
        instructions += 1;
    }
    println!("{instructions} instructions");
    assert!(instructions > 5, "only {instructions} instructions were stepped");
    look();
    child.go_on();
}

/// Says how often a view has changed.
#[derive(Default)]
struct Changes {
    last: u64,
    count: u32,
}

impl Changes {
    fn look(&mut self, now: u64) {
        self.count += u32::from(now != self.last);
        self.last = now;
    }
}

/// Adds to as many cells as there are values, from `first` on; what they were goes to `found`.
fn accumulate(target: &Target, first: usize, values: &[u64], found: Option<&mut [u64]>) {
    let sum = Update::Reduce(reduce::Operation::SUM);
    let change = Change::new(sum, Element::Unsigned(8)).expect("integers have sums");
    let result = found.map(|found| found.as_mut_ptr().cast());
    // SAFETY: as many values as cells, and as many places.
    let done = unsafe { target.accumulate(first * 8, values.len(), change, values.as_ptr().cast(), result) };
    done.expect("it is inside");
}

/// A rank that adds one to a cell when it is told to: `told` holds the number of the turn and the cell.
struct Mate<'a> {
    told: &'a AtomicU64,
    done: &'a AtomicU64,
    added: [u64; CELLS],
    random: Random,
    /// Stops at which it was still held up.
    held_up: u32,
}

const OVER: u64 = u64::MAX;

impl Mate<'_> {
    /// The mate's own thread.
    fn run(ground: &Ground, told: &AtomicU64, done: &AtomicU64) {
        let target = ground.target(MATE);
        let mut turn = 0;
        loop {
            let now = told.load(SeqCst);
            if now == OVER {
                return;
            }
            if now >> 16 != turn {
                accumulate(&target, (now & 0xffff) as usize, &[1], None);
                turn = now >> 16;
                done.store(turn, SeqCst);
            }
            std::thread::yield_now();
        }
    }

    fn is_idle(&self) -> bool {
        self.told.load(SeqCst) >> 16 == self.done.load(SeqCst)
    }

    /// Lets it add to one of the first `cells` cells, unless it still waits.
    fn call(&mut self, cells: usize) {
        if !self.is_idle() {
            self.held_up += 1;
            return;
        }
        let cell = self.random.below(cells as u64);
        self.added[cell as usize] += 1;
        self.told.store(((self.told.load(SeqCst) >> 16) + 1) << 16 | cell, SeqCst);
        for _ in 0..LOOKS {
            if self.is_idle() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// Steps through `operation` while a mate changes the first `cells` cells; `look` sees the ground. Returns
/// how often the mate has added to each.
fn step_beside_mate(
    cells: usize,
    ground: &Ground,
    operation: impl FnOnce(&Ground),
    mut look: impl FnMut(&Ground),
) -> [u64; CELLS] {
    let mut child = Child::fork_traced(|| {
        stop_here();
        operation(ground);
        ground.done.store(1, SeqCst);
    });
    let (told, done) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| Mate::run(ground, &told, &done));
        let random = Random::new(tutti_testkit::seed());
        let mut mate = Mate { told: &told, done: &done, added: [0; CELLS], random, held_up: 0 };
        step_through(&mut child, ground, || {
            look(ground);
            mate.call(cells);
        });
        child.expect_success();
        while !mate.is_idle() {
            std::thread::yield_now();
        }
        told.store(OVER, SeqCst);
        let total: u64 = mate.added.iter().sum();
        println!("the mate has added {total} times, and was held up at {} stops", mate.held_up);
        assert!(total > 0, "the mate did something");
        mate.added
    })
}

#[test]
fn frozen_write_of_a_word_is_seen_at_one_instruction() {
    let ground = Shared::<Ground>::new();
    let mut child = Child::fork_traced(|| {
        let value = 7_u64;
        stop_here();
        // SAFETY: eight bytes.
        assert!(unsafe { ground.opened().store(8, (&raw const value).cast(), 8) });
        ground.done.store(1, SeqCst);
    });
    let mut changes = Changes::default();
    step_through(&mut child, &ground, || {
        assert!([0, 7].contains(&ground.cell(1)));
        changes.look(ground.cell(1));
    });
    assert_eq!((changes.count, ground.cell(1)), (1, 7));
    child.expect_success();
}

#[test]
fn frozen_write_of_many_words_tears_none_of_them() {
    let ground = Shared::<Ground>::new();
    let mut child = Child::fork_traced(|| {
        let values = [u64::MAX; 12];
        stop_here();
        // SAFETY: so many bytes.
        assert!(unsafe { ground.opened().store(8, values.as_ptr().cast(), 96) });
        ground.done.store(1, SeqCst);
    });
    let mut changes: [Changes; 14] = Default::default();
    step_through(&mut child, &ground, || {
        for (index, changes) in changes.iter_mut().enumerate() {
            assert!([0, u64::MAX].contains(&ground.cell(index)), "half of a word");
            changes.look(ground.cell(index));
        }
    });
    let counts: Vec<u32> = changes.iter().map(|changes| changes.count).collect();
    assert_eq!(counts, [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    child.expect_success();
}

#[test]
fn frozen_fetch_add_is_done_once_beside_others() {
    let ground = Shared::<Ground>::new();
    let mut changes = Changes::default();
    let added = step_beside_mate(
        1,
        &ground,
        |ground| {
            let mut found = [0];
            accumulate(&ground.target(STEPPED), 0, &[ADDED], Some(&mut found));
            ground.found.store(found[0], SeqCst);
        },
        |ground| changes.look(ground.cell(0) / ADDED),
    );
    assert_eq!(ground.cell(0), ADDED + added[0]);
    assert!(ground.found.load(SeqCst) <= added[0], "it found what there was");
    assert_eq!(changes.count, 1);
}

#[test]
fn frozen_compare_and_swap_is_done_once_or_not_at_all() {
    for compare in [0_u64, 1 << 20] {
        let ground = Shared::<Ground>::new();
        let added = step_beside_mate(
            1,
            &ground,
            |ground| {
                let (origin, mut found) = (compare + ADDED, 0_u64);
                let [compare, origin] = [&raw const compare, &raw const origin].map(<*const u64>::cast);
                let target = ground.target(STEPPED);
                // SAFETY: eight bytes each.
                let done = unsafe { target.compare_and_swap(0, 8, compare, origin, (&raw mut found).cast()) };
                done.expect("it is inside");
                ground.found.store(found, SeqCst);
            },
            |_| (),
        );
        let is_swapped = ground.found.load(SeqCst) == compare;
        assert_eq!(ground.cell(0), u64::from(is_swapped) * ADDED + added[0]);
    }
}

#[test]
fn frozen_long_accumulate_is_done_once_beside_atomics() {
    is_done_once_beside_atomics(MANY);
}

#[test]
fn frozen_short_accumulate_is_done_once_beside_atomics() {
    is_done_once_beside_atomics(5);
}

/// An accumulation of so many cells.
#[track_caller]
fn is_done_once_beside_atomics(count: usize) {
    let ground = Shared::<Ground>::new();
    let added = step_beside_mate(
        count,
        &ground,
        |ground| {
            let (values, mut found) = (vec![ADDED; count], vec![0; count]);
            accumulate(&ground.target(STEPPED), 0, &values, Some(&mut found));
            assert!(found.iter().all(|found| *found < ADDED), "what they were before");
        },
        |ground| assert!(ground.cells.iter().all(|cell| cell.load(SeqCst) / ADDED <= 1), "added twice"),
    );
    for (index, added) in added.iter().enumerate().take(count) {
        assert_eq!(ground.cell(index), ADDED + added, "cell {index}");
    }
}

#[test]
fn frozen_holder_of_a_lock_is_alone_at_every_instruction() {
    const TIMES: u64 = 4;
    let ground = Shared::<Ground>::new();
    let inside = |ground: &Ground| {
        assert_eq!(ground.holders.fetch_add(1, SeqCst), 0, "two hold the lock");
        let value = ground.cell(0);
        ground.cells[0].store(value + 1, SeqCst);
        ground.holders.fetch_sub(1, SeqCst);
    };
    let mut child = Child::fork_traced(|| {
        let lock = ground.lock();
        stop_here();
        for _ in 0..TIMES {
            let ticket = lock.ask(Mode::Exclusive, STEPPED);
            while !lock.is_due(ticket) {
                std::hint::spin_loop();
            }
            lock.enter(ticket);
            inside(&ground);
            lock.release(ticket);
        }
        ground.done.store(1, SeqCst);
    });
    let (lock, mut ticket) = (ground.lock(), None);
    let (mut taken, mut waited) = (0, 0);
    // Asks at one stop, looks at each that follows, and is inside at the next.
    step_through(&mut child, &ground, || match ticket.take() {
        None => ticket = Some((lock.ask(Mode::Exclusive, MATE), false)),
        Some((mine, true)) => {
            inside(&ground);
            lock.release(mine);
            taken += 1;
        }
        Some((mine, false)) if lock.is_due(mine) => {
            lock.enter(mine);
            ticket = Some((mine, true));
        }
        waiting => {
            waited += 1;
            ticket = waiting;
        }
    });
    child.expect_success();
    println!("the mate has had the lock {taken} times, and waited at {waited} stops");
    assert_eq!(ground.cell(0), TIMES + taken);
    assert!(taken > 1 && waited > 1);
}

/// The messages of a sender differ in length and content.
fn message(from: u32, number: usize) -> Vec<u8> {
    (0..40 + 20 * number).map(|index| (index + number) as u8 ^ from as u8).collect()
}

fn send(queue: &Queue, from: u32, number: usize) -> bool {
    let data = message(from, number);
    let Some(room) = queue.reserve(from, data.len()) else { return false };
    // SAFETY: the data are there.
    unsafe { queue.fill(room, 0, data.as_ptr(), data.len()) };
    queue.commit(room);
    true
}

/// Takes a message out, which must be the next of its sender.
fn take(queue: &Queue, next: &mut [usize; 2]) -> bool {
    let Some(found) = queue.peek() else { return false };
    let mut data = vec![0; found.bytes];
    // SAFETY: so many bytes.
    unsafe { queue.take(found, data.as_mut_ptr()) };
    let number = &mut next[found.from as usize];
    assert!(data == message(found.from, *number), "message {number} of {}", found.from);
    *number += 1;
    true
}

const MESSAGES: usize = 6;

#[test]
fn frozen_sender_of_a_queue_loses_and_doubles_nothing() {
    let ground = Shared::<Ground>::new();
    let queue = Queue::create(ground.queue_memory()).expect("room for a queue");
    let mut child = Child::fork_traced(|| {
        stop_here();
        for number in 0..MESSAGES {
            while !send(&queue, STEPPED, number) {
                std::hint::spin_loop();
            }
        }
        ground.done.store(1, SeqCst);
    });
    let (mut next, mut sent, mut random) = ([0; 2], 0, Random::new(tutti_testkit::seed()));
    step_through(&mut child, &ground, || {
        if sent < MESSAGES && random.chance(10) {
            sent += usize::from(send(&queue, MATE, sent));
        }
        if random.chance(100) {
            take(&queue, &mut next);
        }
    });
    child.expect_success();
    while take(&queue, &mut next) {}
    assert_eq!(next, [MESSAGES, sent]);
}

#[test]
fn frozen_receiver_of_a_queue_takes_each_message_once() {
    let ground = Shared::<Ground>::new();
    let queue = Queue::create(ground.queue_memory()).expect("room for a queue");
    let mut child = Child::fork_traced(|| {
        let mut next = [0; 2];
        stop_here();
        while next[MATE as usize] < MESSAGES {
            take(&queue, &mut next);
        }
        assert!(!take(&queue, &mut next), "a message came twice");
        ground.done.store(1, SeqCst);
    });
    let (mut sent, mut random) = (0, Random::new(tutti_testkit::seed()));
    step_through(&mut child, &ground, || {
        if sent < MESSAGES && random.chance(20) {
            sent += usize::from(send(&queue, MATE, sent));
        }
    });
    child.expect_success();
    assert_eq!(sent, MESSAGES);
}

/// Records that one engine hands over to the other.
#[derive(Default)]
struct Wire(VecDeque<Vec<u8>>);

impl Port for Wire {
    fn offer(&mut self, _to: usize, head: &[u8], body: &[u8]) -> Offered {
        self.0.push_back([head, body].concat());
        Offered::Taken
    }
}

/// A rank, and one of another node whose memory the ground is: both are stepped.
struct Pair {
    origin: Engine,
    target: Engine,
    region: Name,
    /// Records on their way to the target.
    there: Wire,
}

impl Pair {
    fn new(region: Region) -> Self {
        let (origin, mut target) = (Engine::new(0, 1400), Engine::new(1, 1400));
        let region = target.open(region);
        Pair { origin, target, region, there: Wire::default() }
    }

    /// The target takes what has come, and answers.
    fn exchange(&mut self) {
        let mut back = Wire::default();
        self.there.0.drain(..).for_each(|record| self.target.take(0, &record));
        self.target.pump(&mut back);
        back.0.drain(..).for_each(|record| self.origin.take(1, &record));
        self.origin.pump(&mut self.there);
    }

    fn await_answers(&mut self) {
        while self.origin.outstanding(1) > 0 {
            self.exchange();
        }
    }

    fn run(&mut self, action: Action, range: (u64, usize)) {
        // SAFETY: what the action names outlives this call, at whose end the operation is complete.
        let mut operation = unsafe { Operation::new(1, self.region, action, vec![range]) };
        assert!(matches!(self.origin.push(&mut operation, &mut self.there), Pushed::All));
        assert!(matches!(self.origin.settle(1, self.region, &mut self.there), Pushed::All));
        self.await_answers();
        assert_eq!(self.origin.take_refusal(1, self.region), None);
    }
}

fn buffer(data: &mut [u64]) -> Buffer {
    Buffer::contiguous(data.as_mut_ptr().cast(), size_of_val(data))
}

const SUM: Code = Code { element: Element::Unsigned(8), update: Update::Reduce(reduce::Operation::SUM) };

#[test]
fn frozen_service_of_a_remote_accumulate_does_it_once() {
    for count in [1, 70] {
        let ground = Shared::<Ground>::new();
        let added = step_beside_mate(
            count,
            &ground,
            |ground| {
                let (values, mut found) = (vec![ADDED; count], vec![u64::MAX; count]);
                let (origin, result) = (values.as_ptr().cast(), Some(found.as_mut_ptr().cast()));
                let mut pair = Pair::new(Region::gated(ground.opened(), ground.gate(STEPPED)));
                pair.run(Action::Change { code: SUM, origin, result }, (0, count * 8));
                assert!(found.iter().all(|found| *found < ADDED), "what they were before");
            },
            |ground| assert!(ground.cells.iter().all(|cell| cell.load(SeqCst) / ADDED <= 1), "added twice"),
        );
        for (index, added) in added.iter().enumerate().take(count) {
            assert_eq!(ground.cell(index), ADDED + added, "cell {index} of {count}");
        }
    }
}

#[test]
fn frozen_service_of_a_remote_write_and_read_does_it_once() {
    const WORDS: usize = 180;
    let ground = Shared::<Ground>::new();
    let mut child = Child::fork_traced(|| {
        let (mut values, mut read) = ([9; WORDS], [0; WORDS]);
        stop_here();
        let mut pair = Pair::new(Region::gated(ground.opened(), ground.gate(STEPPED)));
        pair.run(Action::Write { from: buffer(&mut values) }, (8, WORDS * 8));
        pair.run(Action::Read { into: buffer(&mut read) }, (8, WORDS * 8));
        ground.done.store(1, SeqCst);
        assert!(read == [9; WORDS], "what was written is read");
    });
    let mut before = [0; WORDS];
    step_through(&mut child, &ground, || {
        for (index, before) in before.iter_mut().enumerate() {
            let now = ground.cell(1 + index);
            assert!(now == 9 || now == 0 && *before == 0, "word {index}: {now} after {before}");
            *before = now;
        }
    });
    child.expect_success();
    assert_eq!([ground.cell(0), ground.cell(1 + WORDS)], [0; 2], "beside it");
    assert!(before == [9; WORDS], "all was written");
}

#[test]
fn frozen_service_of_a_remote_message_puts_it_into_the_queue_once() {
    let ground = Shared::<Ground>::new();
    let queue = Queue::create(ground.queue_memory()).expect("room for a queue");
    let mut child = Child::fork_traced(|| {
        let mut pair = Pair::new(Region::queue(queue));
        stop_here();
        for number in 0..3 {
            let mut data = message(0, number);
            let from = Buffer::contiguous(data.as_mut_ptr(), data.len());
            pair.run(Action::Enqueue { from }, (0, data.len()));
        }
        ground.done.store(1, SeqCst);
    });
    let (mut next, mut random) = ([0; 2], Random::new(tutti_testkit::seed()));
    step_through(&mut child, &ground, || {
        if random.chance(50) {
            take(&queue, &mut next);
        }
    });
    child.expect_success();
    while take(&queue, &mut next) {}
    assert_eq!(next, [3, 0]);
}

#[test]
fn frozen_service_of_a_remote_lock_holds_it_once() {
    let ground = Shared::<Ground>::new();
    let mut child = Child::fork_traced(|| {
        let region = Region::gated(ground.opened(), ground.gate(STEPPED));
        let mut pair = Pair::new(region.with_control(ground.control()));
        stop_here();
        for value in 1..=2 {
            let asked = pair.origin.lock(1, pair.region, Mode::Exclusive, &mut pair.there);
            assert!(matches!(asked, Pushed::All));
            pair.await_answers();
            assert_eq!(ground.holders.fetch_add(1, SeqCst), 0, "two hold the lock");
            pair.run(Action::Write { from: buffer(&mut [value]) }, (0, 8));
            ground.holders.fetch_sub(1, SeqCst);
            let given = pair.origin.unlock(1, pair.region, &mut pair.there);
            assert!(matches!(given, Pushed::All));
            pair.exchange();
        }
        ground.done.store(1, SeqCst);
    });
    let (lock, mut ticket, mut taken, mut waited) = (ground.lock(), None, 0, 0);
    step_through(&mut child, &ground, || match ticket.take() {
        None => ticket = Some(lock.ask(Mode::Exclusive, MATE)),
        Some(mine) if lock.is_due(mine) => {
            lock.enter(mine);
            assert_eq!(ground.holders.load(SeqCst), 0, "two hold the lock");
            lock.release(mine);
            taken += 1;
        }
        waiting => {
            waited += 1;
            ticket = waiting;
        }
    });
    child.expect_success();
    println!("the mate has had the lock {taken} times, and waited at {waited} stops");
    assert!(taken > 1 && waited > 1 && ground.cell(0) == 2);
}
