//! Ground on which a lab stands: its folder, its range of users, memory.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::thread::UnshareFlags;

use crate::lab::error::LabError;
use crate::lab::tree;
use crate::lab::{sys, wire};

use super::{FIRST_UID, LABS, MACHINES_MAX, UIDS};

/// Memory of a machine that runs a daemon and a few ranks, about.
const MACHINE_BYTES: u64 = 48 << 20;

/// A machine cannot be had for nothing: this one must have memory for all.
pub(super) fn check_memory(nodes: u32) -> Result<(), LabError> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let needed_bytes = u64::from(nodes) * MACHINE_BYTES;
    match available.map(|kib| kib << 10) {
        Some(bytes) if bytes < needed_bytes => {
            Err(LabError::Memory { nodes, needed_mib: needed_bytes >> 20, free_mib: bytes >> 20 })
        }
        _ => Ok(()),
    }
}

pub(super) fn folder_of(path: &Path, owner: u32, mode: u32) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    chown(path, Some(owner), Some(owner))
}

pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let status = Command::new("cp").arg("--recursive").arg("--no-dereference").arg(from).arg(to).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("cp of {} fails", from.display()))) }
}

/// Whether this user namespace has uids to give to machines: root of a container may be one user only.
pub(super) fn has_ranges() -> io::Result<bool> {
    let map = fs::read_to_string("/proc/self/uid_map")?;
    Ok(map.lines().any(|line| {
        let mut words = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (words.next().unwrap_or(0), words.next(), words.next().unwrap_or(0));
        let last = u64::from(FIRST_UID + LABS * MACHINES_MAX * UIDS);
        first <= u64::from(FIRST_UID) && last <= first + count
    }))
}

/// Whether owners of files in a folder can be mapped. A process that does nothing else lends its namespace.
pub(super) fn probe_owners(folder: &Path) -> io::Result<bool> {
    let (ours, theirs) = wire::pair()?;
    let Some(child) = sys::fork()? else {
        drop(ours);
        let made = sys::unshare(UnshareFlags::NEWUSER);
        let _ = wire::send(&theirs, &made.map_err(|error| error.to_string()), &[]);
        let _ = wire::receive::<()>(&theirs);
        std::process::exit(0);
    };
    drop(theirs);
    let made: Result<(), String> = wire::receive(&ours)?.0;
    let process = PathBuf::from(format!("/proc/{}", child.as_raw_nonzero()));
    let probed = made.map_err(io::Error::other).and_then(|()| {
        fs::write(process.join("uid_map"), format!("0 {FIRST_UID} 1"))?;
        fs::write(process.join("gid_map"), format!("0 {FIRST_UID} 1"))?;
        let users = fs::File::open(process.join("ns/user"))?;
        Ok(tree::can_be_mapped(folder, users.as_fd()))
    });
    drop(ours);
    rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())?;
    probed
}
