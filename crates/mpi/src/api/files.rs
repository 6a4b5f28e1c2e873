//! MPI chapter 14: files.

use core::ffi::{CStr, c_int, c_void};

use crate::abi::*;
use crate::argument::put;
use crate::check::inspection::Inspect;
use crate::comm::HasComms;
use crate::comm::calls::EndsComms;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::datatype::constructors::Form;
use crate::errhandler::{self, Object};
use crate::error::{Result, check};
use crate::file::HasFiles;
use crate::file::access;
use crate::file::access::{At, Moved};
use crate::file::independent::Direction::{Read, Write};
use crate::file::open;
use crate::file::opened::Split;
use crate::file::representation;
use crate::file::views;
use crate::info;
use crate::process;
use crate::process::entry::{self, call_file, end_file};
use crate::progress::Progress;
use crate::request::Outcome;

/// Writes what an access has done, also when it ended early: the count of the status is true.
unsafe fn told(moved: Moved, status: *mut MPI_Status) -> Result<()> {
    let outcome = Outcome { bytes: moved.bytes, ..Outcome::EMPTY };
    // SAFETY: a status of the user, or MPI_STATUS_IGNORE.
    unsafe { outcome.write(status) };
    moved.error.map_or(Ok(()), Err)
}

pub(super) fn open(
    call: &mut (impl Inspect + EndsComms),
    comm: MPI_Comm,
    name: &[u8],
    amode: c_int,
    info: MPI_Info,
) -> Result<MPI_File> {
    open::open_file(call, comm, name, amode, info::hints(info))
}

/// Closes a file (14.2.2).
#[inline]
pub unsafe fn MPI_File_close(fh: *mut MPI_File) -> c_int {
    // SAFETY: the user gives a place that holds a file; the exported function has refused null.
    let handle = unsafe { fh.read() };
    end_file(c"MPI_File_close", handle, |guard| {
        let closed = open::close_file(guard, handle);
        if guard.files.find(handle).is_err()
            && closed.as_ref().err().is_none_or(|error| error.class != MPI_ERR_FILE)
        {
            // SAFETY: as above.
            unsafe { put(fh, "fh", MPI_FILE_NULL) }?;
        }
        closed
    })
}

pub(super) fn delete(name: &[u8], info: MPI_Info) -> Result<()> {
    info::hints(info)?;
    open::delete_file(name)
}

pub(super) fn group(call: &mut (impl HasComms + HasFiles), fh: MPI_File) -> Result<MPI_Group> {
    let comm = call.files().find(fh)?.comm;
    let members = call.comms().find(comm)?.group.clone();
    Ok(call.comms_mut().keep_group(members))
}

pub(super) fn amode(call: &mut impl HasFiles, fh: MPI_File) -> Result<c_int> {
    Ok(call.files().find(fh)?.amode)
}

pub(super) fn set_hints(
    call: &mut (impl Progress + Inspect + HasComms + HasFiles),
    fh: MPI_File,
    info: MPI_Info,
) -> Result<()> {
    open::set_file_hints(call, fh, info::hints(info))
}

pub(super) fn hints(call: &mut impl HasFiles, fh: MPI_File) -> Result<MPI_Info> {
    let file = call.files().find(fh)?;
    let used = file.hints.info(file.opened.aggregators_with(&file.hints));
    Ok(info::keep(used.with_memory_kinds()))
}

pub(super) fn set_view(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes + HasFiles),
    fh: MPI_File,
    disp: MPI_Offset,
    etype: MPI_Datatype,
    filetype: MPI_Datatype,
    datarep: &[u8],
    info: MPI_Info,
) -> Result<()> {
    views::set_view(call, fh, disp, etype, filetype, datarep, info::hints(info))
}

/// The view (14.3).
#[inline]
pub unsafe fn MPI_File_get_view(
    fh: MPI_File,
    disp: *mut MPI_Offset,
    etype: *mut MPI_Datatype,
    filetype: *mut MPI_Datatype,
    datarep: *mut core::ffi::c_char,
) -> c_int {
    call_file(c"MPI_File_get_view", fh, |guard| {
        let (displacement, of_etype, of_filetype, name) = views::view_of(guard, fh)?;
        // SAFETY: the user gives four places, the last of MPI_MAX_DATAREP_STRING bytes.
        unsafe {
            put(disp, "disp", displacement)?;
            put(etype, "etype", of_etype)?;
            put(filetype, "filetype", of_filetype)?;
            std::ptr::copy_nonoverlapping(name.as_ptr().cast(), datarep, name.len());
            datarep.add(name.len()).write(0);
        }
        Ok(())
    })
}

pub(super) fn register(
    name: &[u8],
    read: usize,
    write: usize,
    extent: usize,
    state: *mut c_void,
    form: Form,
) -> Result<()> {
    representation::register(name, read, write, extent, state.expose_provenance(), form)
}

pub(super) fn is_atomic(call: &mut impl HasFiles, fh: MPI_File) -> Result<bool> {
    Ok(call.files().find(fh)?.is_atomic)
}

pub(super) fn position(call: &mut impl HasFiles, fh: MPI_File) -> Result<MPI_Offset> {
    call.files().find(fh)?.check_not_sequential()?;
    Ok(call.files().find(fh)?.position)
}

pub(super) fn position_shared(
    call: &mut (impl Progress + HasComms + HasFiles),
    fh: MPI_File,
) -> Result<MPI_Offset> {
    call.files().find(fh)?.check_not_sequential()?;
    open::move_shared_pointer(call, fh)
}

pub(super) fn byte_offset(call: &mut impl HasFiles, fh: MPI_File, offset: MPI_Offset) -> Result<MPI_Offset> {
    let file = call.files().find(fh)?;
    file.check_not_sequential()?;
    file.offset_of(offset)
}

/// The functions of one kind of access that differ by direction and place.
macro_rules! accesses {
    ($method:ident: $($name:ident = $direction:ident, $at:expr $(, $offset:ident)?;)*) => {$(
        pub(super) unsafe fn $name(
            call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
            fh: MPI_File,
            $($offset: MPI_Offset,)?
            data: Data,
            status: *mut MPI_Status,
        ) -> Result<()> {
            let moved = access::$method(call, fh, $direction, $at, data)?;
            // SAFETY: a status of the user, or MPI_STATUS_IGNORE.
            unsafe { told(moved, status) }
        }
    )*};
}

accesses! {
    access_file:
    read_at = Read, At::Offset(offset), offset;
    write_at = Write, At::Offset(offset), offset;
    read = Read, At::Individual;
    write = Write, At::Individual;
    read_shared = Read, At::Shared;
    write_shared = Write, At::Shared;
}

accesses! {
    access_together:
    read_at_all = Read, At::Offset(offset), offset;
    write_at_all = Write, At::Offset(offset), offset;
    read_all = Read, At::Individual;
    write_all = Write, At::Individual;
    read_ordered = Read, At::Shared;
    write_ordered = Write, At::Shared;
}

/// The same with a request.
macro_rules! starts {
    ($method:ident: $($name:ident = $direction:ident, $at:expr $(, $offset:ident)?;)*) => {$(
        pub(super) fn $name(
            call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
            fh: MPI_File,
            $($offset: MPI_Offset,)?
            data: Data,
        ) -> Result<MPI_Request> {
            access::$method(call, fh, $direction, $at, data)
        }
    )*};
}

starts! {
    start_access:
    iread_at = Read, At::Offset(offset), offset;
    iwrite_at = Write, At::Offset(offset), offset;
    iread = Read, At::Individual;
    iwrite = Write, At::Individual;
    iread_shared = Read, At::Shared;
    iwrite_shared = Write, At::Shared;
}

starts! {
    start_together:
    iread_at_all = Read, At::Offset(offset), offset;
    iwrite_at_all = Write, At::Offset(offset), offset;
    iread_all = Read, At::Individual;
    iwrite_all = Write, At::Individual;
}

/// Split collective accesses: the first function begins, the second ends.
macro_rules! splits {
    ($($begin:ident, $end:ident = $split:ident, $at:expr $(, $offset:ident)?;)*) => {$(
        pub(super) fn $begin(call: &mut (impl Progress + HasComms + HasTypes + HasFiles), fh: MPI_File, $($offset: MPI_Offset,)? data: Data) -> Result<()> {
            access::begin_split(call, fh, Split::$split, $at, data)
        }

        pub(super) unsafe fn $end(call: &mut (impl Progress + Inspect + HasFiles), fh: MPI_File, status: *mut MPI_Status) -> Result<()> {
            let moved = access::end_split(call, fh, Split::$split)?;
            // SAFETY: a status of the user, or MPI_STATUS_IGNORE.
            unsafe { told(moved, status) }
        }
    )*};
}

splits! {
    read_all_begin, read_all_end = ReadAll, At::Individual;
    read_at_all_begin, read_at_all_end = ReadAtAll, At::Offset(offset), offset;
    read_ordered_begin, read_ordered_end = ReadOrdered, At::Shared;
    write_all_begin, write_all_end = WriteAll, At::Individual;
    write_at_all_begin, write_at_all_end = WriteAtAll, At::Offset(offset), offset;
    write_ordered_begin, write_ordered_end = WriteOrdered, At::Shared;
}

pub(super) fn set_handler(call: &mut impl HasFiles, fh: MPI_File, handler: MPI_Errhandler) -> Result<()> {
    errhandler::check_for(Object::File, handler)?;
    if fh == MPI_FILE_NULL {
        errhandler::set_default_of_files(handler);
        return Ok(());
    }
    let file = call.files_mut().find_mut(fh)?;
    errhandler::retain(handler);
    errhandler::release(std::mem::replace(&mut file.errhandler, handler));
    Ok(())
}

/// The error handler of a file, or that of files opened later; the user gets a reference.
pub(super) fn handler(call: &mut impl HasFiles, fh: MPI_File) -> Result<MPI_Errhandler> {
    let handler = match fh {
        MPI_FILE_NULL => errhandler::default_of_files(),
        _ => call.files().find(fh)?.errhandler,
    };
    errhandler::retain(handler);
    Ok(handler)
}

/// Calls the error handler of a file (9.5).
#[inline]
pub unsafe fn MPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) -> c_int {
    const NAME: &CStr = c"MPI_File_call_errhandler";
    if let Some(mut guard) = process::enter()
        && let Ok(handler) = handler(&mut guard, fh)
    {
        entry::call_handler(guard, NAME, handler, fh.0, errorcode);
        errhandler::release(handler);
        return MPI_SUCCESS;
    }
    call_file(NAME, fh, |guard| {
        check(guard.files.find(fh).is_ok(), MPI_ERR_FILE, || {
            format!("file {:#x} is closed or was never one", fh.0)
        })
    })
}
