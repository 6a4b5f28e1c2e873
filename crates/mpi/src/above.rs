//! Start of an interface above MPI: it starts MPI unless the program has, and its ranks tell each other
//! where their memory is.

use core::ffi::c_int;

use crate::abi::*;
use crate::api;
use crate::lifecycle;

/// Whether MPI runs in this process.
pub fn is_running() -> bool {
    let (mut initialized, mut finalized) = (0, 0);
    // SAFETY: the places are ours.
    unsafe {
        api::MPI_Initialized(&mut initialized);
        api::MPI_Finalized(&mut finalized);
    }
    initialized != 0 && finalized == 0
}

/// Starts MPI with a level of threads, or raises the level to it where the program has started MPI. Whether
/// it was started here, so that the caller ends it; none: the program has ended MPI.
pub fn start(level: c_int) -> Option<bool> {
    if is_running() {
        lifecycle::raise_thread_level(level);
        return Some(false);
    }
    let (mut finalized, mut given) = (0, 0);
    // SAFETY: the places are ours, or null as MPI allows for the arguments.
    unsafe {
        api::MPI_Finalized(&mut finalized);
        if finalized != 0 {
            return None;
        }
        api::MPI_Init_thread(std::ptr::null_mut(), std::ptr::null_mut(), level, &mut given);
    }
    Some(true)
}

/// Cards of all ranks of a communicator, in order of their ranks. An error ends the job, as the
/// communicator's handler says.
///
/// # Safety
/// A card consists of numbers without gaps between them; all ranks of the communicator call this with the
/// same type.
pub unsafe fn exchange<T: Copy>(own: &T, comm: MPI_Comm) -> Vec<T> {
    let mut ranks = 0;
    // SAFETY: the place is ours.
    unsafe { api::MPI_Comm_size(comm, &mut ranks) };
    let mut cards = vec![*own; ranks as usize];
    let (from, to) = (std::ptr::from_ref(own).cast(), cards.as_mut_ptr().cast());
    let bytes = size_of::<T>() as c_int;
    // SAFETY: both places have so many bytes of each rank.
    unsafe { api::MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm) };
    cards
}
