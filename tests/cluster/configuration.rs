//! One file: `tutti config check` and `show`, `tutti reload`, and what of it every node has.

use std::path::PathBuf;

use crate::Cluster;
use crate::harness::LIMIT;

fn write(cluster: &Cluster, text: &str) -> PathBuf {
    let file = cluster.folder.parent().expect("a scratch folder").join("tutti.toml");
    std::fs::write(&file, text).expect("a file");
    file
}

/// A cluster with this configuration.
#[track_caller]
pub fn up_with(name: &str, nodes: u32, text: &str) -> (Cluster, PathBuf) {
    let scratch = std::env::temp_dir().join(format!("tutti-{name}-{}.toml", std::process::id()));
    std::fs::write(&scratch, text).expect("a file");
    let cluster = Cluster::up(name, nodes, &["--config", scratch.to_str().expect("a path")]);
    (cluster, scratch)
}

// Paper: C29
#[test]
fn configuration_is_on_all_nodes_and_a_reload_is_whole_or_not_at_all() {
    let (cluster, file) = up_with("config-nodes", 3, "[cluster]\nslice = \"50ms\"\n[limits]\njobs = 5\n");
    let versions = || {
        let nodes = cluster.tutti(&["nodes", "--json"]).expect_success().stdout;
        let found = nodes.lines().filter(|line| line.contains("\"configuration\""));
        found.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let deadline = std::time::Instant::now() + LIMIT;
    let all_same = |found: &[String]| found.len() == 3 && found.iter().all(|line| *line == found[0]);
    while !all_same(&versions()) || versions()[0].contains(": 0,") {
        assert!(std::time::Instant::now() < deadline, "{:?}", versions());
    }
    let before = versions();
    let shown = cluster.tutti(&["config", "show"]).expect_success().stdout;
    let line = |key: &str, shown: &str| {
        let found = shown.lines().find(|line| line.split(' ').next() == Some(key)).expect("a line of it");
        found.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("cluster.slice", &shown), format!("\"50ms\" {}:2", file.display()));
    assert_eq!(line("cluster.policy", &shown), "matrix default");
    assert!(line("node.name", &shown).ends_with("node0 --name"), "{shown}");
    // Wrong in one place: nothing of it is taken, and jobs go on.
    std::fs::write(&file, "[cluster]\nslice = \"20ms\"\n[limits]\njobs = \"many\"\n").expect("a file");
    let refused = cluster.tutti(&["reload"]);
    assert_eq!(refused.code(), 2, "{refused}");
    let place = format!("{}:4:8: jobs: \"many\" is not a whole number", file.display());
    assert!(refused.stderr.contains(&place) && refused.stderr.contains("nothing has changed"), "{refused}");
    assert_eq!(versions(), before);
    std::fs::write(&file, "[cluster]\nslice = \"20ms\"\npolicy = \"dqt\"\n[limits]\njobs = 7\n")
        .expect("a file");
    let taken = cluster.tutti(&["reload"]).expect_success();
    assert!(taken.stdout.contains("is on node0, node1, node2"), "{taken}");
    assert!(
        taken.stderr.contains("cluster.policy takes effect when the daemons are started anew"),
        "{taken}"
    );
    assert!(all_same(&versions()) && versions() != before);
    let shown = cluster.tutti(&["config", "show"]).expect_success().stdout;
    assert!(line("limits.jobs", &shown).starts_with("7 "), "{shown}");
    let stored = std::fs::read_to_string(cluster.folder.join("node2.cluster.toml")).expect("its text");
    assert!(stored.contains("jobs = 7") && !stored.contains("[node]"), "{stored}");
    // A node that comes back has it again.
    cluster.replace(2);
    let deadline = std::time::Instant::now() + LIMIT;
    while !all_same(&versions()) {
        assert!(std::time::Instant::now() < deadline, "{:?}", versions());
    }
    let _ = std::fs::remove_file(file);
}

#[test]
fn configuration_flags_go_before_the_file() {
    let file = std::env::temp_dir().join(format!("tutti-flags-{}.toml", std::process::id()));
    std::fs::write(&file, "[cluster]\nslice = \"50ms\"\n[node]\nslots = 3\n").expect("a file");
    let path = file.to_str().expect("a path");
    let cluster = Cluster::up("config-flags", 1, &["--config", path, "--slice", "30"]);
    let shown = cluster.tutti(&["config", "show"]).expect_success().stdout;
    assert!(
        shown.lines().any(|line| line.starts_with("cluster.slice ") && line.ends_with("--slice")),
        "{shown}"
    );
    assert!(shown.lines().any(|line| line.starts_with("node.slots ") && line.ends_with(":4")), "{shown}");
    let nodes = cluster.tutti(&["nodes", "--json"]).expect_success().stdout;
    assert!(nodes.contains("\"slots\": 3"), "{nodes}");
    let reloaded = cluster.tutti(&["reload"]);
    assert!(reloaded.stderr.contains("--slice, which goes before the file"), "{reloaded}");
    let _ = std::fs::remove_file(file);
}

#[test]
fn configuration_files_that_are_none_are_one_line_each() {
    let cluster = Cluster::up("config-files", 1, &[]);
    let check = |file: &std::path::Path| {
        let ran = cluster.tutti(&["config", "check", file.to_str().expect("a path")]);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (2, 1), "{ran}");
        ran.stderr
    };
    let file = write(&cluster, "");
    assert!(
        cluster.tutti(&["config", "check", file.to_str().expect("a path")]).stdout.contains("no mistakes")
    );
    assert!(check(&cluster.folder).contains(":1:1: it is a folder, expected a file"));
    assert!(check(std::path::Path::new("/dev/zero")).contains("expected a file"));
    assert!(check(&cluster.folder.join("none.toml")).contains(":1:1: there is no such file"));
    std::fs::write(&file, b"[cluster]\n# \xff\n").expect("a file");
    assert!(check(&file).contains(":2:3: byte 0xff is not UTF-8"));
    std::fs::File::create(&file).and_then(|file| file.set_len(100 << 20)).expect("a hole");
    assert!(check(&file).contains("it has 104857600 bytes, expected at most 1048576"));
    // More than there is can be written, and is named.
    write(&cluster, "[node]\nmemory = \"1G\"\n[limits]\nmemory_per_node = \"2G\"\n");
    let ran = cluster.tutti(&["config", "check", file.to_str().expect("a path")]).expect_success();
    let expected = format!(
        "{}:4: [limits] memory_per_node: 2 GiB is more than the 1 GiB that this node has for jobs",
        file.display()
    );
    assert!(ran.stderr.contains(&expected), "{ran}");
    // A daemon with a wrong file does not begin, and says why.
    write(&cluster, "[cluster]\nslcie = 1\n");
    let up = Cluster::try_up("config-wrong", &["--config", file.to_str().expect("a path")]);
    assert_eq!(up.code(), 2, "{up}");
    assert!(
        up.stderr.contains("tutti.toml:2:1: slcie is not a key of [cluster]; did you mean slice?"),
        "{up}"
    );
}

/// A pipe into which no process writes would be waited for.
#[test]
fn configuration_that_is_a_pipe_is_refused_with_a_line() {
    let scratch = tutti_tests::Scratch::new("config-pipe");
    let pipe = scratch.path().join("tutti.toml");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("a pipe");
    for words in [&["tutti", "ps"][..], &["tutti", "run", "true"], &["tuttid"]] {
        let mut command = tutti_tests::program(words[0]);
        command.args(&words[1..]).env("TUTTI_CONFIG", &pipe).current_dir(scratch.path());
        command.env_remove("TUTTI_DIR").env_remove("TUTTI_DAEMON");
        let ran = tutti_tests::run(&mut command, LIMIT);
        assert!(ran.code() > 0 && ran.stderr.lines().count() == 1, "{words:?}: {ran}");
        assert!(
            ran.stderr.contains("tutti.toml:1:1: it is a device, a pipe or a socket"),
            "{words:?}: {ran}"
        );
    }
    // A device is no pipe: there is nothing in this one.
    let mut command = tutti_tests::program("tutti");
    command.arg("ps").env("TUTTI_CONFIG", "/dev/null").current_dir(scratch.path());
    command.env_remove("TUTTI_DIR").env_remove("TUTTI_DAEMON");
    let ran = tutti_tests::run(&mut command, LIMIT);
    assert!(!ran.stderr.contains("/dev/null"), "{ran}");
}
