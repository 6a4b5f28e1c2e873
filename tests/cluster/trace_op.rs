//! `tutti trace-op` on the nodes of a cluster. What it prints is checked in `tests/native/trace_op.rs`.

use crate::Cluster;

// Paper: D10
#[test]
fn trace_op_takes_operations_between_two_nodes_of_a_cluster_apart() {
    let Some(cluster) = Cluster::on_machines(2, &[]) else { return };
    let words = ["trace-op", "fetch-add", "--count", "50", "--place", "nodes", "--json", "--host"];
    // What a busy machine is late to acknowledge is sent again, and its operation counts as incomplete.
    let measure = || {
        let ran = cluster.tutti(&[&words[..], &["node1,node0"]].concat()).expect_success();
        let reports: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
        (reports[0].clone(), ran)
    };
    let (report, ran) = (0..20)
        .map(|_| measure())
        .find(|(report, _)| report["incomplete"] == 0)
        .expect("one of twenty measurements without a datagram that is late");
    assert_eq!((&report["place"], &report["operations"]), (&"between two nodes".into(), &50.into()), "{ran}");
    // Each of the three has a system call of its own: there was a message each way.
    for part in ["ta", "tb", "tc"] {
        let calls = [&report[part]["send_ns"], &report[part]["recv_ns"]];
        assert!(calls.iter().any(|ns| ns.as_f64().is_some_and(|ns| ns > 0.0)), "{part}: {ran}");
    }
    let ran = cluster.tutti(&[&words[..], &["node1,moon"]].concat());
    assert!(!ran.status.success() && ran.stderr.contains("moon is not a node of this cluster"), "{ran}");
}
