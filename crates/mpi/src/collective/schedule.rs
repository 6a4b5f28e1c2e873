//! Collective operations as schedules: a list of steps that one process takes, with the memory that they need.
//!
//! An algorithm writes its steps once ([`Schedule::send`], [`Schedule::receive`], [`Schedule::await_all`] ...). A blocking call runs
//! them to the end ([`Guard::run`]); a nonblocking one leaves the schedule with the process, which goes on with it whenever it makes
//! progress ([`Guard::advance_schedules`]). Sends and receives only start; awaiting is a step of its own. Every schedule of a
//! communicator has its own tag, so that successive operations never mix.

use core::ffi::CStr;
use std::rc::Rc;

use tutti_datatype::{Buffer, Elements};

use super::memory::Memory;
use super::op::Reducer;
use crate::abi::*;
use crate::check::collectives::Exchange;
use crate::compound::Extra;
use crate::engine::{Message, Mode, Started};
use crate::error::{Error, Result};
use crate::handle::NONE;
use crate::process::{Guard, Process};
use crate::request::{Request, RequestKind, WhenDone};
use crate::wait_goal::Goal;

/// Messages of this size that go both ways at the same time are fetched by their receivers.
const FETCH_BYTES_MIN: usize = 32 << 10;

/// The steps of one process in one collective operation.
#[derive(Debug)]
pub struct Schedule {
    context: u32,
    tag: i32,
    steps: Vec<Step>,
    next: usize,
    /// Requests of the operations that have been started, by their number; [`NONE`] when finished.
    started: Vec<u32>,
    /// The first of `started` of which the step that awaits all does not know yet.
    settled: usize,
    operations: usize,
    memory: Vec<Memory>,
    error: Option<Error>,
    /// Ranks send to one another at the same time.
    pub is_mutual: bool,
    /// Request that this schedule finishes.
    request: u32,
    /// The call that began the operation, when another one completes it.
    pub function: Option<&'static CStr>,
}

/// Number of a send or receive in its schedule.
pub type Operation = usize;

#[derive(Debug)]
enum Step {
    Send { to: u32, buffer: Buffer },
    Receive { from: u32, buffer: Buffer },
    Await(Operation),
    AwaitAll,
    Copy { from: Buffer, to: Buffer },
    Name { comm: MPI_Comm, context: *const u32 },
    Introduce { receive: MPI_Request, words: *const [u32; 4] },
    Combine { reducer: Rc<Reducer>, input: *const u8, inout: *mut u8, count: usize },
    Compare(Rc<Exchange>),
}

/// What a schedule can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advance {
    Finished,
    /// This request must be done first.
    Blocked(u32),
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
            is_mutual: false,
            request: NONE,
            function: None,
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
        let (low, bytes) = datatype.span(count);
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

    /// Copies inside this process.
    pub fn copy(&mut self, from: Buffer, to: Buffer) {
        if from.bytes > 0 && from.at != to.at {
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

    /// Gives a communicator that was made in advance its context, which then stands in this memory of the schedule.
    pub fn name(&mut self, comm: MPI_Comm, context: *const u32) {
        self.steps.push(Step::Name { comm, context });
    }

    /// Tells a partitioned receive of its sender, which then has introduced itself in this memory of the schedule.
    pub fn introduce(&mut self, receive: MPI_Request, words: *const [u32; 4]) {
        self.steps.push(Step::Introduce { receive, words });
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

    /// Takes all steps that can be taken.
    fn advance(&mut self, guard: &mut Guard) -> Advance {
        while let Some(step) = self.steps.get(self.next) {
            match step {
                Step::Send { to, buffer } => {
                    let (to, context, tag, buffer) = (*to, self.context, self.tag, buffer.clone());
                    let started =
                        guard.engine.send(Message { to, context, tag, buffer, mode: Mode::Standard });
                    self.started.push(match started {
                        Started::Done => NONE,
                        Started::Pending(index) => index,
                    });
                }
                Step::Receive { from, buffer } => {
                    let mut request = Request::new(
                        RequestKind::Receive,
                        buffer.clone(),
                        self.context,
                        *from as i32,
                        self.tag,
                    );
                    request.mutual = self.is_mutual && buffer.bytes >= FETCH_BYTES_MIN;
                    self.started.push(guard.engine.receive(request));
                }
                Step::Await(operation) => {
                    let operation = *operation;
                    if let Some(blocked) = self.settle(guard, operation) {
                        return blocked;
                    }
                }
                Step::AwaitAll => {
                    while self.settled < self.started.len() {
                        if let Some(blocked) = self.settle(guard, self.settled) {
                            return blocked;
                        }
                        self.settled += 1;
                    }
                }
                // SAFETY: both are memory of the schedule or the user's, valid while the operation is pending.
                Step::Copy { from, to } => unsafe { copy(from, to) },
                Step::Name { comm, context } => {
                    if let Ok(made) = guard.comm_mut(*comm) {
                        // SAFETY: memory of the schedule, which the steps before have filled.
                        made.context = unsafe { context.read() };
                    }
                }
                // SAFETY: memory of the schedule, which the steps before have filled.
                Step::Introduce { receive, words } => unsafe {
                    guard.introduce(*receive, words.read_unaligned())
                },
                Step::Combine { reducer, input, inout, count } => {
                    let (reducer, input, inout, count) = (reducer.clone(), *input, *inout, *count);
                    // SAFETY: as above; the algorithms never combine a memory with itself.
                    unsafe { reducer.combine(guard, input, inout, count) };
                }
                Step::Compare(exchange) => {
                    let exchange = exchange.clone();
                    // SAFETY: the memory is this schedule's; everything started before has been awaited.
                    unsafe { exchange.compare(guard) };
                }
            }
            self.next += 1;
        }
        Advance::Finished
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
        let operations = match self.steps.get(self.next) {
            Some(Step::Await(operation)) => *operation..*operation + 1,
            Some(Step::AwaitAll) => 0..self.started.len(),
            _ => 0..0,
        };
        self.started[operations].iter().copied().filter(|index| *index != NONE)
    }

    /// Takes the outcome of an operation, if it is finished.
    fn settle(&mut self, guard: &mut Guard, operation: Operation) -> Option<Advance> {
        let index = self.started[operation];
        if index == NONE {
            return None;
        }
        if !guard.engine.requests.get(index).done {
            return Some(Advance::Blocked(index));
        }
        let request = guard.engine.requests.remove(index);
        self.started[operation] = NONE;
        if request.error != MPI_SUCCESS && self.error.is_none() {
            self.error = Some(self.mismatch(guard, &request));
        }
        None
    }

    /// The error of a receive that has failed.
    #[cold]
    fn mismatch(&self, guard: &Guard, request: &Request) -> Error {
        let from = match guard.rank_in_context(self.context, request.peer as u32) {
            Some(rank) => format!("rank {rank}"),
            None => format!("world rank {}", request.peer),
        };
        let function = self.function.map(|name| format!("{}: ", name.to_string_lossy())).unwrap_or_default();
        Error::new(
            request.error,
            format_args!(
                "{function}{from} sent {} bytes, {} were expected: the counts or types of the ranks do not match",
                request.bytes, request.buffer.bytes
            ),
        )
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

impl Guard {
    /// Runs a schedule to its end.
    ///
    /// # Errors
    /// MPI_ERR_TRUNCATE when a rank sent more than was expected.
    pub fn run(&mut self, schedule: &mut Schedule) -> Result<()> {
        loop {
            match schedule.advance(self) {
                Advance::Finished => return schedule.error.take().map_or(Ok(()), Err),
                Advance::Blocked(index) => {
                    let hint = usize::try_from(self.engine.requests.get(index).peer).ok();
                    let is_done =
                        |process: &mut Process| process.engine.requests.get(index).done.then_some(());
                    self.wait(hint, Goal::Step(schedule), is_done);
                }
            }
        }
    }

    /// Leaves a schedule with the process; returns the request that is done when the schedule is.
    pub fn launch(&mut self, schedule: Schedule) -> u32 {
        let pending = Request::new(RequestKind::Collective, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
        let request = self.engine.requests.insert(pending);
        let function = schedule.function.or(Some(self.call));
        self.advance_schedule(Box::new(Schedule { request, function, ..schedule }));
        request
    }

    /// Goes on with every schedule that was launched and can go on.
    #[cold]
    pub fn advance_schedules(&mut self) {
        loop {
            let Process { schedules, engine, .. } = &mut **self;
            let Some(schedule) = schedules.take_ready(&mut engine.requests) else { break };
            self.advance_schedule(schedule);
        }
    }

    /// Goes on with a schedule, which is not among the others meanwhile: a function of the user may run.
    fn advance_schedule(&mut self, mut schedule: Box<Schedule>) {
        match schedule.advance(self) {
            Advance::Finished => self.conclude(&mut schedule),
            Advance::Blocked(awaited) => {
                let Process { schedules, engine, .. } = &mut **self;
                schedules.put(schedule, awaited, &mut engine.requests);
            }
        }
    }

    fn conclude(&mut self, schedule: &mut Schedule) {
        let index = schedule.request;
        let request = self.engine.requests.get_mut(index);
        if let Some(error) = schedule.error.take() {
            (request.error, request.context) = (error.class, schedule.context);
            request.extra = Some(Box::new(Extra::Failed(error.text)));
        }
        request.done = true;
        if request.when_done == WhenDone::Free {
            self.engine.requests.remove(index);
        }
    }
}
