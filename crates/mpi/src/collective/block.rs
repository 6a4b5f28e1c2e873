//! The collective block of a communicator in the shared segment: who has it, and the flow control of
//! its slots.
//!
//! A communicator of one node asks for a block at its first collective operation: rank 0 takes a free one and
//! tells the others by messages on the collective context; the last member that frees the communicator gives
//! it back. MPI_COMM_WORLD has block 0 from the start. Without a free block the communicator uses messages
//! for good.
//!
//! In operation `k` a member leaves a trace: it publishes its slot `k & 1` ([`Block::commit`]), or says that
//! it is done ([`Block::finish`]). Whoever has left a trace of a later operation has finished `k`.
//!
//! ```text
//! writer: prepare (the readers of the slot's former content have finished) -> data -> sequence word (commit)
//! reader: await the sequence word -> read -> next operation, or finish
//! ```

use std::cell::Cell;
use std::rc::Rc;

use tutti_datatype::Buffer;
use tutti_rma::Process;
use tutti_runtime::job::Job;
use tutti_shm::collective::{BLOCKS, DATA_BYTES, INLINE_BYTES, Member, SLOT_BYTES};
use tutti_shm::sync::{AtomicU64, Ordering};

use super::schedule::Schedule;
use super::sizes::Limits;
use super::state::{Block, Readers, WORLD_BLOCK};
use crate::comm::{Channel, Group};
use crate::engine::Engine;
use crate::progress::Progress;
use crate::wait_goal::Goal;

/// Answer of rank 0 when there is no free block.
pub(super) const NO_BLOCK: u32 = u32::MAX;
/// Looks at a flag before anything else is done; more ranks than cores: one.
const FIRST_LOOKS: u32 = 400;
/// Looks at members on other cores before the own core is handed on: some five microseconds, two switches of
/// processes.
const LOOKS_AT_OTHER_CORES: u32 = 200;

/// Rank 0 takes a block and tells the others.
pub(super) fn agree_on_block(
    call: &mut impl Progress,
    context: u32,
    tag: i32,
    rank: usize,
    group: &Group,
) -> u32 {
    let mut schedule = Schedule::new(context + Channel::Collective as u32, tag);
    let word = schedule.memory(size_of::<u32>()).cast::<u32>();
    let buffer = Buffer::contiguous(word.cast(), size_of::<u32>());
    if rank == 0 {
        let index = take_block(&call.engine().job, group.size()).unwrap_or(NO_BLOCK);
        // SAFETY: memory of the schedule.
        unsafe { word.write(index) };
        for &to in &group.members()[1..] {
            schedule.send(to, buffer.clone());
        }
    } else {
        schedule.receive(group.members()[0], buffer);
    }
    schedule.await_all();
    call.run(&mut schedule).expect("all ranks send and receive one word");
    // SAFETY: as above; the schedule is finished and still here.
    unsafe { word.read() }
}

/// Takes a free block for so many members.
fn take_block(job: &Job, members: usize) -> Option<u32> {
    let index = (WORLD_BLOCK + 1..BLOCKS).find(|&index| job.block(index).try_take(members as u32));
    index.map(|index| index as u32)
}

impl Block {
    pub(super) fn new(engine: &Engine, index: usize, me: usize, context: u32, group: Rc<Group>) -> Self {
        let job = &engine.job;
        let (ranks, oversubscribed) = (group.size(), engine.is_oversubscribed());
        let base = job.block(index).base.load(Ordering::Acquire);
        Block {
            index,
            me,
            group,
            context,
            members: job.member(index, 0),
            data: job.member_data(index, 0).as_ptr(),
            sequence: Cell::new(base),
            synced: Cell::new(base),
            published: [const { Cell::new((0, Readers::All)) }; 2],
            looks: if oversubscribed { 1 } else { FIRST_LOOKS },
            is_oversubscribed: oversubscribed,
            // Not all see at once that ranks have been started.
            limits: Limits::new(ranks, job.began_oversubscribed()),
            right: Cell::default(),
        }
    }

    /// How many members.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// The process of a member.
    pub fn process(&self, call: &impl Progress, member: usize) -> Process {
        let world = self.group.members()[member] as usize;
        call.engine().job.process_of(world)
    }

    #[inline(always)]
    fn member(&self, member: usize) -> &Member {
        assert!(member < self.group.size());
        // SAFETY: the segment has a member block for every local rank, a communicator has no more members,
        // and the segment stays mapped until the process ends.
        unsafe { &*self.members.add(member) }
    }

    /// A slot's sequence word.
    #[inline(always)]
    fn word(&self, member: usize, operation: u64) -> &AtomicU64 {
        &self.member(member).slots[(operation & 1) as usize].sequence
    }

    /// Where a member's data of an operation lie: beside the sequence word when they are few.
    #[inline(always)]
    fn slot(&self, member: usize, operation: u64, bytes: usize) -> *mut u8 {
        debug_assert!(bytes <= SLOT_BYTES);
        let parity = (operation & 1) as usize;
        if bytes <= INLINE_BYTES {
            (&raw const self.member(member).slots[parity].inline).cast_mut().cast()
        } else {
            // SAFETY: every member has two slots of SLOT_BYTES.
            unsafe { self.data.add(member * DATA_BYTES + parity * SLOT_BYTES) }
        }
    }

    /// Begins an operation; its number.
    #[inline(always)]
    pub fn begin(&self) -> u64 {
        let operation = self.sequence.get() + 1;
        self.sequence.set(operation);
        operation
    }

    /// Slot of this member for `bytes` bytes, when nobody reads its former content any more.
    #[inline(always)]
    pub fn prepare(&self, call: &mut impl Progress, operation: u64, bytes: usize) -> *mut u8 {
        let (before, readers) = self.published[(operation & 1) as usize].get();
        if before >= self.synced.get() && before != 0 {
            match readers {
                Readers::One(member) => self.await_finished(call, member, before),
                Readers::All => {
                    for member in 0..self.size() {
                        if member != self.me {
                            self.await_finished(call, member, before);
                        }
                    }
                }
            }
        }
        self.slot(self.me, operation, bytes)
    }

    /// Waits until a member has left a trace behind `operation`.
    #[inline(always)]
    fn await_finished(&self, call: &mut impl Progress, member: usize, operation: u64) {
        let lines = self.member(member);
        self.look(call, member, None, || {
            lines.done.sequence.load(Ordering::Acquire) >= operation
                || lines.slots[0].sequence.load(Ordering::Acquire) > operation
                || lines.slots[1].sequence.load(Ordering::Acquire) > operation
        });
    }

    /// Waits until all members have published their slots of an operation.
    #[inline(always)]
    pub fn meet(&self, call: &mut impl Progress, operation: u64) {
        self.expect_all(call, operation);
        for member in 0..self.size() {
            let word = self.word(member, operation);
            self.look(call, member, Some(operation), || word.load(Ordering::Acquire) >= operation);
        }
    }

    /// All slots of an operation are about to be read. With more ranks than cores it is better to wait for
    /// all of them at once.
    #[inline(always)]
    pub fn expect_all(&self, call: &mut impl Progress, operation: u64) {
        if self.is_oversubscribed {
            self.meet_in_turns(call, operation);
        }
    }

    /// While a member of the own core is missing, the core is handed on. When those who are missing were last
    /// on other cores, they may be about to come, and there is nobody here to hand on to: a short wait spares
    /// a switch of processes.
    #[cold]
    fn meet_in_turns(&self, call: &mut impl Progress, operation: u64) {
        let core = call.engine().job.publish_core();
        let is_missing = |member: &usize| self.word(*member, operation).load(Ordering::Acquire) < operation;
        let (mut first, mut looks) = (0, LOOKS_AT_OTHER_CORES);
        while let Some(missing) = (first..self.size()).find(is_missing) {
            first = missing;
            let last_core = |member: usize| {
                let world = self.group.members()[member] as usize;
                call.engine().job.endpoint(world).core.load(Ordering::Relaxed)
            };
            let here =
                (missing..self.size()).find(|&member| last_core(member) == core && is_missing(&member));
            while here.is_none() && looks > 0 && is_missing(&missing) {
                core::hint::spin_loop();
                looks -= 1;
            }
            if here.is_some() || looks == 0 {
                let awaited = here.unwrap_or(missing);
                self.watch(call, awaited, Some(operation), || !is_missing(&awaited));
            }
        }
    }

    /// Publishes this member's slot.
    #[inline(always)]
    pub fn commit(&self, call: &impl Progress, operation: u64, readers: Readers) {
        self.published[(operation & 1) as usize].set((operation, readers));
        self.word(self.me, operation).swap(operation, Ordering::SeqCst);
        self.ring(call);
    }

    /// Says that this member has finished an operation in which it published nothing.
    #[inline(always)]
    pub fn finish(&self, call: &impl Progress, operation: u64) {
        self.member(self.me).done.sequence.swap(operation, Ordering::SeqCst);
        self.ring(call);
    }

    /// All members have been seen at `operation`.
    #[inline(always)]
    pub fn all_arrived(&self, operation: u64) {
        self.synced.set(operation);
    }

    /// Waits for a member's slot of an operation; its `bytes` bytes of data.
    #[inline(always)]
    pub fn read(&self, call: &mut impl Progress, member: usize, operation: u64, bytes: usize) -> *const u8 {
        let word = self.word(member, operation);
        self.look(call, member, None, || word.load(Ordering::Acquire) >= operation);
        self.slot(member, operation, bytes)
    }

    /// Wakes members that sleep; any of them may wait for the trace just left.
    #[inline(always)]
    fn ring(&self, call: &impl Progress) {
        for &world in self.group.members() {
            call.engine().job.ring_after_swap(world as usize);
        }
    }

    /// Waits for a flag of a member; `all`: and then for the slots of this operation of all who are missing,
    /// which is for onlookers.
    #[inline(always)]
    fn look(&self, call: &mut impl Progress, member: usize, all: Option<u64>, ready: impl Fn() -> bool) {
        for _ in 0..self.looks {
            if ready() {
                return;
            }
            core::hint::spin_loop();
        }
        self.watch(call, member, all, ready);
    }

    #[cold]
    fn watch(&self, call: &mut impl Progress, member: usize, all: Option<u64>, ready: impl Fn() -> bool) {
        let is_missing = |other: usize, operation| {
            other == member || self.word(other, operation).load(Ordering::Acquire) < operation
        };
        let missing = |say: &mut dyn FnMut(u32)| match all {
            None => say(self.group.members()[member]),
            Some(operation) => {
                let members = self.group.members().iter().enumerate();
                members.filter(|(other, _)| is_missing(*other, operation)).for_each(|(_, world)| say(*world));
            }
        };
        let context = self.context + Channel::Collective as u32;
        call.watch(Goal::Members { context, missing: &missing }, ready);
    }
}
