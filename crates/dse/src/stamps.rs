//! Stamps of operations ([`tutti_native::stamps`]), also where kernel and process of an element are apart:
//! then each keeps its own, and the process gets those of both.

use core::ffi::c_int;

use tutti_native::stamps as own;
pub use tutti_native::stamps::{Stamp, mark};
use tutti_native::status::{INVALID, NOT_RUNNING, OK};
use tutti_runtime::stamps as kept;

use crate::link;
use crate::message::Question;

/// Keeps so many stamps from now on, and if `inner` those of the library too.
pub fn start(room: usize, inner: bool) -> c_int {
    match link::ask(Question::StampsStart { room: room as u64, inner }) {
        None => own::start(room, inner),
        Some(Err(_)) => NOT_RUNNING,
        Some(Ok([status, ..])) if status != i64::from(OK) => status as c_int,
        Some(Ok(_)) if kept::start(room, inner) => OK,
        Some(Ok(_)) => {
            let _ = link::stop_stamps();
            INVALID
        }
    }
}

/// Keeps none any more; gives those that are kept, and how many had no room.
pub fn stop() -> Result<(Vec<Stamp>, usize), c_int> {
    if !link::is_apart() {
        return own::stop();
    }
    let of_process = kept::stop();
    let (of_kernel, lost) = link::stop_stamps()?;
    let (mut stamps, lost_here) = of_process.ok_or(INVALID)?;
    stamps.extend(of_kernel);
    Ok((stamps, lost + lost_here))
}
