//! Machines of a lab with the conditions of a pod of Kubernetes: root without capabilities, cgroups that can
//! only be read, 64 MiB of `/dev/shm`, an address that is another one when the pod is made anew. A program is
//! in place of sshd and ssh.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tutti_testkit::lab::Lab;
use tutti_testkit::{Need, await_that, skip};
use tutti_tests::{Ran, Scratch, compile_with, run};

const LIMIT: Duration = Duration::from_secs(120);
const PYTHON: &str = "/usr/bin/python3";
/// Makes a machine a pod, and runs the rest of the words in it.
const POD: &str = "mount -t tmpfs -o size=64M tmpfs /dev/shm\n\
    for place in $(awk '/ - cgroup2? / {print $5}' /proc/self/mountinfo); do mount -o remount,bind,ro $place; done\n\
    exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- \"$@\"";

/// Machine 0 is a launcher, or the place of a controller, the others are workers.
struct Pods {
    lab: Lab,
    scratch: Scratch,
}

impl Pods {
    fn up(name: &str, pods: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Root, "only root's lab has machines with a root of their own");
            return None;
        }
        let lab = Lab::of(&Lab::plan(pods))?;
        Some(Pods { lab, scratch: Scratch::new(&format!("machines-{name}")) })
    }

    /// A command in a pod.
    fn command(&self, pod: u32, words: &[&str]) -> Command {
        let mut command = self.lab.node(pod).command("sh");
        command.args(["-c", POD, "sh"]).args(words);
        command
    }

    #[track_caller]
    fn run(&self, pod: u32, words: &[&str]) -> Ran {
        run(&mut self.command(pod, words), LIMIT)
    }

    fn spawn(&self, pod: u32, words: &[&str]) {
        self.lab.node(pod).spawn(&[&["sh", "-c", POD, "sh"], words].concat());
    }

    fn rsh() -> PathBuf {
        tutti_tests::root().join("tests/machines/programs/rsh.py")
    }

    /// Starts the daemon of a pod, which has this address; the controller is pod 0.
    fn start_daemon(&self, pod: u32, address: Ipv4Addr) {
        let (own, first) = (self.lab.node(pod), self.lab.node(0));
        own.run(&["mkdir", "-p", "/etc/tutti/key"]);
        let key = first.file("/etc/tutti/key/cluster.key");
        if pod == 0 {
            own.run(&["tutti", "keygen", "/etc/tutti/key/cluster.key"]);
        } else {
            let text = std::fs::read_to_string(key).expect("the key");
            own.run(&["sh", "-c", "umask 077; printf %s \"$0\" >/etc/tutti/key/cluster.key", &text]);
        }
        let line = "exec tuttid --slots 1 --key /etc/tutti/key/cluster.key \"$@\" </dev/null >>/var/log/tuttid.log 2>&1";
        let listen = format!("{address}:7411");
        let mut words = vec!["sh", "-c", line, "tuttid", "--lost-after", "2", "--listen", &listen];
        let join = format!("{}:7411", first.address());
        if pod > 0 {
            words.extend(["--join", &join]);
        }
        self.spawn(pod, &words);
    }

    /// The state of a job in the list.
    fn is(&self, job: u32, state: &str) -> bool {
        let ran = self.run(0, &["tutti", "status", "--json", &job.to_string()]);
        ran.stdout.contains(&format!("\"state\": \"{state}\""))
    }
}

/// As the launcher of an MPIJob: a file of hosts by a variable of the operator's, and ssh.
#[test]
fn pods_launcher_runs_a_job_on_its_workers_and_names_what_is_missing() {
    let Some(pods) = Pods::up("pods", 3) else { return };
    let rsh = Pods::rsh();
    let rsh = rsh.to_str().expect("text");
    for pod in [1, 2] {
        let address = pods.lab.node(pod).address().to_string();
        pods.spawn(pod, &[PYTHON, rsh, "--serve", &address]);
    }
    let program = compile_with("mpicc", "tests/mpi/programs/processor_names.c", pods.scratch.path());
    let hosts = pods.scratch.path().join("hostfile");
    std::fs::write(&hosts, "node1 slots=1\nnode2 slots=1\n").expect("a file");
    let mut mpiexec = pods.command(0, &["mpiexec", program.to_str().expect("text")]);
    mpiexec.env("OMPI_MCA_orte_default_hostfile", &hosts).env("TUTTI_RSH", format!("{PYTHON} {rsh}"));
    let ran = run(&mut mpiexec, LIMIT).expect_success();
    assert!(ran.stdout.contains("2 names"), "{ran}");
    for host in ["node1", "node2"] {
        for lack in ["no cgroups can be made", "/dev/shm has 64 MiB"] {
            let line = format!("tutti: {host}: {lack}");
            assert_eq!(ran.stderr.matches(&line).count(), 1, "{line}: {ran}");
        }
    }
    let left = || [1, 2].map(|pod| pods.lab.node(pod).sh("pidof tuttid").stdout);
    await_that("the daemons have ended", || left().iter().all(Vec::is_empty));
}

/// As an Indexed Job: a daemon in each pod. One is killed, and made anew with another address.
#[test]
fn pods_killed_end_their_own_jobs_alone_and_come_back_with_other_addresses() {
    let Some(pods) = Pods::up("pods-killed", 3) else { return };
    for pod in 0..3 {
        pods.start_daemon(pod, pods.lab.node(pod).address());
        pods.lab.await_daemons(pod + 1).expect("a cluster");
    }
    let submit = |hosts: &str, ranks: &str| {
        let words = ["tutti", "submit", "-o", "none", "-H", hosts, "-n", ranks, "sleep", "1000"];
        pods.run(0, &words).expect_success();
    };
    submit("node0:1,node1:1", "2");
    submit("node0:1,node2:1", "2");
    submit("node2:1", "1");
    await_that("all of them run", || (1..=3).all(|job| pods.is(job, "running")));
    let pod = pods.lab.node(2);
    pod.kill();
    await_that("the jobs of the killed pod are over", || pods.is(2, "over") && pods.is(3, "over"));
    assert!(pods.is(1, "running"), "the other one goes on");
    // Made anew: another address, of which the others hear by its name's.
    pod.boot();
    let [one, two, .., four] = pod.address().octets();
    let address = Ipv4Addr::new(one, two, 77, four);
    pod.run(&["sh", "-c", &format!("ip addr flush dev $(ls /sys/class/net | grep -v lo) && ip addr add {address}/16 dev $(ls /sys/class/net | grep -v lo)")]);
    for other in 0..3 {
        let line = format!(
            "sed 's/^[^ ]* node2$/{address} node2/' /etc/hosts >/tmp/hosts && cat /tmp/hosts >/etc/hosts"
        );
        pods.lab.node(other).run(&["sh", "-c", &line]);
    }
    pods.start_daemon(2, address);
    pods.lab.await_daemons(3).expect("a cluster");
    let words = ["tutti", "run", "-H", "node0:1,node1:1,node2:1", "-n", "3", "hostname"];
    let ran = pods.run(0, &words).expect_success();
    let mut names: Vec<&str> = ran.stdout.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["node0", "node1", "node2"], "{ran}");
    assert!(pods.is(1, "running"), "the other one goes on");
}
