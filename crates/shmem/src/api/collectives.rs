//! Collective operations of teams, on MPI's engine.

use core::ffi::{c_int, c_void};

use tutti_mpi::abi::*;
use tutti_mpi::api;

use crate::element::{Element, Reduced};
use crate::fault;
use crate::memory;
use crate::team::shmem_team_t;
use crate::team::{self, Team};

/// The team of a call.
fn team_of(function: &str, team: shmem_team_t) -> std::sync::Arc<Team> {
    team::get(function, team)
}

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
    sync(&team_of("team_sync", team));
    0
}

pub(super) fn sync(team: &Team) {
    memory::settle();
    // SAFETY: the communicator is ours; errors end the job.
    unsafe { api::MPI_Barrier(team.comm) };
}

/// Copies elements from `source` of one PE to `dest` of all PEs of the team, that one too.
pub unsafe fn broadcast<T: Element>(
    team: shmem_team_t,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    PE_root: c_int,
) -> c_int {
    let team = team_of("broadcast", team);
    if nelems > 0 && team.me as c_int == PE_root {
        // SAFETY: the user gives so many elements; the two may be the same.
        unsafe { std::ptr::copy(source, dest, nelems) };
    }
    // SAFETY: as the user's.
    unsafe { broadcast_from("broadcast", &team, dest, nelems, PE_root) };
    0
}

/// # Safety
/// So many elements.
pub(super) unsafe fn broadcast_from<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    nelems: usize,
    root: c_int,
) {
    if !(0..team.size() as c_int).contains(&root) {
        let last = team.size() - 1;
        fault::end(function, format_args!("there is no PE_root {root}, PEs of the team are 0 to {last}"));
    }
    let bytes = count_of::<T>(function, nelems);
    // SAFETY: our contract; errors end the job.
    unsafe { api::MPI_Bcast_c(dest.cast(), bytes, MPI_BYTE, root, team.comm) };
}

/// Joins the elements of all PEs of the team, in their order; each may give another number of them.
pub unsafe fn collect<T: Element>(
    team: shmem_team_t,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) -> c_int {
    let team = team_of("collect", team);
    // SAFETY: as the user's.
    unsafe { collect_in("collect", &team, dest, source, nelems) };
    0
}

/// # Safety
/// So many elements in `source`, room for those of all in `dest`.
pub(super) unsafe fn collect_in<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) {
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
        api::MPI_Allgatherv_c(from, own, MPI_BYTE, dest.cast(), counts, begins, MPI_BYTE, team.comm);
    }
}

/// Joins the elements of all PEs of the team, in their order; all give the same number.
pub unsafe fn fcollect<T: Element>(
    team: shmem_team_t,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) -> c_int {
    let team = team_of("fcollect", team);
    // SAFETY: as the user's.
    unsafe { fcollect_in("fcollect", &team, dest, source, nelems) };
    0
}

/// # Safety
/// So many elements in `source`, room for those of all in `dest`.
pub(super) unsafe fn fcollect_in<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) {
    let bytes = count_of::<T>(function, nelems);
    let at_its_place = dest.wrapping_add(team.me * nelems).cast_const();
    let from: *const c_void = if source == at_its_place { MPI_IN_PLACE } else { source.cast() };
    // SAFETY: our contract; errors end the job.
    unsafe { api::MPI_Allgather_c(from, bytes, MPI_BYTE, dest.cast(), bytes, MPI_BYTE, team.comm) };
}

/// Sends a block of elements to each PE of the team, and gets one from each.
pub unsafe fn alltoall<T: Element>(
    team: shmem_team_t,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) -> c_int {
    let team = team_of("alltoall", team);
    // SAFETY: as the user's.
    unsafe { alltoall_in("alltoall", &team, dest, source, nelems) };
    0
}

/// # Safety
/// So many elements for each PE in `source` and `dest`.
pub(super) unsafe fn alltoall_in<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) {
    let bytes = count_of::<T>(function, nelems);
    let from = source_of(source.cast(), dest.cast());
    // SAFETY: our contract; errors end the job.
    unsafe { api::MPI_Alltoall_c(from, bytes, MPI_BYTE, dest.cast(), bytes, MPI_BYTE, team.comm) };
}

/// The same with distances between elements: every `sst`-th from here to every `dst`-th place there.
pub unsafe fn alltoalls<T: Element>(
    team: shmem_team_t,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    nelems: usize,
) -> c_int {
    let team = team_of("alltoalls", team);
    // SAFETY: as the user's.
    unsafe { alltoalls_in("alltoalls", &team, dest, source, [dst, sst], nelems) };
    0
}

/// # Safety
/// So many elements for each PE in `source` and `dest`, at these distances.
pub(super) unsafe fn alltoalls_in<T: Element>(
    function: &str,
    team: &Team,
    dest: *mut T,
    source: *const T,
    [dst, sst]: [isize; 2],
    nelems: usize,
) {
    let count = nelems * team.size();
    count_of::<T>(function, count);
    let mut out: Vec<T> = Vec::with_capacity(count);
    let mut back: Vec<T> = Vec::with_capacity(count);
    // SAFETY: our contract for the user's arrays; ours have so many elements, the second is filled by the
    // call.
    unsafe {
        out.extend((0..count as isize).map(|at| source.wrapping_offset(at * sst).read_unaligned()));
        alltoall_in(function, team, back.as_mut_ptr(), out.as_ptr(), nelems);
        back.set_len(count);
        for (at, value) in back.into_iter().enumerate() {
            dest.wrapping_offset(at as isize * dst).write_unaligned(value);
        }
    }
}

/// # Safety
/// So many elements in `source` and `dest`.
pub(super) unsafe fn reduce<T: Reduced>(
    team: &Team,
    dest: *mut T,
    source: *const T,
    count: usize,
    op: MPI_Op,
) {
    let from = source_of(source.cast(), dest.cast());
    // SAFETY: our contract; errors end the job.
    unsafe { api::MPI_Allreduce_c(from, dest.cast(), count as MPI_Count, T::DATATYPE, op, team.comm) };
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => { $(
        $(#[$doc])*
        pub unsafe fn $name<T: Reduced>(
            team: shmem_team_t,
            dest: *mut T,
            source: *const T,
            nreduce: usize,
        ) -> c_int {
            let team = team_of(stringify!($name), team);
            // SAFETY: as the user's.
            unsafe { reduce(&team, dest, source, nreduce, $op) };
            0
        }
    )* };
}

reductions! {
    /// Combines the elements of all PEs of the team by a bitwise AND; all get the result.
    and_reduce, MPI_BAND;
    /// Combines the elements of all PEs of the team by a bitwise OR; all get the result.
    or_reduce, MPI_BOR;
    /// Combines the elements of all PEs of the team by a bitwise XOR; all get the result.
    xor_reduce, MPI_BXOR;
    /// The largest elements of all PEs of the team; all get the result.
    max_reduce, MPI_MAX;
    /// The smallest elements of all PEs of the team; all get the result.
    min_reduce, MPI_MIN;
    /// The sums of the elements of all PEs of the team; all get the result.
    sum_reduce, MPI_SUM;
    /// The products of the elements of all PEs of the team; all get the result.
    prod_reduce, MPI_PROD;
}

/// The sums of the elements of PEs up to this one.
pub unsafe fn sum_inscan<T: Reduced>(
    team: shmem_team_t,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) -> c_int {
    let team = team_of("sum_inscan", team);
    let from = source_of(source.cast(), dest.cast());
    // SAFETY: the user gives so many elements; errors end the job.
    unsafe { api::MPI_Scan_c(from, dest.cast(), nelems as MPI_Count, T::DATATYPE, MPI_SUM, team.comm) };
    0
}

/// The sums of the elements of PEs before this one; zero on the first.
pub unsafe fn sum_exscan<T: Reduced>(
    team: shmem_team_t,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) -> c_int {
    let team = team_of("sum_exscan", team);
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
