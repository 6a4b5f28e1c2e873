//! Snapshots of real jobs: what is in flight is what the receivers get later, who waits for whom, and nobody
//! stays frozen.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tutti_snapshot::{Doing, Snapshot};

use crate::Cluster;
use crate::harness::{LIMIT, RANK, Running, await_that, state_of};
use crate::steered::Steered;

/// Starts the program; all ranks are up when this returns.
#[track_caller]
fn start(program: &Steered, cluster: &Cluster, nodes: u32, ranks: u32, what: &str, faults: &str) -> Running {
    let (nodes, count) = (nodes.to_string(), ranks.to_string());
    let mut command = cluster.command(&program.words(&["run", "-N", &nodes, "-n", &count], what));
    command.env("LD_PRELOAD", tutti_tests::testing_library()).env("TUTTI_FAULTS", faults);
    let mut job = Running::start_command(&mut command);
    (0..ranks).for_each(|_| job.await_line("snapshot: up"));
    job
}

/// One for which all ranks stood still: on a crowded machine that may take too long, which is said.
#[track_caller]
fn take(cluster: &Cluster, job: u32) -> Snapshot {
    let mut taken = None;
    await_that("all nodes see their ranks", || {
        let said = cluster.tutti(&["snapshot", "--json", &job.to_string()]).stdout;
        let snapshot = serde_json::from_str::<Snapshot>(&said).ok();
        taken = snapshot.filter(|snapshot| snapshot.nodes.iter().all(|node| node.trouble.is_none()));
        taken.is_some()
    });
    taken.expect("just taken")
}

fn pid_of(snapshot: &Snapshot, rank: u32) -> Pid {
    let ranks = snapshot.nodes.iter().flat_map(|node| &node.ranks);
    let view = ranks.into_iter().find(|view| view.rank == rank).expect("it is there");
    Pid::from_raw(view.pid as i32).expect("a pid")
}

/// The last rank stands still while the others send to it: all of that is in flight, and all that is in
/// flight is that.
#[track_caller]
fn flight(name: &str, nodes: u32, ranks: u32, faults: &str) {
    let cluster = Cluster::up(name, nodes, &[]);
    let program = Steered::new(name);
    let mut job = start(&program, &cluster, nodes, ranks, "flight", faults);
    let receiver = pid_of(&take(&cluster, 1), ranks - 1);
    kill_process(receiver, Signal::STOP).expect("it lives");
    await_that("it stands still", || state_of(receiver) == Some('T'));
    program.touch("send");
    (0..ranks - 1).for_each(|_| job.await_line("snapshot: sent"));
    let snapshot = take(&cluster, 1);
    let (flying, troubles) = snapshot.in_flight();
    assert_eq!(troubles, [""; 0]);
    let users = flying.iter().map(|flight| flight.message).filter(|m| m.is_message() && m.context == 0);
    let seen: Vec<String> = users
        .map(|m| {
            assert_eq!(m.to, ranks - 1);
            let each = format!("{:02x}", b'a' + m.from as u8);
            assert_eq!(m.data.clone().unwrap_or_default(), each.repeat(m.bytes as usize), "{m:?}");
            format!("received {} {} {}", m.from, m.tag, m.bytes)
        })
        .collect();
    assert_eq!(seen.len(), 7 * (ranks as usize - 1), "{seen:?}");
    kill_process(receiver, Signal::CONT).expect("it lives");
    program.touch("go");
    let (status, said, lines) = job.end_with_output();
    assert_eq!((status, said.as_str()), (0, ""));
    let got: BTreeSet<&String> = lines.iter().filter(|line| line.starts_with("received")).collect();
    assert_eq!(got, seen.iter().collect(), "what was in flight, and what came later");
}

#[test]
fn snapshot_in_flight_inside_a_node_is_exact() {
    flight("snapshot-node", 1, 3, "");
}

#[test]
fn snapshot_in_flight_on_a_lossy_network_is_exact() {
    flight("snapshot-nodes", 2, 4, "loss=5%,dup=1%,reorder=2%,seed=7");
}

/// The last rank sleeps in a read while the others send to it: all of that is listed, in flight or arrived,
/// and nothing else.
#[track_caller]
fn unasked(name: &str, nodes: u32, ranks: u32, faults: &str) {
    let cluster = Cluster::up(name, nodes, &[]);
    let program = Steered::new(name);
    let pipe = program.folder().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    let mut job = start(&program, &cluster, nodes, ranks, "asleep", faults);
    program.touch("send");
    (0..ranks - 1).for_each(|_| job.await_line("snapshot: sent"));
    let bytes = [0_u64, 7, 100, 1500, 9000, 300_000];
    let expected: BTreeSet<String> = (0..ranks - 1)
        .flat_map(|from| {
            (0..).zip(bytes).map(move |(i, bytes)| format!("received {from} {} {bytes}", 10 * from + i))
        })
        .collect();
    let mut looks = 0;
    await_that("all from other nodes has arrived, and one look after it", || {
        let snapshot = take(&cluster, 1);
        let ranks_seen = || snapshot.nodes.iter().flat_map(|node| &node.ranks);
        assert!(ranks_seen().all(|view| view.unread.is_none()), "{}", snapshot.text());
        if ranks_seen().any(|view| view.taking) {
            return false;
        }
        let (flying, troubles) = snapshot.in_flight();
        assert_eq!(troubles, [""; 0]);
        let held = snapshot.nodes.iter().flat_map(|node| &node.held);
        let users = flying.iter().map(|flight| flight.message).filter(|m| m.is_message()).chain(held);
        let users = users.filter(|m| m.context == 0);
        let mut seen = Vec::new();
        for m in users {
            assert_eq!(m.to, ranks - 1);
            if m.bytes <= 1500 {
                assert_eq!(m.data.as_ref().map_or(0, String::len) as u64, 2 * m.bytes, "{m:?}");
            }
            seen.push(format!("received {} {} {}", m.from, m.tag, m.bytes));
        }
        seen.sort();
        assert!(seen.iter().eq(&expected), "{seen:?} of {expected:?}\n{}", snapshot.text());
        // Inside a node they wait in the rings; the service thread takes what comes from others.
        let arrived: usize = snapshot.nodes.iter().map(|node| node.held.len()).sum();
        let (on_node, all) = (ranks / nodes - 1, ranks - 1);
        looks += usize::from(arrived == bytes.len() * (all - on_node) as usize);
        looks == 2
    });
    program.touch("go");
    std::fs::write(&pipe, "x").expect("a reader");
    let (status, said, lines) = job.end_with_output();
    assert_eq!((status, said.as_str()), (0, ""));
    let got: BTreeSet<String> = lines.into_iter().filter(|line| line.starts_with("received")).collect();
    assert_eq!(got, expected, "what was listed, and what came later");
}

#[test]
fn snapshot_lists_messages_for_a_rank_outside_mpi() {
    unasked("snapshot-asleep", 1, 3, "");
}

#[test]
fn snapshot_lists_messages_for_a_rank_outside_mpi_on_a_lossy_network() {
    unasked("snapshot-asleeps", 2, 4, "loss=5%,dup=1%,reorder=2%,seed=9");
}

/// A snapshot in which the program's waits are all to be seen.
#[track_caller]
fn settled(cluster: &Cluster, job: u32, waiting: usize) -> Snapshot {
    let mut found = None;
    await_that("they sleep", || {
        let snapshot = take(cluster, job);
        let ranks = snapshot.nodes.iter().flat_map(|node| &node.ranks);
        let waits = ranks.filter(|view| matches!(view.doing, Doing::Waits { .. })).count();
        found = (waits == waiting).then_some(snapshot);
        found.is_some()
    });
    found.expect("just found")
}

#[test]
fn snapshot_names_a_deadlock_cycle() {
    let cluster = Cluster::up("snapshot-deadlock", 2, &[]);
    let program = Steered::new("snapshot-deadlock");
    let ring = start(&program, &cluster, 2, 4, "ring", "");
    let found = settled(&cluster, 1, 4).deadlock().expect("nobody goes on");
    assert_eq!(found.ranks, [0, 1, 2, 3]);
    let next =
        |rank: u32| format!("rank {rank} receives from rank {}, tag 7, MPI_COMM_WORLD", (rank + 1) % 4);
    assert_eq!(found.sentence(), (0..4).map(next).collect::<Vec<_>>().join("; "));
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(ring.end().0, 137);

    let barrier = start(&program, &cluster, 1, 2, "barrier", "");
    let found = settled(&cluster, 2, 2).deadlock().expect("nobody goes on");
    assert_eq!(
        found.sentence(),
        "rank 0 receives from rank 1, tag 9, MPI_COMM_WORLD; \
         rank 1 waits for rank 0 in a collective call on MPI_COMM_WORLD"
    );
    // One that a user has suspended says the same, and stays suspended.
    cluster.tutti(&["suspend", "2"]).expect_success();
    assert_eq!(take(&cluster, 2).deadlock(), Some(found));
    assert!(cluster.job(2).contains("\"suspended\""));
    cluster.tutti(&["kill", "2"]).expect_success();
    assert_eq!(barrier.end().0, 137);

    let half = start(&program, &cluster, 2, 4, "half", "");
    assert_eq!(settled(&cluster, 3, 2).deadlock().expect("two wait for each other").ranks, [0, 1]);
    cluster.tutti(&["kill", "3"]).expect_success();
    assert_eq!(half.end().0, 137);
}

#[test]
fn snapshot_waitall_needs_all_and_waitany_one() {
    let cluster = Cluster::up("snapshot-all", 2, &[]);
    let program = Steered::new("snapshot-all");
    let rest = ", tag 7, MPI_COMM_WORLD";
    for (number, nodes) in [1, 2].into_iter().enumerate() {
        let number = 2 * number as u32 + 1;
        let all = start(&program, &cluster, nodes, 4, "waitall", "");
        let seen = settled(&cluster, number, 2);
        let found = seen.deadlock().unwrap_or_else(|| panic!("rank 2 does not help: {}", seen.text()));
        assert_eq!(
            found.sentence(),
            format!(
                "rank 0 waits for all of: receives from rank 1{rest}, and receives from rank 2, tag 8, MPI_COMM_WORLD; \
                 rank 1 receives from rank 0{rest}"
            )
        );
        let text = seen.text();
        assert!(
            text.contains("  rank 0  MPI_Waitall: waits for all of: receives from rank 2, tag 8"),
            "{text}"
        );
        assert!(text.contains("\n  rank 0 -> all of ranks 1-2\n"), "{text}");
        assert!(text.contains("\n  a cycle: rank 0 -> rank 1 -> rank 0\n"), "{text}");
        let dot = cluster.tutti(&["snapshot", "--dot", &number.to_string()]).expect_success().stdout;
        assert!(dot.starts_with("digraph ") && dot.contains("\n  0 -> 2 [label="), "{dot}");
        cluster.tutti(&["kill", &number.to_string()]).expect_success();
        assert_eq!(all.end().0, 137);

        let any = start(&program, &cluster, nodes, 4, "waitany", "");
        let seen = settled(&cluster, number + 1, 2);
        assert_eq!(seen.deadlock(), None);
        let text = seen.text();
        assert!(
            text.contains("  rank 0  MPI_Waitany: waits for any of: receives from rank 2, tag 8"),
            "{text}"
        );
        program.touch("go");
        assert_eq!(any.end(), (0, String::new()));
        std::fs::remove_file(program.folder().join("go")).expect("it was touched");
    }
}

#[test]
fn snapshot_any_source_is_helped_by_any_running_rank() {
    let cluster = Cluster::up("snapshot-any", 2, &[]);
    let program = Steered::new("snapshot-any");
    for (number, nodes) in [1, 2].into_iter().enumerate() {
        let job = start(&program, &cluster, nodes, 4, "anysource", "");
        let seen = settled(&cluster, number as u32 + 1, 3);
        assert_eq!(seen.deadlock(), None);
        assert!(seen.text().contains("\n  rank 0 -> any rank\n  ranks 1-2 -> rank 0\n"), "{}", seen.text());
        program.touch("go");
        assert_eq!(job.end(), (0, String::new()));
        std::fs::remove_file(program.folder().join("go")).expect("it was touched");
    }
}

#[test]
fn snapshot_nonblocking_collective_progresses_at_a_blocked_rank() {
    let cluster = Cluster::up("snapshot-started", 2, &[]);
    let program = Steered::new("snapshot-started");
    for (number, nodes) in [1, 2].into_iter().enumerate() {
        let job = start(&program, &cluster, nodes, 4, "started", "");
        let seen = settled(&cluster, number as u32 + 1, 3);
        assert_eq!(seen.deadlock(), None, "{}", seen.text());
        program.touch("go");
        assert_eq!(job.end(), (0, String::new()));
        std::fs::remove_file(program.folder().join("go")).expect("it was touched");
    }
}

#[test]
fn snapshot_barrier_needs_all_members() {
    let cluster = Cluster::up("snapshot-absent", 1, &[]);
    let program = Steered::new("snapshot-absent");
    let job = start(&program, &cluster, 1, 4, "absent", "");
    let seen = settled(&cluster, 1, 3);
    let found = seen.deadlock().unwrap_or_else(|| panic!("rank 0 never comes: {}", seen.text()));
    assert_eq!(found.ranks, [0, 1, 2]);
    assert!(seen.text().contains("\n  ranks 1-2 -> all of ranks 0, 3\n"), "{}", seen.text());
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(job.end().0, 137);
}

/// The function of MPI that a rank waits in.
#[track_caller]
fn call_of(snapshot: &Snapshot, rank: u32) -> Option<&str> {
    let ranks = snapshot.nodes.iter().flat_map(|node| &node.ranks);
    let view = ranks.into_iter().find(|view| view.rank == rank).expect("it is there");
    if let Doing::Waits { call, .. } = &view.doing { call.as_deref() } else { None }
}

#[test]
fn snapshot_names_the_functions_that_wait() {
    let cluster = Cluster::up("snapshot-calls", 2, &[]);
    let program = Steered::new("snapshot-calls");
    for (number, nodes) in [1, 2].into_iter().enumerate() {
        let job = start(&program, &cluster, nodes, 2, "barrier", "");
        let number = number as u32 + 1;
        let seen = settled(&cluster, number, 2);
        assert_eq!([0, 1].map(|rank| call_of(&seen, rank)), [Some("MPI_Recv"), Some("MPI_Barrier")]);
        let text = seen.text();
        assert!(text.contains("rank 0  MPI_Recv: receives from rank 1, tag 9"), "{text}");
        cluster.tutti(&["kill", &number.to_string()]).expect_success();
        assert_eq!(job.end().0, 137);
    }
}

#[test]
fn snapshot_finalize_and_buffer_detach_wait_for_receives() {
    let cluster = Cluster::up("snapshot-unreceived", 2, &[]);
    let program = Steered::new("snapshot-unreceived");
    let mut number = 0;
    for nodes in [1, 2] {
        for (what, call) in [("finalize", "MPI_Finalize"), ("detach", "MPI_Buffer_detach")] {
            number += 1;
            let job = start(&program, &cluster, nodes, 2, what, "");
            let seen = settled(&cluster, number, 2);
            let found =
                seen.deadlock().unwrap_or_else(|| panic!("rank 1 receives something else: {}", seen.text()));
            assert_eq!(
                found.sentence(),
                "rank 0 sends to rank 1, tag 7, MPI_COMM_WORLD; rank 1 receives from rank 0, tag 9, MPI_COMM_WORLD"
            );
            assert_eq!(call_of(&seen, 0), Some(call));
            cluster.tutti(&["kill", &number.to_string()]).expect_success();
            assert_eq!(job.end().0, 137);
        }
    }
}

#[test]
fn snapshot_shows_progress_of_a_large_message() {
    let cluster = Cluster::up("snapshot-bulk", 2, &[]);
    let program = Steered::new("snapshot-bulk");
    let job = start(&program, &cluster, 2, 2, "bulk", "loss=2%,seed=7");
    let mut seen = None;
    await_that("one is under way", || {
        let snapshot = take(&cluster, 1);
        let bulk = snapshot.nodes.iter().flat_map(|node| &node.flows).find_map(|flow| flow.bulk);
        seen = bulk.filter(|bulk| bulk.here > 0).map(|bulk| (bulk, snapshot.text()));
        seen.is_some()
    });
    let (bulk, text) = seen.expect("just seen");
    assert!(bulk.bytes == 32 << 20 && bulk.here < bulk.bytes, "{bulk:?}");
    let line = text.lines().find(|line| line.contains(" bulk: ")).expect("a line of it");
    assert!(
        line.starts_with("  rank 0 -> rank 1  bulk: ") && line.ends_with(" of 32.0 MiB have arrived"),
        "{line}"
    );
    program.touch("go");
    assert_eq!(job.end(), (0, String::new()));
}

#[test]
fn snapshot_wait_for_a_working_rank_is_no_deadlock() {
    let cluster = Cluster::up("snapshot-wait", 2, &[]);
    let program = Steered::new("snapshot-wait");
    let job = start(&program, &cluster, 2, 4, "wait", "");
    assert_eq!(settled(&cluster, 1, 3).deadlock(), None);
    program.touch("go");
    assert_eq!(job.end(), (0, String::new()));
}

#[test]
fn snapshot_file_is_printed_again_and_damage_is_refused() {
    let cluster = Cluster::up("snapshot-file", 1, &[]);
    let program = Steered::new("snapshot-file");
    let job = start(&program, &cluster, 1, 2, "ring", "");
    settled(&cluster, 1, 2);
    let file = program.folder().join("it.snapshot");
    let path = file.to_string_lossy().into_owned();
    let mut said = String::new();
    await_that("its deadlock is written", || {
        said = cluster.tutti(&["snapshot", "1", "-o", &path]).stdout;
        said.contains("deadlock of 2 ranks")
    });
    let bytes = std::fs::read(&file).expect("it was written");
    // It may not be so long: what was there stays, and nothing else comes.
    let mut cramped = std::process::Command::new("sh");
    let whole = cluster.command(&["snapshot", "1", "-o", &path]);
    cramped.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).arg(whole.get_program()).args(whole.get_args());
    cramped.envs(whole.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = tutti_tests::run(&mut cramped, LIMIT);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
    assert!(ran.stderr.contains("cannot write") && ran.stderr.contains("File too large"), "{ran}");
    assert_eq!(std::fs::read(&file).expect("it is there"), bytes);
    let names =
        std::fs::read_dir(program.folder()).expect("the folder").flatten().map(|entry| entry.file_name());
    let names: BTreeSet<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    assert_eq!(names, BTreeSet::from(["it.snapshot".to_owned(), "snapshot".to_owned()]));
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(job.end().0, 137);
    assert_eq!(cluster.tutti(&["snapshot", "--show", &path]).expect_success().stdout, said);
    for (damaged, why) in [
        (bytes[..bytes.len() - 1].to_vec(), "bytes are there, and"),
        ([&bytes[..bytes.len() - 4], b"]}!\n"].concat(), "it is damaged"),
        (b"hello\n".to_vec(), "it is not a snapshot"),
    ] {
        std::fs::write(&file, damaged).expect("a file");
        let ran = cluster.tutti(&["snapshot", "--show", &path]);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
        assert!(ran.stderr.contains(why), "{ran}");
    }
    let over = cluster.tutti(&["snapshot", "1"]);
    assert_eq!((over.code(), over.stderr.as_str()), (1, "tutti snapshot: job 1 is over\n"));
}

/// All ranks add 1 to counters of all, and are stopped for snapshots now and then: at the end each counter
/// has what was issued to it, and every number of it was fetched once. The program checks that.
#[track_caller]
fn storm(name: &str, what: &str, faults: &str) {
    const LOOKS: usize = 24;
    let cluster = Cluster::up(name, 2, &[]);
    let program = Steered::of(name, "storm.c");
    let job = start(&program, &cluster, 2, 4, what, faults);
    let mut under_way = 0;
    let mut looks = 0;
    // The ranks may stand between two batches each time.
    while looks < LOOKS || under_way == 0 && looks < 10 * LOOKS {
        looks += 1;
        let snapshot = take(&cluster, 1);
        let (flying, troubles) = snapshot.in_flight();
        assert_eq!(troubles, [""; 0]);
        // An operation is no message of the program.
        assert!(!flying.iter().any(|flight| flight.message.is_message()), "{}", snapshot.text());
        under_way += flying.len();
    }
    program.touch("go");
    let (status, said, lines) = job.end_with_output();
    assert_eq!((status, said.as_str()), (0, ""));
    assert!(lines.iter().any(|line| line == "storm: all right"), "{lines:?}");
    println!("{under_way} records under way in {looks} snapshots; {lines:?}");
    assert!(under_way > 0, "no snapshot was taken in a storm");
}

#[test]
fn snapshot_in_a_storm_of_atomics_loses_and_doubles_none() {
    storm("snapshot-storm", "windows", "");
}

#[test]
fn snapshot_in_a_storm_of_atomics_on_a_lossy_network_loses_and_doubles_none() {
    storm("snapshot-storm-lossy", "windows", "loss=5%,dup=1%,reorder=2%,seed=11");
}

#[test]
fn snapshot_in_a_storm_of_shmem_atomics_loses_and_doubles_none() {
    storm("snapshot-storm-shmem", "shmem", "loss=5%,dup=1%,reorder=2%,seed=13");
}

#[test]
fn snapshot_of_another_users_job_is_refused() {
    let cluster = Cluster::up("snapshot-others", 1, &[]);
    let job = cluster.start(&["run", "-n", "2", "sh", "-c", "echo up; sleep 1000"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    await_that("its ranks stand still, and are not seen", || {
        let said = cluster.tutti(&["snapshot", "1"]).stdout;
        said.contains("cannot be seen") && said.contains("no deadlock")
    });
    if rustix::process::geteuid().is_root() {
        let ran = tutti_tests::run(cluster.command(&["snapshot", "1"]).uid(54321).gid(54321), LIMIT);
        assert_eq!((ran.code(), ran.stderr.as_str()), (1, "tutti snapshot: job 1 is another user's\n"));
    }
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(job.end().0, 137);
}

#[test]
fn snapshot_interrupted_leaves_no_job_frozen() {
    // The front end and its daemon are on a node that nothing happens to.
    let cluster = Cluster::up("snapshot-deaths", 3, &crate::cluster::SLOWLY_LOST);
    let program = Steered::new("snapshot-deaths");
    let words = program.words(&["run", "-N", "3", "-n", "6"], "wait");
    let mut job = Running::start_command(&mut cluster.command_on(2, &words));
    (0..6).for_each(|_| job.await_line("snapshot: up"));
    let ask = || {
        let mut command = cluster.command(&["snapshot", "1"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("tutti")
    };
    for _ in 0..20 {
        let mut asking = ask();
        asking.kill().expect("it was started");
        asking.wait().expect("it is dead");
    }
    for node in [1, 0] {
        let mut asking: Vec<_> = (0..4).map(|_| ask()).collect();
        cluster.replace(node);
        await_that("the cluster is whole, and has its job", || {
            let rows = cluster.tutti(&["nodes"]).stdout;
            rows.lines().count() == 4 && !rows.contains(" lost ") && cluster.job(1).contains("\"running\"")
        });
        for asking in &mut asking {
            asking.kill().expect("it was started");
            asking.wait().expect("it is dead");
        }
    }
    await_that("one can be had again", || cluster.tutti(&["snapshot", "1"]).code() == 0);
    program.touch("go");
    assert_eq!(job.end(), (0, String::new()));
    cluster.run(&["run", "-N", "2", "-n", "4", RANK, "exchange"]).expect_success();
}
