//! Collective operations of teams, on MPI's engine.

use core::ffi::{c_int, c_void};

use tutti_mpi::abi::*;
use tutti_mpi::api;

use crate::element::{Element, Reduced};
use crate::fault;
use crate::memory;
use crate::team::shmem_team_t;
use crate::team::{self, Team};

fn count_of<T>(function: &str, nelems: usize) -> MPI_Count {
    let bytes = nelems.checked_mul(size_of::<T>()).and_then(|bytes| MPI_Count::try_from(bytes).ok());
    bytes.unwrap_or_else(|| fault::end(function, format_args!("{nelems} elements are more than memory has")))
}

/// Where a call's own data are: MPI wants to be told if that is its result.
fn source_of(source: *const c_void, dest: *mut c_void) -> *const c_void {
    if source == dest.cast_const() { MPI_IN_PLACE.cast_const() } else { source }
}

/// All PEs of the team have come here, and see what each of them has stored.
pub unsafe fn team_sync(team: shmem_team_t) -> c_int {
    memory::pes("team_sync");
    if team == team::INVALID {
        return -1;
    }
    sync(&team::get("team_sync", team))
}

/// All PEs of a team have come here, and see what each of them has stored.
pub fn sync(team: &Team) -> c_int {
    memory::settle();
    // SAFETY: the communicator is ours; errors end the job.
    unsafe { api::MPI_Barrier(team.comm) }
}

/// Copies elements from `source` of one PE to `dest` of all PEs of the team, that one too.
pub unsafe fn broadcast<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    PE_root: c_int,
) -> c_int {
    if nelems > 0 && team.me as c_int == PE_root {
        // SAFETY: the user gives so many elements; the two may be the same.
        unsafe { std::ptr::copy(source, dest, nelems) };
    }
    // SAFETY: as the user's.
    unsafe { broadcast_from(function, team, dest, nelems, PE_root) }
}

/// Copies elements from `source` of one PE to `dest` of all others; that of the one stays.
pub unsafe fn broadcast_set<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    PE_root: c_int,
) -> c_int {
    let data = if team.me as c_int == PE_root { source.cast_mut() } else { dest };
    // SAFETY: the user gives so many elements; the root's are only read.
    unsafe { broadcast_from(function, team, data, nelems, PE_root) }
}

/// # Safety
/// So many elements.
unsafe fn broadcast_from<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    nelems: usize,
    root: c_int,
) -> c_int {
    if !(0..team.size() as c_int).contains(&root) {
        let last = team.size() - 1;
        fault::end(function, format_args!("there is no PE_root {root}, PEs of the team are 0 to {last}"));
    }
    let bytes = count_of::<T>(function, nelems);
    // SAFETY: the user gives so many elements; errors end the job.
    unsafe { api::MPI_Bcast_c(dest.cast(), bytes, MPI_BYTE, root, team.comm) }
}

/// Joins the elements of all PEs of the team, in their order; each may give another number of them.
pub unsafe fn collect<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) -> c_int {
    let own = count_of::<T>(function, nelems);
    let mut counts = vec![0 as MPI_Count; team.size()];
    let mut begins = vec![0 as MPI_Aint; team.size()];
    // SAFETY: the places have a number for each PE; for the rest our contract. Errors end the job.
    unsafe {
        let number = (&raw const own).cast();
        api::MPI_Allgather(number, 1, MPI_INT64_T, counts.as_mut_ptr().cast(), 1, MPI_INT64_T, team.comm);
        let mut end = 0;
        for (begin, count) in begins.iter_mut().zip(&counts) {
            *begin = end as MPI_Aint;
            end += count;
        }
        let at_its_place = dest.cast::<u8>().wrapping_add(begins[team.me] as usize).cast_const();
        let from: *const c_void = if source.cast() == at_its_place { MPI_IN_PLACE } else { source.cast() };
        let (counts, begins) = (counts.as_ptr(), begins.as_ptr());
        api::MPI_Allgatherv_c(from, own, MPI_BYTE, dest.cast(), counts, begins, MPI_BYTE, team.comm)
    }
}

/// Joins the elements of all PEs of the team, in their order; all give the same number.
pub unsafe fn fcollect<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) -> c_int {
    let bytes = count_of::<T>(function, nelems);
    let at_its_place = dest.wrapping_add(team.me * nelems).cast_const();
    let from: *const c_void = if source == at_its_place { MPI_IN_PLACE } else { source.cast() };
    // SAFETY: the user gives so many elements; errors end the job.
    unsafe { api::MPI_Allgather_c(from, bytes, MPI_BYTE, dest.cast(), bytes, MPI_BYTE, team.comm) }
}

/// Sends a block of elements to each PE of the team, and gets one from each.
pub unsafe fn alltoall<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) -> c_int {
    let bytes = count_of::<T>(function, nelems);
    let from = source_of(source.cast(), dest.cast());
    // SAFETY: the user gives so many elements; errors end the job.
    unsafe { api::MPI_Alltoall_c(from, bytes, MPI_BYTE, dest.cast(), bytes, MPI_BYTE, team.comm) }
}

/// The same with distances between elements: every `sst`-th from here to every `dst`-th place there.
pub unsafe fn alltoalls<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    source: *const T,
    [dst, sst]: [isize; 2],
    nelems: usize,
) -> c_int {
    let count = nelems * team.size();
    count_of::<T>(function, count);
    let mut out: Vec<T> = Vec::with_capacity(count);
    let mut back: Vec<T> = Vec::with_capacity(count);
    // SAFETY: our contract for the user's arrays; ours have so many elements, the second is filled by the
    // call.
    unsafe {
        out.extend((0..count as isize).map(|at| source.wrapping_offset(at * sst).read_unaligned()));
        alltoall(function, team, back.as_mut_ptr(), out.as_ptr(), nelems);
        back.set_len(count);
        for (at, value) in back.into_iter().enumerate() {
            dest.wrapping_offset(at as isize * dst).write_unaligned(value);
        }
    }
    0
}

/// Combines the elements of all PEs of the team; all get the result.
pub unsafe fn reduce<T: Reduced>(
    team: &Team,
    dest: *mut T,
    source: *const T,
    count: usize,
    op: MPI_Op,
) -> c_int {
    let from = source_of(source.cast(), dest.cast());
    // SAFETY: the user gives so many elements; errors end the job.
    unsafe { api::MPI_Allreduce_c(from, dest.cast(), count as MPI_Count, T::DATATYPE, op, team.comm) }
}

/// The sums of the elements of PEs up to this one.
pub unsafe fn sum_inscan<T: Reduced>(team: &Team, dest: *mut T, source: *const T, nelems: usize) -> c_int {
    let from = source_of(source.cast(), dest.cast());
    // SAFETY: the user gives so many elements; errors end the job.
    unsafe { api::MPI_Scan_c(from, dest.cast(), nelems as MPI_Count, T::DATATYPE, MPI_SUM, team.comm) }
}

/// The sums of the elements of PEs before this one; zero on the first.
pub unsafe fn sum_exscan<T: Reduced>(team: &Team, dest: *mut T, source: *const T, nelems: usize) -> c_int {
    let from = source_of(source.cast(), dest.cast());
    // SAFETY: as above. All bits zero is the number zero in every type.
    unsafe {
        api::MPI_Exscan_c(from, dest.cast(), nelems as MPI_Count, T::DATATYPE, MPI_SUM, team.comm);
        if team.me == 0 {
            std::ptr::write_bytes(dest, 0, nelems);
        }
    }
    0
}
