//! Files of the origin by calls (`tutti_origin_...`): small numbers for open files.

use core::ffi::c_int;
use std::io;
use std::sync::{Mutex, PoisonError};

use tutti_files::process::{self, File};

use crate::status::{FILE, INVALID, ORIGIN};

/// Open files of a process.
const FILES_MAX: usize = 1024;

static FILES: Mutex<Vec<Option<std::sync::Arc<File>>>> = Mutex::new(Vec::new());

/// Result for a caller, and the value of `errno`.
pub type Failed = (c_int, c_int);

/// Result of `tutti_origin_stat`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// Bytes.
    pub bytes: u64,
    /// Last change of its data.
    pub modified_s: i64,
    /// Part of that below a second.
    pub modified_ns: u32,
    /// Kind and permissions, as `st_mode` has them.
    pub mode: u32,
}

fn failed(error: &io::Error) -> Failed {
    match error.raw_os_error() {
        Some(libc::ENOTCONN) | None => (ORIGIN, libc::ENOTCONN),
        Some(errno) => (FILE, errno),
    }
}

fn find(number: c_int) -> Result<std::sync::Arc<File>, Failed> {
    let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let file = usize::try_from(number).ok().and_then(|number| files.get(number)?.clone());
    file.ok_or((INVALID, libc::EBADF))
}

/// Opens a file.
///
/// # Errors
/// [`ORIGIN`] where there are no files of the origin, [`FILE`] with what the origin says.
pub fn open(name: &[u8], flags: c_int, mode: u32) -> Result<c_int, Failed> {
    let file = File::open(name, flags, mode).map_err(|error| failed(&error))?;
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let number = files.iter().position(Option::is_none).unwrap_or(files.len());
    if number >= FILES_MAX {
        return Err((FILE, libc::EMFILE));
    }
    if number == files.len() {
        files.push(None);
    }
    files[number] = Some(std::sync::Arc::new(file));
    Ok(number as c_int)
}

/// Reads at an offset, up to the end of the file.
///
/// # Errors
/// As [`open`].
pub fn read(number: c_int, data: &mut [u8], offset: i64) -> Result<i64, Failed> {
    let (file, offset) = (find(number)?, u64::try_from(offset).map_err(|_| (INVALID, libc::EINVAL))?);
    let mut done = 0;
    while done < data.len() {
        match file.read_at(&mut data[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(_) if done > 0 => break,
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(done as i64)
}

/// Writes at an offset.
///
/// # Errors
/// As [`open`].
pub fn write(number: c_int, data: &[u8], offset: i64) -> Result<i64, Failed> {
    let (file, offset) = (find(number)?, u64::try_from(offset).map_err(|_| (INVALID, libc::EINVAL))?);
    let mut done = 0;
    while done < data.len() {
        match file.write_at(&data[done..], offset + done as u64) {
            Ok(written) => done += written,
            Err(_) if done > 0 => break,
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(done as i64)
}

/// Size, time and kind of what a name leads to.
///
/// # Errors
/// As [`open`].
pub fn stat(name: &[u8]) -> Result<Status, Failed> {
    let found = process::stat(name).map_err(|error| failed(&error))?;
    let (modified_s, modified_ns) = found.times.modified;
    Ok(Status { bytes: found.size, modified_s, modified_ns, mode: found.mode })
}

/// Closes a file.
///
/// # Errors
/// [`INVALID`] where none has this number.
pub fn close(number: c_int) -> Result<(), Failed> {
    find(number)?;
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let file = files[number as usize].take();
    drop(files);
    drop(file);
    Ok(())
}
