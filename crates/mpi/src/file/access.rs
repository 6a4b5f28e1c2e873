//! Accesses to data (MPI 14.4): from the arguments of a call to what is done.

use super::independent::{self, Direction};
use super::opened::{File, Split};
use super::representation::{Converted, Data as Typed};
use super::system::Lock;
use super::two_phase::{self, Access, Place};
use crate::abi::*;
use crate::check::inspection::Inspect;
use crate::collective::schedule::Schedule;
use crate::collective::task::Task;
use crate::comm::HasComms;
use crate::compound;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::datatype::checked_count;
use crate::error::{Error, Result, check};
use crate::file::HasFiles;
use crate::file::open;
use crate::progress::Progress;
use crate::request::{Outcome, Request, RequestKind};
use crate::wait_goal::{Goal, Outside};
use tutti_datatype::Buffer;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// At this offset, in etypes.
    Offset(i64),
    /// At this offset, which the shared pointer has given.
    Placed(i64),
    /// At the individual pointer.
    Individual,
    /// At the shared pointer.
    Shared,
}

/// Result of an independent access.
#[derive(Debug)]
pub struct Moved {
    /// Bytes of the user's data.
    pub bytes: usize,
    /// Why not all.
    pub error: Option<Error>,
}

/// An access whose arguments are right.
struct Prepared {
    buffer: Buffer,
    converted: Option<Converted>,
    etypes: i64,
}

/// Checks the arguments of an access, and converts what is to be written.
fn prepare(
    call: &mut (impl Progress + HasTypes + HasFiles),
    handle: MPI_File,
    direction: Direction,
    at: At,
    data: Data,
) -> Result<Prepared> {
    let file = call.files().find(handle)?;
    match direction {
        Direction::Read => file.check_readable()?,
        Direction::Write => file.check_writable()?,
    }
    if let At::Offset(offset) = at {
        file.check_not_sequential()?;
        check(offset >= 0, MPI_ERR_ARG, || format!("offset is {offset}, expected 0 or more"))?;
    }
    if at == At::Individual {
        file.check_not_sequential()?;
    }
    let (representation, etype_bytes) = (file.shown.representation.clone(), file.shown.etype_bytes);
    let is_empty = file.shown.view.is_empty();
    let user = call.types().buffer(data)?;
    checked_count(data.count)?;
    let mut buffer = user.clone();
    let mut converted = None;
    if !representation.is_plain() {
        let layout = call.types().layout(data.datatype)?;
        let Data { address, count, datatype } = data;
        let reference = call.types().refer(datatype);
        let typed = Typed { buffer: user, address, count, datatype, reference, layout };
        let is_write = direction == Direction::Write;
        let rank = std::cell::RefCell::new(call.rank());
        let unlocked = |action: &mut dyn FnMut()| rank.borrow_mut().unlocked(action);
        converted = Converted::new(&representation, &typed, is_write, &unlocked)?;
        if let Some(converted) = &mut converted {
            if is_write {
                converted.write_out(&unlocked)?;
            }
            buffer = converted.buffer();
        }
    }
    let bytes = buffer.bytes as u64;
    check(bytes.is_multiple_of(etype_bytes), MPI_ERR_TYPE, || {
        format!("the data have {bytes} bytes in the file, expected a multiple of the etype's {etype_bytes}")
    })?;
    check(!is_empty || bytes == 0, MPI_ERR_TYPE, || "the filetype of the view has no data".into())?;
    Ok(Prepared { buffer, converted, etypes: (bytes / etype_bytes) as i64 })
}

/// Takes the place of an access, and moves the pointer on.
fn take_place(
    call: &mut (impl Progress + HasComms + HasFiles),
    handle: MPI_File,
    at: At,
    etypes: i64,
) -> Result<i64> {
    match at {
        At::Offset(offset) | At::Placed(offset) => Ok(offset),
        At::Individual => {
            let file = call.files_mut().find_mut(handle)?;
            let position = file.position;
            file.position = position.saturating_add(etypes);
            Ok(position)
        }
        At::Shared => open::move_pointer(call, handle, etypes),
    }
}

/// Reads or writes without the other ranks (14.4.2 to 14.4.4).
///
/// # Errors
/// Those of the arguments: nothing has been moved.
pub fn access_file(
    call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
    handle: MPI_File,
    direction: Direction,
    at: At,
    data: Data,
) -> Result<Moved> {
    let Prepared { buffer, mut converted, etypes } = prepare(call, handle, direction, at, data)?;
    let place = take_place(call, handle, at, etypes)?;
    let file = call.files().find(handle)?;
    let (opened, view, hints) = (file.opened.clone(), file.shown.view.clone(), file.hints);
    let locks = file.is_atomic || hints.is_nfs();
    let bytes = buffer.bytes as u64;
    let position = position_of(file, place)?;
    let (Some(first), Some(end)) = (view.offset_of(position), view.end_of(position, bytes)) else {
        let text = format_args!("{bytes} bytes from offset {place} on end beyond any file");
        return Err(Error::new(MPI_ERR_ARG, text));
    };
    if bytes == 0 {
        return Ok(Moved { bytes: 0, error: None });
    }
    let range = (first, end - first);
    if locks {
        let lock = if direction == Direction::Read { Lock::Shared } else { Lock::Exclusive };
        let opened = opened.clone();
        call.wait(None, Goal::Outside(Outside::FileLock), |_| opened.try_lock(lock, range.0, range.1))?;
    }
    let moved = call.unlocked(|| {
        // SAFETY: the user's memory, or ours, stays until this returns.
        unsafe { independent::transfer(&opened, &view, position, &buffer, direction, &hints) }
    });
    if locks {
        opened.unlock(range.0, range.1);
    }
    let mut error = moved.error.map(|(_, error)| error);
    let mut bytes = moved.bytes;
    if let Some(converted) = &mut converted {
        bytes = match direction {
            Direction::Write => converted.native_bytes(bytes),
            Direction::Read => {
                let rank = std::cell::RefCell::new(call.rank());
                let unlocked = |action: &mut dyn FnMut()| rank.borrow_mut().unlocked(action);
                converted.read_in(bytes, &unlocked).unwrap_or_else(|failed| {
                    error.get_or_insert(failed);
                    0
                })
            }
        };
    }
    Ok(Moved { bytes, error })
}

/// Starts an access without the other ranks; it is done when this returns.
///
/// # Errors
/// Those of the arguments and of the file.
pub fn start_access(
    call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
    handle: MPI_File,
    direction: Direction,
    at: At,
    data: Data,
) -> Result<MPI_Request> {
    let moved = access_file(call, handle, direction, at, data)?;
    match moved.error {
        Some(error) => Err(error),
        None => Ok(finished_access(call, moved.bytes)),
    }
}

fn finished_access(call: &mut impl Progress, bytes: usize) -> MPI_Request {
    let kind = RequestKind::Collective;
    let mut request = Request::new(kind, Buffer::empty(), 0, MPI_ANY_SOURCE, MPI_ANY_TAG);
    (request.bytes, request.done) = (bytes, true);
    let index = call.engine_mut().requests.insert(request);
    MPI_Request(call.engine().requests.handle(index))
}

/// A collective access, as a schedule of this rank. In atomic mode each rank accesses the file by itself,
/// at once: the schedule only says what it has done.
fn plan_access(
    call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
    handle: MPI_File,
    direction: Direction,
    at: At,
    data: Data,
) -> Result<Schedule> {
    call.files().find(handle)?;
    if call.files().find(handle)?.is_atomic {
        return plan_atomic(call, handle, direction, at, data);
    }
    let prepared = prepare(call, handle, direction, at, data).and_then(|prepared| {
        let place = match at {
            At::Shared => None,
            at => {
                let place = take_place(call, handle, at, prepared.etypes)?;
                Some(position_of(call.files().find(handle)?, place)?)
            }
        };
        Ok((prepared, place))
    });
    let file = call.files_mut().find_mut(handle)?;
    let tag = file.next_tag();
    let mut access = Access {
        opened: file.opened.clone(),
        view: file.shown.view.clone(),
        etype_bytes: file.shown.etype_bytes,
        place: if at == At::Shared { Place::Ordered(file.pointer.clone()) } else { Place::At(0) },
        buffer: Buffer::empty(),
        converted: None,
        direction,
        hints: file.hints,
        tag,
        refused: None,
    };
    match prepared {
        Ok((prepared, place)) => {
            (access.buffer, access.converted) = (prepared.buffer, prepared.converted);
            if let Some(position) = place {
                access.place = Place::At(position);
            }
        }
        Err(error) => access.refused = Some(error),
    }
    let mut schedule = Schedule::new(access.opened.context, tag);
    schedule.task(Task::new(|turn| two_phase::run(turn, access)));
    Ok(schedule)
}

fn plan_atomic(
    call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
    handle: MPI_File,
    direction: Direction,
    at: At,
    data: Data,
) -> Result<Schedule> {
    let at = match at {
        At::Shared => At::Placed(ordered_place(call, handle, direction, data)?),
        at => at,
    };
    let moved = access_file(call, handle, direction, at, data)?;
    let mut schedule = Schedule::new(call.files().find(handle)?.opened.context, 0);
    schedule.task(Task::new(|_| async move {
        crate::collective::task::Done { bytes: moved.bytes, error: moved.error }
    }));
    Ok(schedule)
}

/// The place of this rank's data in an ordered access, in etypes.
fn ordered_place(
    call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
    handle: MPI_File,
    direction: Direction,
    data: Data,
) -> Result<i64> {
    let prepared = prepare(call, handle, direction, At::Shared, data);
    let etypes = prepared.as_ref().map_or(0, |prepared| prepared.etypes);
    let (comm, me) = (call.files().find(handle)?.comm, call.files().find(handle)?.opened.me);
    let halves = |number: i64| [number as u32, (number >> 32) as u32];
    let number = |record: &[u32; 2]| i64::from(record[0]) | i64::from(record[1]) << 32;
    let all = open::meet(call, comm, halves(etypes))?;
    let total = all.iter().map(number).sum();
    let begin = if me == 0 { open::move_pointer(call, handle, total)? } else { 0 };
    let begin = number(&open::meet(call, comm, halves(begin))?[0]);
    prepared?;
    Ok(begin + all[..me].iter().map(number).sum::<i64>())
}

/// Reads or writes together with all other ranks.
///
/// # Errors
/// MPI_ERR_FILE; MPI_ERR_OTHER while a split access has begun.
pub fn access_together(
    call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
    handle: MPI_File,
    direction: Direction,
    at: At,
    data: Data,
) -> Result<Moved> {
    call.files().find(handle)?.check_no_split()?;
    let mut schedule = plan_access(call, handle, direction, at, data)?;
    let error = call.run(&mut schedule).err();
    Ok(Moved { bytes: schedule.bytes, error })
}

/// Starts the same.
///
/// # Errors
/// As [`access_together`].
pub fn start_together(
    call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
    handle: MPI_File,
    direction: Direction,
    at: At,
    data: Data,
) -> Result<MPI_Request> {
    call.files().find(handle)?.check_no_split()?;
    let schedule = plan_access(call, handle, direction, at, data)?;
    let index = call.launch(schedule);
    Ok(MPI_Request(call.engine().requests.handle(index)))
}

/// Begins a split collective access (14.4.5).
///
/// # Errors
/// As [`access_together`].
pub fn begin_split(
    call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
    handle: MPI_File,
    split: Split,
    at: At,
    data: Data,
) -> Result<()> {
    call.files().find(handle)?.check_no_split()?;
    let direction = match split {
        Split::ReadAll | Split::ReadAtAll | Split::ReadOrdered => Direction::Read,
        Split::WriteAll | Split::WriteAtAll | Split::WriteOrdered => Direction::Write,
    };
    let schedule = plan_access(call, handle, direction, at, data)?;
    let request = call.launch(schedule);
    call.files_mut().find_mut(handle)?.split = Some((split, request));
    Ok(())
}

/// Ends it.
///
/// # Errors
/// MPI_ERR_FILE; MPI_ERR_OTHER when another one, or none, has begun.
pub fn end_split(
    call: &mut (impl Progress + Inspect + HasFiles),
    handle: MPI_File,
    split: Split,
) -> Result<Moved> {
    let begun = call.files().find(handle)?.split;
    let Some((_, request)) = begun.filter(|(begun, _)| *begun == split) else {
        let text = match begun {
            Some((other, _)) => format!("{other:?} has begun, not {split:?}"),
            None => "no split collective access of this file has begun".into(),
        };
        return Err(Error::new(MPI_ERR_OTHER, text));
    };
    call.await_done(request, None, Goal::Request(request));
    let error = call.engine().failure(request).map(|error| Error { context: None, ..error });
    let Outcome { bytes, .. } = compound::take_request(call, request);
    call.files_mut().find_mut(handle)?.split = None;
    Ok(Moved { bytes, error })
}

/// Position in the view, in bytes, of a place in etypes.
fn position_of(file: &File, place: i64) -> Result<u64> {
    let position = u64::try_from(place).ok().and_then(|place| place.checked_mul(file.shown.etype_bytes));
    position.ok_or_else(|| {
        Error::new(MPI_ERR_ARG, format_args!("offset is {place}, expected one from 0 to the largest file"))
    })
}
