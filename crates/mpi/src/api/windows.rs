//! MPI 12.2: windows are made and freed; their memory and hints.

use core::ffi::{CStr, c_int, c_void};

use crate::abi::*;
use crate::argument::put;
use crate::comm::HasComms;
use crate::comm::calls::EndsComms;
use crate::error::Result;
use crate::info;
use crate::process;
use crate::process::entry::call_window;
use crate::win::HasWindows;
use crate::win::creation;
use crate::win::creation::{Ended, Own};
use crate::win::hints as window_hints;

fn make(call: &mut impl EndsComms, own: Own, info: MPI_Info, comm: MPI_Comm) -> Result<MPI_Win> {
    let given = info::hints(info)?;
    creation::make_window(call, comm, own, &given)
}

/// A window on memory of the user.
pub(super) fn create(
    call: &mut impl EndsComms,
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
) -> Result<MPI_Win> {
    let base = base.expose_provenance();
    make(call, Own { flavor: MPI_WIN_FLAVOR_CREATE, base, bytes: size as i64, disp_unit }, info, comm)
}

/// A window with memory of its own, and where that lies here.
pub(super) fn allocate(
    call: &mut impl EndsComms,
    flavor: c_int,
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
) -> Result<(*mut c_void, MPI_Win)> {
    let made = make(call, Own { flavor, base: 0, bytes: size as i64, disp_unit }, info, comm)?;
    Ok((call.wins().find(made)?.values.base as *mut c_void, made))
}

pub(super) fn create_dynamic(call: &mut impl EndsComms, info: MPI_Info, comm: MPI_Comm) -> Result<MPI_Win> {
    make(call, Own { flavor: MPI_WIN_FLAVOR_DYNAMIC, base: 0, bytes: 0, disp_unit: 1 }, info, comm)
}

pub(super) fn attach(
    call: &mut impl HasWindows,
    win: MPI_Win,
    base: *mut c_void,
    size: MPI_Aint,
) -> Result<()> {
    creation::attach_memory(call, win, base.expose_provenance(), size as i64)
}

pub(super) fn detach(call: &mut impl HasWindows, win: MPI_Win, base: *const c_void) -> Result<()> {
    creation::detach_memory(call, win, base.addr())
}

/// Frees a window. It is freed too if a rank of it is lost; that is raised while it is there.
///
/// # Safety
/// `win` points to a handle.
pub(super) unsafe fn free(name: &'static CStr, win: *mut MPI_Win) -> c_int {
    // SAFETY: our contract.
    let handle = unsafe { win.read() };
    let remove = |guard: &mut process::Guard, has_met| {
        creation::remove_window(guard, handle, has_met)?;
        // SAFETY: as above.
        unsafe { put(win, "win", MPI_WIN_NULL) }
    };
    let mut stays = None;
    let code = call_window(name, handle, |guard| {
        let Ended { has_met, done } = creation::end_window(guard, handle)?;
        if done.is_err() {
            stays = Some(has_met);
            return done;
        }
        remove(guard, has_met)
    });
    if let Some(has_met) = stays
        && let Some(mut guard) = process::enter()
    {
        // What has been raised is what the user is told.
        let _ = remove(&mut guard, has_met);
    }
    code
}

/// Bytes, unit and address of a rank's memory here.
pub(super) fn memory(
    call: &mut impl HasWindows,
    win: MPI_Win,
    rank: c_int,
) -> Result<(MPI_Aint, i128, *mut c_void)> {
    let (base, bytes, unit) = creation::query_shared(call, win, rank)?;
    Ok((bytes as MPI_Aint, unit as i128, base as *mut c_void))
}

pub(super) fn group(call: &mut (impl HasComms + HasWindows), win: MPI_Win) -> Result<MPI_Group> {
    let members = call.wins().find(win)?.group.clone();
    Ok(call.comms_mut().keep_group(members))
}

pub(super) fn set_hints(call: &mut impl HasWindows, win: MPI_Win, info: MPI_Info) -> Result<()> {
    call.wins().find(win)?;
    let given = info::read(info, |info| Ok(info.clone()))?;
    window_hints::take(&mut call.wins_mut().find_mut(win)?.hints, &given);
    Ok(())
}

pub(super) fn hints(call: &impl HasWindows, win: MPI_Win) -> Result<MPI_Info> {
    Ok(info::keep(call.wins().find(win)?.hints.clone().with_memory_kinds()))
}
