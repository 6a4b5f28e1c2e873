//! How errors reach the user (MPI chapter 9): through the error handler of the object that the call is about.
//!
//! Handlers may be made before Init and freed after Finalize (11.4.1), so they have their own table and lock.
//! A handler lives until the user's handle is freed and no object uses it. The user's function runs with no
//! lock held and nothing borrowed.

use core::cell::RefCell;
use core::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::*;
use crate::callback_state;
use crate::end_job::{By, end_job};
use crate::error::{Error, Result, check, class_name};
use crate::handle::{Kind, Slab};
use crate::initial_errhandler;
use crate::process::{self, Guard};
use tutti_runtime::log;

/// Which objects a handler is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Communicators.
    Comm,
    /// Windows.
    Win,
    /// Files.
    File,
    /// Sessions.
    Session,
}

/// An error handler made by the user.
#[derive(Clone, Copy, Debug)]
struct Handler {
    /// What it is for.
    object: Object,
    /// Address of its C function.
    function: usize,
    /// State that the function gets behind its arguments; 0 for none ([`callback_state`]).
    state: usize,
    /// Handles of the user and objects that refer to it.
    references: u32,
}

/// The function as it is called: the fixed arguments; a variadic C function takes them the same way.
type Function = unsafe extern "C-unwind" fn(*mut usize, *mut c_int, ...);

/// The handler of MPI_FILE_NULL (MPI 14.7).
static DEFAULT_OF_FILES: AtomicUsize = AtomicUsize::new(MPI_ERRORS_RETURN.0);

static TABLE: Mutex<Slab<Handler>> = Mutex::new(Slab::new(Kind::Errhandler));

thread_local! {
    /// The last error that this thread was told, for MPI_Error_string.
    static LAST_ERROR: RefCell<Option<(c_int, Box<str>)>> = const { RefCell::new(None) };
}

/// Runs a call of the face: enters the library, raises the error if there is one.
#[inline(always)]
pub fn call(name: &'static CStr, comm: MPI_Comm, body: impl FnOnce(&mut Guard) -> Result<()>) -> c_int {
    match crate::check::enter_call(name) {
        Some(guard) => continue_after(guard, name, comm, body),
        None => outside(name),
    }
}

/// The same for a call about a window: errors are raised on it, or on MPI_COMM_SELF when it is none (MPI
/// 9.3.2).
#[inline(always)]
pub fn call_window(name: &'static CStr, win: MPI_Win, body: impl FnOnce(&mut Guard) -> Result<()>) -> c_int {
    let Some(mut guard) = crate::check::enter_call(name) else { return outside(name) };
    guard.env.call = name;
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise_on_window(guard, name, win, error),
    }
}

/// A call about a window, of a process that is not running, or is being checked.
#[cold]
#[inline(never)]
pub fn enter_on_window(
    name: &'static CStr,
    win: MPI_Win,
    body: impl FnOnce(&mut Guard) -> Result<()>,
) -> c_int {
    call_window(name, win, body)
}

/// The rest of a call about a window that has entered the library already, because it tried a short way
/// first.
#[inline(never)]
pub fn continue_on_window(
    mut guard: Guard,
    name: &'static CStr,
    win: MPI_Win,
    body: impl FnOnce(&mut Guard) -> Result<()>,
) -> c_int {
    guard.env.call = name;
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise_on_window(guard, name, win, error),
    }
}

/// The same for a call about a file, or about files that are not open: those errors are raised on
/// MPI_FILE_NULL (MPI 14.7).
#[inline(always)]
pub fn call_file(name: &'static CStr, file: MPI_File, body: impl FnOnce(&mut Guard) -> Result<()>) -> c_int {
    let Some(mut guard) = crate::check::enter_call(name) else { return outside(name) };
    guard.env.call = name;
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise_on_file(guard, name, file, error),
    }
}

/// Raises an error on a file, or on MPI_FILE_NULL when it is none.
#[cold]
#[inline(never)]
pub fn raise_on_file(guard: Guard, name: &CStr, file: MPI_File, error: Error) -> c_int {
    let (file, handler) = match guard.files.find(file) {
        Ok(found) => (file, found.errhandler),
        Err(_) => (MPI_FILE_NULL, default_of_files()),
    };
    raise_with(guard, name, handler, file.0, error)
}

/// The handler of MPI_FILE_NULL, which new files get.
pub fn default_of_files() -> MPI_Errhandler {
    MPI_Errhandler(DEFAULT_OF_FILES.load(Ordering::Relaxed))
}

/// Sets the handler of MPI_FILE_NULL.
pub fn set_default_of_files(handler: MPI_Errhandler) {
    retain(handler);
    release(MPI_Errhandler(DEFAULT_OF_FILES.swap(handler.0, Ordering::Relaxed)));
}

#[cold]
#[inline(never)]
fn raise_on_window(guard: Guard, name: &CStr, win: MPI_Win, error: Error) -> c_int {
    match guard.wins.find(win).map(|window| window.errhandler) {
        Ok(handler) => raise_with(guard, name, handler, win.0, error),
        Err(_) => raise(guard, name, MPI_COMM_NULL, error),
    }
}

/// The rest of a call of the face that has entered the library already, because it tried a short way first.
#[inline(always)]
pub fn continue_after(
    mut guard: Guard,
    name: &'static CStr,
    comm: MPI_Comm,
    body: impl FnOnce(&mut Guard) -> Result<()>,
) -> c_int {
    guard.env.call = name;
    match body(&mut guard) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(guard, name, comm, error),
    }
}

/// Runs a call that is allowed before Init and after Finalize, and needs nothing of the process.
pub fn call_anytime(name: &'static CStr, body: impl FnOnce() -> Result<()>) -> c_int {
    match body() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => match process::enter() {
            Some(guard) => raise(guard, name, MPI_COMM_NULL, error),
            None => raise_anywhere(name, initial_errhandler::handler(), MPI_COMM_SELF.0, error),
        },
    }
}

/// Raises an error on the communicator, file or window of the operation that failed; if there is none, on the
/// communicator of the call. When that is none, [`Guard::comm_without_object`] has them.
#[cold]
#[inline(never)]
pub fn raise(mut guard: Guard, name: &CStr, comm: MPI_Comm, error: Error) -> c_int {
    let of_operation = error.context.and_then(|context| guard.comms.of_context(context));
    if let Some((file, handler)) = of_operation.and_then(|comm| guard.files.of_comm(comm)) {
        return raise_with(guard, name, handler, file.0, error);
    }
    if let Some((win, handler)) = of_operation.and_then(|comm| guard.wins.of_comm(comm)) {
        return raise_with(guard, name, handler, win.0, error);
    }
    let comm = of_operation.unwrap_or(comm);
    let (comm, handler) = match guard.comms.find(comm) {
        Ok(found) => (comm, found.errhandler),
        Err(_) => guard.comm_without_object(name),
    };
    raise_with(guard, name, handler, comm.0, error)
}

impl Guard {
    /// Where errors of calls are raised that name no object: on MPI_COMM_SELF (MPI-4.0, 9.3). Before that it
    /// was MPI_COMM_WORLD (MPI-3.1, 8.3), and programs that set a handler for that one alone still count on
    /// it: while MPI_COMM_SELF has its initial handler, they get theirs.
    fn comm_without_object(&mut self, name: &CStr) -> (MPI_Comm, MPI_Errhandler) {
        let (world, own) = (self.comms.world().errhandler, self.comms.own().errhandler);
        let initial = initial_errhandler::handler();
        if own != initial || world == initial {
            return (MPI_COMM_SELF, own);
        }
        self.inspect().remark_on_handler(name);
        (MPI_COMM_WORLD, world)
    }
}

/// The same where the process may have no place in its job.
#[cold]
pub fn raise_anywhere(name: &CStr, handler: MPI_Errhandler, object: usize, error: Error) -> c_int {
    if let Some(guard) = process::enter() {
        return raise_with(guard, name, handler, object, error);
    }
    if matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT) {
        fatal(None, name, &error);
    }
    report(name, handler, object, error)
}

/// Raises an error through a handler; `object` is the handle that the user's function is told.
#[cold]
pub fn raise_with(guard: Guard, name: &CStr, handler: MPI_Errhandler, object: usize, error: Error) -> c_int {
    if matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT) {
        fatal(Some(guard), name, &error);
    }
    drop(guard);
    report(name, handler, object, error)
}

/// Keeps the text of an error and calls the user's function, if there is one. No lock is held.
fn report(name: &CStr, handler: MPI_Errhandler, object: usize, error: Error) -> c_int {
    let code = error.class;
    remember(code, format!("{}: {}", name.to_string_lossy(), error.text));
    drop(error);
    if handler == MPI_ERRORS_RETURN { code } else { run(handler, object, code) }
}

/// Calls a handler with a code of the user's choice (9.5), with no lock held.
pub fn call_handler(guard: Guard, name: &CStr, handler: MPI_Errhandler, object: usize, code: c_int) {
    match handler {
        MPI_ERRORS_RETURN => {}
        MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT => {
            fatal(Some(guard), name, &Error::new(code, format_args!("the program raises error code {code}")));
        }
        _ => {
            drop(guard);
            run(handler, object, code);
        }
    }
}

/// Calls the user's function. No lock is held. Gives the code as the function leaves it: what the call
/// returns.
fn run(handler: MPI_Errhandler, object: usize, code: c_int) -> c_int {
    let found = table().find(handler.0).map(|handler| (handler.function, handler.state));
    let Some((function, state)) = found else { return code };
    let (mut object, mut code) = (object, code);
    // SAFETY: the user gave this address as that of an error handler function; no lock is held and nothing is
    // borrowed while it runs. A handle has the size of a pointer, so its place is that of the type that the
    // function expects.
    unsafe {
        let function = std::mem::transmute::<usize, Function>(function);
        match state {
            0 => function(&mut object, &mut code),
            state => function(&mut object, &mut code, state),
        }
    }
    code
}

/// Makes a handler.
///
/// # Errors
/// MPI_ERR_ARG when the function is a null pointer.
pub fn create(object: Object, function: usize) -> Result<MPI_Errhandler> {
    check(function != 0, MPI_ERR_ARG, || "the error handler function is a null pointer".into())?;
    let mut table = table();
    let index = table.insert(Handler { object, function, state: callback_state::take(), references: 1 });
    Ok(MPI_Errhandler(table.handle(index)))
}

/// Checks that a handler can be set on an object of this kind.
///
/// # Errors
/// MPI_ERR_ERRHANDLER when it names none, or one for other objects.
pub fn check_for(object: Object, handler: MPI_Errhandler) -> Result<()> {
    if is_predefined(handler) {
        return Ok(());
    }
    let table = table();
    let found = table.find(handler.0).ok_or_else(|| bad_handler(handler))?;
    check(found.object == object, MPI_ERR_ERRHANDLER, || {
        format!("the error handler is for a {:?}, expected one for a {object:?}", found.object)
    })
}

/// One more object or handle refers to a handler.
pub fn retain(handler: MPI_Errhandler) {
    if let Some(handler) = table().find_mut(handler.0) {
        handler.references += 1;
    }
}

/// One less.
pub fn release(handler: MPI_Errhandler) {
    let mut table = table();
    let Some(index) = table.index(handler.0) else { return };
    let found = table.get_mut(index);
    found.references -= 1;
    if found.references == 0 {
        table.remove(index);
    }
}

/// The user lets go of a handle. Predefined handlers stay as they are.
///
/// # Errors
/// MPI_ERR_ERRHANDLER when it names none.
pub fn free(handler: MPI_Errhandler) -> Result<()> {
    if !is_predefined(handler) {
        table().index(handler.0).ok_or_else(|| bad_handler(handler))?;
        release(handler);
    }
    Ok(())
}

/// The detailed text of the last error that this thread was told, when it had this code.
pub fn last_text(code: c_int) -> Option<Box<str>> {
    LAST_ERROR.try_with(|last| Some(last.borrow().as_ref().filter(|last| last.0 == code)?.1.clone())).ok()?
}

/// Keeps the text of an error that a call returns without raising it (in the statuses of MPI_Waitall, for
/// example).
pub fn remember(code: c_int, text: String) {
    // A thread that is ending has no place for it any more, and nobody to ask for it.
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = Some((code, text.into())));
}

/// Says what happened in one line and ends the job.
#[cold]
fn fatal(guard: Option<Guard>, name: &CStr, error: &Error) -> ! {
    let who = guard.as_ref().map(|guard| format!("rank {}: ", guard.engine.job.rank())).unwrap_or_default();
    log::line(format_args!("{who}{}: {error}", name.to_string_lossy()));
    drop(guard);
    fail(error.class)
}

/// A call before Init, after Finalize, or in a forked child.
#[cold]
pub fn outside(name: &CStr) -> c_int {
    let when = process::absence();
    let handler = process::handler_before_fork().unwrap_or_else(initial_errhandler::handler);
    if matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT) {
        log::line(format_args!("{} was called {when}", name.to_string_lossy()));
        fail(MPI_ERR_OTHER)
    }
    report(name, handler, MPI_COMM_WORLD.0, Error::new(MPI_ERR_OTHER, format_args!("called {when}")))
}

/// Ends the job with an exit code (MPI_Abort).
pub fn abort(code: c_int) -> ! {
    end_job(By::Program, code)
}

/// Ends the job after an error, of which a line has told.
pub fn fail(code: c_int) -> ! {
    end_job(By::Error, code)
}

fn is_predefined(handler: MPI_Errhandler) -> bool {
    matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN)
}

fn table() -> MutexGuard<'static, Slab<Handler>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn bad_handler(handler: MPI_Errhandler) -> Error {
    let what =
        if handler == MPI_ERRHANDLER_NULL { "is MPI_ERRHANDLER_NULL" } else { "is freed or was never one" };
    Error::new(MPI_ERR_ERRHANDLER, format_args!("error handler {:#x} {what}", handler.0))
}

/// The text that MPI_Error_string gives for a class of the standard.
pub fn class_string(class: c_int) -> Option<String> {
    let text = crate::error::class_text(class)?;
    Some(match last_text(class) {
        Some(last) => format!("{}: {text}: {last}", class_name(class)),
        None => format!("{}: {text}", class_name(class)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errhandler_lives_until_its_last_reference() {
        let handler = create(Object::Comm, 0x1000).unwrap();
        retain(handler);
        free(handler).unwrap();
        check_for(Object::Comm, handler).expect("an object still uses it");
        assert_eq!(check_for(Object::File, handler).unwrap_err().class, MPI_ERR_ERRHANDLER);
        release(handler);
        assert_eq!(check_for(Object::Comm, handler).unwrap_err().class, MPI_ERR_ERRHANDLER);
        assert_eq!(free(handler).unwrap_err().class, MPI_ERR_ERRHANDLER);
        assert_eq!(free(MPI_ERRHANDLER_NULL).unwrap_err().class, MPI_ERR_ERRHANDLER);
        free(MPI_ERRORS_RETURN).expect("a predefined handler is not freed, but the call is right");
    }

    #[test]
    fn error_string_describes_the_last_error_of_the_thread() {
        assert_eq!(class_string(MPI_ERR_TAG).unwrap(), "MPI_ERR_TAG: invalid tag");
        remember(MPI_ERR_TAG, "MPI_Send: tag is -4".into());
        assert_eq!(class_string(MPI_ERR_TAG).unwrap(), "MPI_ERR_TAG: invalid tag: MPI_Send: tag is -4");
        assert_eq!(class_string(MPI_ERR_RANK).unwrap(), "MPI_ERR_RANK: invalid rank");
        let other = std::thread::spawn(|| class_string(MPI_ERR_TAG).unwrap()).join().unwrap();
        assert_eq!(other, "MPI_ERR_TAG: invalid tag");
    }
}
