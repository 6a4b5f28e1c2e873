//! The first process of a machine, and the one around it that makes its namespaces. Both are this program.
//!
//! ```text
//! keeper                          guard (in its machine's cgroups)           first process (pid 1)
//! starts it, Begin --------------> user namespace
//!                <---------- Users
//! maps its uids, Mapped ---------> root there; all other namespaces; clocks
//!                <--------- Spaces
//! lays the cable, Trees ---------> fork -----------------------------------> builds its tree of files
//!                <------------------------------------------------ Ready
//!                                 waits for its end                          waits for the keeper's end
//! ```
//!
//! The kernel kills the guard when the keeper dies, the first process when the guard dies, and everything in
//! the machine when the first process dies.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::process::{Pid, Signal, WaitOptions, getppid, set_parent_process_death_signal, setsid, waitpid};
use rustix::thread::{Gid, Uid, UnshareFlags, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde::{Deserialize, Serialize};

use super::cgroups::Hierarchy;
use super::clock::{self, Start};
use super::tree::Place;
use super::{root, sys, wire};

/// Specification of a machine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) name: String,
    /// The process that this comes from.
    pub(super) keeper: i32,
    /// Whether it has several users.
    pub(super) has_users: bool,
    pub(super) clock: Start,
    pub(super) hierarchies: Vec<Hierarchy>,
    /// Symbolic links of its root, as /bin.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
}

/// To the machine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToMachine {
    Begin(Spec),
    Mapped,
    /// Comes with a descriptor for each.
    Trees(Vec<Place>),
}

/// From it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromMachine {
    Users,
    Spaces,
    /// The first process, as the keeper sees it.
    First(i32),
    Ready,
    /// A step of the boot has failed: a line about it.
    Failed(String),
}

/// The program: its standard input is the socket to the keeper.
pub(super) fn run() -> io::Result<()> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 10)?;
    let null = std::fs::File::open("/dev/null")?;
    sys::block_signals(false);
    rustix::stdio::dup2_stdin(&null)?;
    rustix::thread::set_name(c"tutti-lab")?;
    let made = guard(socket.as_fd());
    if let Err(error) = &made {
        let _ = wire::send(&socket, &FromMachine::Failed(error.to_string()), &[]);
    }
    made
}

fn unexpected<T>(message: &impl std::fmt::Debug) -> io::Result<T> {
    Err(io::Error::other(format!("an unexpected message: {message:?}")))
}

fn after<T>(what: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("cannot {what}: {error}")))
}

fn guard(socket: BorrowedFd<'_>) -> io::Result<()> {
    let spec = match wire::receive(socket)?.0 {
        ToMachine::Begin(spec) => spec,
        other => return unexpected(&other),
    };
    after("make a user namespace", sys::unshare(UnshareFlags::NEWUSER))?;
    wire::send(socket, &FromMachine::Users, &[])?;
    match wire::receive(socket)?.0 {
        ToMachine::Mapped => {}
        other => return unexpected(&other),
    }
    become_root(spec.has_users)?;
    let keeper = Pid::from_raw(spec.keeper);
    die_with_parent(|| getppid() == keeper)?;
    let rest = UnshareFlags::NEWNS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWCGROUP
        | UnshareFlags::NEWTIME
        | UnshareFlags::NEWPID;
    after("make namespaces", sys::unshare(rest))?;
    after("set its clocks", clock::set(spec.clock))?;
    rustix::system::sethostname(spec.name.as_bytes())?;
    wire::send(socket, &FromMachine::Spaces, &[])?;
    let (places, trees) = match wire::receive(socket)? {
        (ToMachine::Trees(places), trees) if places.len() == trees.len() => (places, trees),
        (other, _) => return unexpected(&other),
    };
    match sys::fork()? {
        None => first(socket, &spec, &places, trees),
        Some(pid) => {
            wire::send(socket, &FromMachine::First(pid.as_raw_nonzero().get()), &[])?;
            drop(trees);
            waitpid(Some(pid), WaitOptions::empty())?;
            std::process::exit(0);
        }
    }
}

fn become_root(has_users: bool) -> io::Result<()> {
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    if has_users {
        set_thread_groups(&[])?;
    }
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    // Its files in /proc belong to nobody after a change of identity.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?;
    Ok(())
}

/// `is_there` looks after that for the parent, which may have died before.
pub(super) fn die_with_parent(is_there: impl Fn() -> bool) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if is_there() { Ok(()) } else { Err(io::Error::other("the parent has ended")) }
}

/// Runs the first process, whose parent is outside of what it can see; the end of the socket is the end of
/// the keeper.
fn first(socket: BorrowedFd<'_>, spec: &Spec, places: &[Place], trees: Vec<OwnedFd>) -> ! {
    let begun = die_with_parent(|| true).and_then(|()| {
        sys::bury_children_unseen();
        setsid()?;
        root::build(&spec.hierarchies, &spec.links, places, trees)
    });
    let message = match &begun {
        Ok(()) => FromMachine::Ready,
        Err(error) => FromMachine::Failed(error.to_string()),
    };
    let sent = wire::send(socket, &message, &[]);
    if begun.is_ok() && sent.is_ok() {
        // Nothing comes but its end.
        let _ = wire::receive::<ToMachine>(socket);
    }
    std::process::exit(1);
}
