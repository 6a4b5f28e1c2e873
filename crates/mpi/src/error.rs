//! An error of an MPI call: the standard's class, and a text that names argument and value.

use core::ffi::c_int;
use std::fmt;

use crate::abi::*;

/// Failure of a call. The function's name is added where the error is raised.
#[derive(Debug)]
pub struct Error {
    /// Error class of the standard (chapter "Error handling"), or a code that a callback of the user
    /// returned.
    pub class: c_int,
    /// Text of what was found and what was expected, without a final full stop.
    pub text: Box<str>,
    /// The error is that of an operation in this context: it is raised on the communicator that the context
    /// is of.
    pub context: Option<u32>,
}

/// Result of everything below the face.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `class` that says `text`.
    #[cold]
    pub fn new(class: c_int, text: impl fmt::Display) -> Self {
        Error { class, text: text.to_string().into(), context: None }
    }

    /// The same of an operation in a context.
    #[cold]
    pub fn in_context(self, context: u32) -> Self {
        Error { context: Some(context), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match entry(self.class) {
            Some((_, name, _)) => write!(f, "{} ({name})", self.text),
            None => write!(f, "{} (error code {})", self.text, self.class),
        }
    }
}

/// Fails with an error of `class` unless `holds`.
#[inline(always)]
pub fn check(holds: bool, class: c_int, text: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::new(class, text())) }
}

/// Name and explanation of the standard's classes, by number.
const CLASSES: [(c_int, &str, &str); 82] = [
    (MPI_SUCCESS, "MPI_SUCCESS", "no error"),
    (MPI_ERR_BUFFER, "MPI_ERR_BUFFER", "invalid buffer pointer"),
    (MPI_ERR_COUNT, "MPI_ERR_COUNT", "invalid count"),
    (MPI_ERR_TYPE, "MPI_ERR_TYPE", "invalid datatype"),
    (MPI_ERR_TAG, "MPI_ERR_TAG", "invalid tag"),
    (MPI_ERR_COMM, "MPI_ERR_COMM", "invalid communicator"),
    (MPI_ERR_RANK, "MPI_ERR_RANK", "invalid rank"),
    (MPI_ERR_REQUEST, "MPI_ERR_REQUEST", "invalid request"),
    (MPI_ERR_ROOT, "MPI_ERR_ROOT", "invalid root"),
    (MPI_ERR_GROUP, "MPI_ERR_GROUP", "invalid group"),
    (MPI_ERR_OP, "MPI_ERR_OP", "invalid reduction operation"),
    (MPI_ERR_TOPOLOGY, "MPI_ERR_TOPOLOGY", "invalid topology"),
    (MPI_ERR_DIMS, "MPI_ERR_DIMS", "invalid dimensions"),
    (MPI_ERR_ARG, "MPI_ERR_ARG", "invalid argument"),
    (MPI_ERR_UNKNOWN, "MPI_ERR_UNKNOWN", "unknown error"),
    (MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE", "message truncated on receive"),
    (MPI_ERR_OTHER, "MPI_ERR_OTHER", "another error"),
    (MPI_ERR_INTERN, "MPI_ERR_INTERN", "internal error of the library"),
    (MPI_ERR_PENDING, "MPI_ERR_PENDING", "the request is still pending"),
    (MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS", "the error stands in the status"),
    (MPI_ERR_ACCESS, "MPI_ERR_ACCESS", "permission denied"),
    (MPI_ERR_AMODE, "MPI_ERR_AMODE", "invalid access mode"),
    (MPI_ERR_ASSERT, "MPI_ERR_ASSERT", "invalid assertion"),
    (MPI_ERR_BAD_FILE, "MPI_ERR_BAD_FILE", "invalid file name"),
    (MPI_ERR_BASE, "MPI_ERR_BASE", "invalid base address"),
    (MPI_ERR_CONVERSION, "MPI_ERR_CONVERSION", "a data conversion function failed"),
    (MPI_ERR_DISP, "MPI_ERR_DISP", "invalid displacement"),
    (MPI_ERR_DUP_DATAREP, "MPI_ERR_DUP_DATAREP", "the data representation exists already"),
    (MPI_ERR_FILE_EXISTS, "MPI_ERR_FILE_EXISTS", "the file exists already"),
    (MPI_ERR_FILE_IN_USE, "MPI_ERR_FILE_IN_USE", "the file is in use"),
    (MPI_ERR_FILE, "MPI_ERR_FILE", "invalid file handle"),
    (MPI_ERR_INFO_KEY, "MPI_ERR_INFO_KEY", "invalid info key"),
    (MPI_ERR_INFO_NOKEY, "MPI_ERR_INFO_NOKEY", "no such info key"),
    (MPI_ERR_INFO_VALUE, "MPI_ERR_INFO_VALUE", "invalid info value"),
    (MPI_ERR_INFO, "MPI_ERR_INFO", "invalid info object"),
    (MPI_ERR_IO, "MPI_ERR_IO", "input or output failed"),
    (MPI_ERR_KEYVAL, "MPI_ERR_KEYVAL", "invalid attribute key"),
    (MPI_ERR_LOCKTYPE, "MPI_ERR_LOCKTYPE", "invalid lock type"),
    (MPI_ERR_NAME, "MPI_ERR_NAME", "no such service name"),
    (MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM", "out of memory"),
    (MPI_ERR_NOT_SAME, "MPI_ERR_NOT_SAME", "argument not the same on all processes"),
    (MPI_ERR_NO_SPACE, "MPI_ERR_NO_SPACE", "not enough space"),
    (MPI_ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE", "no such file"),
    (MPI_ERR_PORT, "MPI_ERR_PORT", "invalid port name"),
    (MPI_ERR_PROC_ABORTED, "MPI_ERR_PROC_ABORTED", "a peer process has aborted"),
    (MPI_ERR_QUOTA, "MPI_ERR_QUOTA", "quota exceeded"),
    (MPI_ERR_READ_ONLY, "MPI_ERR_READ_ONLY", "read-only file or file system"),
    (MPI_ERR_RMA_ATTACH, "MPI_ERR_RMA_ATTACH", "memory cannot be attached"),
    (MPI_ERR_RMA_CONFLICT, "MPI_ERR_RMA_CONFLICT", "conflicting accesses to a window"),
    (MPI_ERR_RMA_FLAVOR, "MPI_ERR_RMA_FLAVOR", "wrong flavor of window"),
    (MPI_ERR_RMA_RANGE, "MPI_ERR_RMA_RANGE", "target memory is not part of the window"),
    (MPI_ERR_RMA_SHARED, "MPI_ERR_RMA_SHARED", "memory cannot be shared"),
    (MPI_ERR_RMA_SYNC, "MPI_ERR_RMA_SYNC", "wrong synchronisation of one-sided calls"),
    (MPI_ERR_SERVICE, "MPI_ERR_SERVICE", "unknown service"),
    (MPI_ERR_SIZE, "MPI_ERR_SIZE", "invalid size"),
    (MPI_ERR_SPAWN, "MPI_ERR_SPAWN", "processes could not be spawned"),
    (MPI_ERR_UNSUPPORTED_DATAREP, "MPI_ERR_UNSUPPORTED_DATAREP", "unsupported data representation"),
    (MPI_ERR_UNSUPPORTED_OPERATION, "MPI_ERR_UNSUPPORTED_OPERATION", "unsupported operation"),
    (MPI_ERR_WIN, "MPI_ERR_WIN", "invalid window"),
    (MPI_ERR_VALUE_TOO_LARGE, "MPI_ERR_VALUE_TOO_LARGE", "value too large for the result type"),
    (MPI_ERR_SESSION, "MPI_ERR_SESSION", "invalid session"),
    (MPI_ERR_ERRHANDLER, "MPI_ERR_ERRHANDLER", "invalid error handler"),
    (MPI_ERR_ABI, "MPI_ERR_ABI", "the binary interface does not allow this"),
    (MPI_T_ERR_CANNOT_INIT, "MPI_T_ERR_CANNOT_INIT", "the tool information interface cannot be initialized"),
    (MPI_T_ERR_NOT_ACCESSIBLE, "MPI_T_ERR_NOT_ACCESSIBLE", "not accessible now"),
    (
        MPI_T_ERR_NOT_INITIALIZED,
        "MPI_T_ERR_NOT_INITIALIZED",
        "the tool information interface is not initialized",
    ),
    (MPI_T_ERR_NOT_SUPPORTED, "MPI_T_ERR_NOT_SUPPORTED", "not supported"),
    (MPI_T_ERR_MEMORY, "MPI_T_ERR_MEMORY", "out of memory"),
    (
        MPI_T_ERR_INVALID,
        "MPI_T_ERR_INVALID",
        "invalid use of the tool information interface, or invalid parameters",
    ),
    (
        MPI_T_ERR_INVALID_INDEX,
        "MPI_T_ERR_INVALID_INDEX",
        "invalid index of an enumeration, variable, category or event",
    ),
    (MPI_T_ERR_INVALID_ITEM, "MPI_T_ERR_INVALID_ITEM", "invalid item of an enumeration"),
    (MPI_T_ERR_INVALID_SESSION, "MPI_T_ERR_INVALID_SESSION", "invalid session"),
    (MPI_T_ERR_INVALID_HANDLE, "MPI_T_ERR_INVALID_HANDLE", "invalid handle"),
    (MPI_T_ERR_INVALID_NAME, "MPI_T_ERR_INVALID_NAME", "no such name"),
    (MPI_T_ERR_OUT_OF_HANDLES, "MPI_T_ERR_OUT_OF_HANDLES", "no more handles can be had"),
    (MPI_T_ERR_OUT_OF_SESSIONS, "MPI_T_ERR_OUT_OF_SESSIONS", "no more sessions can be had"),
    (MPI_T_ERR_CVAR_SET_NOT_NOW, "MPI_T_ERR_CVAR_SET_NOT_NOW", "the control variable cannot be set now"),
    (
        MPI_T_ERR_CVAR_SET_NEVER,
        "MPI_T_ERR_CVAR_SET_NEVER",
        "the control variable cannot be set until the end of the program",
    ),
    (MPI_T_ERR_PVAR_NO_WRITE, "MPI_T_ERR_PVAR_NO_WRITE", "the performance variable cannot be written"),
    (
        MPI_T_ERR_PVAR_NO_STARTSTOP,
        "MPI_T_ERR_PVAR_NO_STARTSTOP",
        "the performance variable cannot be started and stopped",
    ),
    (
        MPI_T_ERR_PVAR_NO_ATOMIC,
        "MPI_T_ERR_PVAR_NO_ATOMIC",
        "the performance variable cannot be read and reset at once",
    ),
    (MPI_ERR_LASTCODE, "MPI_ERR_LASTCODE", "the last error code"),
];

/// The standard's name of a class.
pub fn class_name(class: c_int) -> &'static str {
    entry(class).map_or("unknown error class", |entry| entry.1)
}

/// Explanation of a class, or `None` when the number is no class of the standard.
pub fn class_text(class: c_int) -> Option<&'static str> {
    entry(class).map(|entry| entry.2)
}

fn entry(class: c_int) -> Option<&'static (c_int, &'static str, &'static str)> {
    CLASSES.iter().find(|entry| entry.0 == class)
}
