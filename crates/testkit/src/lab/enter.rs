//! A command in a machine, as if somebody had logged in there: `tutti-lab at 1 COMMAND`. This program goes
//! into the machine's namespaces and stays outside of its processes; its child is the command.
//!
//! - A signal to this program goes to the command; the command is killed when this program dies.
//! - The status is the command's, 128 + n for signal n.
//! - On a terminal the command gets one of the machine's own.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, set_parent_process_death_signal, setsid};
use rustix::thread::{
    Gid, ThreadNameSpaceType, Uid, move_into_thread_name_spaces, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use serde::{Deserialize, Serialize};

use super::error::LabError;
use super::terminal::Terminal;
use super::{etc, sys};

/// A machine's file about itself in the lab's folder, written by the keeper at every start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Door {
    /// First process of the machine.
    pub(super) pid: i32,
    /// Whether it has users other than root.
    pub(super) has_users: bool,
    /// Files by which a process comes into its cgroups.
    pub(super) entrances: Vec<PathBuf>,
    /// The first folder in which commands are looked for.
    pub(super) programs: PathBuf,
}

/// Name of that file in the machine's folder.
pub(super) const DOOR: &str = "door";

/// Variables that belong to this machine and not to that one.
const LEFT_HERE: [&str; 9] = [
    "XDG_RUNTIME_DIR",
    "TMPDIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK",
    "HOSTNAME",
    "TUTTI_DAEMON",
    "TUTTI_DIR",
    "LD_LIBRARY_PATH",
    "CARGO_TARGET_DIR",
];

/// Command to run, and as which user.
#[derive(Debug)]
pub(super) struct Entry {
    /// The machine's folder.
    pub(super) machine: PathBuf,
    pub(super) user: String,
    /// Where it begins; none: in the user's home.
    pub(super) directory: Option<PathBuf>,
    /// Whether it is left alone there, and this program ends at once.
    pub(super) detach: bool,
    /// Variables of that machine only.
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) words: Vec<OsString>,
}

/// Contents of a machine's file.
fn read_door(machine: &Path) -> io::Result<Door> {
    serde_json::from_slice(&std::fs::read(machine.join(DOOR))?).map_err(io::Error::other)
}

/// The first process of the machine with this folder.
pub(super) fn first_process(machine: &Path) -> io::Result<Pid> {
    Pid::from_raw(read_door(machine)?.pid).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Runs it.
pub(super) fn run(entry: &Entry) -> Result<ExitCode, LabError> {
    let off = |error: io::Error| LabError::Off { machine: entry.machine.clone(), error };
    let door = read_door(&entry.machine).map_err(off)?;
    let user = etc::user(&entry.user).ok_or_else(|| LabError::NoUser { name: entry.user.clone() })?;
    if user.uid != 0 && !door.has_users {
        return Err(LabError::NoUser { name: entry.user.clone() });
    }
    let entered = |error: io::Error| LabError::Enter { machine: entry.machine.clone(), error };
    let open = |path: &PathBuf| File::options().write(true).open(path);
    let entrances: Vec<File> = door.entrances.iter().map(open).collect::<io::Result<_>>().map_err(off)?;
    let process = Pid::from_raw(door.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let process = process.ok_or(io::ErrorKind::NotFound).map_err(io::Error::from).map_err(off)?;
    enter(&process, door.has_users).map_err(entered)?;
    let terminal = Terminal::open_if_on_one().map_err(entered)?;
    sys::block_signals(true);
    let signals = sys::signal_descriptor().map_err(entered)?;
    match sys::fork().map_err(entered)? {
        None => {
            let error = begin(entry, &door, &user, &entrances, terminal.as_ref());
            eprintln!("tutti-lab: cannot run {}: {error}", entry.words[0].display());
            std::process::exit(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 });
        }
        Some(child) => {
            drop(entrances);
            let status = match terminal {
                Some(terminal) => terminal.serve(child, &signals).map_err(entered)?,
                None => wait(child, &signals).map_err(entered)?,
            };
            Ok(ExitCode::from(status))
        }
    }
}

/// All namespaces of the machine at once, as its root.
fn enter(process: &OwnedFd, has_users: bool) -> io::Result<()> {
    // Time namespaces are not among the names of the library.
    const CLONE_NEWTIME: u32 = 0x80;
    let all = ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::CONTROL_GROUP
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::USER
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::from_bits_retain(CLONE_NEWTIME);
    move_into_thread_name_spaces(process.as_fd(), all)?;
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    if has_users {
        set_thread_groups(&[])?;
    }
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    Ok(())
}

/// The child: becomes the command. Gives the error if it does not.
fn begin(
    entry: &Entry,
    door: &Door,
    user: &etc::User,
    entrances: &[File],
    terminal: Option<&Terminal>,
) -> io::Error {
    let prepared = || -> io::Result<Command> {
        for mut file in entrances {
            io::Write::write_all(&mut file, b"0")?;
        }
        sys::block_signals(false);
        setsid()?;
        if let Some(terminal) = terminal {
            terminal.become_ours()?;
        }
        if entry.detach {
            // The machine's first process adopts what is left.
            if sys::fork()?.is_some() {
                std::process::exit(0);
            }
        }
        if user.uid != 0 {
            let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.uid));
            set_thread_groups(&[gid])?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)?;
        }
        let home = Path::new(user.home);
        std::env::set_current_dir(entry.directory.as_deref().unwrap_or(home))?;
        let path = format!(
            "{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            door.programs.display()
        );
        let mut command = Command::new(found_in(&entry.words[0], &path));
        command.args(&entry.words[1..]).env("PATH", path);
        for name in LEFT_HERE {
            command.env_remove(name);
        }
        command.env("HOME", home).env("USER", user.name).env("LOGNAME", user.name);
        command.envs(entry.variables.iter().map(|(name, value)| (name, value)));
        if !entry.detach {
            set_parent_process_death_signal(Some(Signal::KILL))?;
        }
        Ok(command)
    };
    match prepared() {
        Ok(mut command) => command.exec(),
        Err(error) => error,
    }
}

/// The command by the machine's own PATH: this program's is another one.
fn found_in(word: &OsString, path: &str) -> PathBuf {
    if word.as_bytes().contains(&b'/') {
        return word.into();
    }
    let is_program = |file: &PathBuf| {
        CString::new(file.as_os_str().as_bytes())
            .is_ok_and(|file| rustix::fs::access(&*file, rustix::fs::Access::EXEC_OK).is_ok())
            && file.is_file()
    };
    path.split(':').map(|folder| Path::new(folder).join(word)).find(is_program).unwrap_or_else(|| word.into())
}

fn wait(child: Pid, signals: &OwnedFd) -> io::Result<u8> {
    loop {
        if let Some(status) = sys::status_of(child)? {
            return Ok(status);
        }
        let mut wait = [rustix::event::PollFd::new(signals, rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut wait, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(signal) = sys::take_signal(signals.as_fd()) {
            if signal != libc::SIGCHLD && signal != libc::SIGWINCH {
                sys::send_signal(child, signal);
            }
        }
    }
}
