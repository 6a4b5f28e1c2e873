//! Files of the origin (`tutti_files`): what a job brings with `--files` is mounted at the same paths for its
//! ranks on a node that has not got it.
//!
//! ```text
//! starter: connection to the origin -> namespace of mounts -> FUSE at each folder --fork--> its client,
//! never frozen
//! ```
//!
//! A folder that *is* the origin's (the same machine, or a file server's) is left alone. The ranks inherit
//! the namespace. When the job ends the clients are killed, which ends every call that still waits for one.
//!
//! A folder that is missing is made as the user, empty, and removed at the end. Where he may not, a folder in
//! memory covers the one above, with all that is in that shown in it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tutti_files::client::Connection;
use tutti_files::frames::Export;
use tutti_files::fuse::Mounted;
use tutti_files::origin::Origin;
use tutti_os::stat::SERVER_NAME;

/// Entries of a covered folder that a folder in memory may show.
const SHOWN_MAX: usize = 4096;
/// Bytes of lines of a client.
const NOTICE_MAX: usize = 4096;

/// Folders of the origin that are mounted for a job.
#[derive(Debug)]
pub struct MountedOrigin {
    clients: Vec<OwnedFd>,
    /// Lines of the clients; none: they have ended.
    notices: Option<OwnedFd>,
    mounted: Vec<PathBuf>,
    /// Folders that were made for it.
    made: Vec<PathBuf>,
}

/// Outcome of [`enter`].
#[derive(Debug, Default)]
pub struct Entered {
    /// Folders that are mounted, if any.
    pub mounted: Option<MountedOrigin>,
    /// Lines for the user.
    pub warnings: Vec<String>,
}

/// Mounts what this node has not got of the job's files, and enters its working directory. The process has
/// one thread.
///
/// # Errors
/// When the origin is not reached; a text for the user.
pub fn enter() -> Result<Entered, String> {
    let Some(origin) = Origin::of_environment() else { return Ok(Entered::default()) };
    let connection = Connection::open(&origin, 0)
        .map_err(|error| format!("cannot reach the files of the origin at {}: {error}", origin.address))?;
    let welcome = connection.welcome().clone();
    drop(connection);
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let is_same_boot = boot.trim_ascii() == welcome.boot;
    let missing: Vec<(usize, &Export)> =
        welcome.exports.iter().enumerate().filter(|(_, export)| !(is_same_boot && is_here(export))).collect();
    let mut entered = Entered::default();
    if !missing.is_empty() {
        match MountedOrigin::mount(&origin, &missing) {
            Ok(mounted) => entered.mounted = Some(mounted),
            Err(text) => entered.warnings.push(format!(
                "{text}: files of the origin are not mounted here; tutti_origin_open and MPI_File_open(\"origin:...\") reach them"
            )),
        }
    }
    if let Err(error) = std::env::set_current_dir(&origin.directory) {
        let directory = origin.directory.display();
        entered
            .warnings
            .push(format!("cannot enter the working directory {directory}: {error}; ranks begin in /"));
        let _ = std::env::set_current_dir("/");
    }
    Ok(entered)
}

/// Whether the folder at that path is the origin's: devices have one number each in a kernel.
fn is_here(export: &Export) -> bool {
    std::fs::metadata(path_of(export)).is_ok_and(|found| (found.dev(), found.ino()) == export.identity)
}

fn path_of(export: &Export) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(&export.path))
}

impl MountedOrigin {
    fn mount(origin: &Origin, exports: &[(usize, &Export)]) -> Result<Self, String> {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let failed =
            |what: &str, error: &dyn std::fmt::Display| format!("cannot {what} on node {node}: {error}");
        tutti_os::enter_mount_namespace().map_err(|error| failed("make a namespace of mounts", &error))?;
        let (notices, said) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|error| failed("open a pipe", &io::Error::from(error)))?;
        let (clients, made, mounted) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = MountedOrigin { clients, notices: Some(notices), mounted, made };
        // A folder in another one comes behind it.
        let mut exports = exports.to_vec();
        exports.sort_by_key(|(_, export)| export.path.len());
        for (number, export) in exports {
            let path = path_of(export);
            let at = |error: &io::Error| failed(&format!("mount {}", path.display()), error);
            all.make_folder(path).map_err(|error| at(&error))?;
            let device = tutti_os::mount_fuse(path).map_err(|error| at(&error))?;
            all.mounted.push(path.to_path_buf());
            let client = || serve(origin, (number, export), &device, &said);
            let (_, process) = tutti_os::fork_helper(client).map_err(|error| at(&error))?;
            all.clients.push(process);
        }
        Ok(all)
    }

    /// The folder is there, whatever it takes.
    fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        let mut folders: Vec<&Path> = path.ancestors().collect();
        folders.reverse();
        for folder in folders {
            if folder.is_dir() {
                continue;
            }
            match rustix::fs::mkdir(folder, Mode::RWXU) {
                Ok(()) => self.made.push(folder.to_path_buf()),
                Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
                    let above = folder.parent().filter(|above| *above != Path::new("/"));
                    let above = above.ok_or_else(|| {
                        io::Error::other(format!("there is no {} and it cannot be made", folder.display()))
                    })?;
                    cover(above)?;
                    rustix::fs::mkdir(folder, Mode::RWXU)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// To be polled; none: no more lines come.
    pub fn notices(&self) -> Option<BorrowedFd<'_>> {
        self.notices.as_ref().map(AsFd::as_fd)
    }

    /// Lines that have come.
    pub fn take_notices(&mut self) -> Vec<String> {
        let mut bytes = [0; NOTICE_MAX];
        match self.notices.as_ref().map(|notices| rustix::io::read(notices, &mut bytes)) {
            Some(Ok(read)) if read > 0 => {
                String::from_utf8_lossy(&bytes[..read]).lines().map(str::to_owned).collect()
            }
            Some(Err(Errno::AGAIN | Errno::INTR)) => Vec::new(),
            _ => {
                self.notices = None;
                Vec::new()
            }
        }
    }
}

impl Drop for MountedOrigin {
    fn drop(&mut self) {
        for client in &self.clients {
            let _ = pidfd_send_signal(client, Signal::KILL);
            let _ = waitid(WaitId::PidFd(client.as_fd()), WaitIdOptions::EXITED);
        }
        let _ = std::env::set_current_dir("/");
        self.mounted.iter().rev().for_each(|path| tutti_os::unmount(path));
        for path in self.made.iter().rev() {
            let _ = rustix::fs::rmdir(path);
        }
    }
}

/// A folder in memory over this one, in which everything of it is shown.
fn cover(folder: &Path) -> io::Result<()> {
    let mut shown = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if shown.len() >= SHOWN_MAX {
            return Err(io::Error::other(format!("{} has more than {SHOWN_MAX} entries", folder.display())));
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        shown.push((entry.file_name(), rustix::fs::open(entry.path(), flags, Mode::empty())?));
    }
    tutti_os::mount_memory(folder)?;
    for (name, file) in shown {
        let at = folder.join(name);
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::Symlink => {
                rustix::fs::symlink(&rustix::fs::readlinkat(&file, "", Vec::new())?, &at)?;
                continue;
            }
            FileType::Directory => rustix::fs::mkdir(&at, Mode::RWXU)?,
            _ => drop(std::fs::File::create(&at)?),
        }
        tutti_os::bind(&file, &at)?;
    }
    Ok(())
}

/// The client of a folder, until it is killed.
fn serve(origin: &Origin, export: (usize, &Export), device: &OwnedFd, said: &OwnedFd) {
    tutti_os::hide_process(SERVER_NAME, [device, said]);
    let (Ok(device), Ok(said)) = (device.try_clone(), said.try_clone()) else { return };
    let notice = move |line: &str| {
        // A starter that does not take it has more of them, or has ended.
        let _ = rustix::io::write(&said, format!("{line}\n").as_bytes());
    };
    let session = match Connection::open(origin, 0) {
        Ok(connection) => connection,
        Err(error) => {
            return notice(&format!("cannot reach the files of the origin at {}: {error}", origin.address));
        }
    };
    let number = session.welcome().session;
    let mounted = Mounted::new(origin.clone(), number, export, device, Box::new(notice));
    if let Ok(threads) = mounted.begin() {
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}
