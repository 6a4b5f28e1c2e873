//! Regions that a job of another machine has published.

use std::process::{Child, Stdio};
use std::time::Duration;

use tutti_testkit::await_that;
use tutti_tests::machines::Machines;
use tutti_tests::run;

const LIMIT: Duration = Duration::from_secs(60);

/// A server on machine 1 that has published its regions.
fn serve(machines: &Machines, prefix: &str) -> Child {
    let server = machines.compile("mpicc", "tests/published/programs/server.c");
    let (_, said) = machines.file("server-says");
    let mut command = machines.command(0, "tutti");
    command.args(["run", "-H", "node1", "-n", "1"]).arg(server).args([prefix, "user"]);
    let out = std::fs::File::create(&said).expect("a file");
    let child = command.stdin(Stdio::null()).stdout(out).spawn().expect("tutti run");
    await_that("the server is ready", || {
        std::fs::read_to_string(&said).is_ok_and(|text| text.lines().any(|line| line == "ready"))
    });
    child
}

/// C3: the starter of a rank that stands still does operations on its memory for ranks of other machines.
// Paper: C3
#[test]
fn machines_operations_on_a_stopped_rank_of_another_machine_are_done_once() {
    let Some(machines) = Machines::up("regions-stopped", 2, &[]) else { return };
    let stopped = machines.compile("mpicc", "tests/native/programs/stopped.c");
    let (folder, outside) = machines.file("stopped");
    run(machines.command(0, "mkdir").arg(&folder), LIMIT).expect_success();
    let ran = run(machines.launch(2, 2).arg(stopped).arg(&folder), LIMIT).expect_success();
    assert!(ran.stdout.contains("stopped: ok\n"), "{ran}");
    for file in ["stop", "stopped", "go on"] {
        assert!(outside.join(file).exists(), "rank 1 was stopped, and went on");
    }
}

#[test]
fn machines_published_region_keeps_its_rights_for_clients_of_another_machine() {
    let Some(machines) = Machines::up("regions", 3, &[]) else { return };
    let mut server = serve(&machines, "vault");
    let client = machines.compile("mpicc", "tests/published/programs/client.c");
    let ask = |words: &[&str]| run(machines.command(2, &client).args(words), LIMIT);
    for (what, more) in [("rights", None), ("threads", None), ("work", Some("100"))] {
        let words: Vec<&str> = [what, "vault@node1"].into_iter().chain(more).collect();
        let ran = ask(&words).expect_success();
        assert!(ran.stdout.contains(&format!("{what}: ok\n")), "{what}: {ran}");
    }
    // Another user of that machine, to whom it is not published.
    let stranger =
        run(machines.lab.node(2).user("bob").command(&client).args(["status", "vault@node1"]), LIMIT);
    assert!(!stranger.stdout.contains("status 0\n"), "{stranger}");
    let ran = ask(&["send", "vault@node1", "end"]).expect_success();
    assert!(ran.stdout.contains("send: ok\n"), "{ran}");
    assert!(server.wait().expect("it ends").success());
}
