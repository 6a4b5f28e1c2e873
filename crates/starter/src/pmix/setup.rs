//! Setup of a PMIx server: its variables and those of its ranks, and the job as it gets it.

use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use tutti_pmix::wire::Description;
use tutti_protocol::wire::Job;

/// The child's part: it becomes the program. Where that cannot be, the starter sees the end of the socket.
pub(super) fn become_server(program: &Path, own: &OwnedFd, null: &OwnedFd, environment: &[CString]) {
    let settled = rustix::stdio::dup2_stdin(own)
        .and_then(|()| fcntl_setfd(rustix::stdio::stdin(), FdFlags::empty()))
        .and_then(|()| rustix::stdio::dup2_stdout(null))
        .and_then(|()| rustix::stdio::dup2_stderr(null));
    if settled.is_err() {
        return;
    }
    let pairs = environment.iter().filter_map(|text| {
        let bytes = text.as_bytes();
        let at = bytes.iter().position(|byte| *byte == b'=')?;
        Some((OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..])))
    });
    let mut command = Command::new(program);
    // With the store that is shared between processes a second program in a rank finds nothing.
    command.env_clear().env("PMIX_MCA_gds", "hash").envs(pairs);
    let _ = command.exec();
}

/// Variables that Open MPI needs. The user's come before them, and win.
pub(super) fn own_variables(
    job: &Job,
    folder: &Path,
    crowded: bool,
    environment: &[CString],
) -> Vec<CString> {
    let folder = folder.as_os_str().as_bytes();
    let in_folder = [
        "OMPI_MCA_btl_vader_backing_directory",
        "OMPI_MCA_btl_sm_backing_directory",
        "OMPI_MCA_osc_sm_backing_directory",
    ];
    let in_folder = in_folder.iter();
    let mut list: Vec<CString> =
        in_folder.filter_map(|name| CString::new([name.as_bytes(), b"=", folder].concat()).ok()).collect();
    if crowded {
        // A rank that waits gives its core to one that works.
        list.push(c"OMPI_MCA_mpi_yield_when_idle=1".into());
    }
    let has_chosen = || environment.iter().any(|text| text.as_bytes().starts_with(b"OMPI_MCA_btl_tcp_if_"));
    if job.part.as_ref().is_none_or(|part| part.address.is_loopback()) && !has_chosen() {
        // Left alone it takes any interface but this one, and perhaps there is no other. On one node
        // processes that others have started are not reached through its shared memory.
        list.push(c"OMPI_MCA_btl_tcp_if_include=127.0.0.0/8".into());
    }
    // Version 4 asks a PMIx server only where it sees a launcher that it knows. Nobody calls this one.
    list.push(c"OMPI_MCA_orte_local_daemon_uri=1.0;tcp://127.0.0.1:1".into());
    list
}

pub(super) fn describe(job: &Job, libraries: Vec<String>, universe: u32, folder: &Path) -> Description {
    let first_ranks = job.part.as_ref().map_or_else(|| vec![0], |part| part.first_ranks.clone());
    let names = job.part.as_ref().map_or(&[][..], |part| &part.names);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = |node: usize| match (names.get(node), first_ranks.len()) {
        (Some(name), _) => name.clone(),
        (None, 1) => host.clone(),
        (None, _) => format!("node{node}"),
    };
    Description {
        libraries,
        space: format!("tutti-{:016x}", job.id),
        nodes: (0..first_ranks.len()).map(name).collect(),
        first_ranks,
        node: job.node(),
        programs: job.programs.iter().map(|program| program.ranks).collect(),
        universe,
        folder: folder.to_string_lossy().into_owned(),
    }
}
