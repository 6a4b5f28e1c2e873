//! The promises of the native interface (`tutti.h`, `tutti_board.h`) inside a job. Each program in
//! `programs/` checks one subject and prints "name: ok".

mod trace_op;

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tutti_shm::board::{self, Job, Node, Running};
use tutti_testkit::{Need, has_command_for_part};
use tutti_tests::{Scratch, dist, program, root, run};

/// Limit for a program: none takes a tenth of it, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Program that is linked with the native interface.
#[track_caller]
fn compile(wrapper: &str, name: &str, folder: &Path) -> PathBuf {
    let path = folder.join(name);
    let mut compiler = program(wrapper);
    compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&path);
    compiler.arg(root().join(format!("tests/native/programs/{name}.c"))).args(["-ltutti", "-lpthread"]);
    run(&mut compiler, LIMIT).expect_success();
    path
}

/// C and C++ take the headers without a warning.
#[test]
fn native_headers_compile_alone() {
    let scratch = Scratch::new("native-headers");
    let has_cxx = has_command_for_part(Need::Cxx, "c++");
    for header in ["tutti.h", "tutti_board.h", "tutti_call.h", "tutti_dse.h", "tutti_move.h"] {
        for (compiler, language, standard) in [("cc", "c", "c11"), ("c++", "c++", "c++11")] {
            if language == "c++" && !has_cxx {
                continue;
            }
            let source = scratch.path().join(format!("{header}.{language}"));
            std::fs::write(&source, format!("#include <{header}>\nint main(void) {{ return 0; }}\n"))
                .unwrap();
            let mut command = Command::new(compiler);
            command.args([
                "-x",
                language,
                &format!("-std={standard}"),
                "-Wall",
                "-Wextra",
                "-pedantic",
                "-Werror",
            ]);
            command.arg("-I").arg(dist().join("include")).args(["-fsyntax-only"]).arg(&source);
            run(&mut command, LIMIT).expect_success();
        }
    }
}

// Paper: C14, C17
#[test]
fn native_waits_look_at_their_partner() {
    let scratch = Scratch::new("native-partner");
    let compiled = compile("oshcc", "partner", scratch.path());
    for pes in ["2", "3"] {
        let ran = run(program("oshrun").args(["-n", pes]).arg(&compiled), LIMIT).expect_success();
        assert!(ran.stdout.contains("partner: ok\n"), "{ran}");
    }
}

/// The call says that the partner is away: never of any rank, so it fails where nobody looks at the partner.
// Paper: C14, C17
#[test]
fn native_wait_that_does_not_sleep_knows_whether_its_partner_is_away_on_this_node_and_on_another() {
    let scratch = Scratch::new("native-away");
    let compiled = compile("mpicc", "away", scratch.path());
    for (ranks, nodes, way) in [("2", "1", "near"), ("2", "2", "far"), ("4", "2", "far")] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", ranks, "--virtual-nodes", nodes]).arg(&compiled).arg(way);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("away: ok\n"), "{way}: {ran}");
    }
}

/// As performance variables while the job runs, and in the lines of `TUTTI_STATS` at its end.
#[test]
fn native_refused_operations_are_counted_by_reason() {
    let scratch = Scratch::new("native-refused");
    let compiled = compile("mpicc", "refused", scratch.path());
    for (form, line) in [
        (
            "json",
            "\"refused_operations\":{\"no_region\":1,\"no_right\":2,\"out_of_range\":3,\"unaligned\":4,\"malformed\":0,\"full\":5},",
        ),
        (
            "1",
            "rank 1: 15 operations on its memory refused: no_region 1, no_right 2, out_of_range 3, unaligned 4, malformed 0, full 5",
        ),
    ] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "2", "--virtual-nodes", "2"]).arg(&compiled).env("TUTTI_STATS", form);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("refused: ok\n"), "{ran}");
        assert_eq!(ran.stderr.matches(line).count(), 1, "{ran}");
    }
}

/// Without a daemon a job has a board of itself.
#[test]
fn native_board_of_a_job_without_daemon() {
    let scratch = Scratch::new("native-board");
    let compiled = compile("mpicc", "board", scratch.path());
    let mut command = program("mpiexec");
    command.env("TUTTI_DAEMON", "none").args(["-n", "2"]).arg(&compiled).arg("starter");
    let ran = run(&mut command, LIMIT).expect_success();
    assert!(ran.stdout.contains("board: ok\n"), "{ran}");
}

/// Ways to run a program: inside a node and on virtual nodes; between machines: `tests/machines`.
const WAYS: [&[&str]; 5] = [
    &["-n", "1"],
    &["-n", "2"],
    &["-n", "3"],
    &["-n", "2", "--virtual-nodes", "2"],
    &["-n", "4", "--virtual-nodes", "2"],
];

/// Runs a program in all these ways; it prints "SUBJECT: ok".
#[track_caller]
fn keeps_its_promises(program_name: &str, subject: &str) {
    let scratch = Scratch::new(&format!("native-{subject}"));
    let compiled = compile("mpicc", program_name, scratch.path());
    for way in WAYS {
        let ran = run(program("mpiexec").args(way).arg(&compiled), LIMIT).expect_success();
        assert!(ran.stdout.contains(&format!("{subject}: ok\n")), "{way:?}: {ran}");
    }
}

// Paper: M1, M2, C2, C4, C6, C8, C9, C10, C13
#[test]
fn native_regions_keep_their_promises_inside_a_node_and_between_virtual_nodes() {
    keeps_its_promises("region_operations", "regions");
}

/// Operations on memory of a mate by a thread that may make no system call but `read`, `write` and `exit`.
// Paper: C1
#[test]
fn native_operations_inside_a_node_make_no_system_call() {
    let scratch = Scratch::new("native-light");
    let compiled = compile("mpicc", "light_calls", scratch.path());
    let ran = run(program("mpiexec").args(["-n", "2"]).arg(&compiled), LIMIT).expect_success();
    assert!(ran.stdout.contains("light calls: ok\n"), "{ran}");
}

/// Operations under way when their region is closed end first, and nothing touches the memory afterwards.
#[test]
fn native_regions_are_closed_while_others_work_on_them() {
    keeps_its_promises("closing", "closing");
}

/// A thread that waits for a message of a queue which another one closes gets an error.
#[test]
fn native_queue_is_closed_while_threads_wait_for_a_message() {
    let scratch = Scratch::new("native-queue-closing");
    let compiled = compile("mpicc", "queue_closing", scratch.path());
    let ran = run(program("mpiexec").args(["-n", "1"]).arg(&compiled), LIMIT).expect_success();
    assert!(ran.stdout.contains("queue closing: ok\n"), "{ran}");
}

/// Long messages of several threads of a rank for one queue: each arrives whole.
#[test]
fn native_long_messages_of_threads_for_one_queue_of_another_node_arrive_whole() {
    let scratch = Scratch::new("native-senders");
    let compiled = compile("mpicc", "senders", scratch.path());
    let mut mpiexec = program("mpiexec");
    let ran = run(mpiexec.args(["-n", "2", "--virtual-nodes", "2"]).arg(&compiled), LIMIT).expect_success();
    assert!(ran.stdout.contains("senders: ok\n"), "{ran}");
}

// Paper: C13
#[test]
fn native_fence_is_pending_until_a_stopped_rank_of_another_node_goes_on() {
    let scratch = Scratch::new("native-fence");
    let compiled = compile("mpicc", "fence", scratch.path());
    let mut mpiexec = program("mpiexec");
    let ran = run(mpiexec.args(["--virtual-nodes", "2", "-n", "2"]).arg(&compiled), LIMIT).expect_success();
    assert!(ran.stdout.contains("fence: ok\n"), "{ran}");
}

/// C3: what is done to a rank that does not run is done without it, on another node by its starter; and once,
/// though the rank finds the same requests in its socket when it goes on.
// Paper: C3
#[test]
fn native_operations_on_a_stopped_rank_of_this_node_and_of_another_are_done_once() {
    let scratch = Scratch::new("native-stopped");
    let compiled = compile("mpicc", "stopped", scratch.path());
    for nodes in ["1", "2"] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "2", "--virtual-nodes", nodes]).arg(&compiled);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("stopped: ok\n"), "{nodes} nodes: {ran}");
    }
}

/// C11: messages that start a function of a receiver that computes.
// Paper: C11
#[test]
fn native_signals_keep_their_promises_inside_a_node_and_between_virtual_nodes() {
    keeps_its_promises("signals", "signals");
}

/// C12: the same bytes for many ranks with one combined acknowledgement.
// Paper: C12
#[test]
fn native_multicast_keeps_its_promises_inside_a_node_and_between_virtual_nodes() {
    keeps_its_promises("multicast", "multicast");
}

/// Tasks start each other, and nothing counts them; the status is as the program chooses.
// Paper: S22
#[test]
fn native_termination_reaches_every_rank_once() {
    let scratch = Scratch::new("native-terminated");
    let compiled = compile("mpicc", "terminated", scratch.path());
    let kinds = [("queue", &WAYS[..]), ("receive", &WAYS[2..4]), ("busy", &WAYS[2..4])];
    for (kind, way) in kinds.iter().flat_map(|(kind, ways)| ways.iter().map(move |way| (kind, way))) {
        let ran = run(program("mpiexec").args(*way).arg(&compiled).args([kind, "7"]), LIMIT);
        assert_eq!(ran.status.code(), Some(7), "{kind} {way:?}: {ran}");
        assert!(
            ran.stdout.contains("terminated: ok\n") && !ran.stderr.contains("for ever"),
            "{kind} {way:?}: {ran}"
        );
    }
}

/// A wait for a certain rank, a rank that gives no function, a function that changes nothing.
// Paper: S22
#[test]
fn native_termination_is_no_excuse_for_a_deadlock() {
    let scratch = Scratch::new("native-deadlock");
    let compiled = compile("mpicc", "terminated", scratch.path());
    for (kind, is_told) in [("nothing", true), ("certain", false), ("half", false), ("withdrawn", false)] {
        for way in &WAYS[1..4] {
            let mut mpiexec = program("mpiexec");
            mpiexec.args(["--on-deadlock", "end"]).args(*way).arg(&compiled).arg(kind);
            let ran = run(&mut mpiexec, LIMIT);
            assert_eq!(ran.status.code(), Some(35), "{kind} {way:?}: {ran}");
            let expected = if is_told { way[1].parse().expect("ranks") } else { 0 };
            assert_eq!(ran.stdout.matches("terminated: told\n").count(), expected, "{kind} {way:?}: {ran}");
            assert!(ran.stderr.contains("the ranks wait for each other for ever: "), "{kind} {way:?}: {ran}");
        }
    }
}

/// C12: what the origin sends and is answered does not grow with the nodes.
// Paper: C12
#[test]
fn native_multicast_over_a_tree_costs_the_origin_four_records_on_any_number_of_nodes() {
    let scratch = Scratch::new("native-tree");
    let compiled = compile("mpicc", "multicast_tree", scratch.path());
    for nodes in ["5", "6", "17", "64"] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", nodes, "--virtual-nodes", nodes]).arg(&compiled);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(
            ran.stdout.contains("tree: 40 records, 40 answers of 10 multicasts: ok\n"),
            "{nodes} nodes: {ran}"
        );
    }
}

/// Pieces for a rank that stands still wait at the origin.
// Paper: C12
#[test]
fn native_multicast_to_a_rank_that_stands_still_fills_the_memory_of_no_other() {
    let scratch = Scratch::new("native-slow");
    let compiled = compile("mpicc", "multicast_slow", scratch.path());
    let mut mpiexec = program("mpiexec");
    let ran = run(mpiexec.args(["-n", "7", "--virtual-nodes", "7"]).arg(&compiled), LIMIT).expect_success();
    assert!(ran.stdout.contains("slow: ok\n"), "{ran}");
}

/// Runs a program where datagrams are lost, come twice and out of order.
#[track_caller]
fn survives_faults(program_name: &str, subject: &str) {
    let scratch = Scratch::new(&format!("native-faults-{subject}"));
    let compiled = compile("mpicc", program_name, scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.env("TUTTI_TRANSPORT", "udp").env("LD_PRELOAD", tutti_tests::testing_library());
    mpiexec.env("TUTTI_FAULTS", format!("loss=2%,dup=1%,reorder=3%,seed={}", tutti_testkit::seed()));
    let ran = run(mpiexec.args(["-n", "3"]).arg(&compiled), LIMIT).expect_success();
    assert!(ran.stdout.contains(&format!("{subject}: ok\n")), "{ran}");
}

/// C7: each operation is done once.
// Paper: C7
#[test]
fn native_regions_are_exact_where_datagrams_are_lost() {
    survives_faults("region_operations", "regions");
}

#[test]
fn native_regions_are_closed_where_datagrams_are_lost() {
    survives_faults("closing", "closing");
}

// Paper: C11
#[test]
fn native_signals_are_exact_where_datagrams_are_lost() {
    survives_faults("signals", "signals");
}

// Paper: C12
#[test]
fn native_multicast_is_exact_where_datagrams_are_lost() {
    survives_faults("multicast", "multicast");
}

/// Places of the fields of a type here, as a line of C that holds if the header has them in the same places.
macro_rules! same_places {
    ($c:literal, $rust:ty, $($field:ident)*) => {
        [
            $(format!(
                "_Static_assert(offsetof({0}, {1}) == {2}, \"{0}.{1}\");\n",
                $c,
                stringify!($field),
                std::mem::offset_of!($rust, $field)
            ),)*
            format!("_Static_assert(sizeof({0}) == {1}, \"{0}\");\n", $c, size_of::<$rust>()),
        ]
        .concat()
    };
}

/// A program in C that reads a board by `tutti_board.h` alone; its arguments are the file and a node.
const READS_BOARD: &str = r#"
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tutti_board.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int file = argc == 3 ? open(argv[1], O_RDONLY) : -1;
    uint64_t node = strtoull(argv[2], NULL, 10);
    void *base = mmap(NULL, (size_t)lseek(file, 0, SEEK_END), PROT_READ, MAP_SHARED, file, 0);
    if (base == MAP_FAILED)
        return 1;
    const tutti_board *board = base;
    printf("%d %d ", board->magic == TUTTI_BOARD_MAGIC, board->bytes == (uint64_t)lseek(file, 0, SEEK_END));
    printf("%d ", board->kind == TUTTI_BOARD_OF_DAEMON);
    printf("%lu %lu %lu ", (unsigned long)board->own_node, (unsigned long)board->nodes, (unsigned long)board->refresh_ms);
    printf("%lu %lu\n", (unsigned long)board->written_ns, (unsigned long)board->congested_until_ns);
    tutti_board_node_line line;
    tutti_board_job_line job;
    tutti_board_running_line running;
    if (!tutti_board_node(board, node, &line) || !tutti_board_job(board, 0, &job)
        || !tutti_board_running(board, node, &running))
        return 2;
    printf("%d %lu %lu\n", line.state == TUTTI_NODE_UP, (unsigned long)line.cores, (unsigned long)line.jobs);
    printf("%lu %d %lu\n", (unsigned long)job.job_plus_1, job.state == TUTTI_JOB_RUNNING, (unsigned long)job.ranks);
    printf("%lu %lu %lu\n", (unsigned long)running.jobs, (unsigned long)running.job_plus_1[0], (unsigned long)running.job_plus_1[1]);
    return 0;
}
"#;

/// `tutti_board.h` and `tutti_shm::board` are written by hand, each for its readers.
#[test]
fn native_board_header_reads_what_a_daemon_writes() {
    let places = [
        same_places!("tutti_board_node_line", Node,
            updated_ns state cores runnable load_milli memory_bytes memory_available_bytes memory_pressure
            bytes_in_s bytes_out_s dropped_s retransmitted_s generation jobs),
        same_places!("tutti_board_job_line", Job,
            updated_ns job_plus_1 state since_ns frozen_ns_total thaw_count slice_end_ns generation ranks),
        same_places!("tutti_board_running_line", Running, updated_ns jobs job_plus_1),
        format!("_Static_assert(sizeof(tutti_board) <= {}, \"header\");\n", board::HEADER_BYTES),
    ];
    let scratch = Scratch::new("native-board-header");
    let (source, reader) = (scratch.path().join("reader.c"), scratch.path().join("reader"));
    std::fs::write(&source, format!("{READS_BOARD}{}", places.concat())).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"]);
    compiler.arg(root().join("bindings/native")).arg("-o").arg(&reader).arg(&source);
    run(&mut compiler, LIMIT).expect_success();

    let board = board::Board::create(board::OF_DAEMON, 250).unwrap();
    let file = board.reading_end().unwrap();
    let (mut nodes, mut jobs) = board.split();
    nodes.publish(3, 5, 7_000);
    nodes.publish_congestion(9_000);
    nodes.write(3, &Node { state: board::NODE_UP, cores: 12, jobs: 2, ..Node::default() });
    nodes.write_running(3, &Running::of([41, 43].into_iter()));
    let _job = jobs.begin(41, 8, 11).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let ran = run(Command::new(&reader).args([path.as_str(), "3"]), LIMIT).expect_success();
    assert_eq!(ran.stdout, "1 1 1 3 5 250 7000 9000\n1 12 2\n42 1 8\n2 42 44\n");
}
