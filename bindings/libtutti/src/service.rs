//! The symbols of services; `bindings/native/tutti_call.h` declares them.
//! Bodies of one expression stand in `bindings/native/bodies.txt`.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tutti_service::client::Client;
use tutti_service::handles::Handles;
use tutti_service::over_in;
use tutti_service::server::{Served, Service, Stop};
use tutti_service::status::{INVALID, OK, TOO_LONG};
use tutti_shm::published::name;

use crate::call::slice;

include!(concat!(env!("OUT_DIR"), "/service_exports.rs"));

static SERVICES: Handles<Service> = Handles::new();
static CLIENTS: Handles<Client> = Handles::new();
/// A service is stopped while it is in use.
static STOPS: Mutex<BTreeMap<i64, Stop>> = Mutex::new(BTreeMap::new());

/// Function of the program with its context.
type Function = unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut Served);

/// The last argument of a function, which is the program's.
struct Context(*mut c_void);

// SAFETY: the program knows which thread serves.
unsafe impl Send for Context {}

fn stops() -> std::sync::MutexGuard<'static, BTreeMap<i64, Stop>> {
    STOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process has a service that is open.
pub(crate) fn is_any_open() -> bool {
    !SERVICES.is_empty()
}

/// Text of the program; none where it gives null or no UTF-8.
///
/// # Safety
/// Null or a string.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    // SAFETY: our contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?.to_str().ok()
}

/// Stores a number where the program wants it.
///
/// # Safety
/// Null, or valid for writing.
unsafe fn store(result: Result<i64, c_int>, into: *mut i64) -> c_int {
    match (result, NonNull::new(into)) {
        (_, None) => INVALID,
        (Err(status), _) => status,
        (Ok(number), Some(into)) => {
            // SAFETY: our contract.
            unsafe { into.write_unaligned(number) };
            OK
        }
    }
}

fn duration(ns: i64) -> Result<Duration, c_int> {
    u64::try_from(ns).map(Duration::from_nanos).map_err(|_| INVALID)
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_service_open(
    name: *const c_char,
    whom: *const c_char,
    into: *mut i64,
) -> c_int {
    // SAFETY: as the user's.
    let (name, whom) = unsafe { (text(name), text(whom)) };
    let open = || {
        let audience = name::audience(whom.map(str::as_bytes)).ok_or(INVALID)?;
        let (service, stop) = Service::open(name.ok_or(INVALID)?, audience)?;
        let number = SERVICES.add(service);
        stops().insert(number, stop);
        Ok(number)
    };
    if into.is_null() {
        return INVALID;
    }
    // SAFETY: as the user's.
    unsafe { store(open(), into) }
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_service_add(
    service: i64,
    signature: *const c_char,
    run: Option<Function>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as the user's.
    let (Some(signature), Some(run)) = (unsafe { text(signature) }, run) else { return INVALID };
    let context = Context(context);
    let call = move |data: &[u8], served: &mut Served| {
        let context = &context;
        // SAFETY: the program vouches for its function and its context until the service is closed.
        unsafe { run(context.0, data.as_ptr().cast(), data.len(), served) };
    };
    SERVICES.with(service, |service| service.add(signature, Box::new(call))).err().unwrap_or(OK)
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_service_serve(service: i64, at_most_ns: i64) -> c_int {
    let until = (at_most_ns >= 0).then(|| over_in(Duration::from_nanos(at_most_ns as u64)));
    match SERVICES.with(service, |service| service.serve(until)) {
        Ok(calls) => calls.min(c_int::MAX as usize) as c_int,
        Err(status) => status,
    }
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_service_stop(service: i64) -> c_int {
    match stops().get(&service) {
        Some(stop) => {
            stop.stop();
            OK
        }
        None => INVALID,
    }
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_service_close(service: i64) -> c_int {
    let removed = SERVICES.remove(service);
    if removed.is_ok() {
        stops().remove(&service);
    }
    removed.err().unwrap_or(OK)
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_service_answer(
    call: *mut Served,
    status: c_int,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: as the user's; a call is there while its function runs.
    let (Some(mut call), Some(data)) = (NonNull::new(call), unsafe { slice(data, bytes) }) else {
        return INVALID;
    };
    // SAFETY: as above.
    unsafe { call.as_mut() }.answer(status, data).err().unwrap_or(OK)
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_client_open(name: *const c_char, at_most_ns: i64, into: *mut i64) -> c_int {
    // SAFETY: as the user's.
    let name = unsafe { text(name) };
    let open = || {
        let found = name.and_then(|name| name::parse(name.as_bytes())).ok_or(INVALID)?;
        Client::open(&found, duration(at_most_ns)?).map(|client| CLIENTS.add(client))
    };
    if into.is_null() {
        return INVALID;
    }
    // SAFETY: as the user's.
    unsafe { store(open(), into) }
}

/// Copies bytes to the program, whose room stands in `bytes`, and stores their number there.
///
/// # Safety
/// `bytes` is valid, `into` for so many as it says.
unsafe fn give(data: &[u8], into: *mut c_void, bytes: *mut usize) -> c_int {
    let Some(place) = NonNull::new(bytes) else { return INVALID };
    // SAFETY: our contract.
    unsafe {
        let room = place.read_unaligned();
        place.write_unaligned(data.len());
        if data.len() > room {
            return TOO_LONG;
        }
        if !data.is_empty() {
            std::ptr::copy_nonoverlapping(data.as_ptr(), into.cast(), data.len());
        }
    }
    OK
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_client_signatures(client: i64, into: *mut c_char, bytes: *mut usize) -> c_int {
    match CLIENTS.with(client, |client| Ok(client.signatures().join("\n"))) {
        // SAFETY: as the user's.
        Ok(text) => unsafe { give(text.as_bytes(), into.cast(), bytes) },
        Err(status) => status,
    }
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_client_call(
    client: i64,
    signature: *const c_char,
    arguments: *const c_void,
    bytes: usize,
    at_most_ns: i64,
    result: *mut c_void,
    result_bytes: *mut usize,
) -> c_int {
    // SAFETY: as the user's.
    let (Some(signature), Some(arguments)) = (unsafe { (text(signature), slice(arguments, bytes)) }) else {
        return INVALID;
    };
    if result_bytes.is_null() {
        return INVALID;
    }
    let called = duration(at_most_ns)
        .and_then(|at_most| CLIENTS.with(client, |client| client.call(signature, arguments, at_most)));
    match called {
        Ok((status, data)) => {
            // SAFETY: as the user's.
            let given = unsafe { give(&data, result, result_bytes) };
            if given == OK { status } else { given }
        }
        Err(status) => status,
    }
}
