//! The global memory of a user's programs, by OpenSHMEM and by DSE, is nobody else's.

use tutti_tests::{LIMIT, Scratch, run};

use crate::Machine;
use crate::harness::Running;

/// Users: the attacked one, and the attacker.
const HONEST: usize = 0;
const HOSTILE: usize = 1;
/// Folder of files that all may see.
const FOLDERS: &str = "/dev/shm /run /var/tmp";

#[test]
fn heaps_of_another_users_programs_are_not_reached() {
    let Some(machine) = Machine::up("hostile-heaps", 1, 2, &[]) else { return };
    let scratch = Scratch::new("hostile-heaps-programs");
    let heaps = tutti_tests::compile_with("oshcc", "tests/hostile/programs/heaps.c", scratch.path());
    let heaps = machine.users.reachable(&heaps);
    let reach = machine.compile("tests/hostile/programs/reach.c");
    for kind in ["shmem", "dse"] {
        let words = ["run", "-n", "2", heaps.to_str().expect("ours"), kind];
        let mut job = Running::start_command(&mut machine.mpi(HONEST, 0, &words));
        job.await_line("up");
        let processes = machine.users.processes(machine.uid(HONEST));
        assert!(processes.len() >= 3, "starter and ranks: {processes:?}");
        let mut tries = machine.users.foreign(machine.uid(HOSTILE), &reach);
        tries.args(processes.iter().map(|pid| pid.as_raw_nonzero().to_string()));
        assert_eq!(run(&mut tries, LIMIT).expect_success().stdout, "tried\n", "{kind}");
        // Its owner would.
        let mut own = machine.users.foreign(machine.uid(HONEST), &reach);
        own.arg(std::process::id().to_string()).arg(processes[0].as_raw_nonzero().to_string());
        assert!(run(&mut own, LIMIT).expect_success().stdout.contains("got a signal"), "{kind}");
        let uid = machine.uid(HONEST);
        let search =
            format!("find {FOLDERS} -user {uid} \\( -readable -o -writable \\) ! -type l 2>/dev/null; true");
        let ran = run(&mut machine.script(HOSTILE, &search), LIMIT).expect_success();
        assert_eq!(ran.stdout, "", "{kind}: files that another user may open");
        job.signal(rustix::process::Signal::TERM);
        job.end();
    }
}
