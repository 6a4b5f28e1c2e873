//! Machines have everything of their own, and end and begin as machines do.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;

use tutti_testkit::lab::{Lab, MachineState};
use tutti_testkit::{LIMIT, Scratch, await_that};
use tutti_tests::{compile, run};

use crate::made_at;

#[test]
fn lab_machines_have_namespaces_users_clocks_and_files_of_their_own() {
    let Some(lab) = Lab::new(3) else { return };
    let kinds = ["mnt", "pid", "ipc", "uts", "net", "user", "cgroup", "time"];
    let links = kinds.map(|kind| format!("/proc/self/ns/{kind}"));
    let mut seen: Vec<Vec<String>> =
        vec![links.iter().map(|link| std::fs::read_link(link).unwrap().display().to_string()).collect()];
    for node in 0..3 {
        let words: Vec<&str> = std::iter::once("readlink").chain(links.iter().map(String::as_str)).collect();
        seen.push(lab.node(node).run(&words).lines().map(str::to_owned).collect());
    }
    for (place, kind) in kinds.iter().enumerate() {
        let mut of_kind: Vec<&String> = seen.iter().map(|spaces| &spaces[place]).collect();
        of_kind.sort_unstable();
        of_kind.dedup();
        assert_eq!(of_kind.len(), 4, "{kind}: {seen:?}");
    }

    let uptime = |node: u32| -> f64 {
        let text = lab.node(node).run(&["cat", "/proc/uptime"]);
        text.split(' ').next().unwrap().parse().unwrap()
    };
    assert!(uptime(1) - uptime(0) > 6.0 * 3600.0 && uptime(2) - uptime(1) > 6.0 * 3600.0);
    assert_eq!(lab.node(2).run(&["cat", "/proc/1/comm"]), "tutti-lab\n");
    assert_eq!(lab.node(1).run(&["hostname"]), "node1\n");
    assert_eq!(lab.node(1).run(&["getent", "hosts", "node2"]).split_whitespace().next(), Some("10.214.0.3"));

    lab.node(0).run(&[
        "touch",
        "/tmp/mine",
        "/run/mine",
        "/dev/shm/mine",
        "/etc/mine",
        "/root/mine",
        "/home/ours",
    ]);
    for node in [1, 2] {
        let found =
            lab.node(node).sh("ls -d /tmp/mine /run/mine /dev/shm/mine /etc/mine /root/mine 2>/dev/null");
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "machine {node}");
        lab.node(node).run(&["test", "-O", "/home/ours"]);
    }

    let status = lab.status().expect("it runs");
    let owner = |node: usize| {
        let pid = status.nodes[node].pid.expect("it is on");
        std::fs::metadata(format!("/proc/{pid}")).expect("it runs").uid()
    };
    assert_eq!((owner(0), owner(2)), (status.nodes[0].first_uid, status.nodes[2].first_uid));
    if rustix::process::geteuid().is_root() {
        assert!(!status.own_uids || owner(0) != owner(1), "root of each is somebody else here");
        lab.node(1).user("alice").run(&["touch", "/home/alice/mail"]);
        assert_eq!(lab.node(2).run(&["stat", "-c", "%U %u", "/home/alice/mail"]), "alice 1001\n");
        let refused = lab.node(2).user("bob").sh("echo x >>/home/alice/mail");
        assert!(!refused.status.success(), "bob writes alice's file");
    }
}

/// A mechanism that works because its nodes share a machine works on one machine, and not here.
#[test]
fn lab_catches_ranks_that_reach_each_other_by_anything_but_the_cable() {
    let Some(lab) = Lab::new(2) else { return };
    let scratch = Scratch::new("lab-neighbour");
    let program = compile("tests/lab/programs/neighbour.c", scratch.path());
    lab.start_daemons(&[]).expect("a cluster");
    let on = |nodes: &str| {
        let mut command = lab.node(0).command("tutti");
        command.args(["run", "-N", nodes, "-n", "2"]).arg(&program);
        run(&mut command, LIMIT).expect_success().stdout
    };
    assert_eq!(on("1"), "reached: readv mem tmp run shm abstract ipc clock name\n");
    assert_eq!(on("2"), "reached:\n");
}

#[test]
fn lab_machine_without_power_is_silent_and_boots_with_an_empty_run() {
    let Some(lab) = Lab::new(2) else { return };
    lab.node(1).run(&["touch", "/run/mine", "/tmp/mine", "/dev/shm/mine", "/etc/mine", "/var/log/mine"]);
    lab.node(1).spawn(&["sleep", "1000"]);
    let listener = made_at(&lab, 1, || TcpListener::bind("10.214.0.2:99").expect("a port"));
    let mut stream = made_at(&lab, 0, || TcpStream::connect("10.214.0.2:99").expect("it listens"));
    let (served, _) = listener.accept().expect("it connects");
    // Its sockets are this process's, so that they live on: what the machine's own say is not heard either.
    drop((listener, served));
    assert_eq!(stream.read(&mut [0]).expect("an end"), 0, "a closed socket says so while the machine is on");

    lab.node(1).run(&["sh", "-c", "exec 3<>/dev/null; true"]);
    lab.node(1).kill();
    assert_eq!(lab.status().unwrap().nodes[1].state, MachineState::Off);
    let refused = lab.node(1).sh("true");
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("is off"));
    lab.node(1).boot();
    assert_eq!(lab.node(1).run(&["sh", "-c", "find /run /tmp /dev/shm -name mine"]), "");
    lab.node(1).run(&["ls", "/etc/mine", "/var/log/mine"]);
    let uptime = lab.node(1).run(&["cat", "/proc/uptime"]);
    assert!(uptime.split('.').next().unwrap().parse::<u32>().unwrap() < 3600, "{uptime}");
    let processes = lab.node(1).run(&["sh", "-c", "cat /proc/[0-9]*/comm"]);
    assert!(!processes.contains("sleep"), "{processes}");
}

#[test]
fn lab_paused_machine_stands_still_and_goes_on() {
    let Some(lab) = Lab::new(1) else { return };
    let counter = "i=0; while :; do i=$((i + 1)); echo $i >/root/count; mv /root/count /root/counted; done";
    lab.node(0).spawn(&["sh", "-c", counter]);
    let file = lab.node(0).file("/root/counted");
    let count = || std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u64>().ok());
    await_that("the machine counts", || count().is_some_and(|count| count > 3));
    lab.node(0).pause();
    assert_eq!(lab.status().unwrap().nodes[0].state, MachineState::Paused);
    let stood = count();
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_millis(100) {
        assert_eq!(count(), stood, "it counts while it is paused");
    }
    lab.node(0).resume();
    await_that("the machine goes on", || count() > stood);
}

#[test]
fn lab_machines_without_shared_files_have_homes_and_an_installation_of_their_own() {
    let Some(lab) = Lab::of(&Lab::plan(2).no_shared_files()) else { return };
    lab.node(0).run(&["touch", "/home/mine"]);
    assert!(!lab.node(1).sh("ls /home/mine").status.success());
    let inode = |node: u32| lab.node(node).run(&["sh", "-c", "stat -c %i $(command -v tuttid)"]);
    assert_ne!(inode(0), inode(1));
    lab.start_daemons(&[]).expect("a cluster");
    let said = lab.node(0).run(&["tutti", "run", "-N", "2", "-n", "2", "hostname"]);
    assert_eq!(said.lines().collect::<std::collections::BTreeSet<_>>(), ["node0", "node1"].into());
}
