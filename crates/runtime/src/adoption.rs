//! A process that was started without `mpiexec` asks for more ranks, or publishes a name for other nodes: the
//! installation's `mpiexec` is started beside it, as its child, and makes a job around it. Called once, by
//! [`crate::job::Job`], under the process lock.
//!
//! ```text
//! this process --fork, exec--> mpiexec --adopt-singleton --> starter: the segment of this process is the job's
//!      |   <------------------------- Granted ---------------'  this process is its rank 0
//!      '-- a thread here: awaits mpiexec's end; a byte before it: the job has failed, exit with this status
//! ```
//!
//! Three descriptors go with it: the connection to the starter, the segment, and the one for the byte. Ranks
//! that are started write where `mpiexec` does: to stdout and stderr of this process. If this process dies,
//! the starter sees that and ends the others.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tutti_shm::segment::Segment;

use crate::attach::Starter;
use crate::background;
use crate::end;

/// The option of `mpiexec`, of no use to people: `PID:CONNECTION:SEGMENT:STATUS`.
const OPTION: &str = "--adopt-singleton";

/// Folders above the library's in which the installation may begin.
const FOLDERS: usize = 4;

/// Gets a starter for this process, whose segment this is.
///
/// # Errors
/// When there is no installation, or it cannot make a job; a text for the user.
pub(crate) fn adopt(segment: &Segment) -> Result<Starter, String> {
    let failed = |error: io::Error| {
        format!("this process was not started by mpiexec, and one cannot be started for it: {error}")
    };
    let mpiexec = mpiexec().ok_or_else(|| {
        failed(io::Error::other("no installation is found around the library of this process"))
    })?;
    let (connection, its_connection) = seqpacket().map_err(failed)?;
    let (status, its_status) = UnixStream::pair().map_err(failed)?;
    let kept = [its_connection.as_raw_fd(), segment.descriptor().as_raw_fd(), its_status.as_raw_fd()];
    let mut child = start(&mpiexec, kept).map_err(failed)?;
    drop((its_connection, its_status));
    let starter = Starter::over(connection).map_err(|_| {
        // It may have closed the connection before it says why.
        let _ = status.shutdown(std::net::Shutdown::Both);
        let _ = child.wait();
        failed(io::Error::other(format!("{} has refused it", mpiexec.display())))
    })?;
    background::spawn("tutti-mpiexec", move || await_end(status, child)).map_err(failed)?;
    Ok(starter)
}

/// Starts `mpiexec` with these descriptors.
fn start(mpiexec: &Path, kept: [RawFd; 3]) -> io::Result<Child> {
    let [connection, segment, status] = kept;
    let own = std::process::id();
    let mut command = Command::new(mpiexec);
    command
        .arg0("mpiexec")
        .arg(OPTION)
        .arg(format!("{own}:{connection}:{segment}:{status}"))
        .args(["-n", "1", "-stdin", "none", "--bind-to", "none"])
        .arg(std::env::current_exe()?)
        .stdin(Stdio::null());
    // SAFETY: between fork and exec there are system calls alone.
    unsafe {
        command.pre_exec(move || {
            kept.iter().try_for_each(|kept| match libc::fcntl(*kept, libc::F_SETFD, 0) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            })
        });
    }
    command.spawn()
}

/// Takes the exit status of a job that has failed, and that of `mpiexec` when it ends.
fn await_end(mut status: UnixStream, mut child: Child) {
    let mut byte = [0];
    if let Ok(1) = status.read(&mut byte) {
        end::exit(byte[0].into());
    }
    let _ = child.wait();
}

/// `mpiexec` of the installation that this library is of.
fn mpiexec() -> Option<PathBuf> {
    let library = own_file()?.canonicalize().ok()?;
    let folders = library.ancestors().skip(1).take(FOLDERS);
    folders
        .filter(|folder| folder.join("libexec/tutti/tutti-starter").exists())
        .map(|folder| folder.join("bin/mpiexec"))
        .find(|mpiexec| mpiexec.exists())
}

/// The file that this code is in.
fn own_file() -> Option<PathBuf> {
    // SAFETY: zeroed is a valid value of the plain structure; the loader fills it for an address in a file
    // that stays loaded, and its name stays with the file.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr((own_file as fn() -> Option<PathBuf>) as *const libc::c_void, &mut found) == 0
            || found.dli_fname.is_null()
        {
            return None;
        }
        let name = std::ffi::CStr::from_ptr(found.dli_fname);
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
    }
}

fn seqpacket() -> io::Result<(OwnedFd, OwnedFd)> {
    use std::os::fd::FromRawFd;
    let mut ends = [0; 2];
    // SAFETY: a place for two descriptors, which nobody else owns.
    unsafe {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        match libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) {
            0 => Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
