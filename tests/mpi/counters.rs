//! What a job has counted: as performance variables (MPI 15.3), and as TUTTI_STATS prints it at the end.

use tutti_tests::{Scratch, compile, program, run};

use crate::{LIMIT, conforms};

#[test]
fn tool_interface_reads_cvars_and_pvars() {
    conforms("tool_information", &[1, 2, 3]);
}

#[test]
fn tool_events_reach_callbacks_of_each_safety() {
    conforms("tool_events", &[2, 3]);
}

// Paper: M17
#[test]
fn stats_report_data_rate_message_rate_and_remote_copy_share() {
    let scratch = Scratch::new("mpi-counters");
    let compiled = compile("tests/mpi/programs/tool_information.c", scratch.path());
    let stats = |form: &str| {
        let mut mpiexec = program("mpiexec");
        run(mpiexec.args(["-n", "2"]).arg(&compiled).env("TUTTI_STATS", form), LIMIT).expect_success()
    };
    let table = stats("1").stderr;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("tutti: what 2 ranks have sent and received in "), "{table}");
    let heads: Vec<&str> = lines[1].split_whitespace().take(3).collect();
    assert_eq!(heads, ["rank", "messages", "bytes"], "{table}");
    // Each rank sends 12 messages of 100 bytes; how failures are added up at the end may take more.
    let sum: Vec<u64> = lines[4].split_whitespace().skip(1).map(|word| word.parse().expect(word)).collect();
    assert!(sum[0] >= 24 && sum[1] >= 2400, "{table}");
    for unit in [" MB/s, ", " messages/s, ", " % of the bytes "] {
        assert!(lines[5].contains(unit), "{table}");
    }
    let json = stats("json").stderr;
    assert!(
        json.starts_with("{\"ranks\":[{\"rank\":0,\"messages_sent\":") && json.ends_with("}\n"),
        "{json}"
    );
    assert!(json.contains("\"messages_per_s\":") && json.contains("\"remote_percent\":"), "{json}");
    assert_eq!(stats("0").stderr, "");
}
