//! Results of calls besides the numbers of `tutti.h`: those of `tutti_call.h`.

use core::ffi::c_int;

pub use tutti_native::status::{BUSY, GONE, INVALID, MEMORY, NOT_RUNNING, OK, PENDING, REFUSED};

/// The function is not known: here it lies in memory that can be written, there the module is not loaded.
pub const NO_FUNCTION: c_int = -17;
/// Another thread has started the library.
pub const NO_THREAD: c_int = -18;
/// Arguments or a result are longer than a message, or than what the caller has room for.
pub const TOO_LONG: c_int = -19;
/// No rank has this number.
pub const NO_RANK: c_int = -20;
/// The function has ended with an exception; the data of the answer are its text.
pub const THREW: c_int = -21;
