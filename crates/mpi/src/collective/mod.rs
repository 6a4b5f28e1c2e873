//! Collective operations (MPI chapter 6).
//!
//! A call becomes [`work::Work`]: arguments checked and translated. Small work on one node goes through the
//! communicator's block in shared memory ([`mod@block`], [`flags`]), large work from memory to memory
//! ([`single_copy`]); everything else becomes a [`schedule`] of messages ([`plan`]), which a blocking call
//! runs to its end and a nonblocking one leaves with the process.

pub mod algorithms;
pub mod block;
mod direct;
mod edges;
mod flags;
pub(crate) mod memory;
mod neighbours;
pub mod op;
pub mod plan;
pub mod reducers;
mod reduction;
mod remote;
pub(crate) mod run;
pub mod schedule;
pub mod schedules;
mod single_copy;
mod sizes;
pub mod stage;
pub mod state;
pub mod task;
mod tree;
pub mod work;

use std::rc::Rc;

use tutti_shm::collective::SLOT_BYTES;

use crate::abi::*;
use crate::check;
use crate::check::inspection::Inspect;
use crate::check_mode;
use crate::collective::state::HasCollectives;
use crate::comm::HasComms;
use crate::compound;
use crate::datatype::HasTypes;
use crate::error::{Error, Result, check as ensure};
use crate::progress::Progress;
use crate::request::extra::{NOTHING, Part};
use crate::request::persistent::HasPersistents;
use crate::session::HasEnvironment;
use crate::tally::{self, Algorithm};

use plan::Place;
use single_copy::Outcome;
use state::{Block, Call, Place as Meets};
use work::{Arguments, ReductionArguments, Work};

/// Does collective work and returns when it is done.
///
/// # Errors
/// MPI_ERR_TRUNCATE when the ranks' arguments do not match; MPI_ERR_BUFFER when a buffer that is read and
/// written cannot be reached by a single copy.
#[inline]
pub fn collect(call: &mut (impl Progress + Inspect + HasComms), comm: MPI_Comm, work: &Work) -> Result<()> {
    if let Some(block) = block(call, comm) {
        if flags::try_small(call, &block, work) {
            tally::COLLECTIVES[Algorithm::Slots as usize].count();
            return Ok(());
        }
        match single_copy::try_large(call, &block, work) {
            Outcome::Done => {
                algorithms::raise(Algorithm::SingleCopy, block.group.members().len());
                return Ok(());
            }
            Outcome::Undone => {}
            Outcome::Lost => return Err(lost()),
        }
    }
    let mut schedule = next_plan(call, comm, work, Call::Blocking)?;
    call.run(&mut schedule)
}

/// The schedule of the next operation on a communicator.
fn next_plan(
    call: &mut (impl Inspect + HasComms),
    comm: MPI_Comm,
    work: &Work,
    kind: Call,
) -> Result<schedule::Schedule> {
    let place = Place::next(call.comms_mut().find_mut(comm)?, kind);
    if check_mode::is_on() {
        return Ok(check::collectives::plan(
            call.inspect(),
            comm,
            &place,
            work,
            check::collectives::current_function(),
        ));
    }
    Ok(place.plan(work))
}

/// MPI_Allreduce.
///
/// # Errors
/// Those of the arguments; as [`collect`].
#[inline(always)]
pub fn allreduce(
    call: &mut (impl Progress + Inspect + HasCollectives + HasComms + HasTypes),
    comm: MPI_Comm,
    arguments: ReductionArguments,
) -> Result<()> {
    if allreduce_few(call, comm, &arguments) {
        return Ok(());
    }
    let translated = Arguments::new(call.comms(), call.types(), call.colls(), comm)?;
    let work = translated.work_allreduce(arguments)?;
    collect(call, comm, &work)
}

/// The common case: a predefined operation on few elements of a predefined type. Anything else, wrong
/// arguments too, is left to the caller.
#[inline(always)]
fn allreduce_few(
    call: &mut (impl Progress + HasComms + HasTypes),
    comm: MPI_Comm,
    arguments: &ReductionArguments,
) -> bool {
    let ReductionArguments { send, receive, count, datatype, op } = *arguments;
    let Some(datatype) = call.types().predefined(datatype) else { return false };
    let Some(kernel) = datatype.element.and_then(|element| op::kernel(op, element)) else {
        return false;
    };
    let bytes = (count as usize).wrapping_mul(datatype.extent as usize);
    let in_place = send == MPI_IN_PLACE.cast_const();
    let fits = count > 0 && count <= SLOT_BYTES as i64 && bytes <= SLOT_BYTES;
    if !fits || send.is_null() || receive.is_null() || receive == MPI_IN_PLACE || send == receive.cast_const()
    {
        return false;
    }
    let Some(block) = block(call, comm) else { return false };
    let send = if in_place { receive.cast_const() } else { send };
    let elements = flags::Elements { kernel, count: count as usize, bytes };
    // SAFETY: the user's two buffers hold the elements.
    unsafe { flags::allreduce_elements(call, &block, elements, send.cast(), receive.cast()) };
    tally::COLLECTIVES[Algorithm::Slots as usize].count();
    true
}

/// Starts collective work; it is done when the request is.
///
/// # Errors
/// MPI_ERR_REQUEST when there is no place for the request.
///
/// # Safety
/// `request` is null or valid for writing.
pub unsafe fn start_collecting(
    call: &mut (impl Progress + Inspect + HasComms),
    comm: MPI_Comm,
    work: &Work,
    request: *mut MPI_Request,
) -> Result<()> {
    check_place(request)?;
    let schedule = next_plan(call, comm, work, Call::Started)?;
    let index = call.launch(schedule);
    // SAFETY: our contract; it is not null.
    unsafe { request.write(MPI_Request(call.engine().requests.handle(index))) };
    Ok(())
}

/// Makes a persistent request for collective work. Its messages have one tag for all times; operations of
/// one request follow one another, so they cannot mix.
///
/// # Errors
/// MPI_ERR_REQUEST when there is no place for the request.
///
/// # Safety
/// `request` is null or valid for writing.
pub unsafe fn prepare_collecting(
    call: &mut (impl Progress + Inspect + HasComms + HasPersistents + HasEnvironment),
    comm: MPI_Comm,
    work: Work,
    request: *mut MPI_Request,
) -> Result<()> {
    check_place(request)?;
    let place = Place::next(call.comms_mut().find_mut(comm)?, Call::Started);
    // Not the function of the checker, which knows none when it is off.
    let function = call.env().call;
    let groups = [Some(&place.local), place.remote.as_ref()].into_iter().flatten().cloned().collect();
    let index = compound::persistent(call, move |call| {
        let mut schedule = if check_mode::is_on() {
            check::collectives::plan(call.inspect(), comm, &place, &work, function)
        } else {
            place.plan(&work)
        };
        schedule.function = Some(function);
        Ok([Part::Pending(call.launch(schedule)), NOTHING])
    });
    call.keep_collective(index, groups);
    // SAFETY: our contract; it is not null.
    unsafe { request.write(MPI_Request(call.engine().requests.handle(index))) };
    Ok(())
}

/// The block of an intracommunicator of several ranks; none when it uses messages.
#[inline(always)]
pub fn block(call: &mut (impl Progress + HasComms), comm: MPI_Comm) -> Option<Rc<Block>> {
    match &call.comms().find(comm).ok()?.collective.place {
        Meets::Block(block) => Some(block.clone()),
        Meets::Messages => None,
        Meets::Unknown => assign_block(call, comm),
    }
}

#[cold]
fn assign_block(call: &mut (impl Progress + HasComms), handle: MPI_Comm) -> Option<Rc<Block>> {
    let comm = call.comms().find(handle).ok()?;
    let (rank, group, context) = (comm.rank, comm.group.clone(), comm.context);
    let has_first_block = context == 0 && !comm.collective.is_renewed;
    let between_groups = comm.remote.is_some();
    let without = between_groups
        || group.size() == 1
        || !call.engine().are_here(group.members())
        || crate::check_mode::is_on();
    let index = if without {
        block::NO_BLOCK
    } else if has_first_block {
        state::WORLD_BLOCK as u32
    } else {
        let tag = call.comms_mut().find_mut(handle).ok()?.collective.next_tag(Call::Blocking);
        block::agree_on_block(call, context, tag, rank, &group)
    };
    let block = (index != block::NO_BLOCK)
        .then(|| Rc::new(Block::new(call.engine(), index as usize, rank, context, group)));
    if let Ok(comm) = call.comms_mut().find_mut(handle) {
        comm.collective.place = block.clone().map_or(Meets::Messages, Meets::Block);
    }
    block
}

#[cold]
fn lost() -> Error {
    Error::new(
        MPI_ERR_BUFFER,
        "the kernel refused to copy from or to the buffer of a rank that takes part in place; use two buffers",
    )
}

fn check_place(request: *mut MPI_Request) -> Result<()> {
    ensure(!request.is_null(), MPI_ERR_REQUEST, || "request is a null pointer".into())
}
