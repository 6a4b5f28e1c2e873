//! Nodes, their daemons, and who may join.

use tutti_testkit::{Need, skip, skip_part};
use tutti_tests::{Scratch, program};

use crate::Cluster;
use crate::harness::{LIMIT, Running, await_that};

// Paper: S7
#[test]
fn nodes_lists_the_control_tree() {
    let cluster = Cluster::up("cluster-nodes", 6, &["--arity", "2"]);
    let rows = cluster.tutti(&["nodes"]).expect_success().stdout;
    let parents: Vec<&str> =
        rows.lines().skip(1).map(|line| line.split_whitespace().nth(5).unwrap_or("")).collect();
    assert_eq!(parents, ["-", "0", "0", "1", "1", "2"], "{rows}");
    cluster.tutti(&["down"]).expect_success();
    assert!(cluster.tutti(&["nodes"]).stderr.starts_with("tutti nodes: no daemon answers at "));
}

/// Another program has the controller's port for a while, then for good.
#[test]
fn head_without_its_port_waits_and_never_begins_a_second_cluster() {
    let cluster = Cluster::up("cluster-port", 2, &["--lost-after", "30"]);
    let log = || std::fs::read_to_string(cluster.folder.join("node0.log")).expect("its log");
    let gone = cluster.kill_daemon(0);
    let address = gone.address();
    let taken = std::net::TcpListener::bind(address).expect("its port is free");
    gone.start();
    let line =
        format!(" WARN node0: cannot listen on {address}, where the controller was: Address already in use");
    await_that("it waits for its port", || log().contains(&line));
    drop(taken);
    let alive = || cluster.tutti(&["nodes"]).stdout.matches(" up ").count();
    await_that("it is the controller again", || alive() == 2);
    cluster.run(&["run", "-N", "2", "-n", "2", "true"]).expect_success();

    let gone = cluster.kill_daemon(0);
    let taken = std::net::TcpListener::bind(address).expect("its port is free");
    let (mut head, _) = gone.spawn();
    let status = head.wait().expect("our child");
    assert_eq!(status.code(), Some(1));
    let log = log();
    let last = log.lines().last().unwrap_or_default();
    let said = format!(
        " ERROR node0: cannot listen on {address}, where the controller of this cluster was (without "
    );
    assert!(last.contains(&said) && last.ends_with("Address already in use (os error 98)"), "{log}");
    let recorded = std::fs::read_to_string(cluster.folder.join("node0.address")).expect("its address");
    assert_eq!(recorded.trim(), address.to_string());
    drop(taken);
    // The other node still looks for it there.
    let words = ["--listen", &address.to_string(), "--name", "node0", "--dir"];
    let mut head = std::process::Command::new(program("tuttid").get_program());
    head.args(words).arg(&cluster.folder).stderr(std::process::Stdio::null());
    let mut head = head.spawn().expect("tuttid");
    await_that("both are there", || alive() == 2);
    cluster.tutti(&["down"]).expect_success();
    head.wait().expect("our child");
}

#[test]
fn down_is_one_line_for_a_waiting_front_end() {
    let cluster = Cluster::up("cluster-down", 2, &["--slots", "1"]);
    let sleeps = ["-n", "2", "sh", "-c", "trap '' TERM; sleep 1000; sleep 1000"];
    let here = cluster.start(&[&["run", "-N", "2"], &sleeps[..]].concat());
    let there =
        Running::start_command(&mut cluster.command_on(1, &[&["run", "-N", "2"], &sleeps[..]].concat()));
    let scratch = Scratch::new("cluster-down-go");
    let go = scratch.path().join("go");
    let script = format!("echo runs; until [ -e {} ]; do sleep 0.05; done; echo went on", go.display());
    let mut alone = program("mpiexec");
    alone.args(["-n", "1", "sh", "-c", &script]).env("TUTTI_DAEMON", cluster.folder.join("tuttid.sock"));
    let mut alone = Running::start_command(&mut alone);
    alone.await_line("runs");
    await_that("all run", || (1..=3).all(|job| cluster.job(job).contains("\"running\"")));
    let waits = cluster.start(&["run", "--exclusive", "-N", "2", "-n", "2", "true"]);
    await_that("one waits", || cluster.job(4).contains("\"waiting\""));
    cluster.tutti(&["down"]).expect_success();
    let line = "tutti run: the cluster has been shut down; the job is ended\n";
    for job in [here, there] {
        assert_eq!(job.end(), (137, line.to_owned()));
    }
    let (status, said) = waits.end();
    assert!(status == 137 && said.lines().count() == 2 && said.ends_with(line), "{status}: {said}");
    // Who was started without daemons goes on without them.
    std::fs::write(go, "").expect("a file");
    let (status, said, lines) = alone.end_with_output();
    assert_eq!((status, said.as_str(), lines.last().map(String::as_str)), (0, "", Some("went on")));
    let left =
        std::fs::read_dir(&cluster.folder).expect("its folder").map(|entry| entry.expect("a file").path());
    assert!(left.filter(|path| path.extension().is_some_and(|ending| ending == "sock")).count() == 0);
}

#[test]
fn tls_daemon_with_another_key_is_refused() {
    let cluster = Cluster::up("cluster-key", 1, &[]);
    let scratch = Scratch::new("cluster-key-other");
    let key = scratch.path().join("other.key");
    tutti_tests::run(program("tutti").arg("keygen").arg(&key), LIMIT).expect_success();
    let log = std::fs::read_to_string(cluster.folder.join("node0.log")).expect("its log");
    let head = log.lines().next().and_then(|line| line.rsplit(' ').next()).expect("its address").to_owned();
    let mut stranger = program("tuttid");
    stranger.args(["--join", &head, "--listen", "127.0.0.1:0", "--name", "stranger", "--key"]).arg(&key);
    stranger.arg("--dir").arg(scratch.path().join("dir"));
    let mut stranger = stranger.stderr(std::process::Stdio::null()).spawn().expect("tuttid");
    crate::harness::await_that("the controller refuses it", || {
        std::fs::read_to_string(cluster.folder.join("node0.log"))
            .is_ok_and(|log| log.contains("is not a member of this cluster"))
    });
    stranger.kill().and_then(|()| stranger.wait()).expect("it was ours");
    assert!(!cluster.tutti(&["nodes"]).stdout.contains("stranger"));
}

#[test]
fn up_second_cluster_in_the_same_folder_is_refused() {
    let cluster = Cluster::up("cluster-twice", 2, &[]);
    let ran = cluster.tutti(&["up", "--nodes", "2"]);
    assert!(
        ran.stderr.starts_with("tutti up: a daemon is running at ") && ran.stderr.lines().count() == 1,
        "{ran}"
    );
    assert_eq!(ran.code(), 1);
    assert_eq!(cluster.tutti(&["nodes"]).expect_success().stdout.lines().count(), 3);
}

#[test]
fn up_invalid_options_are_refused() {
    for (words, why) in [
        (["--arity", "0"], "--arity"),
        (["--slots", "0"], "--slots"),
        (["--memory", "8000T"], "--memory: 8000 TiB on a node is more than the "),
    ] {
        let ran = Cluster::try_up("cluster-never", &words);
        assert!(ran.code() != 0 && ran.stderr.contains(why), "{ran}");
        assert!(!ran.stderr.contains("has ended"), "a daemon was tried: {ran}");
    }
}

#[test]
fn controller_restart_with_the_same_command_line() {
    let cluster = Cluster::up("cluster-head-again", 2, &crate::cluster::SLOWLY_LOST);
    let submitted = cluster.start(&["submit", "-N", "2", "-n", "2", "sleep", "3600"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    for node in [0, 1] {
        cluster.kill_daemon_as_it_is(node).start();
        await_that("the cluster is whole and knows its job", || {
            let rows = cluster.tutti(&["nodes"]).stdout;
            rows.lines().count() == 3 && !rows.contains(" lost ") && cluster.job(1).contains("\"running\"")
        });
    }
    cluster.tutti(&["kill", "1"]).expect_success();
    submitted.mark.assert_nothing_left();
}

#[test]
fn command_errors_are_one_line() {
    let cluster = Cluster::up("cluster-errors", 1, &[]);
    let mut stale = cluster.command(&["nodes"]);
    let left = cluster.folder.join("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&left).expect("a socket"));
    let ran = tutti_tests::run(stale.env("TUTTI_DAEMON", &left), LIMIT);
    assert!(
        ran.stderr.starts_with("tutti nodes: no daemon answers at ") && ran.stderr.lines().count() == 1,
        "{ran}"
    );
    for (words, line) in [
        (&["status", "7"][..], "tutti status: there is no job 7\n"),
        (&["logs", "7"], "tutti logs: there is no job 7\n"),
        (&["attach", "7"], "tutti attach: there is no job 7\n"),
        (&["kill", "7"], "tutti kill: there is no job 7\n"),
        (&["signal", "SIGNONE", "7"], "tutti signal: \"SIGNONE\" is not a signal\n"),
        (
            &["run", "--host", "elsewhere", "-n", "1", "true"],
            "tutti run: elsewhere is not a node of this cluster; its nodes are node0\n",
        ),
    ] {
        let ran = cluster.tutti(words);
        assert_eq!((ran.stderr.as_str(), ran.code()), (line, 1));
    }
}

#[test]
fn hosts_select_nodes_order_and_ranks() {
    let cluster = Cluster::up("cluster-hosts", 3, &[]);
    let scratch = Scratch::new("cluster-hosts-file");
    let file = scratch.path().join("hosts");
    std::fs::write(&file, "# two\nnode1 slots=1\nnode2:3\n").expect("a file");
    let file = file.to_str().expect("UTF-8");
    let mpiexec = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = program("mpiexec");
        command.args(words).env("TUTTI_DIR", &cluster.folder).env_remove("TUTTI_DAEMON");
        command.envs(variables.iter().copied());
        command.args([
            "sh",
            "-c",
            "echo $TUTTI_RANK $OMPI_COMM_WORLD_LOCAL_RANK $MPI_LOCALRANKID $TUTTI_LOCAL_SIZE $PMI_RANK",
        ]);
        let ran = tutti_tests::run(&mut command, LIMIT).expect_success();
        let mut lines: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        mpiexec(&["-host", "node2:2,node0:1", "-n", "3"], &[]),
        ["0 0 0 2 0", "1 1 1 2 1", "2 0 0 1 2"]
    );
    assert!(
        cluster.job(1).contains("\"nodes\": [\n      \"node2\",\n      \"node0\"\n    ]"),
        "{}",
        cluster.job(1)
    );
    assert_eq!(mpiexec(&["-hostfile", file], &[]), ["0 0 0 1 0", "1 0 0 3 1", "2 1 1 3 2", "3 2 2 3 3"]);
    assert_eq!(mpiexec(&["-hosts", "node1,node0", "-n", "2"], &[]), ["0 0 0 1 0", "1 0 0 1 1"]);
    // The nodes of a Slurm allocation are those of the cluster whose daemons run on them.
    let slurm = [("SLURM_JOB_NODELIST", "node[0-1]"), ("SLURM_TASKS_PER_NODE", "2,1")];
    assert_eq!(mpiexec(&[], &slurm), ["0 0 0 2 0", "1 1 1 2 1", "2 0 0 1 2"]);
    // Each program's hosts are its own.
    let of_programs = |words: &str| {
        let mut command = program("mpiexec");
        command.args(words.split(' ')).env("TUTTI_DIR", &cluster.folder).env_remove("TUTTI_DAEMON");
        tutti_tests::run(&mut command, LIMIT)
    };
    for (words, expected) in [
        ("-host node1 -n 1 echo A : -host node0 -n 3 echo B", ["node1 node0", "A B B B"]),
        ("-host node2 -n 2 echo A : -host node2,node0 -n 2 echo B", ["node2 node0", "A A B B"]),
        ("-host node0:2 echo A : -host node1:1,node2:1 echo B", ["node0 node1 node2", "A A B B"]),
        ("-n 1 echo A : -host node2 -n 1 echo B : -f FILE -n 2 echo C", ["node2 node1", ""]),
    ] {
        let ran = of_programs(&words.replace("FILE", file));
        if expected[1].is_empty() {
            // The file has node1 and node2, which is named again after node1.
            assert!(
                ran.code() == 2 && ran.stderr.contains("the host node2 is named again"),
                "{words}: {ran}"
            );
            continue;
        }
        let mut lines: Vec<&str> = ran.stdout.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines.join(" "), expected[1], "{words}: {ran}");
        let jobs = cluster.tutti(&["ps", "--all", "--json"]).expect_success().stdout;
        let jobs: serde_json::Value = serde_json::from_str(&jobs).expect("JSON");
        let last = jobs.as_array().and_then(|jobs| jobs.last()).expect("a job");
        let nodes: Vec<_> =
            last["nodes"].as_array().expect("nodes").iter().filter_map(|node| node.as_str()).collect();
        assert_eq!(nodes.join(" "), expected[0], "{words}");
    }
    let mut nobody = program("mpiexec");
    nobody.args(["true"]).envs(slurm).env("TUTTI_DAEMON", scratch.path().join("nobody.sock"));
    let ran = tutti_tests::run(&mut nobody, LIMIT);
    assert!(
        ran.stderr.starts_with("mpiexec: this is a Slurm allocation of 2 nodes, and no daemon answers"),
        "{ran}"
    );
    assert_eq!((ran.stderr.lines().count(), ran.code()), (1, 1));
    let ran = cluster.run(&["run", "-host", "node0:1,node1:1", "-n", "3", "true"]);
    assert_eq!(ran.stderr, "tutti run: 3 ranks are more than the 2 that the named hosts are to get\n");
}

#[test]
fn ps_and_nodes_print_tables_and_json() {
    let cluster = Cluster::up("cluster-lists", 1, &[]);
    let ran = cluster.tutti(&["submit", "--json", "-n", "1", crate::harness::RANK, "hang"]).expect_success();
    assert_eq!(ran.stdout, "{\"job\":1}\n");
    crate::harness::await_that("it runs", || cluster.job(1).contains("\"running\""));
    let rows = cluster.tutti(&["ps"]).expect_success().stdout;
    if rustix::process::geteuid().is_root() {
        let fields: Vec<&str> = rows.lines().nth(1).expect("a job").split_whitespace().collect();
        assert_eq!(
            (fields[0], fields[1], fields[2], fields[3], fields[5]),
            ("1", "running", "1", "1", "root")
        );
    }
    // How its ranks are held while others have the cores, and how far the thread that does it is preferred.
    crate::harness::await_that("it is said by what it takes turns", || {
        cluster.job(1).split_once("\"held_by\"").is_some_and(|(_, means)| means.contains("\"node0\""))
    });
    let nodes = cluster.tutti(&["nodes", "--json"]).expect_success().stdout;
    let rungs = ["real time", "real time by rtkit", "nice -20", "short slices", "none"];
    assert!(rungs.iter().any(|rung| nodes.contains(&format!("\"preferred\": \"{rung}\""))), "{nodes}");
    assert!(cluster.tutti(&["status", "1"]).expect_success().stdout.contains("\nturns    node0: "));
    let killed = cluster.tutti(&["kill", "--json", "1"]).expect_success().stdout;
    assert_eq!(killed, "{\"jobs\":[1]}\n");
}

/// Whether network namespaces can be made; a line says if not.
pub fn have_namespaces() -> bool {
    let probe = program("mpiexec").args(["--netns", "2", "-n", "2", "true"]).output().expect("mpiexec");
    if !probe.status.success() {
        skip_part(Need::NetworkNamespace, String::from_utf8_lossy(&probe.stderr));
    }
    probe.status.success()
}

// Paper: C30
#[test]
fn netns_cluster_nodes_reach_each_other() {
    if !have_namespaces() {
        skip(Need::NetworkNamespace, "no network namespaces here");
        return;
    }
    for nodes in [2, 3] {
        let cluster = Cluster::up(&format!("cluster-netns-{nodes}"), nodes, &["--netns"]);
        let rows = cluster.tutti(&["nodes"]).expect_success().stdout;
        let addresses: std::collections::BTreeSet<&str> =
            rows.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(addresses.len(), nodes as usize, "{rows}");
        for node in 0..nodes {
            let words = ["run", "-N", &nodes.to_string(), "-n", "6", crate::harness::RANK, "exchange"];
            crate::harness::run(&mut cluster.command_on(node, &words)).expect_success();
        }
    }
}

/// Namespaces, and what joins them, outlive any daemon and are there for the one that follows it; with the
/// last daemon they go.
#[test]
fn netns_cluster_comes_together_again_when_node0s_daemon_is_killed() {
    use std::os::unix::fs::MetadataExt;
    if !have_namespaces() {
        skip(Need::NetworkNamespace, "no network namespaces here");
        return;
    }
    let cluster = Cluster::up("cluster-netns-killed", 3, &["--netns"]);
    let inode = crate::cluster::net_of(cluster.daemon(0)).expect("it lives");
    let holders = move || {
        let folders = std::fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
        let is_one = |folder: &std::path::PathBuf| {
            std::fs::read(folder.join("cmdline")).is_ok_and(|line| line.starts_with(b"tutti-namespaces\0"))
        };
        let files = folders.filter(is_one).filter_map(|folder| std::fs::read_dir(folder.join("fd")).ok());
        let paths = files.flat_map(|entries| entries.flatten().map(|entry| entry.path()));
        paths.filter(move |path| path.metadata().is_ok_and(|found| found.ino() == inode)).collect::<Vec<_>>()
    };
    let gone = cluster.kill_daemon(0);
    let find = || std::fs::File::open(holders().first().expect("a process holds it")).expect("it lives");
    gone.enters(find).start();
    let nodes_alive = || cluster.tutti(&["nodes", "--json"]).stdout.matches("\"alive\": true").count();
    crate::harness::await_that("all nodes are back", || nodes_alive() == 3);
    let words = ["run", "-N", "3", "-n", "6", crate::harness::RANK, "exchange"];
    crate::harness::run(&mut cluster.command_on(0, &words)).expect_success();
    drop(cluster);
    crate::harness::await_that("nothing holds the namespaces", || holders().is_empty());
}
