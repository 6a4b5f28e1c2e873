//! How calls of services end: the numbers of `tutti.h` and `tutti_call.h`.

use core::ffi::c_int;

/// Done.
pub const OK: c_int = 0;
/// An argument is wrong.
pub const INVALID: c_int = -1;
/// The service is not for this user, or another user has taken its name.
pub const RIGHT: c_int = -4;
/// The listener under the name does not answer as a service.
pub const REFUSED: c_int = -7;
/// The service has ended before the call was sent.
pub const GONE: c_int = -9;
/// No memory, or no descriptor, is left.
pub const MEMORY: c_int = -10;
/// The service has too many clients, or its queue stays full, or it is in use.
pub const BUSY: c_int = -12;
/// No daemon of this node can be asked.
pub const DAEMON: c_int = -15;
/// The cluster has no such node, or it does not answer.
pub const NODE: c_int = -16;
/// Arguments or a result are longer than a message, or than what the caller has room for.
pub const TOO_LONG: c_int = -19;
/// The function has ended with an exception; the data of the answer are its text.
pub const THREW: c_int = -21;
/// No service has this name.
pub const NO_SERVICE: c_int = -22;
/// The service has no function with this signature.
pub const VERSION: c_int = -23;
/// The time is over; the function may have run.
pub const DEADLINE: c_int = -24;
/// The service has ended while the call was under way; the function may have run.
pub const LOST: c_int = -25;

/// Words of a status.
pub fn text(status: c_int) -> &'static str {
    match status {
        INVALID => "letters, digits and . _ - are expected, at most 64, or USER/NAME, or NAME@NODE",
        RIGHT => "it is not for this user, or another user has taken its name",
        REFUSED => "what listens under its name does not answer as a service",
        GONE => "it has ended",
        MEMORY => "no memory or descriptor is left",
        BUSY => "it has too many clients, or its queue stays full",
        DAEMON => "this node has no daemon that can be asked for services of other nodes",
        NODE => "the cluster has no such node, or it does not answer",
        TOO_LONG => "arguments or result have more than 32768 bytes",
        NO_SERVICE => "there is none",
        VERSION => "it has no such function, or it takes or gives other types",
        DEADLINE => "the time is over; the function may have run",
        LOST => "it has ended while the call was under way; the function may have run",
        _ => "it does not answer as expected",
    }
}
