//! Limits and queues of the configuration: what can never be is refused with its place, what cannot be now
//! waits.

use std::time::Instant;

use tutti_tests::program;

use crate::Cluster;
use crate::configuration::up_with;
use crate::harness::LIMIT;

/// The number that `tutti submit` prints.
#[track_caller]
fn submit(cluster: &Cluster, words: &[&str]) -> u32 {
    let ran = cluster.tutti(&[&["submit"], words].concat()).expect_success();
    ran.stdout.trim().trim_start_matches("job ").parse().expect("a number")
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

const USER: &str = "[limits.user.root]\nranks = 4\njobs = 1\ntime = \"10m\"\nweight_max = 200\nexclusive = false\n\
                    [queue.short]\ntime = \"1s\"\nnodes = [\"node1\"]\nweight = 70\n";

#[test]
fn limits_refuse_what_can_never_be_and_let_wait_what_cannot_be_now() {
    let (cluster, file) = up_with("limits-user", 2, USER);
    let place = |line: u32| format!("[limits.user.root] in {}:{line}", file.display());
    let refused = |words: &[&str], text: &str| {
        let ran = cluster.tutti(&[&["run"], words, &["true"]].concat());
        assert!(ran.code() != 0 && ran.stderr.contains(text) && ran.stderr.lines().count() == 1, "{ran}");
    };
    refused(&["-n", "5"], &format!("ranks: 5 is more than the 4 that root may have: {}", place(2)));
    refused(&["-n", "1", "--time", "11m"], &format!("--time: 11m is more than the 10m of {}", place(4)));
    refused(
        &["-n", "1", "--weight", "201"],
        &format!("a weight of 201 is more than the 200 of root: {}", place(5)),
    );
    refused(
        &["-n", "1", "--exclusive"],
        &format!("root may have no nodes alone (--exclusive): {}", place(6)),
    );
    refused(&["-n", "1", "--queue", "long"], "there is no queue \"long\"; there are: short");
    refused(
        &["-n", "1", "--queue", "short", "--host", "node0"],
        "node node0 is not one of queue short: node1",
    );
    let first = submit(&cluster, &["-n", "2", "sleep", "1000"]);
    until("the first runs", || cluster.job(first).contains("\"running\""));
    let second = submit(&cluster, &["-n", "1", "true"]);
    let why = format!("root has 1 of 1 jobs: {}", place(3));
    until("the second waits and says why", || cluster.job(second).contains(&why));
    cluster.tutti(&["kill", &first.to_string()]).expect_success();
    cluster.tutti(&["wait", &second.to_string()]).expect_success();
    // A limit that is raised lets the next one go at once.
    let first = submit(&cluster, &["-n", "1", "sleep", "1000"]);
    let second = submit(&cluster, &["-n", "1", "true"]);
    until("it waits", || cluster.job(second).contains(&why));
    std::fs::write(&file, USER.replace("jobs = 1", "jobs = 2")).expect("a file");
    cluster.tutti(&["reload"]).expect_success();
    cluster.tutti(&["wait", &second.to_string()]).expect_success();
    cluster.tutti(&["kill", &first.to_string()]).expect_success();
    let _ = std::fs::remove_file(file);
}

#[test]
fn limits_let_wait_what_a_user_declares_beyond_the_memory_of_a_node() {
    let (cluster, file) = up_with("limits-node", 2, "[limits]\nmemory_per_node = \"200M\"\n");
    let job = |memory: &str, node: &str, words: &[&str]| {
        submit(&cluster, &[&["-n", "1", "--memory", memory, "--host", node], words].concat())
    };
    let first = job("150M", "node0", &["sleep", "1000"]);
    until("the first runs", || cluster.job(first).contains("\"running\""));
    let second = job("100M", "node0", &["true"]);
    let why = format!(
        "root has declared 150 MiB of 200 MiB of memory on node node0: [limits] in {}:2",
        file.display()
    );
    until("the second waits and says why", || cluster.job(second).contains(&why));
    // Elsewhere there is room, and beside it for who declares less or nothing.
    for other in [job("100M", "node1", &["true"]), job("50M", "node0", &["true"])] {
        cluster.tutti(&["wait", &other.to_string()]).expect_success();
    }
    cluster.tutti(&["run", "-n", "1", "--host", "node0", "true"]).expect_success();
    until("it waits still", || cluster.job(second).contains(&why));
    cluster.tutti(&["kill", &first.to_string()]).expect_success();
    cluster.tutti(&["wait", &second.to_string()]).expect_success();
    let _ = std::fs::remove_file(file);
}

#[test]
fn queue_gives_nodes_weight_and_time_and_the_end_names_it() {
    let (cluster, file) = up_with("limits-queue", 2, USER);
    let job = submit(&cluster, &["-n", "1", "--queue", "short", "sleep", "1000"]);
    until("it has run", || cluster.job(job).contains("\"over\""));
    let row = cluster.job(job);
    let cause = format!("it reached its time limit of 0:01 ([queue.short] in {}:8)", file.display());
    assert!(row.contains(&cause) && row.contains("\"weight\": 70") && row.contains("\"node1\""), "{row}");
    let _ = std::fs::remove_file(file);
}

#[test]
fn limits_of_a_group_are_for_all_its_users_and_an_mpiexec_over_them_runs_without_turns() {
    let text = "[limits.group.root]\nslots = 1\n[limits]\nmemory = \"1G\"\n";
    let (cluster, file) = up_with("limits-group", 1, text);
    let without = cluster.tutti(&["run", "-n", "1", "true"]);
    assert!(
        without.stderr.contains("the memory of root is limited: say what the job needs with --memory"),
        "{without}"
    );
    let wide = cluster.tutti(&["run", "-n", "2", "--memory", "1M", "true"]);
    assert!(wide.stderr.contains("slots: 2 is more than the 1 that group root may have"), "{wide}");
    let large = cluster.tutti(&["run", "-n", "1", "--memory", "2G", "true"]);
    assert!(large.stderr.contains("memory: 2 GiB is more than the 1 GiB that root may have"), "{large}");
    cluster.tutti(&["run", "-n", "1", "--memory", "100M", "true"]).expect_success();
    // Its ranks run until that has been said.
    let said = cluster.folder.join("said");
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", "exec \"$@\" 2>\"$SAID\"", "bash"]).arg(program("mpiexec").get_program());
    shell.args(["-n", "2", "sh", "-c", "until grep -q 'takes no turns' \"$SAID\"; do sleep 0.05; done"]);
    shell.env("TUTTI_DAEMON", cluster.folder.join("tuttid.sock")).env("TUTTI_DIR", &cluster.folder);
    tutti_tests::run(shell.env("SAID", &said), LIMIT).expect_success();
    let said = std::fs::read_to_string(said).expect("what it said");
    let line = "the job takes no turns: slots: 2 is more than the 1 that group root may have";
    assert!(said.contains(line) && said.lines().count() == 1, "{said}");
    let _ = std::fs::remove_file(file);
}
