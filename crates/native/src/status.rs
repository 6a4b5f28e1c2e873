//! Status of calls and operations: the numbers of `tutti.h`.

use core::ffi::c_int;

use tutti_rma::wire::Refusal;

/// Done.
pub const OK: c_int = 0;
/// An argument is wrong.
pub const INVALID: c_int = -1;
/// No start yet, or all has ended.
pub const NOT_RUNNING: c_int = -2;
/// No such region, or not any more.
pub const NO_REGION_STATUS: c_int = -3;
/// The region does not allow it.
pub const NO_RIGHT: c_int = -4;
/// The region has no such range.
pub const OUT_OF_RANGE: c_int = -5;
/// An element is not aligned.
pub const UNALIGNED: c_int = -6;
/// The target does not understand it.
pub const REFUSED: c_int = -7;
/// The queue has no room.
pub const FULL: c_int = -8;
/// The target has left the job.
pub const GONE: c_int = -9;
/// No memory, or no number, left.
pub const MEMORY: c_int = -10;
/// No message.
pub const EMPTY: c_int = -11;
/// Part of the memory is open.
pub const BUSY: c_int = -12;
/// Operation that has not ended yet.
pub const PENDING: c_int = -13;
/// The caller is no member of the barrier, or is inside already.
pub const NO_MEMBER: c_int = -14;
/// No daemon of this node can be asked.
pub const NO_DAEMON: c_int = -15;
/// The cluster has no such node, or it does not answer.
pub const NO_NODE: c_int = -16;

/// The partner of a wait sleeps, stands still, or is far behind.
pub const AWAY: c_int = -17;

/// No files of the origin are there, or their server has gone.
pub const ORIGIN: c_int = -40;
/// The origin says why not, in `errno`.
pub const FILE: c_int = -41;

/// The number of a refusal, as `tutti_rma::done` notes it too.
pub fn of(refusal: Refusal) -> c_int {
    -2 - refusal as c_int
}
