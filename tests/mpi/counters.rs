//! Counters of a job: as performance variables (MPI 15.3), and as TUTTI_STATS prints them at the end.

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
    assert!(json.contains("\"messages_per_s\":") && json.contains("\"written_percent\":"), "{json}");
    assert_eq!(stats("0").stderr, "");
}

/// Two ranks on two nodes: each node prints the table of its rank, and the front end what both have done.
// Paper: M17
#[test]
fn stats_of_several_nodes_are_added_up_by_table_5_of_the_paper() {
    let scratch = Scratch::new("mpi-counters-nodes");
    let compiled = compile("tests/mpi/programs/tool_information.c", scratch.path());
    let stats = |options: &[&str], form: &str| {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(options).args(["-n", "2"]).arg(&compiled).env("TUTTI_STATS", form);
        run(&mut mpiexec, LIMIT).expect_success().stderr
    };
    for (options, nodes) in [(&["--virtual-nodes", "2"][..], 2), (&[][..], 1)] {
        let text = stats(options, "json");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON"));
        let lines: Vec<serde_json::Value> = lines.collect();
        let of_nodes: Vec<_> = lines.iter().filter(|line| line["ranks"].is_array()).collect();
        let jobs: Vec<_> = lines.iter().map(|line| &line["job"]).filter(|job| job.is_object()).collect();
        assert_eq!((of_nodes.len(), jobs.len()), (nodes, 1), "{text}");
        let job = jobs[0];
        assert_eq!((job["ranks"].as_u64(), job["nodes"].as_u64()), (Some(2), Some(nodes as u64)), "{text}");
        let ranks = || of_nodes.iter().flat_map(|node| node["ranks"].as_array().expect("ranks"));
        let counters = of_nodes[0]["ranks"][0].as_object().expect("counters").keys();
        let counters: Vec<_> =
            counters.filter(|name| !["rank", "seconds"].contains(&name.as_str())).collect();
        assert_eq!(counters.len(), 13, "{counters:?}");
        for name in counters {
            let sum: u64 = ranks().map(|rank| rank[name].as_u64().expect(name)).sum();
            assert_eq!(job[name].as_u64(), Some(sum), "{name}: {text}");
        }
        let number = |name: &str| job[name].as_f64().expect(name);
        let share = 100.0 * number("written_bytes") / number("bytes_sent");
        assert!((number("written_percent") - share).abs() < 0.01, "{text}");
        let table = stats(options, "1");
        let line = table.lines().filter(|line| line.starts_with("tutti: the whole job, 2 ranks on ")).count();
        assert_eq!(line, 1, "{table}");
    }
    assert_eq!(stats(&["--virtual-nodes", "2"], "0"), "");
}
