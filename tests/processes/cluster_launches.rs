//! Launches on different nodes of a cluster, each on one node alone: they find and reach each other by the
//! word of the daemons, and nobody else does.

use std::path::{Path, PathBuf};
use std::process::Command;

use tutti_testkit::{Need, skip};
use tutti_tests::users::Users;
use tutti_tests::{Ran, Scratch, compile, program, run};

use crate::LIMIT;
use crate::cluster::Cluster;
use crate::harness::Running;

/// Two nodes in network namespaces of their own: nothing but the network is between them.
fn two_nodes(name: &str) -> Option<Cluster> {
    has_namespaces().then(|| Cluster::up(name, 2, &["--netns", "--lost-after", "12"]))
}

fn has_namespaces() -> bool {
    let probe = program("mpiexec").args(["--netns", "2", "-n", "2", "true"]).output().expect("mpiexec");
    if !probe.status.success() {
        skip(Need::NetworkNamespace, String::from_utf8_lossy(&probe.stderr));
    }
    probe.status.success()
}

/// One side on a node, whose files for launches of its own node are in a folder of its own.
fn side(mut tutti: Command, place: [&str; 2], launches: &Path, folder: &Path, words: [&str; 3]) -> Command {
    tutti.args(["run", "-H", place[0], "-n", place[1], "env"]);
    tutti.arg(format!("TUTTI_DIR={}", folder.join(place[0]).display())).arg(launches).args(words);
    tutti
}

struct Sides {
    cluster: Cluster,
    scratch: Scratch,
    launches: PathBuf,
}

impl Sides {
    fn new(name: &str) -> Option<Self> {
        let cluster = two_nodes(name)?;
        let scratch = Scratch::new(&format!("{name}-files"));
        let launches = compile("tests/processes/programs/launches.c", scratch.path());
        Some(Sides { cluster, scratch, launches })
    }

    fn side(&self, place: [&str; 2], words: [&str; 3]) -> Command {
        side(self.cluster.command(&[]), place, &self.launches, self.scratch.path(), words)
    }

    #[track_caller]
    fn run(&self, place: [&str; 2], words: [&str; 3]) -> Ran {
        run(&mut self.side(place, words), LIMIT)
    }
}

#[test]
fn launches_on_two_nodes_connect_by_a_port_and_an_ended_one_is_refused() {
    let Some(sides) = Sides::new("launches-far") else { return };
    let file = sides.scratch.path().join("port");
    let file = file.to_str().expect("a path of text");
    for ranks in [["1", "1"], ["2", "3"]] {
        let _ = std::fs::remove_file(file);
        let mut accept =
            Running::start_command(&mut sides.side(["node1", ranks[0]], ["accept", file, "say"]));
        accept.await_line("found");
        let connected = sides.run(["node0", ranks[1]], ["connect", file, ""]).expect_success();
        let (status, errors, lines) = accept.end_with_output();
        assert_eq!((status, &*errors, &*lines.join(" ")), (0, "", "found accepted"), "{ranks:?}");
        assert_eq!((&*connected.stdout, &*connected.stderr), ("connected\n", ""), "{ranks:?}");
    }
    let ran = sides.run(["node0", "2"], ["connect", file, "refused"]).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("refused\n", ""), "{ran}");
}

#[test]
fn launch_that_ends_on_another_node_is_an_error_of_the_other_one() {
    let Some(sides) = Sides::new("launches-far-die") else { return };
    let file = sides.scratch.path().join("port");
    let file = file.to_str().expect("a path of text");
    let mut accept = Running::start_command(&mut sides.side(["node1", "2"], ["accept", file, "die"]));
    let connected = sides.run(["node0", "2"], ["connect", file, "die"]).expect_success();
    assert_eq!((connected.stdout.as_str(), accept.try_await_line("accepted")), ("connected\n", false));
    assert_eq!(accept.end().0, 137);
}

/// A name is kept by the launch: the daemon may be another one when it is looked up.
#[test]
fn launches_on_two_nodes_find_a_name_though_a_daemon_was_killed_since() {
    let Some(sides) = Sides::new("launches-far-names") else { return };
    let name = format!("ocean-{}", std::process::id());
    let mut accept = Running::start_command(&mut sides.side(["node1", "2"], ["accept", &name, "say"]));
    accept.await_line("found");
    sides.cluster.replace(1);
    let connected = sides.run(["node0", "2"], ["connect", &name, ""]).expect_success();
    assert_eq!((&*connected.stdout, &*connected.stderr), ("connected\n", ""), "{connected}");
    let (status, errors, lines) = accept.end_with_output();
    assert_eq!((status, &*errors, &*lines.join(" ")), (0, "", "found accepted"));
}

/// It gets a starter, whose server keeps the name: by the daemon of its node.
#[test]
fn program_without_mpiexec_publishes_a_name_for_other_nodes() {
    let Some(sides) = Sides::new("launches-far-alone") else { return };
    let name = format!("lake-{}", std::process::id());
    // As a user's shell on that node would start it.
    let mut alone = sides.cluster.command(&["run", "-H", "node1", "-n", "1", "env"]);
    for variable in ["TUTTI_TICKET", "TUTTI_BOARD"] {
        alone.args(["-u", variable]);
    }
    alone.arg(format!("TUTTI_DAEMON={}", sides.cluster.folder.join("node1.sock").display()));
    alone.arg(format!("TUTTI_DIR={}", sides.scratch.path().join("alone").display()));
    let mut accept = Running::start_command(alone.arg(&sides.launches).args(["accept", &name, "say"]));
    accept.await_line("found");
    let connected = sides.run(["node0", "2"], ["connect", &name, ""]).expect_success();
    assert_eq!((&*connected.stdout, &*connected.stderr), ("connected\n", ""), "{connected}");
    let (status, errors, lines) = accept.end_with_output();
    assert_eq!((status, &*errors, &*lines.join(" ")), (0, "", "found accepted"));
}

/// Whoever has read the port's name somewhere is another user still.
#[test]
fn launch_on_another_node_of_another_user_is_refused() {
    if !has_namespaces() {
        return;
    }
    let Some(users) = Users::new("tutti-launches-far", 2) else { return };
    let scratch = Scratch::new("launches-far-users");
    let [owner, other] = users.uids() else { panic!("two users") };
    let launches = users.reachable(&compile("tests/processes/programs/launches.c", scratch.path()));
    let options = ["--netns", "--lost-after", "12"];
    let cluster = Cluster::up_at(users.root().join("cluster"), users.programs().to_owned(), 2, &options);
    let file = users.folder(*owner).join("port");
    let file = file.to_str().expect("a path of text");
    let side = |uid: u32, node: &str, words: [&str; 3]| {
        let mut tutti = users.command(uid, "tutti", &[]);
        tutti.env("TUTTI_DAEMON", cluster.folder.join("tuttid.sock"));
        side(tutti, [node, "1"], &launches, &users.folder(uid), words)
    };
    let mut accept = Running::start_command(&mut side(*owner, "node1", ["accept", file, "say"]));
    accept.await_line("found");
    let ran = run(&mut side(*other, "node0", ["connect", file, "refused"]), LIMIT).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("refused\n", ""), "{ran}");
    run(&mut side(*owner, "node0", ["connect", file, ""]), LIMIT).expect_success();
    assert_eq!(accept.end(), (0, String::new()));
}
