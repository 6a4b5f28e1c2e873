//! The barrier of a team with a mask of its members: threads of a process, or of several that share the
//! memory. What the SR8000 has in hardware beside its processors, here words in the memory of the team.
//!
//! | word | writer | meaning |
//! |---|---|---|
//! | `magic` | [`TeamBarrier::init`], last | it is one |
//! | `mask` | [`TeamBarrier::init`] | the members, a bit each |
//! | `inside` | each member its bit; 0 again by the last that comes | who has arrived in this phase |
//! | `phase` (futex) | the last that comes | phases that are over |
//! | `sleepers` | each member that sleeps | whether somebody must be woken |
//!
//! ```text
//! member: see phase; set its bit; all there ? bits = 0, phase += 1, wake : wait until phase is another
//! ```
//!
//! **What if it stops right here.** All state is in these words, and each change of them is one instruction.
//! A member that is stopped before its bit is set holds the others, behind it it holds nobody; the last one
//! holds all until `phase` has changed. Who was inside when its job was frozen is inside when it is thawed:
//! nothing needs to be saved or restored beside the memory. Nobody sets its bit for the next phase before
//! `phase` has changed, so the bits of two phases never mix.

use crate::doorbell::futex;
use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    then_look,
};

/// Another layout has another number.
const MAGIC: u64 = 0x3152_5241_424d_4554;
/// Looks before a member sleeps: some 5 us.
const SPINS: u32 = if cfg!(loom) { 1 } else { 500 };
/// Members have numbers below.
pub const MEMBERS: u32 = 64;

/// The barrier: in memory of the team, zeroed or not before [`TeamBarrier::init`].
#[repr(C)]
#[derive(Debug)]
pub struct TeamBarrier {
    magic: AtomicU64,
    mask: AtomicU64,
    inside: AtomicU64,
    phase: AtomicU32,
    sleepers: AtomicU32,
    _rest: [u64; 4],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<TeamBarrier>() == 64);

/// Why a call is refused; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TeamError {
    /// The memory holds no barrier, or one without members was asked for.
    None,
    /// The caller is not in the mask, or has arrived already.
    Member,
    /// Somebody waits in it.
    Busy,
}

impl TeamBarrier {
    /// A barrier of these members.
    ///
    /// # Errors
    /// When there are none, or there is one here already in which somebody waits.
    pub fn init(&self, mask: u64) -> Result<(), TeamError> {
        if mask == 0 {
            return Err(TeamError::None);
        }
        if self.magic.load(Acquire) == MAGIC && self.inside.load(SeqCst) != 0 {
            return Err(TeamError::Busy);
        }
        self.magic.store(0, Relaxed);
        self.mask.store(mask, Relaxed);
        self.inside.store(0, Relaxed);
        self.phase.store(0, Relaxed);
        self.sleepers.store(0, Relaxed);
        self.magic.store(MAGIC, Release);
        Ok(())
    }

    /// Returns when all members have called it.
    ///
    /// # Errors
    /// When the caller is no member, or has arrived already; at once.
    pub fn wait(&self, member: u32) -> Result<(), TeamError> {
        if self.magic.load(Acquire) != MAGIC {
            return Err(TeamError::None);
        }
        let mask = self.mask.load(Relaxed);
        if member >= MEMBERS || mask & (1 << member) == 0 {
            return Err(TeamError::Member);
        }
        // It cannot change before our bit is set.
        let phase = self.phase.load(SeqCst);
        let before = self.inside.fetch_or(1 << member, SeqCst);
        if before & (1 << member) != 0 {
            return Err(TeamError::Member);
        }
        if before | (1 << member) == mask {
            self.inside.store(0, SeqCst);
            self.phase.fetch_add(1, SeqCst);
            then_look();
            if self.sleepers.load(SeqCst) != 0 {
                futex::wake_all(&self.phase);
            }
            return Ok(());
        }
        for _ in 0..SPINS {
            if self.phase.load(Acquire) != phase {
                return Ok(());
            }
            #[cfg(not(loom))]
            std::hint::spin_loop();
            #[cfg(loom)]
            loom::thread::yield_now();
        }
        self.sleepers.fetch_add(1, SeqCst);
        then_look();
        while self.phase.load(SeqCst) == phase {
            futex::wait(&self.phase, phase, None);
        }
        self.sleepers.fetch_sub(1, SeqCst);
        Ok(())
    }

    /// The members that wait now, a bit each.
    pub fn inside(&self) -> u64 {
        if self.magic.load(Acquire) == MAGIC { self.inside.load(SeqCst) } else { 0 }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    /// No member passes before the other has come, in two phases one after the other, and nobody sleeps on.
    #[test]
    fn model_of_the_team_barrier() {
        // All orders with more interruptions take minutes.
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let barrier = Arc::new(TeamBarrier {
                magic: AtomicU64::new(0),
                mask: AtomicU64::new(0),
                inside: AtomicU64::new(0),
                phase: AtomicU32::new(0),
                sleepers: AtomicU32::new(0),
                _rest: [0; 4],
            });
            let came = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            barrier.init(3).unwrap();
            let run = |member: usize| {
                let (barrier, came) = (Arc::clone(&barrier), Arc::clone(&came));
                move || {
                    for phase in 1..=2 {
                        came[member].store(phase, Relaxed);
                        barrier.wait(member as u32).unwrap();
                        assert!(came[1 - member].load(Relaxed) >= phase);
                    }
                }
            };
            let other = loom::thread::spawn(run(1));
            run(0)();
            other.join().unwrap();
            assert_eq!(barrier.inside(), 0);
        });
    }
}
