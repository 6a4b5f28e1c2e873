//! New processes, ports and published names between machines.

use std::path::PathBuf;
use std::time::Duration;

use tutti_testkit::lab::{Lab, Terms};
use tutti_tests::machines::{Case, Machines};
use tutti_tests::run;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn machines_spawned_ranks_have_a_world_of_their_own_on_three() {
    let Some(machines) = Machines::up("spawn", 3, &[]) else { return };
    let spawn = machines.compile("mpicc", "tests/processes/programs/spawn.c");
    let shared = machines.compile("mpicc", "tests/processes/programs/spawn_shared.c");
    let job = |nodes: u32, ranks: u32, universe: &str| {
        let mut command = machines.launch(nodes, ranks);
        command.args(["--universe", universe]).env("PARENTS", ranks.to_string());
        command
    };
    for (nodes, ranks) in [(2, 2), (3, 3)] {
        let ran = run(job(nodes, ranks, "12").arg(&spawn), LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ranks} on {nodes}: {ran}");
    }
    let ran = run(job(3, 3, "9").arg(&spawn).args(["places", "3"]), LIMIT).expect_success();
    assert_eq!(ran.stdout, "nodes 0 1 2\n", "{ran}");
    let ran = run(job(3, 3, "6").arg(&spawn).args(["emptied", "10"]), LIMIT).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ran}");
    let ran = run(job(3, 3, "8").arg(&shared).arg(machines.file("shared").0), LIMIT).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("windows and files are right\n", ""), "{ran}");
    let ran = run(job(3, 3, "6").arg(&spawn).arg("killed"), LIMIT);
    assert!(ran.code() == 137 && ran.stderr.lines().count() == 1, "{ran}");
}

/// No message is lost, doubled or out of order in any of the moves, on cables that lose frames.
// Paper: C24
#[test]
fn machines_worker_moves_itself_from_node_to_node_and_loses_no_message() {
    let terms = Terms::default().loss(1.0).seed(tutti_testkit::seed());
    let plan = Lab::plan(3).cables(terms);
    let Some(machines) = Machines::up_by("moving", &plan, &["--lost-after", "20"]) else { return };
    let program = machines.compile("mpicc", "examples/move.c");
    let mut command = machines.launch(3, 3);
    let ran =
        run(command.args(["--universe", "12"]).arg(&program).args(["1000", "40"]), LIMIT).expect_success();
    // A board may be a moment behind the cluster: then it names two nodes.
    let moved = |nodes: u32| format!(" numbers, 40 moves over {nodes} nodes: the sum is as expected\n");
    assert!(ran.stdout.ends_with(&moved(3)) || ran.stdout.ends_with(&moved(2)), "{ran}");
}

/// Jobs with ranks that move, on three machines whose cables lose 1 % of the frames.
struct Moves {
    machines: Machines,
    program: PathBuf,
}

impl Moves {
    fn up(name: &str) -> Option<Self> {
        let terms = Terms::default().loss(1.0).seed(tutti_testkit::seed());
        let plan = Lab::plan(3).cables(terms);
        let machines = Machines::up_by(name, &plan, &["--lost-after", "20"])?;
        let program = machines.compile_by("mpicc", &["-ltutti"], "tests/processes/programs/moves.c");
        Some(Moves { machines, program })
    }

    #[track_caller]
    fn pass(&self, (nodes, ranks): (u32, u32), words: &[&str], limit: Duration) {
        let mut command = self.machines.launch(nodes, ranks);
        command.args(["--universe", "16"]).arg(&self.program).args(words);
        let ran = run(&mut command, limit).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("moves are right\n", ""), "{words:?}: {ran}");
    }
}

/// Each rank of MPI_COMM_WORLD moves from node to node, and no message is lost, doubled or out of order.
// Paper: C24
#[test]
fn machines_ranks_of_a_world_move_from_node_to_node_and_lose_no_message() {
    let Some(moves) = Moves::up("moves") else { return };
    moves.pass((3, 3), &["ring", "18", "3"], LIMIT * 2);
    // The only node of a job has its name, too.
    moves.pass((1, 2), &["ring", "2", "0"], LIMIT);
}

/// Rows, columns, a grid, a graph, an intercommunicator, groups and datatypes go on, with what waits in each.
// Paper: C24
#[test]
fn machines_ranks_move_with_all_their_communicators() {
    let Some(moves) = Moves::up("moves-comms") else { return };
    moves.pass((3, 4), &["comms", "9", "3"], LIMIT * 2);
}

/// Files of a file system that all machines share stay open over the moves of ranks, and persistent
/// requests go on.
// Paper: C24
#[test]
fn machines_ranks_move_with_their_files_and_requests() {
    let terms = Terms::default().loss(1.0).seed(tutti_testkit::seed());
    let plan = Lab::plan(3).cables(terms);
    let Some(machines) = Machines::up_by("moves-kept", &plan, &["--lost-after", "20"]) else { return };
    let program = machines.compile_by("mpicc", &["-ltutti"], "tests/processes/programs/moves_kept.c");
    for words in [["files", "9", "3"], ["requests", "9", "3"]] {
        let mut command = machines.launch(3, 3);
        command.args(["--universe", "16"]).arg(&program).args(words).arg(machines.file("grid").0);
        let ran = run(&mut command, LIMIT * 2).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("moves are right\n", ""), "{words:?}: {ran}");
    }
}

/// The example gives the same numbers wherever its ranks are.
#[test]
fn machines_ranks_that_evade_compute_what_others_do() {
    let Some(machines) = Machines::up("evade", 2, &["--lost-after", "20"]) else { return };
    let program = machines.compile_by("mpicc", &["-ltutti"], "examples/evade.c");
    let sum = |moves: &str| {
        let mut command = machines.launch(2, 2);
        command.args(["--universe", "8"]).arg(&program).args(["120", moves]);
        let ran = run(&mut command, LIMIT).expect_success();
        let begin = format!("120 steps, {moves} moves: the sum is ");
        ran.stdout.strip_prefix(&begin).unwrap_or_else(|| panic!("{moves} moves: {ran}")).to_owned()
    };
    assert_eq!(sum("4"), sum("1"));
}

#[test]
#[ignore = "minutes: make soak-moves"]
fn machines_ranks_of_a_world_move_soak() {
    let moves: u32 = std::env::var("TUTTI_MOVES").ok().and_then(|moves| moves.parse().ok()).unwrap_or(1000);
    let Some(jobs) = Moves::up("moves-soak") else { return };
    let limit = LIMIT * (4 + moves / 50);
    let number = moves.to_string();
    jobs.pass((3, 3), &["ring", &number, "3"], limit);
    jobs.pass((3, 4), &["comms", &number, "3"], limit);
}

#[test]
fn machines_ports_and_names_connect_groups_of_a_job_on_three() {
    let Some(machines) = Machines::up("ports", 3, &[]) else { return };
    let case = |source, arguments, says| Case { wrapper: "mpicc", source, ranks: &[3, 5], arguments, says };
    machines.pass(&[
        case("tests/processes/programs/ports.c", &["between machines"], "ports are right\n"),
        case("tests/processes/programs/names.c", &[], "names are right\n"),
    ]);
}

/// Two launches, each on a machine of its own: by a port, and by a name.
#[test]
fn machines_launches_connect_by_a_port_and_by_a_name() {
    let Some(machines) = Machines::up("launches", 3, &[]) else { return };
    let launches = machines.compile("mpicc", "tests/processes/programs/launches.c");
    let side = |node: &str, ranks: &str, words: [&str; 3]| {
        let mut command = machines.command(0, "tutti");
        command.args(["run", "-H", node, "-n", ranks]).arg(&launches).args(words);
        command
    };
    let port = machines.file("port").0;
    for place in [port.to_str().expect("text"), "ocean"] {
        let mut accept = side("node1", "1", ["accept", place, "say"]);
        let accept = std::thread::spawn(move || run(&mut accept, LIMIT));
        // It looks for the port or the name until it is there.
        let connected = run(&mut side("node2", "2", ["connect", place, ""]), LIMIT);
        let accepted = accept.join().expect("it ends").expect_success();
        let connected = connected.expect_success();
        assert_eq!((&*connected.stdout, &*connected.stderr), ("connected\n", ""), "{place}: {connected}");
        assert!(accepted.stdout.ends_with("accepted\n") && accepted.stderr.is_empty(), "{place}: {accepted}");
    }
}
