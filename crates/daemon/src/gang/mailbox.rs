//! Messages between the main loop and the switch thread: neither waits for the other, and the thread takes no
//! memory for them.
//!
//! ```text
//! main loop --commands: a list without end--> thread
//! thread --words for the daemons' links: a ring of fixed size, and a bell--> main loop
//! thread --slices that jobs have had: a list under a lock, which the thread only tries--> main loop
//! ```
//!
//! | word | writer | meaning |
//! |---|---|---|
//! | `next` of a command | the main loop | the command behind it is whole |
//! | `put` | the thread, after the word is whole | words ever put |
//! | `taken` | the main loop, after it has copied | words ever taken |
//!
//! A queue whose readers wait for a half-written entry would not do: the thread goes before everybody else,
//! also before a main loop that it has interrupted in the middle of writing. The locks in here say who has a
//! place, and are never waited for: a reader does not touch what is not published, a writer not what is not
//! taken.
//!
//! What if it stops right here: a command or a word counts when `next` or `put` says so, the one behind it is
//! nobody's.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use tutti_sched::{Processor, Scheduler};

use super::command::{Command, ServedReport};
use crate::ids::LinkId;

/// Words that wait for the main loop.
const CAPACITY: usize = 64;
/// Longer ones, which are plans of many jobs, take memory.
const MESSAGE_BYTES: usize = 1024;
/// The slices of more jobs take memory.
const JOBS: usize = 1024;
/// Places of jobs in rows, and parts of jobs with their slots, that are reported: what is behind them is not.
pub(super) const PARTS_MAX: usize = 1024;

/// A command, and the next one.
#[derive(Debug, Default)]
struct Entry {
    command: Mutex<Option<Command>>,
    next: OnceLock<Arc<Entry>>,
}

/// The main loop's end of the commands.
#[derive(Debug)]
pub(super) struct CommandSender(Mutex<Arc<Entry>>);

/// The thread's end.
#[derive(Debug)]
pub(super) struct CommandReceiver(Arc<Entry>);

/// Both ends.
pub(super) fn commands() -> (CommandSender, CommandReceiver) {
    let first = Arc::new(Entry::default());
    (CommandSender(Mutex::new(Arc::clone(&first))), CommandReceiver(first))
}

impl CommandSender {
    pub(super) fn put(&self, command: Command) {
        let entry = Arc::new(Entry { command: Mutex::new(Some(command)), next: OnceLock::new() });
        let mut last = lock_uncontended(&self.0);
        last.next.set(Arc::clone(&entry)).expect("nothing was behind the last one");
        *last = entry;
    }
}

impl CommandReceiver {
    /// The next command that is whole.
    pub(super) fn take(&mut self) -> Option<Command> {
        let next = Arc::clone(self.0.next.get()?);
        let command = lock_uncontended(&next.command).take();
        self.0 = next;
        command
    }
}

impl Drop for CommandReceiver {
    fn drop(&mut self) {
        // One by one: each would drop the next inside itself.
        while self.take().is_some() {}
    }
}

#[derive(Debug)]
struct Slot {
    link: LinkId,
    number: u64,
    message: Vec<u8>,
}

/// Words of the thread that do not go by datagram, for the main loop to carry.
#[derive(Clone, Debug)]
pub struct Outbox(Arc<Ring>);

#[derive(Debug)]
struct Ring {
    put: AtomicU64,
    taken: AtomicU64,
    slots: Box<[Mutex<Slot>]>,
    bell: OwnedFd,
}

impl Outbox {
    /// # Errors
    /// When the kernel makes no descriptor.
    pub(super) fn new() -> std::io::Result<Self> {
        let empty = || Slot { link: LinkId(0), number: 0, message: Vec::with_capacity(MESSAGE_BYTES) };
        let slots = (0..CAPACITY).map(|_| Mutex::new(empty())).collect();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Outbox(Arc::new(Ring { put: AtomicU64::new(0), taken: AtomicU64::new(0), slots, bell })))
    }

    /// An eventfd that is readable when there are words; to be read before they are taken.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.0.bell.as_fd()
    }

    /// The main loop takes the next one: its link, its number, and the word.
    pub fn take(&self) -> Option<(LinkId, u64, Vec<u8>)> {
        let ring = &*self.0;
        let taken = ring.taken.load(Ordering::Relaxed);
        if taken == ring.put.load(Ordering::Acquire) {
            return None;
        }
        let slot = lock_uncontended(&ring.slots[taken as usize % CAPACITY]);
        let message = (slot.link, slot.number, slot.message.clone());
        drop(slot);
        ring.taken.store(taken + 1, Ordering::Release);
        Some(message)
    }
}

/// The thread's end of the words.
#[derive(Debug)]
pub(super) struct OutboxSender {
    outbox: Outbox,
    /// Words that found no room: the main loop has had no core for long.
    overflow: VecDeque<Slot>,
}

impl OutboxSender {
    pub(super) fn new(outbox: Outbox) -> Self {
        OutboxSender { outbox, overflow: VecDeque::new() }
    }

    pub(super) fn put(&mut self, link: LinkId, number: u64, message: &[u8]) {
        if !self.overflow.is_empty() || !self.try_put(link, number, message) {
            self.overflow.push_back(Slot { link, number, message: message.to_vec() });
        }
    }

    /// Puts what found no room; `false`: there still is none for all.
    pub(super) fn try_put_overflow(&mut self) -> bool {
        while let Some(slot) = self.overflow.pop_front() {
            if !self.try_put(slot.link, slot.number, &slot.message) {
                self.overflow.push_front(slot);
                return false;
            }
        }
        true
    }

    fn try_put(&self, link: LinkId, number: u64, message: &[u8]) -> bool {
        let ring = &*self.outbox.0;
        let put = ring.put.load(Ordering::Relaxed);
        if put - ring.taken.load(Ordering::Acquire) >= CAPACITY as u64 {
            return false;
        }
        let mut slot = lock_uncontended(&ring.slots[put as usize % CAPACITY]);
        (slot.link, slot.number) = (link, number);
        slot.message.clear();
        slot.message.extend_from_slice(message);
        drop(slot);
        ring.put.store(put + 1, Ordering::Release);
        // A bell that is full is a bell that rings.
        let _ = rustix::io::write(&ring.bell, &1_u64.to_ne_bytes());
        true
    }
}

/// The slices that jobs have had, on the controller. The thread writes them now and then, if the main loop
/// does not just read.
#[derive(Clone, Debug)]
pub struct Served(Arc<Mutex<ServedReport>>);

impl Default for Served {
    fn default() -> Self {
        let (jobs, users) = (Vec::with_capacity(JOBS), Vec::with_capacity(JOBS));
        let (used, prices) = (Vec::with_capacity(JOBS), Vec::with_capacity(JOBS));
        let (processor, left_out) = (Processor::default(), Vec::with_capacity(JOBS));
        let (rows, slots) = (Vec::with_capacity(JOBS), Vec::with_capacity(PARTS_MAX));
        let report = ServedReport { jobs, users, used, processor, prices, left_out, rows, slots };
        Served(Arc::new(Mutex::new(report)))
    }
}

impl Served {
    /// `false`: the main loop reads just now.
    pub(super) fn try_put(
        &self,
        jobs: impl Iterator<Item = super::command::ServedJob>,
        scheduler: &Scheduler,
    ) -> bool {
        let Ok(mut slot) = self.0.try_lock() else { return false };
        slot.jobs.clear();
        slot.jobs.extend(jobs);
        slot.users.clear();
        slot.users.extend_from_slice(scheduler.standings());
        slot.used.clear();
        slot.used.extend(scheduler.used());
        slot.processor = scheduler.processor();
        slot.prices.clear();
        slot.prices.extend(scheduler.prices());
        slot.left_out.clear();
        slot.left_out.extend_from_slice(scheduler.left_out());
        slot.rows.clear();
        slot.rows.extend(scheduler.rows().take(PARTS_MAX));
        slot.slots.clear();
        slot.slots.extend(scheduler.slots().take(PARTS_MAX));
        true
    }

    /// As the thread has said last.
    pub fn read(&self) -> ServedReport {
        lock_uncontended(&self.0).clone()
    }
}

/// Locks what is this side's at the moment: the lock is free, but for the moment in which the thread says who
/// was [`Served`].
fn lock_uncontended<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailbox_report_of_places_is_bounded_and_takes_no_memory() {
        use tutti_sched::{Config, Demand, JobId, NodeId};
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        let jobs = PARTS_MAX as u64 + 100;
        for number in 0..jobs {
            scheduler.handle_node(0, NodeId(number as u32), 1, 0);
            scheduler.submit(0, JobId(number), &Demand::any(1, 1)).unwrap();
            scheduler.begin(0, JobId(number));
        }
        let _ = scheduler.next_row(0);
        let places: Vec<(u32, JobId)> = scheduler.rows().collect();
        assert_eq!(places, (0..jobs).map(|job| (0, JobId(job))).collect::<Vec<_>>());
        assert_eq!(scheduler.plan().rows, [places.iter().map(|(_, job)| *job).collect::<Vec<_>>()]);
        let served = Served::default();
        let room = |report: &ServedReport| (report.rows.capacity(), report.slots.capacity());
        let before = room(&served.0.lock().unwrap());
        assert!(served.try_put(std::iter::empty(), &scheduler));
        let report = served.read();
        assert_eq!((report.rows.len(), report.slots.len()), (PARTS_MAX, PARTS_MAX));
        assert_eq!(room(&served.0.lock().unwrap()), before);
        let (job, node, slots) = report.slots[7];
        assert_eq!((job, scheduler.parts(job).unwrap()[0].node, slots.count()), (JobId(7), node, 1));
    }

    #[test]
    fn mailbox_commands_come_once_in_order() {
        let (sender, mut receiver) = commands();
        assert_eq!(receiver.take(), None);
        let thread = std::thread::spawn(move || {
            (0..100_000).for_each(|link| sender.put(Command::CloseLink(LinkId(link))));
            // Their other end may go first.
            drop(sender);
        });
        for link in 0..50_000 {
            let command = std::iter::repeat_with(|| receiver.take()).find(Option::is_some);
            assert_eq!(command, Some(Some(Command::CloseLink(LinkId(link)))));
        }
        thread.join().unwrap();
        drop(receiver);
    }

    #[test]
    fn mailbox_messages_come_once_in_order() {
        const LAST: u64 = 100_000;
        let outbox = Outbox::new().unwrap();
        let mut sender = OutboxSender::new(outbox.clone());
        for number in 0..3 * CAPACITY as u64 {
            sender.put(LinkId(7), number, &vec![number as u8; number as usize * 10]);
        }
        assert!(!sender.try_put_overflow(), "there is room for {CAPACITY}");
        let thread = std::thread::spawn(move || {
            for number in 3 * CAPACITY as u64..LAST {
                sender.put(LinkId(7), number, &number.to_le_bytes());
                // So that not all of them are kept.
                while !sender.try_put_overflow() {
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..LAST {
            let (link, found, message) = std::iter::repeat_with(|| outbox.take()).flatten().next().unwrap();
            assert_eq!((link, found), (LinkId(7), number));
            if number < 3 * CAPACITY as u64 {
                assert_eq!(message, vec![number as u8; number as usize * 10]);
            } else {
                assert_eq!(message, number.to_le_bytes());
            }
        }
        thread.join().unwrap();
        assert_eq!(outbox.take(), None);
        assert!(rustix::io::read(outbox.bell(), &mut [0; 8]).is_ok(), "it was rung");
    }
}
