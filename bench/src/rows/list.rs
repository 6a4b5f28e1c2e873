//! The list of the rows, by subject.

use super::Goal::{self, Beat, Reach, Shown};
use super::Source::{self, Line, Ratio};
use super::{Limit, Row, SWITCH};
use crate::cases;

/// Each of two ranks must see a line that the other has written: half a round trip.
const MEETING: Limit = Limit::Times(0.5, "what=rtt bytes=0");
/// Four ranks on each core take turns; the last of them goes on at once.
const MEETING_IN_TURNS: Limit = Limit::Times(3.0, SWITCH);
/// A round trip of nothing.
const RTT: Limit = Limit::Line("what=rtt bytes=0");

/// Takes a row: id, text, unit, where its figure comes from, the machine's limit, what ours must reach.
pub(super) type Add<'a> = dyn FnMut(&str, &str, &'static str, Source, Limit, Goal) + 'a;

/// The rows of the table, in its order.
pub fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |id: &str, text: &str, unit, source, limit, goal| {
        rows.push(Row { id: id.into(), text: text.into(), unit, source, limit, goal });
    };
    let subjects = [
        short_round_trips,
        round_trips_by_size,
        cold_and_shared_round_trips,
        rates,
        types,
        meetings,
        collectives,
        steps,
        jobs,
        crossings,
        windows,
        files,
        launch,
        instructions,
        calls,
        many_pending,
        between_nodes,
        collectives_between_nodes,
        windows_between_nodes,
        super::shared::shared_memory,
    ];
    subjects.iter().for_each(|subject| subject(&mut add));
    rows
}

/// Round trips of next to nothing, in several surroundings.
fn short_round_trips(add: &mut Add<'_>) {
    add("rtt/0", "RTT 0 B", "us", Line("rtt", "bytes=0", "median_ns"), RTT, Reach(0.20));
    add("rtt/4", "RTT 4 B", "us", Line("rtt", "bytes=4", "median_ns"), RTT, Reach(0.20));
    add(
        "rtt/any",
        "RTT 4 B, MPI_ANY_SOURCE",
        "us",
        Line("rtt_any", "bytes=4", "median_ns"),
        RTT,
        Reach(0.25),
    );
    add(
        "rtt/16-asleep",
        "RTT 4 B, 14 more ranks asleep outside MPI",
        "us",
        Line("rtt_16_asleep", "bytes=4", "median_ns"),
        RTT,
        Reach(0.25),
    );
    add(
        "rtt/16-recv",
        "RTT 4 B, 14 more ranks in MPI_Recv",
        "us",
        Line("rtt_16_recv", "bytes=4", "median_ns"),
        RTT,
        Beat(1.0),
    );
}

/// Round trips of 64 B to 4 MiB.
fn round_trips_by_size(add: &mut Add<'_>) {
    let sizes: [(&str, &'static str, &'static str, Goal); 9] = [
        ("64 B", "bytes=64", "", Beat(1.0)),
        ("256 B", "bytes=256", "", Beat(1.0)),
        ("1 KiB", "bytes=1024", "what=rtt bytes=1024", Reach(0.40)),
        ("4 KiB", "bytes=4096", "what=rtt bytes=4096", Reach(1.1)),
        ("16 KiB", "bytes=16384", "what=rtt bytes=16384", Reach(4.0)),
        ("64 KiB", "bytes=65536", "what=rtt bytes=65536", Reach(10.0)),
        ("256 KiB", "bytes=262144", "what=rtt bytes=262144", Beat(1.0)),
        ("1 MiB", "bytes=1048576", "what=rtt bytes=1048576", Reach(135.0)),
        ("4 MiB", "bytes=4194304", "what=rtt bytes=4194304", Reach(600.0)),
    ];
    for (size, select, limit, goal) in sizes {
        let limit = if limit.is_empty() { RTT } else { Limit::Line(limit) };
        let id = format!("rtt/{}", size.replace(' ', ""));
        add(&id, &format!("RTT {size}"), "us", Line("rtt", select, "median_ns"), limit, goal);
    }
}

/// Round trips out of the cache, and on one core.
fn cold_and_shared_round_trips(add: &mut Add<'_>) {
    for (size, select, limit) in [
        ("64 KiB", "bytes=65536", "what=rtt_cold bytes=65536"),
        ("1 MiB", "bytes=1048576", "what=rtt_cold bytes=1048576"),
        ("4 MiB", "bytes=4194304", "what=rtt_cold bytes=4194304"),
    ] {
        let id = format!("rtt-cold/{}", size.replace(' ', ""));
        let text = format!("RTT {size}, buffers rotating through 64 MiB");
        add(&id, &text, "us", Line("rtt_cold", select, "median_ns"), Limit::Line(limit), Beat(1.1));
    }
    for (size, select) in [("4 B", "bytes=4"), ("64 KiB", "bytes=65536"), ("1 MiB", "bytes=1048576")] {
        let id = format!("rtt-1core/{}", size.replace(' ', ""));
        let text = format!("RTT {size}, both ranks on one core");
        add(&id, &text, "us", Line("rtt_1core", select, "median_ns"), Limit::Unknown, Beat(1.0));
    }
}

/// How many short messages there are in a second.
fn rates(add: &mut Add<'_>) {
    let rates: [(&str, &'static str, &str, Goal); 4] = [
        ("rate/64", "rate_64", "4 B messages, window 64", Reach(22.0)),
        ("rate/1024", "rate_1024", "4 B messages, window 1024", Reach(22.0)),
        ("rate/unexpected", "rate_late", "4 B messages, all unexpected", Beat(1.0)),
        ("rate/4pairs", "rate_4pairs", "4 B messages, 4 pairs on 2 cores, sum", Beat(1.0)),
    ];
    for (id, case, text, goal) in rates {
        // Of several pairs only the sum over the whole time is meant: the batch of one pair says little.
        add(id, text, "M/s", Line(case, "", "median_mps"), Limit::Unknown, goal);
    }
}

/// Data that does not lie in one piece: round trips, and packing alone.
fn types(add: &mut Add<'_>) {
    for (name, rtt, pack, unpack) in [
        ("column of 16 doubles", "what=rtt type=short", "what=pack type=short", "what=unpack type=short"),
        (
            "column of 1000 doubles",
            "what=rtt type=column",
            "what=pack type=column",
            "what=unpack type=column",
        ),
        (
            "1000 blocks of 4 doubles",
            "what=rtt type=blocks",
            "what=pack type=blocks",
            "what=unpack type=blocks",
        ),
        ("1000 random blocks", "what=rtt type=indexed", "what=pack type=indexed", "what=unpack type=indexed"),
        ("1000 structures", "what=rtt type=structs", "what=pack type=structs", "what=unpack type=structs"),
        ("1000 columns of 1000", "what=rtt type=matrix", "what=pack type=matrix", "what=unpack type=matrix"),
    ] {
        let kind = rtt.rsplit('=').next().expect("a type");
        for (what, case, select) in
            [("RTT", "types", rtt), ("pack", "pack", pack), ("unpack", "pack", unpack)]
        {
            let id = format!("types/{}-{kind}", what.to_lowercase());
            let source = Line(case, select, "median_ns");
            add(&id, &format!("{what}, {name}"), "us", source, Limit::Unknown, Beat(1.0));
        }
    }
}

/// Collective operations that move next to nothing, also on communicators that were made.
fn meetings(add: &mut Add<'_>) {
    for comm in ["world", "dup", "split"] {
        let (barrier, allreduce) = match comm {
            "world" => ("op=barrier comm=world", "op=allreduce bytes=8 comm=world"),
            "dup" => ("op=barrier comm=dup", "op=allreduce bytes=8 comm=dup"),
            _ => ("op=barrier comm=split", "op=allreduce bytes=8 comm=split"),
        };
        let id = format!("coll/barrier-{comm}");
        add(&id, &format!("barrier, {comm}"), "us", Line("coll", barrier, "median_ns"), MEETING, Reach(0.10));
        let id = format!("coll/allreduce-{comm}");
        let text = format!("allreduce 8 B, {comm}");
        add(&id, &text, "us", Line("coll", allreduce, "median_ns"), MEETING, Reach(0.12));
    }
}

/// Collective operations that move data: name, size, line of the program.
const MOVING: [(&str, &str, &str); 8] = [
    ("bcast", "1 KiB", "op=bcast bytes=1024"),
    ("bcast", "1 MiB", "op=bcast bytes=1048576"),
    ("allreduce", "1 KiB", "op=allreduce bytes=1024"),
    ("allreduce", "64 KiB", "op=allreduce bytes=65536"),
    ("allreduce", "1 MiB", "op=allreduce bytes=1048576"),
    ("alltoall", "1 KiB", "op=alltoall bytes=1024"),
    ("alltoall", "64 KiB", "op=alltoall bytes=65536"),
    ("alltoall", "1 MiB", "op=alltoall bytes=1048576"),
];

/// Collective operations that move data, and those of more ranks than cores.
fn collectives(add: &mut Add<'_>) {
    for (op, size, select) in MOVING {
        let id = format!("coll/{op}-{}", size.replace(' ', ""));
        add(&id, &format!("{op} {size}"), "us", Line("coll", select, "median_ns"), Limit::Unknown, Beat(1.0));
    }
    add(
        "coll/8-barrier",
        "barrier, 8 ranks on 2 cores",
        "us",
        Line("coll_8", "op=barrier comm=world", "median_ns"),
        MEETING_IN_TURNS,
        Reach(7.0),
    );
    add(
        "coll/8-allreduce",
        "allreduce 8 B, 8 ranks on 2 cores",
        "us",
        Line("coll_8", "op=allreduce bytes=8 comm=world", "median_ns"),
        MEETING_IN_TURNS,
        Beat(1.0),
    );
}

/// Work and a barrier, by turns, with more ranks than cores.
fn steps(add: &mut Add<'_>) {
    let steps8 = Line("steps_8", "", "mean_ns");
    add(
        "steps/8",
        "8 ranks on 2 cores, 4.9 us + barrier, per step",
        "us",
        steps8,
        Limit::Work(8),
        Reach(28.0),
    );
    let steps16 = Line("steps_16", "", "mean_ns");
    add(
        "steps/16",
        "16 ranks on 2 cores, 4.9 us + barrier, per step",
        "us",
        steps16,
        Limit::Work(16),
        Beat(1.0),
    );
}

/// The same with long steps; two such jobs at once.
fn jobs(add: &mut Add<'_>) {
    let alone = Line("job", "", "mean_ns");
    add(
        "job/alone",
        "a 2-rank job, 49 us + barrier, per step",
        "us",
        alone,
        Limit::Fixed(cases::LONG_STEP_US),
        Beat(1.0),
    );
    let both = Ratio("two_jobs", "job", "mean_ns");
    add("job/two", "two such jobs at once: slower one / alone", "times", both, Limit::Fixed(2.0), Shown);
}

/// Both sides send at the same time.
fn crossings(add: &mut Add<'_>) {
    let crosses: [(&str, &'static str, &str); 3] = [
        ("cross", "cross", "2 ranks cross"),
        ("cross-1core", "cross_1core", "2 ranks cross on one core"),
        ("cross-8", "cross_8", "8 ranks shift on 2 cores"),
    ];
    for (id, case, text) in crosses {
        for (how, size, select) in [
            ("Sendrecv", "64 KiB", "how=sendrecv bytes=65536"),
            ("Sendrecv", "1 MiB", "how=sendrecv bytes=1048576"),
            ("Sendrecv", "16 MiB", "how=sendrecv bytes=16777216"),
            ("Isend+Irecv", "64 KiB", "how=isend bytes=65536"),
            ("Isend+Irecv", "1 MiB", "how=isend bytes=1048576"),
            ("Isend+Irecv", "16 MiB", "how=isend bytes=16777216"),
        ] {
            let id = format!("{id}/{}-{}", how.to_lowercase(), size.replace(' ', ""));
            let text = format!("{text}, {how} {size}");
            add(&id, &text, "GB/s", Line(case, select, "mean_gbs"), Limit::Unknown, Beat(1.0));
        }
    }
}

/// Operations on the memory of another rank.
fn windows(add: &mut Add<'_>) {
    for (name, select) in [
        ("put 8 B, flush", "op=put how=allocated bytes=8"),
        ("put 64 KiB, flush", "op=put how=allocated bytes=65536"),
        ("put 1 MiB, flush", "op=put how=allocated bytes=1048576"),
        ("10000 puts of 8 B, flush", "op=put_many how=allocated"),
        ("get 8 B, flush", "op=get how=allocated bytes=8"),
        ("get 64 KiB, flush", "op=get how=allocated bytes=65536"),
        ("get 1 MiB, flush", "op=get how=allocated bytes=1048576"),
        ("fetch-and-op", "op=fetch_and_op how=allocated"),
        ("compare-and-swap", "op=compare_and_swap how=allocated"),
        ("accumulate 1 double", "op=accumulate how=allocated bytes=8"),
        ("accumulate 8 doubles", "op=accumulate how=allocated bytes=64"),
        ("accumulate 128 doubles", "op=accumulate how=allocated bytes=1024"),
        ("accumulate 8192 doubles", "op=accumulate how=allocated bytes=65536"),
        ("accumulate 131072 doubles", "op=accumulate how=allocated bytes=1048576"),
        ("lock, put 8 B, unlock", "op=lock_put_unlock how=allocated"),
        ("post, start, complete, wait", "op=post_start_complete_wait how=allocated"),
        ("fence", "op=fence how=allocated"),
        ("created: put 8 B, flush", "op=put how=created bytes=8"),
        ("created: put 64 KiB, flush", "op=put how=created bytes=65536"),
        ("created: put 1 MiB, flush", "op=put how=created bytes=1048576"),
        ("created: fetch-and-op", "op=fetch_and_op how=created"),
    ] {
        let id = format!("windows/{}", name.replace([' ', ','], "-").replace("--", "-").replace(':', ""));
        let source = Line("windows", select, "median_ns");
        add(&id, &format!("window: {name}"), "us", source, Limit::Unknown, Beat(1.0));
    }
}

/// Files in memory: together with small pieces, alone with large ones, and without MPI.
fn files(add: &mut Add<'_>) {
    for (name, select) in [
        ("write 4 MiB of a 3-D array together", "op=collective_write"),
        ("read 4 MiB of a 3-D array together", "op=collective_read"),
        ("write 1 MiB", "op=write"),
        ("read 1 MiB", "op=read"),
        ("plain pwrite 1 MiB", "op=pwrite"),
        ("plain pread 1 MiB", "op=pread"),
    ] {
        let id = format!("files/{}", select.trim_start_matches("op="));
        let source = Line("files", select, "median_ns");
        add(&id, &format!("file: {name}"), "us", source, Limit::Unknown, Beat(1.0));
    }
}

/// From nothing to the end of a job.
fn launch(add: &mut Add<'_>) {
    let launch = Line("launch", "", "median_ns");
    add(
        "launch",
        "launch + Init + Finalize, 2 ranks, warm",
        "ms",
        launch,
        Limit::Line("what=floor"),
        Reach(10.0),
    );
    let spawn = Line("spawn", "", "median_ns");
    add("spawn", "MPI_Comm_spawn of 4 processes by one", "ms", spawn, Limit::Unknown, Beat(1.0));
}

/// Calls of functions at another rank. The ratios are to MPI's messages in the same run.
fn calls(add: &mut Add<'_>) {
    let line = |what, key| Line("calls", what, key);
    let both = "call of an empty function, both ranks wait";
    add("calls/quick", &format!("quick {both}"), "us", line("what=quick", "median_ns"), RTT, Shown);
    let text = format!("quick {both} / MPI 8 B there and back");
    add("calls/quick-mpi", &text, "times", line("what=quick", "times"), Limit::Unknown, Reach(1.4));
    add("calls/ordinary", both, "us", line("what=ordinary", "median_ns"), RTT, Shown);
    let text = "quick call of an empty function, the target computes";
    add("calls/computing", text, "us", line("what=computing", "median_ns"), Limit::Unknown, Shown);
    let text = "inserts into a hash map of 2 ranks by posts";
    add("calls/inserts", text, "M/s", line("what=inserts", "rate_mps"), Limit::Unknown, Shown);
    let text = "the same, of the rate by MPI_Isend";
    add("calls/inserts-mpi", text, "of it", line("what=inserts", "times"), Limit::Unknown, Reach(4.0));
    let text = "co_await of a task that returns at once";
    add("calls/task", text, "us", line("what=task", "median_ns"), Limit::Unknown, Shown);
}

/// Instructions of one call whose partner has done its part: the same however busy the machine is.
fn instructions(add: &mut Add<'_>) {
    for (name, select) in [
        ("send 8 B", "call=send"),
        ("isend and wait", "call=isend_wait"),
        ("start of a persistent send of 8 B", "call=start"),
        ("receive of a message that is there", "call=recv"),
        ("start of a receive", "call=irecv"),
        ("completion of a receive", "call=wait"),
        ("allreduce 8 B, the last of two", "call=allreduce"),
        ("barrier, the last of two", "call=barrier"),
        ("put 8 B, flush", "call=put_flush"),
        ("fetch-and-op, flush", "call=fetch_and_op_flush"),
        ("a partition of 8 B that is ready", "call=pready"),
        ("test of a partition that is there", "call=parrived"),
    ] {
        let id = format!("instructions/{}", select.trim_start_matches("call="));
        let source = Line("instructions", select, "median_ins");
        add(&id, &format!("instructions: {name}"), "ins", source, Limit::Unknown, Beat(1.0));
    }
    for (name, select) in [
        ("shmem_long_p", "call=shmem_long_p"),
        ("shmem_long_p, shmem_quiet", "call=shmem_long_p_quiet"),
        ("shmem_long_g", "call=shmem_long_g"),
        ("shmem_long_atomic_add", "call=shmem_long_atomic_add"),
    ] {
        let id = format!("instructions/{}", select.trim_start_matches("call="));
        let source = Line("shmem_calls", select, "median_ins");
        add(&id, &format!("instructions: {name}"), "ins", source, Limit::Unknown, Shown);
    }
}

/// Cost of one of n pending operations: the same whatever n is, where nothing is looked through.
fn many_pending(add: &mut Add<'_>) {
    let to_10000 = ["count=100", "count=1000", "count=10000"];
    let kinds: [(&str, &'static str, &'static str, &[&'static str]); 7] = [
        ("MPI_Isend of 20 kB", "many_rendezvous", "net_many_rendezvous", &to_10000),
        ("MPI_Issend of 8 B", "many_issend", "net_many_issend", &to_10000),
        ("MPI_Issend of 8 B", "many_issend_most", "net_many_issend_most", &["count=100000"]),
        ("tags against the order of posting", "many_backwards", "net_many_backwards", &to_10000),
        ("partitions of 8 B", "many_partitions", "net_many_partitions", &to_10000),
        ("partitions of 8 B, one by one", "many_pready", "net_many_pready", &to_10000),
        ("partitions of 8 B", "many_partitions_most", "net_many_partitions_most", &["count=100000"]),
    ];
    for (text, inside, between, counts) in kinds {
        let name = inside.trim_start_matches("many_").trim_end_matches("_most");
        for (prefix, place, case) in [("many", "", inside), ("net/pending", "two nodes: ", between)] {
            for select in counts {
                let count = select.trim_start_matches("count=");
                let id = format!("{prefix}/{name}-{count}");
                let text = format!("{place}{text}, each of {count} pending");
                add(&id, &text, "us", Line(case, select, "median_ns"), Limit::Unknown, Beat(1.0));
            }
        }
    }
}

/// Rows of jobs on two nodes: two network namespaces joined by a pair of veths.
fn between_nodes(add: &mut Add<'_>) {
    const STREAM: Limit = Limit::Line("what=network_stream");
    for (size, select, goal) in [
        ("4 B", "bytes=4", Reach(12.5)),
        ("1 KiB", "bytes=1024", Beat(1.0)),
        ("4 KiB", "bytes=4096", Beat(1.0)),
        ("16 KiB", "bytes=16384", Beat(1.0)),
        ("64 KiB", "bytes=65536", Beat(1.0)),
        ("1 MiB", "bytes=1048576", Beat(1.0)),
    ] {
        let id = format!("net/rtt-{}", size.replace(' ', ""));
        let limit = Limit::Line("what=network_rtt");
        add(&id, &format!("two nodes: RTT {size}"), "us", Line("net_rtt", select, "median_ns"), limit, goal);
    }
    add(
        "net/rtt-inside",
        "two nodes: RTT 4 B inside one of them",
        "us",
        Line("net_inside", "bytes=4", "median_ns"),
        Limit::Line("what=rtt bytes=0"),
        Reach(0.25),
    );
    let rate = Line("net_rate", "", "median_mps");
    add("net/rate", "two nodes: 4 B messages, window 64", "M/s", rate, Limit::Unknown, Beat(1.0));
    for (size, select, goal) in [
        ("4 KiB", "bytes=4096", Beat(1.0)),
        ("64 KiB", "bytes=65536", Beat(1.0)),
        ("1 MiB", "bytes=1048576", Reach(3.0)),
    ] {
        let id = format!("net/stream-{}", size.replace(' ', ""));
        let text = format!("two nodes: stream of {size}");
        add(&id, &text, "GB/s", Line("net_stream", select, "median_gbs"), STREAM, goal);
    }
    for (id, case, text) in [
        ("net/loss-0%", "net_loss_0", "two nodes: stream of 1 MiB, no datagram lost on purpose"),
        ("net/loss-0.1%", "net_loss_01", "two nodes: stream of 1 MiB, 0.1 % of datagrams lost"),
        ("net/loss-1%", "net_loss_1", "two nodes: stream of 1 MiB, 1 % of datagrams lost"),
    ] {
        add(id, text, "GB/s", Line(case, "", "mean_gbs"), STREAM, Shown);
    }
    let share = Ratio("net_loss_1", "net_loss_0", "mean_gbs");
    add("net/loss-share", "the same, 1 % against none", "of it", share, Limit::Fixed(1.0), Reach(0.85));
}

/// Collective operations of two nodes with a rank each.
fn collectives_between_nodes(add: &mut Add<'_>) {
    for (id, text, select) in [
        ("net/coll-barrier", "two nodes: barrier", "op=barrier comm=world"),
        ("net/coll-allreduce-8B", "two nodes: allreduce 8 B", "op=allreduce bytes=8 comm=world"),
    ] {
        let limit = Limit::Line("what=network_rtt");
        add(id, text, "us", Line("net_coll", select, "median_ns"), limit, Beat(1.0));
    }
    for (op, size, select) in MOVING {
        let id = format!("net/coll-{op}-{}", size.replace(' ', ""));
        let source = Line("net_coll", select, "median_ns");
        add(&id, &format!("two nodes: {op} {size}"), "us", source, Limit::Unknown, Beat(1.0));
    }
}

/// Operations on the memory of a rank of another node: while it polls, and while it computes.
fn windows_between_nodes(add: &mut Add<'_>) {
    const ROUND_TRIP: Limit = Limit::Line("what=network_rtt");
    const ASLEEP: Limit = Limit::Line("what=network_asleep");
    for (name, select, limit) in [
        ("put 8 B, flush", "op=put how=allocated bytes=8", ROUND_TRIP),
        ("get 8 B, flush", "op=get how=allocated bytes=8", ROUND_TRIP),
        ("fetch-and-op", "op=fetch_and_op how=allocated", ROUND_TRIP),
        ("put 64 KiB, flush", "op=put how=allocated bytes=65536", ROUND_TRIP),
        ("get 64 KiB, flush", "op=get how=allocated bytes=65536", ROUND_TRIP),
        ("put 1 MiB, flush", "op=put how=allocated bytes=1048576", ROUND_TRIP),
        ("get 1 MiB, flush", "op=get how=allocated bytes=1048576", ROUND_TRIP),
        ("10000 puts of 8 B, flush", "op=put_many how=allocated", Limit::Times(1e4, "what=network_words")),
        ("lock, put 8 B, unlock", "op=lock_put_unlock how=allocated", ROUND_TRIP),
        ("fence", "op=fence how=allocated", ROUND_TRIP),
    ] {
        let id = format!("net/windows-{}", name.replace([' ', ','], "-").replace("--", "-"));
        let source = Line("net_windows", select, "median_ns");
        add(&id, &format!("two nodes: window: {name}"), "us", source, limit, Beat(1.0));
    }
    for (name, select, limit) in [
        ("put 8 B in a stream", "op=put how=stream", ROUND_TRIP),
        ("fetch-and-op in a stream", "op=fetch_and_op how=stream", ROUND_TRIP),
        ("put 8 B each ms", "op=put how=lone", ASLEEP),
        ("get 8 B each ms", "op=get how=lone", ASLEEP),
        ("fetch-and-op each ms", "op=fetch_and_op how=lone", ASLEEP),
    ] {
        let id = format!("net/computing-{}", name.replace(' ', "-"));
        let source = Line("net_windows_computing", select, "median_ns");
        add(&id, &format!("two nodes: target computes: {name}"), "us", source, limit, Beat(1.0));
    }
}
