//! Things of a rank that name ranks by their numbers in the job, or that a process cannot hand over: while
//! one rank has such a thing, none moves.

use crate::abi::MPI_THREAD_MULTIPLE;
use crate::comm::Comm;
use crate::process::Process;
use crate::request::RequestKind;

/// The first such thing, as the end of a sentence that begins with the rank.
pub(super) fn of(process: &Process) -> Option<String> {
    let Process { engine, comms, wins, files, env, .. } = process;
    let first = [
        (engine.job.starter().is_none(), "was started without mpiexec"),
        (env.thread_level == MPI_THREAD_MULTIPLE, "has asked for MPI_THREAD_MULTIPLE"),
        (!env.sessions.is_empty(), "has an open session (MPI_Session_finalize)"),
        (wins.iter().next().is_some(), "has a window (MPI_Win_free)"),
        (!files.is_empty(), "has an open file (MPI_File_close)"),
        (comms.port_tasks() > 0, "has opened a port (MPI_Open_port)"),
        (engine.may_have_guests(), "has been connected to another launch"),
        (engine.extracted() > 0, "has a message of MPI_Mprobe that no MPI_Mrecv has taken"),
        (engine.has_unread_pieces(), "has sent partitions that are not received (MPI_Precv_init, MPI_Start)"),
    ];
    let first = first.into_iter().find(|(holds, _)| *holds).map(|(_, what)| what.to_owned());
    first
        .or_else(|| comms.with_outsiders().map(of_communicator))
        .or_else(|| of_requests(process).map(str::to_owned))
}

fn of_communicator(comm: &Comm) -> String {
    let kind = if comm.remote.is_some() { "intercommunicator" } else { "communicator" };
    let (article, name) = match (&*String::from_utf8_lossy(&comm.name), comm.remote.is_some()) {
        ("", true) => ("an", String::new()),
        ("", false) => ("a", String::new()),
        (name, _) => ("the", format!(" {name:?}")),
    };
    format!("has {article} {kind}{name} with processes that are not in MPI_COMM_WORLD (MPI_Comm_disconnect)")
}

fn of_requests(process: &Process) -> Option<&'static str> {
    let (_, request) = process.engine.requests.iter().next()?;
    Some(match request.kind {
        RequestKind::Send => "has a send that is not completed (MPI_Isend, MPI_Bsend)",
        RequestKind::Receive => "has a receive that is not completed (MPI_Irecv)",
        RequestKind::Compound => "has a persistent or partitioned request (MPI_Request_free)",
        RequestKind::Generalized => "has a generalized request (MPI_Grequest_complete)",
        RequestKind::Collective => "has a collective operation that is not completed",
    })
}
