//! State of a communicator for its collective operations: the tags of its schedules, and its block in the
//! shared segment.

use std::cell::Cell;
use std::rc::Rc;

use tutti_runtime::job::Job;
use tutti_shm::collective::Member;

use super::op;
use super::schedule::Schedule;
use super::schedules::Schedules;
use crate::comm::group::Group;
use crate::handle::{Kind, Slab};

/// State of collective operations of a process.
#[derive(Debug)]
pub struct Collectives {
    /// Reduction operations made by the user.
    pub ops: Slab<op::UserOperation>,
    /// Operations that were started and are not finished.
    pub schedules: Schedules,
}

/// A call that reaches the state of collective operations.
pub trait HasCollectives {
    /// Collective operations.
    fn colls(&self) -> &Collectives;

    /// Collective operations, to be changed.
    fn colls_mut(&mut self) -> &mut Collectives;

    /// Keeps a schedule that goes on when a request is done.
    fn put_schedule(&mut self, schedule: Box<Schedule>, awaited: u32);
}

impl Default for Collectives {
    fn default() -> Self {
        Collectives { ops: Slab::new(Kind::Op), schedules: Schedules::default() }
    }
}

/// Block of MPI_COMM_WORLD.
pub(super) const WORLD_BLOCK: usize = 0;
/// State of a communicator for its collective operations.
#[derive(Debug, Default)]
pub struct State {
    /// How many schedules this process has run on the communicator, and how many it has started; all ranks
    /// count alike.
    schedules: [u32; 2],
    pub(super) place: Place,
    /// Whether other processes have been members before.
    pub(super) is_renewed: bool,
}

/// Where the operations of a communicator meet.
#[derive(Debug, Default)]
pub(super) enum Place {
    /// No collective operation yet.
    #[default]
    Unknown,
    /// Block where they meet.
    Block(Rc<Block>),
    /// Messages only.
    Messages,
}

/// How a collective operation is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Returns when it is done.
    Blocking,
    /// Leaves a request.
    Started,
}

/// Readers of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Every member.
    All,
    /// Member that alone reads it, by its index.
    One(usize),
}

/// The block of a communicator, as one member sees it.
#[derive(Debug)]
pub struct Block {
    pub(super) index: usize,
    /// Index of this member.
    pub me: usize,
    /// The members in order, as world ranks.
    pub(super) group: Rc<Group>,
    /// Context of the communicator.
    pub(super) context: u32,
    pub(super) members: *const Member,
    pub(super) data: *mut u8,
    /// Last operation begun.
    pub(super) sequence: Cell<u64>,
    /// All members have arrived at this operation, so they have finished every earlier one.
    pub(super) synced: Cell<u64>,
    /// Operations that this member's two slots were last published for, and their readers.
    pub(super) published: [Cell<(u64, Readers)>; 2],
    pub(super) looks: u32,
    /// More ranks than cores.
    pub is_oversubscribed: bool,
    /// Limits of what goes through the block.
    pub limits: super::sizes::Limits,
    /// Whether members may copy from each other's memories.
    pub right: Cell<Right>,
}

impl State {
    /// The next tag for messages of collective operations. Those that are waited for and those that are
    /// started are counted apart: they never meet, as inside a node, where only the latter are messages. A
    /// checked program has one order of all.
    pub fn next_tag(&mut self, call: Call) -> i32 {
        let call = if crate::check_mode::is_on() { Call::Blocking } else { call };
        let count = &mut self.schedules[call as usize];
        *count = (*count + 1) & (i32::MAX >> 1) as u32;
        (*count << 1) as i32 | call as i32
    }

    /// State of a process that has become a member when all had counted so far.
    pub fn resumed(schedules: [u32; 2]) -> Self {
        State { schedules, place: Place::Unknown, is_renewed: true }
    }

    /// Other processes are members from now on: they will meet at another block.
    pub fn renew(&mut self, job: &Job) {
        self.release(job);
        (self.place, self.is_renewed) = (Place::Unknown, true);
    }

    /// How many schedules this process has run, and how many it has started.
    pub fn counts(&self) -> [u32; 2] {
        self.schedules
    }

    /// Gives the block back; called once by every member, when it frees the communicator.
    pub fn release(&mut self, job: &Job) {
        let Place::Block(block) = std::mem::replace(&mut self.place, Place::Messages) else { return };
        if block.index != WORLD_BLOCK {
            job.block(block.index).leave(block.sequence.get());
        }
    }
}

/// Right to single copies among the members of a communicator, as far as it is known; all know the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Right {
    /// Not tried yet.
    #[default]
    Unknown,
    /// The kernel allows them.
    Granted,
    /// The kernel refuses them, to at least one member.
    Refused,
}
