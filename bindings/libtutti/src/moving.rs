//! The symbols of ranks that move; `bindings/native/tutti_move.h` declares them.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use tutti_mpi::api;
use tutti_mpi::moving::{self, Moved, Refusal, Wish};
use tutti_native::status::{BUSY, NOT_RUNNING};
use tutti_native::{published, region};

use crate::call::slice;
use crate::service;

/// TUTTI_ERR_START.
const NO_SUCCESSOR: c_int = -50;

/// Reason why the last call has moved nobody.
static REFUSAL: Mutex<Option<CString>> = Mutex::new(None);

/// Reason against the move that MPI does not know of. Regions of ranks that stay are where they were.
fn objection(is_mover: bool) -> Option<String> {
    let first = [
        (tutti_shmem::pes::started().is_some(), "has started OpenSHMEM (shmem_finalize)"),
        (tutti_dsm::process::running().is_some(), "runs a program of shared memory"),
        (region::is_queue_open(), "has an open queue, or invocations (tutti_close, tutti_call_quit)"),
        (is_mover && region::is_any_open(), "moves and has an open region (tutti_close)"),
        (is_mover && published::is_any_owned(), "moves and publishes a region or a signal (tutti_close)"),
        (is_mover && service::is_any_open(), "moves and has a service (tutti_service_close)"),
    ];
    first.into_iter().find(|(holds, _)| *holds).map(|(_, what)| what.to_owned())
}

fn keep_refusal(text: &str) {
    let text: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    *REFUSAL.lock().unwrap_or_else(PoisonError::into_inner) = CString::new(text).ok();
}

/// See `tutti_move.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_move(node: *const c_char, state: *const c_void, bytes: usize) -> c_int {
    // SAFETY: as the user's.
    let state = unsafe { slice(state, bytes) };
    // SAFETY: as the user's.
    let node = (!node.is_null()).then(|| unsafe { CStr::from_ptr(node) }.to_bytes());
    let wish = node.map(|node| Wish { node, state: state.unwrap_or_default() });
    let without_state = state.is_none().then(|| "gives a null pointer for its state".to_owned());
    keep_refusal("");
    let (status, text) = match moving::go(wish, |is_mover| objection(is_mover).or(without_state)) {
        Ok(Moved::Others(moved)) => return moved as c_int,
        // SAFETY: functions without conditions; this process takes part in nothing any more.
        Ok(Moved::Own) => unsafe {
            api::MPI_Finalize();
            libc::exit(0)
        },
        Err(Refusal::NotRunning) => (NOT_RUNNING, "MPI does not run in this process".to_owned()),
        Err(Refusal::Objection(text)) => (BUSY, text),
        Err(Refusal::Start(text)) => (NO_SUCCESSOR, text),
    };
    keep_refusal(&text);
    status
}

/// See `tutti_move.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_moved(bytes: *mut usize) -> *const c_void {
    let state = moving::state();
    if !bytes.is_null() {
        // SAFETY: as the user's.
        unsafe { bytes.write(state.map_or(0, <[u8]>::len)) };
    }
    state.map_or(std::ptr::null(), |state| state.as_ptr().cast())
}

/// See `tutti_move.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_move_refusal() -> *const c_char {
    let refusal = REFUSAL.lock().unwrap_or_else(PoisonError::into_inner);
    refusal.as_ref().map_or(c"".as_ptr(), |text| text.as_ptr())
}
