//! Jobs on several nodes, all virtual ones of this machine: with one starter for each, they are started,
//! watched and ended as on one.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tutti_testkit::{Need, skip_part};
use tutti_tests::{Ran, Scratch, program};

use crate::deaths::{assert_one_line, empty_cgroups, named, starters_of};
use crate::harness::{
    LIMIT, Mark, RANK, Running, await_that, cgroup_of, has_paused_in_a_line, mpiexec, mpiexec_path, run,
};

/// How virtual nodes are made: over the loopback interface, and with network namespaces where we may make
/// them.
fn kinds() -> Vec<&'static str> {
    let may = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    if may.is_ok_and(|status| status.success()) {
        return vec!["--virtual-nodes", "--netns"];
    }
    skip_part(Need::NetworkNamespace, "no network namespace can be made here");
    vec!["--virtual-nodes"]
}

/// Interfaces of this namespace, and all network namespaces in which a process is.
fn networks() -> (String, BTreeSet<String>) {
    let interfaces = std::fs::read_to_string("/proc/net/dev").expect("/proc/net/dev");
    let names = interfaces.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let namespaces = processes
        .filter_map(|process| std::fs::read_link(process.path().join("ns/net")).ok())
        .map(|link| link.to_string_lossy().into_owned());
    (names.collect::<Vec<_>>().join(" "), namespaces.collect())
}

fn sorted(ran: &Ran) -> Vec<&str> {
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort_unstable();
    lines
}

/// How many UDP sockets of its own network namespace a process holds.
fn udp_sockets(pid: Pid) -> usize {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let table = std::fs::read_to_string(format!("{folder}/net/udp")).expect("its sockets");
    let inodes: BTreeSet<&str> =
        table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(9)).collect();
    let descriptors = std::fs::read_dir(format!("{folder}/fd")).expect("its descriptors").flatten();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let is_udp = |link: &String| {
        let inode = link.strip_prefix("socket:[").and_then(|link| link.strip_suffix(']'));
        inode.is_some_and(|inode| inodes.contains(inode))
    };
    // A socket may have several descriptors.
    links.map(|link| link.to_string_lossy().into_owned()).filter(is_udp).collect::<BTreeSet<_>>().len()
}

#[test]
fn virtual_nodes_ranks_reach_each_other() {
    for kind in kinds() {
        let before = networks();
        let ran = mpiexec(&[kind, "2", "-n", "5", RANK, "exchange"]).expect_success();
        assert_eq!(
            sorted(&ran),
            [
                "rank 0 of 5, node 0 of 2, with 0..3, heard {3, 4}",
                "rank 1 of 5, node 0 of 2, with 0..3, heard {3, 4}",
                "rank 2 of 5, node 0 of 2, with 0..3, heard {3, 4}",
                "rank 3 of 5, node 1 of 2, with 3..5, heard {0, 1, 2}",
                "rank 4 of 5, node 1 of 2, with 3..5, heard {0, 1, 2}",
            ]
        );
        let ran = mpiexec(&[kind, "3", "-n", "3", RANK, "exchange"]).expect_success();
        assert_eq!(sorted(&ran)[2], "rank 2 of 3, node 2 of 3, with 2..3, heard {0, 1}");
        assert_eq!(mpiexec(&[kind, "1", "-n", "2", RANK, "attach", "finalize"]).expect_success().stderr, "");
        await_that("no interface is left", || networks().0 == before.0);
        await_that("no network namespace is left", || networks().1.is_subset(&before.1));
    }
}

#[test]
fn transport_udp_makes_every_rank_a_node() {
    let mut command = program("mpiexec");
    let ran = run(command.env("TUTTI_TRANSPORT", "udp").args(["-n", "3", RANK, "exchange"])).expect_success();
    assert_eq!(sorted(&ran)[1], "rank 1 of 3, node 1 of 3, with 1..2, heard {0, 2}");
    let mut command = program("mpiexec");
    let ran = run(command.env("TUTTI_TRANSPORT", "tcp").args(["-n", "3", "true"]));
    assert_eq!((ran.code(), ran.stderr.lines().count()), (2, 1), "{ran}");
    assert!(ran.stderr.contains("TUTTI_TRANSPORT has the value \"tcp\", expected udp or shm"), "{ran}");
}

#[test]
fn udp_sockets_only_for_jobs_on_several_nodes() {
    for (words, expected) in [(&["-n", "2"][..], 0), (&["--virtual-nodes", "2", "-n", "4"], 2)] {
        let words = [words, &[RANK, "attach", "1:say=here", "hang"]].concat();
        let mut job = Running::start(&words);
        job.await_line("here");
        // A keeper has its starter's name and sockets until it runs for the first time.
        await_that("each starter has its sockets and nobody else has", || {
            named(&job, "tutti-starter").into_iter().all(|starter| udp_sockets(starter) == expected)
        });
        job.signal(Signal::TERM);
        assert_eq!(job.end().0, 143);
    }
}

#[test]
fn virtual_nodes_rank_death_ends_the_job_on_all() {
    for kind in kinds() {
        for victim in 0..4 {
            let word = format!("{victim}:signal=9");
            let ran = mpiexec(&[kind, "2", "-n", "4", RANK, "fork", "stray", "attach", &word, "hang"]);
            assert_eq!(ran.code(), 128 + 9, "{ran}");
            assert_one_line(&ran.stderr, &[&format!("rank {victim} (pid "), ") was killed by signal 9"]);
        }
        let ran = mpiexec(&[kind, "2", "-n", "4", RANK, "attach", "3:say=last words", "3:abort=77", "hang"]);
        assert_eq!((ran.code(), ran.stdout.as_str()), (77, "last words\n"), "{ran}");
        assert_one_line(&ran.stderr, &["rank 3", "called MPI_Abort(77)"]);
    }
}

#[test]
fn virtual_nodes_exit_status_after_finalize_is_kept() {
    let ran = mpiexec(&[
        "--virtual-nodes",
        "2",
        "-n",
        "2",
        "sh",
        "-c",
        &format!(
            "[ $TUTTI_RANK = 0 ] && exec {RANK} attach finalize exit=5; {RANK} attach finalize; sleep 0.3; echo done"
        ),
    ]);
    assert_eq!((ran.code(), ran.stdout.as_str()), (5, "done\n"), "{ran}");
    assert_one_line(&ran.stderr, &["rank 0", "exited with status 5"]);
}

#[test]
fn virtual_nodes_empty_node_stays_until_the_job_ends() {
    let mut job = Running::start(&[
        "--virtual-nodes",
        "2",
        "-n",
        "2",
        RANK,
        "attach",
        "0:finalize",
        "0:exit=0",
        "1:say=here",
        "1:await=/proc/self/fd/0/no",
    ]);
    job.await_line("here");
    await_that("rank 0 has left", || named(&job, "test-rank").len() == 1);
    await_that("its starter has reaped it", || {
        let children = |starter: &Pid| {
            let children = format!("/proc/{0}/task/{0}/children", starter.as_raw_nonzero());
            std::fs::read_to_string(children).map_or(0, |text| text.split_whitespace().count())
        };
        // The rank of node 1 is left; a keeper beside each starter.
        let mut counts: Vec<_> = named(&job, "tutti-starter").iter().map(children).collect();
        counts.sort_unstable();
        counts.len() == 2 && counts[0] + 1 == counts[1]
    });
    await_that("both starters have their sockets", || {
        let starters = named(&job, "tutti-starter");
        starters.iter().map(|starter| udp_sockets(*starter)).collect::<Vec<_>>() == [1, 1]
    });
    job.signal(Signal::INT);
    assert_eq!(job.end().0, 130);
}

#[test]
fn virtual_nodes_starter_death_ends_the_job() {
    for kind in kinds() {
        let before = networks();
        for victim in 0..2 {
            let words = [kind, "2", "-n", "4", RANK, "attach", "stray", "fork", "3:say=here", "hang"];
            let mut job = Running::start(&words);
            job.await_line("here");
            let cgroups: Vec<_> = named(&job, "test-rank").into_iter().filter_map(cgroup_of).collect();
            await_that("the ranks of both nodes run", || starters_of(&job).len() == 2);
            kill_process(starters_of(&job)[victim], Signal::KILL).expect("it runs");
            let (status, stderr) = job.end();
            assert_eq!(status, 1, "{stderr}");
            assert_one_line(&stderr, &["the job's starter on node ", "has died", "the job is ended"]);
            await_that("the cgroups are removed", || cgroups.iter().all(|cgroup| !cgroup.exists()));
        }
        await_that("no interface is left", || networks().0 == before.0);
        await_that("no network namespace is left", || networks().1.is_subset(&before.1));
    }
}

#[test]
fn virtual_nodes_kill_at_any_moment_leaves_nothing_behind() {
    let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
    for kind in kinds() {
        let (before, empty_before) = (networks(), empty_cgroups());
        for _ in 0..15 {
            let mut job = Running::start(&[kind, "3", "-n", "3", RANK, "attach", "stray", "fork", "hang"]);
            std::thread::sleep(Duration::from_micros(random.below(60_000)));
            let mpiexec = job.pid();
            let children = format!("/proc/{0}/task/{0}/children", mpiexec.as_raw_nonzero());
            let children = std::fs::read_to_string(children).unwrap_or_default();
            // The starters come first, their keepers are made later.
            let pids = children.split_whitespace().take(3);
            let starters: Vec<Pid> = pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
            let (victim, signal) = match random.below(4) {
                0 => (mpiexec, Signal::KILL),
                1 => (mpiexec, Signal::INT),
                _ if starters.is_empty() => (mpiexec, Signal::KILL),
                _ => (starters[random.below(starters.len() as u64) as usize], Signal::KILL),
            };
            kill_process(victim, signal).expect("it is there, dead or alive, until its parent looks");
            job.child.wait().expect("our child");
            job.mark.assert_nothing_left();
        }
        await_that("no empty cgroup of a job is left", || empty_cgroups().is_subset(&empty_before));
        await_that("no interface is left", || networks().0 == before.0);
        await_that("no network namespace is left", || networks().1.is_subset(&before.1));
    }
}

#[test]
fn virtual_nodes_all_get_signals() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let words = ["--virtual-nodes", "2", "-n", "2", RANK, "attach", "1:say=here", "hang"];
        let mut job = Running::start(&words);
        job.await_line("here");
        job.signal(signal);
        assert_eq!(job.end(), (status, String::new()));
    }
    let script =
        "trap 'echo two on $TUTTI_RANK; exit 0' USR2; echo here $TUTTI_RANK; while :; do sleep 0.05; done";
    let mut job = Running::start(&["--virtual-nodes", "2", "-n", "2", "sh", "-c", script]);
    job.await_line("here 0");
    job.await_line("here 1");
    job.signal(Signal::USR2);
    job.await_line("two on 0");
    job.await_line("two on 1");
    assert_eq!(job.end().0, 0);
}

#[test]
fn virtual_nodes_all_stop_with_mpiexec() {
    let mut job =
        Running::start(&["--virtual-nodes", "2", "-n", "2", "sh", "-c", "echo here $TUTTI_RANK; sleep 1000"]);
    job.await_line("here 0");
    job.await_line("here 1");
    let states = |wanted: fn(char) -> bool| {
        let ranks = named(&job, "sleep");
        ranks.len() == 2 && ranks.iter().all(|rank| stopped(*rank).is_some_and(wanted))
    };
    await_that("both ranks sleep", || named(&job, "sleep").len() == 2);
    job.signal(Signal::TSTP);
    await_that("both ranks are stopped", || states(|state| state == 'T'));
    await_that("mpiexec is stopped", || crate::harness::state_of(job.pid()) == Some('T'));
    job.signal(Signal::CONT);
    await_that("both ranks go on", || states(|state| state != 'T'));
    job.signal(Signal::TERM);
    assert_eq!(job.end().0, 143);
}

/// The state letter of a process; T also when its cgroup is frozen.
fn stopped(pid: Pid) -> Option<char> {
    let frozen = cgroup_of(pid)
        .and_then(|cgroup| std::fs::read_to_string(cgroup.join("cgroup.events")).ok())
        .is_some_and(|events| events.contains("frozen 1"));
    if frozen { Some('T') } else { crate::harness::state_of(pid) }
}

#[test]
fn virtual_nodes_output_is_that_of_one_job() {
    let script =
        "echo out; echo $TUTTI_RANK $TUTTI_SIZE $TUTTI_LOCAL_RANK $TUTTI_LOCAL_SIZE $MPI_LOCALRANKID";
    let ran = mpiexec(&["-l", "--virtual-nodes", "2", "-n", "3", "sh", "-c", script]).expect_success();
    let expected = ["[0] 0 3 0 2 0", "[0] out", "[1] 1 3 1 2 1", "[1] out", "[2] 2 3 0 1 0", "[2] out"];
    assert_eq!(sorted(&ran), expected);
    // Longer than any frame, from ranks of all nodes at once.
    let ran = mpiexec(&["--virtual-nodes", "2", "-n", "4", RANK, "spray=12,200000"]).expect_success();
    if has_paused_in_a_line(&ran) {
        return println!("{}", ran.stderr);
    }
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 48);
    for line in lines {
        assert!(
            line.len() == 199_999 && line.bytes().all(|byte| byte == line.as_bytes()[0]),
            "lines have mixed"
        );
    }
}

/// Rank 0 writes a line that never ends, rank 1 of the other node says its last words and fails.
fn endless_line(begun: &Path) -> Command {
    let script = format!(
        "if [ $TUTTI_RANK = 0 ]; then
             head -c 200000 /dev/zero | tr '\\0' x; touch {begun}; exec tr '\\0' x < /dev/zero
         fi
         until [ -e {begun} ]; do sleep 0.01; done; echo last words >&2; exit 3",
        begun = begun.display()
    );
    let mut command = Command::new(mpiexec_path());
    command.args(["--timeout", "60", "--virtual-nodes", "2", "-n", "2", "bash", "-c", &script]);
    command
}

#[test]
fn virtual_nodes_death_is_heard_during_a_long_line_of_another_node() {
    let scratch = Scratch::new("long-line");
    let ran = run(&mut endless_line(&scratch.path().join("begun")));
    assert_eq!(ran.status.code(), Some(3), "{}", ran.stderr);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(matches!(lines[..], ["last words", text] if text.contains("rank 1 ")), "{lines:?}");
}

#[test]
fn virtual_nodes_death_is_heard_while_output_is_not_read() {
    let scratch = Scratch::new("unread");
    let mark = Mark::new();
    let (mut reader, pipe) = std::io::pipe().expect("a pipe");
    let mut command = endless_line(&scratch.path().join("begun"));
    mark.on(&mut command);
    let mut child = command.stdout(pipe).stderr(Stdio::null()).spawn().expect("mpiexec");
    drop(command);
    let is_rank = |pid: &Pid| {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
        name.is_ok_and(|name| ["bash", "tr", "head"].contains(&name.trim()))
    };
    await_that("the line has begun", || scratch.path().join("begun").exists());
    await_that("no rank is left", || !mark.processes().iter().any(is_rank));
    // What has been written is not lost.
    let mut written = Vec::new();
    reader.read_to_end(&mut written).expect("a pipe");
    assert!(written.len() >= 200_000, "{} bytes", written.len());
    assert_eq!(child.wait().expect("our child").code(), Some(3));
    mark.assert_nothing_left();
}

#[test]
fn virtual_nodes_stdin_goes_to_its_rank() {
    let ask = |who: &str, nodes: &str| {
        let pipe =
            format!("seq 1 30000 | {} --stdin {who} --virtual-nodes {nodes}", mpiexec_path().display());
        let job = "sh -c 'n=$(wc -l); echo $TUTTI_RANK $n'";
        let ran = run(Command::new("sh").args(["-c", &format!("{pipe} -n 4 {job}")])).expect_success();
        sorted(&ran).join("; ")
    };
    assert_eq!(ask("3", "2"), "0 0; 1 0; 2 0; 3 30000");
    assert_eq!(ask("0", "4"), "0 30000; 1 0; 2 0; 3 0");
    assert_eq!(ask("all", "2"), "0 30000; 1 30000; 2 30000; 3 30000");
}

#[test]
fn virtual_nodes_stdin_is_not_blocked_by_one_node() {
    let pipe = format!("seq 1 30000 | {} --stdin all --virtual-nodes 2 -n 2", mpiexec_path().display());
    let script = "[ $TUTTI_RANK = 0 ] && { exec <&-; sleep 0.2; exit 0; }; wc -l";
    let ran = run(Command::new("sh").args(["-c", &format!("{pipe} sh -c '{script}'")])).expect_success();
    assert_eq!(ran.stdout.trim(), "30000");
}

#[test]
fn virtual_nodes_timeout_ends_the_job() {
    let ran =
        mpiexec(&["--timeout", "0.3", "--virtual-nodes", "2", "-n", "2", RANK, "attach", "fork", "hang"]);
    assert_eq!(ran.code(), 124, "{ran}");
    assert_one_line(&ran.stderr, &["did not finish within 0.3 seconds"]);
    assert!(ran.took < LIMIT);
}

#[test]
fn virtual_nodes_launch_error_is_one_line() {
    let refused = |words: &[&str], status: i32, part: &str| {
        let ran = mpiexec(words);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (status, 1), "{words:?}: {ran}");
        assert!(ran.stderr.starts_with("mpiexec: ") && ran.stderr.contains(part), "{words:?}: {ran}");
        assert_eq!(ran.stdout, "");
    };
    refused(&["--virtual-nodes", "0", "-n", "2", "true"], 2, "--virtual-nodes is given \"0\"");
    refused(&["--netns", "many", "-n", "2", "true"], 2, "--netns is given \"many\"");
    refused(&["--virtual-nodes", "3", "-n", "2", "true"], 2, "3 nodes are more than the 2 ranks");
    refused(&["--netns", "3", "-n", "2", "true"], 2, "3 nodes are more than the 2 ranks");
    refused(&["--netns", "129", "-n", "140", "true"], 2, "--netns takes at most 128 nodes, not 129");
    refused(&["--netns", "2", "--virtual-nodes", "2", "-n", "2", "true"], 2, "give one of them");
    refused(
        &["--virtual-nodes", "2", "-ppn", "1", "-n", "4", "true"],
        2,
        "4 ranks, 1 on each node, are not 2",
    );
    refused(&["--virtual-nodes", "2", "-n", "5000", "true"], 1, "2500 ranks are more than the 2048");
    // Fails on every node, is said once; nothing has run on any.
    let script = tutti_tests::Scratch::new("nodes");
    let file = script.path().join("rubbish");
    std::fs::write(&file, b"\x00\x01").expect("a file");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
    let file = file.to_str().expect("UTF-8");
    refused(&["--virtual-nodes", "3", "-n", "3", file], 126, "not a program for this machine");
    // Without the capability, as for an ordinary user.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]).arg(mpiexec_path());
    let ran = run(command.args(["--netns", "2", "-n", "2", "echo", "ran"]));
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
    assert!(ran.stderr.contains("--netns makes network namespaces and needs root"), "{ran}");
}
