//! Loom: two senders and a receiver, also where a sender stops for ever between two of its steps. Data are
//! cells, so whatever is copied while another copies it is noticed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::*;
use crate::model::explore;

/// Bytes of a line that are always data; the eight before are the word beside the mark, or data.
const PLAIN_BYTES: usize = LINE_BYTES - 16;
/// Longer than all that a sender does.
const FOR_EVER: u32 = u32::MAX;

loom::thread_local! {
    /// How many more times this thread looks at the memory before it stops.
    static STEPS_LEFT: Cell<u32> = Cell::new(FOR_EVER);
}

/// Payload with which a thread that stops panics.
struct Stopped;

/// The words and lines of a queue.
struct Memory {
    head: AtomicU64,
    tail: AtomicU64,
    count: AtomicU64,
    sleeper: AtomicU32,
    done: AtomicU64,
    lines: Vec<Line>,
}

struct Line {
    words: [AtomicU64; 2],
    plain: UnsafeCell<[u8; PLAIN_BYTES]>,
}

// SAFETY: loom checks every access to the cells.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn new(lines: usize) -> Arc<Self> {
        let line = || Line { words: Default::default(), plain: UnsafeCell::new([0; PLAIN_BYTES]) };
        Arc::new(Memory {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            count: AtomicU64::new(0),
            sleeper: AtomicU32::new(0),
            done: AtomicU64::new(0),
            lines: (0..lines).map(|_| line()).collect(),
        })
    }

    /// The queue in it. Whoever uses it keeps the memory.
    fn queue(self: &Arc<Self>) -> Queue {
        Queue::create(Opened(NonNull::from(&**self))).expect("it has lines")
    }
}

/// Memory as [`crate::opened::Opened`] shows it. Each look at it is a step.
#[derive(Clone, Copy, Debug)]
pub struct Opened(NonNull<Memory>);

// SAFETY: the threads of a model keep the memory.
unsafe impl Send for Opened {}

impl Opened {
    fn memory(&self) -> &Memory {
        STEPS_LEFT.with(|left| match left.get() {
            0 => resume_unwind(Box::new(Stopped)),
            FOR_EVER => {}
            some => left.set(some - 1),
        });
        // SAFETY: the threads of a model keep the memory.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn bytes(&self) -> usize {
        BEGIN + self.memory().lines.len() * LINE_BYTES
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.0.cast()
    }

    pub(super) fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        (offset == SLEEPER).then(|| &self.memory().sleeper)
    }

    pub(super) fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        let memory = self.memory();
        match offset {
            HEAD => Some(&memory.head),
            TAIL => Some(&memory.tail),
            LINES => Some(&memory.count),
            DONE => Some(&memory.done),
            _ => {
                memory.lines.get((offset - BEGIN) / LINE_BYTES)?.words.get((offset - BEGIN) % LINE_BYTES / 8)
            }
        }
    }

    /// # Safety
    /// As the original's.
    pub(super) unsafe fn store(&self, offset: usize, from: *const u8, bytes: usize) -> bool {
        // SAFETY: our contract.
        let mut data = unsafe { std::slice::from_raw_parts(from, bytes) };
        let line = &self.memory().lines[(offset - BEGIN) / LINE_BYTES];
        let mut at = (offset - BEGIN) % LINE_BYTES;
        if let (8, Some((word, rest))) = (at, data.split_first_chunk()) {
            line.words[1].store(u64::from_ne_bytes(*word), Relaxed);
            (at, data) = (16, rest);
        }
        // SAFETY: loom reports any other access at the same time.
        line.plain.with_mut(|plain| unsafe { (&mut *plain)[at - 16..][..data.len()].copy_from_slice(data) });
        true
    }

    /// # Safety
    /// As the original's.
    pub(super) unsafe fn load(&self, offset: usize, to: *mut u8, bytes: usize) -> bool {
        // SAFETY: our contract.
        let mut data = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
        let line = &self.memory().lines[(offset - BEGIN) / LINE_BYTES];
        let mut at = (offset - BEGIN) % LINE_BYTES;
        if at == 8 {
            let (word, rest) = data.split_at_mut(8);
            word.copy_from_slice(&line.words[1].load(Relaxed).to_ne_bytes());
            (at, data) = (16, rest);
        }
        // SAFETY: loom reports a writer at the same time.
        line.plain.with(|plain| unsafe { data.copy_from_slice(&(&*plain)[at - 16..][..data.len()]) });
        true
    }
}

/// Bytes of a message of one line, and of one of two.
const SHORT: usize = 8;
const LONG: usize = FIRST_BYTES + 16;

/// Behaviour of a sender.
#[derive(Clone, Copy, Default)]
struct Sender {
    from: u32,
    /// Lengths of its messages.
    lengths: &'static [usize],
    /// Steps after which it stops for ever.
    steps: Option<u32>,
}

/// A message: its sender, its number there, its length.
type Sent = (u32, usize, usize);

fn data((from, number, bytes): Sent) -> Vec<u8> {
    (0..bytes).map(|i| (100 * from as usize + 10 * number + i) as u8).collect()
}

impl Sender {
    /// Sends all, and gives back what it has reserved, by first line.
    fn run(self, queue: Queue) -> Vec<(u64, Sent)> {
        let mut accepted = Vec::new();
        STEPS_LEFT.with(|left| left.set(self.steps.unwrap_or(FOR_EVER)));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            for (number, bytes) in self.lengths.iter().copied().enumerate() {
                let sent = (self.from, number, bytes);
                let Some(reservation) = queue.reserve(self.from, bytes) else { continue };
                accepted.push((reservation.at, sent));
                // SAFETY: a vector of so many bytes.
                unsafe { queue.fill(reservation, 0, data(sent).as_ptr(), bytes) };
                queue.commit(reservation);
            }
        }));
        STEPS_LEFT.with(|left| left.set(FOR_EVER));
        if let Err(thrown) = ended
            && !thrown.is::<Stopped>()
        {
            resume_unwind(thrown);
        }
        accepted
    }
}

/// The next message, which must be whole.
fn take(queue: Queue, next: &mut [usize; 3]) -> Option<(u64, Sent)> {
    let message = queue.peek()?;
    let mut found = vec![0; message.bytes];
    // SAFETY: so many bytes; this thread is the receiver.
    unsafe { queue.take(message, found.as_mut_ptr()) };
    let number = (0..4).find(|number| data((message.from, *number, message.bytes)) == found);
    let sent = (message.from, number.expect("a message is whole"), message.bytes);
    let next = &mut next[message.from as usize];
    assert!(sent.1 >= *next, "the messages of a sender come in its order, once each");
    *next = sent.1 + 1;
    Some((message.at, sent))
}

/// Both senders, and a receiver that looks `looks` times while they run and takes the rest afterwards. What
/// each sender has reserved is given to `check`, with what was taken.
fn run(
    name: &str,
    lines: usize,
    preemptions: usize,
    senders: [Sender; 2],
    looks: usize,
    check: impl Fn(Queue, [&[(u64, Sent)]; 2], &[(u64, Sent)]) + Send + Sync + 'static,
) {
    explore(name, Some(preemptions), move || {
        let memory = Memory::new(lines);
        let queue = memory.queue();
        let threads = senders.map(|sender| {
            let kept = memory.clone();
            thread::spawn(move || {
                let accepted = sender.run(queue);
                drop(kept);
                accepted
            })
        });
        let (mut taken, mut next) = (Vec::new(), [0; 3]);
        for _ in 0..looks {
            match take(queue, &mut next) {
                Some(one) => taken.push(one),
                None => thread::yield_now(),
            }
        }
        let [first, second] = threads.map(|thread| thread.join().unwrap());
        taken.extend(std::iter::from_fn(|| take(queue, &mut next)));
        check(queue, [&first, &second], &taken);
    });
}

/// All that was accepted, in the order of the queue.
fn in_order(accepted: [&[(u64, Sent)]; 2]) -> Vec<(u64, Sent)> {
    let mut all = accepted.concat();
    all.sort_unstable();
    all
}

#[test]
fn queue_model_gives_each_message_once_whole_in_the_order_of_its_sender() {
    let senders = [
        Sender { from: 0, lengths: &[SHORT, LONG], ..Sender::default() },
        Sender { from: 1, lengths: &[LONG], ..Sender::default() },
    ];
    run("queue: two senders, room for all", 5, 3, senders, 2, |_, accepted, taken| {
        assert_eq!(accepted.map(<[_]>::len), [2, 1], "what has room is not refused");
        assert_eq!(taken, in_order(accepted));
    });
}

/// The queue is full of a message that comes out while both try to put theirs into its lines.
#[test]
fn queue_model_gives_lines_out_again_when_they_are_empty() {
    explore("queue: two senders, lines used again", Some(3), || {
        let memory = Memory::new(2);
        let queue = memory.queue();
        let before = Sender { from: 2, lengths: &[LONG], ..Sender::default() }.run(queue);
        let threads = [0, 1].map(|from| {
            let kept = memory.clone();
            thread::spawn(move || {
                let accepted = Sender { from, lengths: &[SHORT], ..Sender::default() }.run(queue);
                drop(kept);
                accepted
            })
        });
        let mut next = [0; 3];
        let mut taken: Vec<_> = take(queue, &mut next).into_iter().collect();
        assert_eq!(taken, before);
        let [first, second] = threads.map(|thread| thread.join().unwrap());
        taken.extend(std::iter::from_fn(|| take(queue, &mut next)));
        assert_eq!(taken, in_order([&[before, first].concat(), &second]));
    });
}

#[test]
fn queue_model_that_is_full_refuses_whole_messages() {
    let refused = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = refused.clone();
    let senders = [
        Sender { from: 0, lengths: &[SHORT, LONG], ..Sender::default() },
        Sender { from: 1, lengths: &[LONG], ..Sender::default() },
    ];
    run("queue: two senders, full, refused", 3, 3, senders, 2, move |queue, accepted, taken| {
        assert_eq!(taken, in_order(accepted), "what was refused is not there");
        let lines: u64 = taken.iter().map(|(_, (_, _, bytes))| Queue::lines_of(*bytes)).sum();
        assert_eq!(queue.word(TAIL).load(Relaxed), lines, "nothing of what was refused is there");
        counted.fetch_add(3 - taken.len(), Relaxed);
    });
    assert!(refused.load(Relaxed) > 0, "the queue was never full");
}

/// Messages reserved before that of the stopped sender come, those behind it are held up; nothing else.
fn stopped(name: &str, lines: usize, is_refused: bool) {
    for steps in 0..STEPS {
        let senders = [
            Sender { from: 0, lengths: &[SHORT, LONG], steps: Some(steps), ..Sender::default() },
            Sender { from: 1, lengths: &[SHORT, SHORT], ..Sender::default() },
        ];
        let name = format!("{name}, sender stops after {steps} steps");
        run(&name, lines, 2, senders, 2, move |queue, accepted, taken| {
            let (head, tail) = (queue.word(HEAD).load(Relaxed), queue.word(TAIL).load(Relaxed));
            let all = in_order(accepted);
            let before: Vec<_> = all.into_iter().filter(|(at, _)| *at < head).collect();
            assert_eq!(taken, before, "all before the message that is not whole come");
            assert!(accepted[1].iter().all(|(at, _)| *at != head), "the other's message is whole");
            assert!(steps < STEPS - 1 || head == tail, "nothing is held up by a sender that has sent all");
            assert!(is_refused || accepted[1].len() == 2, "what has room is not refused");
        });
    }
}

/// More than a sender of a short message and a long one does, each of whose reservations may lose once.
const STEPS: u32 = 16;

#[test]
fn queue_model_sender_that_stops_holds_up_only_what_is_behind_it() {
    stopped("queue: room for all", 5, false);
}

#[test]
fn queue_model_sender_that_stops_leaves_a_queue_that_refuses() {
    stopped("queue: full", 2, true);
}

/// A receiver that sleeps until it has both messages.
fn slept(name: &str, commit: fn(&Queue, Reservation)) {
    explore(name, Some(3), move || {
        let memory = Memory::new(2);
        let queue = memory.queue();
        let threads = [0, 1].map(|from| {
            let kept = memory.clone();
            thread::spawn(move || {
                commit(&queue, queue.reserve(from, 0).expect("there is room"));
                drop(kept);
            })
        });
        for _ in 0..2 {
            while !queue.has_message() {
                queue.sleep(Duration::from_secs(3600), || false);
            }
            take(queue, &mut [0; 3]).expect("there is one");
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn queue_model_wakes_its_receiver() {
    slept("queue: the receiver sleeps", Queue::commit);
}

#[test]
#[should_panic(expected = "deadlock")]
fn queue_model_needs_the_look_at_the_sleeper_behind_the_mark() {
    slept("queue: the sleeper is looked at first", |queue, reservation| {
        let sleeps = queue.sleeper().load(SeqCst) != 0;
        queue.word(queue.line(reservation.at)).store(reservation.at + 1, SeqCst);
        if sleeps {
            queue.wake();
        }
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn queue_model_needs_the_mark_behind_the_data() {
    explore("queue: the mark comes first", Some(3), || {
        let memory = Memory::new(2);
        let queue = memory.queue();
        let kept = memory.clone();
        let careless = thread::spawn(move || {
            let reservation = queue.reserve(0, LONG).expect("there is room");
            queue.commit(reservation);
            // SAFETY: a vector of so many bytes.
            unsafe { queue.fill(reservation, 0, data((0, 0, LONG)).as_ptr(), LONG) };
            drop(kept);
        });
        if let Some(message) = queue.peek() {
            let mut found = vec![0; message.bytes];
            // SAFETY: so many bytes; this thread is the receiver.
            unsafe { queue.take(message, found.as_mut_ptr()) };
        }
        careless.join().unwrap();
    });
}
