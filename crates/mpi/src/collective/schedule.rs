//! Collective operations as schedules: a list of steps that one process takes, with the memory that they
//! need.
//!
//! An algorithm writes its steps once ([`Schedule::send`], [`Schedule::receive`], [`Schedule::await_all`]
//! ...). A blocking call runs them to the end (`Progress::run`); a nonblocking one leaves the schedule with
//! the process, which goes on with it whenever it makes progress ([`super::run`]). Sends and
//! receives only start; awaiting is a step of its own. Every schedule of a communicator has its own tag, so
//! that successive operations never mix.

use core::ffi::CStr;
use std::cell::RefCell;
use std::rc::Rc;

use tutti_datatype::{Buffer, Elements};

use super::memory::Memory;
use super::op::Reducer;
use super::stage::Stage;
use super::task::Task;
use crate::abi::*;
use crate::check::exchange::Exchange;
use crate::error::Error;
use crate::handle::NONE;

/// The steps of one process in one collective operation.
#[derive(Debug)]
pub struct Schedule {
    pub(super) context: u32,
    pub(super) tag: i32,
    pub(super) steps: Vec<Step>,
    pub(super) next: usize,
    /// Requests of the operations that have been started, by their number; [`NONE`] when finished.
    pub(super) started: Vec<u32>,
    /// The first of `started` of which the step that awaits all does not know yet.
    pub(super) settled: usize,
    pub(super) operations: usize,
    pub(super) memory: Vec<Memory>,
    pub(super) error: Option<Error>,
    /// Bytes of the user's data that a task has moved.
    pub bytes: usize,
    /// Ranks send to one another at the same time.
    pub is_mutual: bool,
    /// Request that this schedule finishes.
    pub(super) request: u32,
    /// The call that began the operation, when another one completes it.
    pub function: Option<&'static CStr>,
    /// Array sections that are written when it is done.
    pub stage: Option<Rc<Stage>>,
}

/// Number of a send or receive in its schedule.
pub type Operation = usize;

#[derive(Debug)]
/// Step of a schedule.
pub(super) enum Step {
    Send { to: u32, buffer: Buffer },
    Receive { from: u32, buffer: Buffer },
    Await(Operation),
    AwaitAll,
    Copy { from: Buffer, to: Buffer },
    Name { comm: MPI_Comm, contexts: *const u32, members: Vec<u32> },
    Introduce { receive: MPI_Request, words: *const [u32; 6] },
    Combine { reducer: Rc<Reducer>, input: *const u8, inout: *mut u8, count: usize },
    Compare(Rc<Exchange>),
    Task(RefCell<Task>),
}

impl Schedule {
    /// No steps yet.
    pub fn new(context: u32, tag: i32) -> Self {
        Schedule {
            context,
            tag,
            steps: Vec::new(),
            next: 0,
            started: Vec::new(),
            settled: 0,
            operations: 0,
            memory: Vec::new(),
            error: None,
            bytes: 0,
            is_mutual: false,
            request: NONE,
            function: None,
            stage: None,
        }
    }

    /// Memory that lives as long as the schedule.
    pub fn memory(&mut self, bytes: usize) -> *mut u8 {
        let mut memory = Memory::new(bytes);
        let address = memory.address();
        self.memory.push(memory);
        address
    }

    /// Memory for `count` elements, as the address that they count from.
    pub fn elements(&mut self, datatype: &Elements, count: usize) -> *mut u8 {
        let (low, bytes) = datatype.room(count);
        self.memory(bytes).wrapping_offset(-low)
    }

    /// Starts a send to a world rank.
    pub fn send(&mut self, to: u32, buffer: Buffer) -> Operation {
        self.steps.push(Step::Send { to, buffer });
        self.operations += 1;
        self.operations - 1
    }

    /// Starts a receive from a world rank.
    pub fn receive(&mut self, from: u32, buffer: Buffer) -> Operation {
        self.steps.push(Step::Receive { from, buffer });
        self.operations += 1;
        self.operations - 1
    }

    /// Goes on when this operation is finished.
    pub fn await_one(&mut self, operation: Operation) {
        self.steps.push(Step::Await(operation));
    }

    /// Goes on when everything started is finished.
    pub fn await_all(&mut self) {
        self.steps.push(Step::AwaitAll);
    }

    /// Copies inside this process, unless both are the same data.
    pub fn copy(&mut self, from: Buffer, to: Buffer) {
        if from.bytes > 0 && !from.is_at(&to) {
            self.steps.push(Step::Copy { from, to });
        }
    }

    /// Computes `inout = input op inout`.
    pub fn combine(&mut self, reducer: &Rc<Reducer>, input: *const u8, inout: *mut u8, count: usize) {
        if count > 0 {
            self.steps.push(Step::Combine { reducer: reducer.clone(), input, inout, count });
        }
    }

    /// Compares the calls of all ranks, whose records have arrived.
    pub fn compare(&mut self, exchange: Rc<Exchange>) {
        self.steps.push(Step::Compare(exchange));
    }

    /// Gives a communicator that was made in advance its context: what these members have proposed then
    /// stands in this memory of the schedule.
    pub fn name(&mut self, comm: MPI_Comm, contexts: *const u32, members: Vec<u32>) {
        self.steps.push(Step::Name { comm, contexts, members });
    }

    /// Tells a partitioned receive of its sender, which then has introduced itself in this memory of the
    /// schedule.
    pub fn introduce(&mut self, receive: MPI_Request, words: *const [u32; 6]) {
        self.steps.push(Step::Introduce { receive, words });
    }

    /// Does what depends on what other ranks say.
    pub fn task(&mut self, task: Task) {
        self.steps.push(Step::Task(RefCell::new(task)));
    }

    /// Whether no receive is posted behind a send that nothing has awaited meanwhile.
    #[cfg(test)]
    pub fn posts_receives_first(&self) -> bool {
        self.steps.split(|step| matches!(step, Step::Await(_) | Step::AwaitAll)).all(|stretch| {
            let is_send = |step: &&Step| matches!(step, Step::Send { .. });
            !stretch.iter().skip_while(|step| !is_send(step)).any(|step| matches!(step, Step::Receive { .. }))
        })
    }

    /// How many sends and receives there are.
    #[cfg(test)]
    pub fn messages(&self) -> usize {
        self.operations
    }

    /// The request that is done when the whole is, if it was left with the process; else [`NONE`].
    pub fn request(&self) -> u32 {
        self.request
    }

    /// The same, of this request.
    #[cfg(test)]
    pub fn with_request(self, request: u32) -> Self {
        Schedule { request, ..self }
    }

    /// The requests of which all must be done before the step at which it stands is over.
    pub fn awaited(&self) -> impl Iterator<Item = u32> {
        let mut of_task = NONE;
        let operations = match self.steps.get(self.next) {
            Some(Step::Await(operation)) => *operation..*operation + 1,
            Some(Step::AwaitAll) => 0..self.started.len(),
            Some(Step::Task(task)) => {
                of_task = task.borrow().awaited();
                0..0
            }
            _ => 0..0,
        };
        let started = self.started[operations].iter().copied();
        started.chain(std::iter::once(of_task)).filter(|index| *index != NONE)
    }
}

/// Copies from one buffer to another inside this process.
///
/// # Safety
/// Both lead to memory as their maps say, and do not overlap.
pub unsafe fn copy(from: &Buffer, to: &Buffer) {
    let bytes = from.bytes.min(to.bytes);
    // SAFETY: our contract.
    unsafe {
        if from.map.is_none() {
            to.store(0, from.at, bytes);
        } else if to.map.is_none() {
            from.load(0, to.at, bytes);
        } else {
            let mut piece = [0; 4096];
            let mut offset = 0;
            while offset < bytes {
                let part = piece.len().min(bytes - offset);
                from.load(offset, piece.as_mut_ptr(), part);
                to.store(offset, piece.as_ptr(), part);
                offset += part;
            }
        }
    }
}
