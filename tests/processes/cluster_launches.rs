//! Launches on different machines of the lab, each on one alone: they find and reach each other by the word
//! of the daemons, and nobody else does.

use std::path::PathBuf;
use std::process::Command;

use tutti_testkit::{Need, skip};
use tutti_tests::{Ran, Scratch, compile, run};

use crate::LIMIT;
use crate::cluster::{Cluster, SLOWLY_LOST};
use crate::harness::Running;

/// Two machines, and the program that accepts and connects.
struct Sides {
    cluster: Cluster,
    _scratch: Scratch,
    launches: PathBuf,
}

impl Sides {
    /// None where there can be no lab.
    fn new(name: &str) -> Option<Self> {
        let cluster = Cluster::on_machines(2, &SLOWLY_LOST)?;
        let scratch = Scratch::new(&format!("{name}-files"));
        let launches = compile("tests/processes/programs/launches.c", scratch.path());
        Some(Sides { cluster, _scratch: scratch, launches })
    }

    /// A file that both machines have.
    fn file(&self, name: &str) -> Shared {
        let inside = format!("/home/alice/{name}");
        Shared { inside, outside: self.cluster.lab().home().join("alice").join(name) }
    }

    fn side_of(&self, user: &'static str, place: [&str; 2], words: [&str; 3]) -> Command {
        let mut tutti = self.cluster.lab().node(0).user(user).command("tutti");
        tutti.args(["run", "-H", place[0], "-n", place[1]]).arg(&self.launches).args(words);
        tutti
    }

    fn side(&self, place: [&str; 2], words: [&str; 3]) -> Command {
        self.side_of("root", place, words)
    }

    #[track_caller]
    fn run(&self, place: [&str; 2], words: [&str; 3]) -> Ran {
        run(&mut self.side(place, words), LIMIT)
    }
}

/// A file of the shared home: as machines name it, and as it is seen here.
struct Shared {
    inside: String,
    outside: PathBuf,
}

#[test]
fn launches_on_two_nodes_connect_by_a_port_and_an_ended_one_is_refused() {
    let Some(sides) = Sides::new("launches-far") else { return };
    let Shared { inside: file, outside } = sides.file("port");
    let file = file.as_str();
    for ranks in [["1", "1"], ["2", "3"]] {
        let _ = std::fs::remove_file(&outside);
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
    let Shared { inside: file, .. } = sides.file("port");
    let file = file.as_str();
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

/// Starter of the program, made by the daemon of its node: its server keeps the name.
#[test]
fn program_without_mpiexec_publishes_a_name_for_other_nodes() {
    let Some(sides) = Sides::new("launches-far-alone") else { return };
    let name = format!("lake-{}", std::process::id());
    // As a user's shell on that machine would start it.
    let mut alone = sides.cluster.program_on(1, &sides.launches);
    let mut accept = Running::start_command(alone.args(["accept", &name, "say"]));
    accept.await_line("found");
    let connected = sides.run(["node0", "2"], ["connect", &name, ""]).expect_success();
    assert_eq!((&*connected.stdout, &*connected.stderr), ("connected\n", ""), "{connected}");
    let (status, errors, lines) = accept.end_with_output();
    assert_eq!((status, &*errors, &*lines.join(" ")), (0, "", "found accepted"));
}

/// Another user who has read the port's name somewhere is another user still.
#[test]
fn launch_on_another_node_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root's lab has machines with users");
    }
    let Some(sides) = Sides::new("launches-far-users") else { return };
    let Shared { inside: file, outside } = sides.file("port");
    let file = file.as_str();
    let mut accept =
        Running::start_command(&mut sides.side_of("alice", ["node1", "1"], ["accept", file, "say"]));
    accept.await_line("found");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(outside.parent().expect("a home"), everybody).expect("it is there");
    let connect = |user, how| run(&mut sides.side_of(user, ["node0", "1"], ["connect", file, how]), LIMIT);
    let ran = connect("bob", "refused").expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("refused\n", ""), "{ran}");
    connect("alice", "").expect_success();
    assert_eq!(accept.end(), (0, String::new()));
}
