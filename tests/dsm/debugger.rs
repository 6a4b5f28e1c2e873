//! A program that faults by design, under gdb.

use tutti_testkit::{Need, has_command};
use tutti_tests::{Scratch, program, run};

use super::{LIMIT, compile_twin, launch};

/// As docs/user/shared-memory.md says: gdb passes the signals on, and a breakpoint still stops.
#[test]
fn dsm_program_runs_under_gdb_that_passes_its_faults_on() {
    if !has_command(Need::Gdb, "gdb") {
        return;
    }
    let scratch = Scratch::new("dsm-gdb");
    let compiled = compile_twin("examples/shared/sor.c", &scratch);
    let arguments = ["64", "4", "2"];
    let alone = launch(&compiled, 2, 2, &arguments).expect_success();
    let mut command = program("mpiexec");
    command.args(["-n", "2", "--virtual-nodes", "2", "gdb", "-nx", "-batch"]);
    command.args(["-iex", "set debuginfod enabled off", "-ex", "handle SIGSEGV SIGBUS nostop noprint pass"]);
    command.args(["-ex", "break main", "-ex", "run", "-ex", "continue", "--args"]).arg(&compiled);
    let ran = run(command.args(arguments), LIMIT).expect_success();
    assert!(ran.stdout.contains(alone.stdout.trim()), "{alone}\n{ran}");
    assert_eq!(ran.stdout.matches("exited normally").count(), 2, "{ran}");
    assert_eq!(ran.stdout.matches("Breakpoint 1, ").count(), 2, "{ran}");
    assert!(!ran.stdout.contains("received signal"), "{ran}");
}
