//! Running schedules: to their end, or on with each progress.

use std::ptr::NonNull;

use super::schedule::{Operation, Schedule, Step, copy};
use crate::abi::*;
use crate::check::inspection::Inspect;
use crate::collective::state::HasCollectives;
use crate::comm::HasComms;
use crate::engine::LOST;
use crate::engine::message::{Message, Mode};
use crate::error::{Error, Result};
use crate::handle::NONE;
use crate::progress::Progress;
use crate::request::extra::Extra;
use crate::request::{Request, RequestKind, Started, WhenDone};
use crate::session::HasEnvironment;
use crate::wait_goal::Goal;
use tutti_datatype::Buffer;

/// Messages of this size that go both ways at the same time are fetched by their receivers.
const FETCH_BYTES_MIN: usize = 32 << 10;

/// State of a schedule when no further step can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advance {
    Finished,
    /// Request that must be done first.
    Blocked(u32),
}

impl Schedule {
    /// Takes all steps that can be taken.
    fn advance(&mut self, call: &mut (impl Progress + Inspect + HasComms)) -> Advance {
        while let Some(step) = self.steps.get(self.next) {
            match step {
                Step::Send { to, buffer } => {
                    let (to, context, tag, buffer) = (*to, self.context, self.tag, buffer.clone());
                    let started =
                        call.engine_mut().send(Message { to, context, tag, buffer, mode: Mode::Standard });
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
                    self.started.push(call.engine_mut().receive(request));
                }
                Step::Await(operation) => {
                    let operation = *operation;
                    if let Some(blocked) = self.settle(call, operation) {
                        return blocked;
                    }
                }
                Step::AwaitAll => {
                    while self.settled < self.started.len() {
                        if let Some(blocked) = self.settle(call, self.settled) {
                            return blocked;
                        }
                        self.settled += 1;
                    }
                }
                // SAFETY: both are memory of the schedule or the user's, valid while the operation is
                // pending.
                Step::Copy { from, to } => unsafe { copy(from, to) },
                Step::Name { comm, contexts, members } => {
                    // SAFETY: memory of the schedule, a word for each member, which the steps before have
                    // filled.
                    let proposed = (0..members.len()).map(|at| unsafe { contexts.add(at).read() });
                    let proposals: Vec<_> = members.iter().copied().zip(proposed).collect();
                    // Without what a process that has ended would have said there is none.
                    let context =
                        self.error.is_none().then(|| call.engine_mut().agree_on_context(&proposals));
                    if let (Ok(made), Some(context)) = (call.comms_mut().find_mut(*comm), context) {
                        made.context = context;
                    }
                }
                // SAFETY: memory of the schedule, which the steps before have filled.
                Step::Introduce { receive, words } => unsafe {
                    call.engine_mut().introduce_partitions(*receive, words.read_unaligned())
                },
                Step::Combine { reducer, input, inout, count } => {
                    let (reducer, input, inout, count) = (reducer.clone(), *input, *inout, *count);
                    // SAFETY: as above; the algorithms never combine a memory with itself.
                    unsafe { reducer.combine(|run| call.unlocked(run), input, inout, count) };
                }
                Step::Task(task) => {
                    let engine = NonNull::from(call.engine_mut());
                    let rank = NonNull::from(call.rank());
                    let mut task = task.borrow_mut();
                    let Some(done) = task.advance(engine, rank) else {
                        return Advance::Blocked(task.awaited());
                    };
                    (self.bytes, self.error) = (done.bytes, done.error);
                }
                Step::Compare(exchange) => {
                    let exchange = exchange.clone();
                    // SAFETY: the memory is this schedule's; everything started before has been awaited.
                    unsafe { exchange.compare(call.inspect()) };
                }
            }
            self.next += 1;
        }
        Advance::Finished
    }

    /// Takes the outcome of an operation, if it is finished.
    fn settle(&mut self, call: &mut (impl Progress + HasComms), operation: Operation) -> Option<Advance> {
        let index = self.started[operation];
        if index == NONE {
            return None;
        }
        if !call.engine().requests.get(index).done {
            return Some(Advance::Blocked(index));
        }
        let request = call.engine_mut().requests.remove(index);
        self.started[operation] = NONE;
        if request.error != MPI_SUCCESS && self.error.is_none() {
            self.error = Some(self.mismatch(call, &request));
        }
        None
    }

    /// The error of a receive that has failed.
    #[cold]
    fn mismatch(&self, call: &impl HasComms, request: &Request) -> Error {
        if request.error == MPI_ERR_PROC_ABORTED {
            return Error::new(MPI_ERR_PROC_ABORTED, LOST);
        }
        let from = match call.comms().rank_in_context(self.context, request.peer as u32) {
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

/// Runs a schedule to its end.
///
/// # Errors
/// MPI_ERR_TRUNCATE when a rank sent more than was expected.
pub(crate) fn run_schedule(
    call: &mut (impl Progress + Inspect + HasComms),
    schedule: &mut Schedule,
) -> Result<()> {
    loop {
        match schedule.advance(call) {
            Advance::Finished => return schedule.error.take().map_or(Ok(()), Err),
            Advance::Blocked(index) => {
                let hint = usize::try_from(call.engine().requests.get(index).peer).ok();
                call.wait(hint, Goal::Step(schedule), |engine| engine.requests.get(index).done.then_some(()));
            }
        }
    }
}

/// Leaves a schedule with the process; returns the request that is done when the schedule is.
pub(crate) fn launch_schedule(
    call: &mut (impl Progress + Inspect + HasCollectives + HasComms + HasEnvironment),
    schedule: Schedule,
) -> u32 {
    let pending = Request::new(RequestKind::Collective, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
    let request = call.engine_mut().requests.insert(pending);
    let function = schedule.function.or(Some(call.env().call));
    advance_schedule(call, Box::new(Schedule { request, function, ..schedule }));
    request
}

/// Goes on with every schedule that was launched and can go on, and with partitions that travel in
/// pieces.
#[cold]
pub(crate) fn advance_schedules(call: &mut (impl Progress + Inspect + HasCollectives + HasComms)) {
    while let Some(done) = call.engine_mut().requests.take_awaited() {
        match call.colls_mut().schedules.take_ready(done) {
            Some(schedule) => advance_schedule(call, schedule),
            None => call.engine_mut().go_on_with_pieces(done),
        }
    }
}

/// Goes on with a schedule, which is not among the others meanwhile: a function of the user may run.
fn advance_schedule(
    call: &mut (impl Progress + Inspect + HasCollectives + HasComms),
    mut schedule: Box<Schedule>,
) {
    match schedule.advance(call) {
        Advance::Finished => conclude(call, &mut schedule),
        Advance::Blocked(awaited) => {
            call.put_schedule(schedule, awaited);
        }
    }
}

fn conclude(call: &mut impl Progress, schedule: &mut Schedule) {
    if let Some(stage) = schedule.stage.take() {
        // SAFETY: the operation has ended.
        unsafe { stage.finish() };
    }
    let index = schedule.request;
    let request = call.engine_mut().requests.get_mut(index);
    request.bytes = schedule.bytes;
    if let Some(error) = schedule.error.take() {
        (request.error, request.context) = (error.class, schedule.context);
        request.extra = Some(Box::new(Extra::Failed(error.text)));
    }
    request.done = true;
    if request.when_done == WhenDone::Free {
        call.engine_mut().requests.remove(index);
    }
}
