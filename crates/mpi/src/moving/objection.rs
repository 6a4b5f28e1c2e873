//! Things of a rank that name ranks by their numbers in the job, or that a process cannot hand over: while
//! one rank has such a thing, none moves. A window, and a persistent request, stand in the way of those moves
//! alone that they have to do with.

use crate::abi::MPI_THREAD_MULTIPLE;
use crate::comm::Comm;
use crate::engine::Engine;
use crate::process::Process;
use crate::request::{Request, RequestKind, WhenDone};
use crate::win::window::Window;

/// The first such thing, as the end of a sentence that begins with the rank, where these processes move.
pub(super) fn of(process: &Process, movers: &[u32]) -> Option<String> {
    let Process { engine, comms, wins, files, env, .. } = process;
    let is_mover = movers.contains(&engine.world_rank());
    let names_mover = |window: &Window| movers.iter().any(|mover| window.group.contains(*mover));
    let first = [
        (engine.job.starter().is_none(), "was started without mpiexec"),
        (env.thread_level == MPI_THREAD_MULTIPLE, "has asked for MPI_THREAD_MULTIPLE"),
        (!env.sessions.is_empty(), "has an open session (MPI_Session_finalize)"),
        (wins.iter().any(names_mover), "has a window with a rank that moves (MPI_Win_free)"),
        (
            is_mover && files.has_own_representation(),
            "has an open file in a data representation of its own (MPI_File_close)",
        ),
        (comms.port_tasks() > 0, "has opened a port (MPI_Open_port)"),
        (engine.may_have_guests(), "has been connected to another launch"),
        (engine.extracted() > 0, "has a message of MPI_Mprobe that no MPI_Mrecv has taken"),
        (engine.has_unread_pieces(), "has sent partitions that are not received (MPI_Precv_init, MPI_Start)"),
    ];
    let first = first.into_iter().find(|(holds, _)| *holds).map(|(_, what)| what.to_owned());
    first
        .or_else(|| comms.with_outsiders().map(of_communicator))
        .or_else(|| of_requests(process, movers, is_mover).map(str::to_owned))
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

fn of_requests(process: &Process, movers: &[u32], is_mover: bool) -> Option<&'static str> {
    let Process { engine, files, persistents, .. } = process;
    // Those of schedules and partitions end with the request that the program has, or that a file has.
    let own = engine
        .requests
        .iter()
        .filter(|(index, request)| request.when_done != WhenDone::Advance && !files.is_server(*index));
    let of_one = |(index, request): (u32, &Request)| match persistents.is_collective_with(index, movers) {
        true => Some("has a persistent collective operation with a rank that moves (MPI_Request_free)"),
        false => of_request(engine, index, request, is_mover),
    };
    own.map(of_one).find_map(|found| found)
}

fn of_request(engine: &Engine, index: u32, request: &Request, is_mover: bool) -> Option<&'static str> {
    Some(match request.kind {
        RequestKind::Send => "has a send that is not completed (MPI_Isend, MPI_Bsend)",
        RequestKind::Receive => "has a receive that is not completed (MPI_Irecv)",
        RequestKind::Generalized => "has a generalized request (MPI_Grequest_complete)",
        RequestKind::Collective => "has a collective operation that is not completed",
        RequestKind::Compound if engine.partitioned(index).is_some() => {
            "has a partitioned request (MPI_Request_free)"
        }
        RequestKind::Compound if is_mover && engine.is_persistent(index) => {
            "moves and has a persistent request (MPI_Request_free)"
        }
        RequestKind::Compound if is_mover => "has an operation that is not completed (MPI_Wait)",
        // What is under way of one that has been started are requests of their own.
        RequestKind::Compound => return None,
    })
}
