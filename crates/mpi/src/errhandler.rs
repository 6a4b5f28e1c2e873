//! Error handlers (MPI chapter 9): errors reach the user through that of the object that the call is about,
//! which [`crate::process::entry`] finds.
//!
//! Handlers may be made before Init and freed after Finalize (11.4.1), so they have their own table and lock.
//! A handler lives until the user's handle is freed and no object uses it. The user's function runs with no
//! lock held and nothing borrowed.

use core::cell::RefCell;
use core::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::*;
use crate::attributes::{Language, put_language};
use crate::callback_state;
use crate::end_job::{By, end_job};
use crate::error::{Error, Result, check, class_name};
use crate::handle::{Kind, Slab};
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
    /// Kind of object that the handler is for.
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

/// The handler of MPI_FILE_NULL, which new files get.
pub fn default_of_files() -> MPI_Errhandler {
    MPI_Errhandler(DEFAULT_OF_FILES.load(Ordering::Relaxed))
}

/// Sets the handler of MPI_FILE_NULL.
pub fn set_default_of_files(handler: MPI_Errhandler) {
    retain(handler);
    release(MPI_Errhandler(DEFAULT_OF_FILES.swap(handler.0, Ordering::Relaxed)));
}

/// Keeps the text of an error and calls the user's function, if there is one. No lock is held.
pub(crate) fn report(name: &CStr, handler: MPI_Errhandler, object: usize, error: Error) -> c_int {
    let code = error.class;
    remember(code, format!("{}: {}", name.to_string_lossy(), error.text));
    drop(error);
    if handler == MPI_ERRORS_RETURN { code } else { run(handler, object, code) }
}

/// Calls the user's function. No lock is held. Gives the code as the function leaves it: what the call
/// returns.
pub(crate) fn run(handler: MPI_Errhandler, object: usize, code: c_int) -> c_int {
    let found = table().find(handler.0).map(|handler| (handler.function, handler.state));
    let Some((function, state)) = found else { return code };
    let (mut object, mut code) = (object, code);
    // What the function calls comes from C, and so does what follows it, should it not come back.
    put_language(Language::C);
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

/// Says what happened in one line and ends the job. `rank` is there when the process has one.
#[cold]
pub(crate) fn fatal(rank: Option<usize>, name: &CStr, error: &Error) -> ! {
    let rank = rank.map(|rank| format!("rank {rank}: ")).unwrap_or_default();
    log::line(format_args!("{rank}{}: {error}", name.to_string_lossy()));
    fail(error.class)
}

/// Ends the job with an exit code (MPI_Abort).
pub fn abort(code: c_int) -> ! {
    end_job(By::Program, code)
}

/// Ends the job after an error, of which a line has told.
pub fn fail(code: c_int) -> ! {
    end_job(By::Error, code)
}

/// Whether a handler is one of the standard's, which every process has.
pub(crate) fn is_predefined(handler: MPI_Errhandler) -> bool {
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
