//! MPI 12.2: windows are made and freed; their memory and hints.

use core::ffi::{CStr, c_int, c_void};

use crate::abi::*;
use crate::argument::put;
use crate::errhandler::call_window;
use crate::error::Result;
use crate::info;
use crate::process::{self, Guard};
use crate::win::creation::{Ended, Own};
use crate::win::hints as window_hints;

fn make(guard: &mut Guard, own: Own, info: MPI_Info, comm: MPI_Comm) -> Result<MPI_Win> {
    let given = info::hints(info)?;
    guard.make_window(comm, own, &given)
}

/// A window on memory of the user.
pub(super) fn create(
    guard: &mut Guard,
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
) -> Result<MPI_Win> {
    let base = base.expose_provenance();
    make(guard, Own { flavor: MPI_WIN_FLAVOR_CREATE, base, bytes: size as i64, disp_unit }, info, comm)
}

/// A window with memory of its own, and where that lies here.
pub(super) fn allocate(
    guard: &mut Guard,
    flavor: c_int,
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
) -> Result<(*mut c_void, MPI_Win)> {
    let made = make(guard, Own { flavor, base: 0, bytes: size as i64, disp_unit }, info, comm)?;
    Ok((guard.wins.find(made)?.values.base as *mut c_void, made))
}

pub(super) fn create_dynamic(guard: &mut Guard, info: MPI_Info, comm: MPI_Comm) -> Result<MPI_Win> {
    make(guard, Own { flavor: MPI_WIN_FLAVOR_DYNAMIC, base: 0, bytes: 0, disp_unit: 1 }, info, comm)
}

pub(super) fn attach(guard: &mut Guard, win: MPI_Win, base: *mut c_void, size: MPI_Aint) -> Result<()> {
    guard.attach_memory(win, base.expose_provenance(), size as i64)
}

pub(super) fn detach(guard: &mut Guard, win: MPI_Win, base: *const c_void) -> Result<()> {
    guard.detach_memory(win, base.addr())
}

/// Frees a window. It is freed too if a rank of it is lost; that is raised while it is there.
///
/// # Safety
/// `win` points to a handle.
pub(super) unsafe fn free(name: &'static CStr, win: *mut MPI_Win) -> c_int {
    // SAFETY: our contract.
    let handle = unsafe { win.read() };
    let remove = |guard: &mut Guard, has_met| {
        guard.remove_window(handle, has_met)?;
        // SAFETY: as above.
        unsafe { put(win, "win", MPI_WIN_NULL) }
    };
    let mut stays = None;
    let code = call_window(name, handle, |guard| {
        let Ended { has_met, done } = guard.end_window(handle)?;
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
pub(super) fn memory(guard: &mut Guard, win: MPI_Win, rank: c_int) -> Result<(MPI_Aint, i128, *mut c_void)> {
    let (base, bytes, unit) = guard.query_shared(win, rank)?;
    Ok((bytes as MPI_Aint, unit as i128, base as *mut c_void))
}

pub(super) fn group(guard: &mut Guard, win: MPI_Win) -> Result<MPI_Group> {
    let members = guard.wins.find(win)?.group.clone();
    Ok(guard.comms.keep_group(members))
}

pub(super) fn set_hints(guard: &mut Guard, win: MPI_Win, info: MPI_Info) -> Result<()> {
    guard.wins.find(win)?;
    let given = info::read(info, |info| Ok(info.clone()))?;
    window_hints::take(&mut guard.wins.find_mut(win)?.hints, &given);
    Ok(())
}

pub(super) fn hints(guard: &Guard, win: MPI_Win) -> Result<MPI_Info> {
    Ok(info::keep(guard.wins.find(win)?.hints.clone().with_memory_kinds()))
}
