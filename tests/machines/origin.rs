//! Files of the origin on machines that share no files: a job's program, its input and its results are on
//! machine 0 alone.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use tutti_testkit::await_that;
use tutti_testkit::lab::Lab;
use tutti_tests::machines::Machines;
use tutti_tests::{Ran, run};

const LIMIT: Duration = Duration::from_secs(100);
const WORK: &str = "/home/alice/work";

struct Origin(Machines);

impl Origin {
    /// Machines where alice has a folder with an input and a link out of it, on machine 0 alone.
    #[track_caller]
    fn up(name: &str, nodes: u32) -> Option<Self> {
        let machines = Machines::up_by(name, &Lab::plan(nodes).no_shared_files(), &[])?;
        let origin = Origin(machines);
        // Users may use /dev/fuse where udev has made it; a machine without udev keeps it for root.
        if rustix::process::geteuid().is_root() {
            let open = std::fs::Permissions::from_mode(0o666);
            std::fs::set_permissions("/dev/fuse", open).expect("what udev does");
        }
        origin.sh("mkdir work && cd work && echo hello >input.txt && ln -s /etc/hostname out && mkdir made");
        Some(origin)
    }

    /// A shell of alice's on machine 0, in her home.
    #[track_caller]
    fn sh(&self, script: &str) -> Ran {
        run(self.0.command(0, "sh").args(["-c", &format!("cd /home/alice && {script}")]), LIMIT)
    }

    /// The compiled program, at a path of a machine.
    #[track_caller]
    fn put_program(&self, node: u32, path: &str) {
        let program = self.0.compile("mpicc", "tests/machines/programs/origin.c");
        std::fs::copy(program, self.0.lab.node(node).file(path)).expect("a copy");
    }

    /// Whether alice has anything of the origin on another machine.
    fn has_left(&self, node: u32) -> bool {
        self.0.lab.node(node).sh("ls -A /home/alice/work").status.success()
    }
}

// Paper: C27
#[test]
fn origin_files_are_there_for_a_program_on_machines_without_them() {
    let Some(origin) = Origin::up("origin", 3) else { return };
    origin.put_program(0, &format!("{WORK}/program"));
    let ran = origin.sh("cd work && tutti run -N 3 -n 3 --bind-to none --files ./program && cat calls-2");
    assert!(ran.stdout.contains("files of the origin are right\n"), "{ran}");
    assert!(ran.stdout.ends_with("\0\0\0calls-2"), "{ran}");
    // Unmodified programs: read, write, append, rename, list, link, lock, map.
    let script = "set -e; r=$TUTTI_RANK; cat input.txt >copy-$r; echo more >>copy-$r; mv copy-$r made/moved-$r; \
                  ln -s moved-$r made/link-$r; test \"$(cat made/link-$r)\" = \"$(printf 'hello\\nmore')\"; \
                  ls made | grep -q moved-$r; chmod 600 made/moved-$r; mkdir made/deep-$r; rmdir made/deep-$r; \
                  dd if=/dev/zero of=big-$r bs=1M count=3 2>/dev/null; test $(stat -c %s big-$r) = 3145728; \
                  cmp big-$r /dev/zero -n 3145728; rm big-$r; test $r = 0 || ! cat out 2>why-$r; test $r = 0 || grep -q 'cross-device' why-$r; \
                  ! cat nothing 2>/dev/null; echo rank $r is right";
    let script = origin.sh(&format!(
        "cd work && cat >all.sh <<'END'\n{script}\nEND\ntutti run -N 3 -n 3 --bind-to none --files sh all.sh"
    ));
    for rank in 0..3 {
        assert!(script.stdout.contains(&format!("rank {rank} is right\n")), "{script}");
        assert!(origin.sh(&format!("cat work/made/link-{rank}")).stdout == "hello\nmore\n");
    }
    assert!(script.stderr.contains("link out of the files of the origin"), "{script}");
    for node in 1..3 {
        assert!(!origin.has_left(node), "something is left on machine {node}");
        let mounts = origin.0.lab.node(node).run(&["sh", "-c", "grep -c fuse.tutti /proc/*/mounts || true"]);
        assert!(mounts.lines().all(|line| line.ends_with(":0")), "{mounts}");
    }
}

/// Processes of all nodes that lock a file by `flock` are never in the section behind it together.
#[test]
fn origin_locks_of_whole_files_hold_on_all_machines() {
    let Some(origin) = Origin::up("origin-flock", 3) else { return };
    let script = "for i in 1 2 3 4 5; do flock gate sh -c 'mkdir inside && sleep 0.02 && rmdir inside' || exit 1; done; \
                  echo rank $TUTTI_RANK is right";
    let ran = origin.sh(&format!(
        "cd work && cat >all.sh <<'END'\n{script}\nEND\ntutti run -N 3 -n 3 --bind-to none --files sh all.sh"
    ));
    for rank in 0..3 {
        assert!(ran.stdout.contains(&format!("rank {rank} is right\n")), "{ran}");
    }
    // Somebody on the origin itself meets a rank of another machine, which gives the lock back by its end.
    let holder = "exec 9<gate; flock 9; echo held; while test ! -e go; do sleep 0.05; done";
    let mut command = origin.0.command(0, "sh");
    command.args(["-c", &format!("cd {WORK} && tutti run -H node1 -n 1 --files sh -c '{holder}' >told")]);
    let mut job = command.stdin(Stdio::null()).spawn().expect("tutti run");
    await_that("the rank has the lock", || origin.sh("cat work/told").stdout.contains("held"));
    assert!(!origin.sh("flock -n work/gate true").status.success());
    origin.sh("touch work/go");
    assert!(job.wait().expect("it ends").success());
    let free = origin.sh("flock -n work/gate true");
    assert!(free.status.success(), "{free}");
}

#[test]
fn origin_files_of_a_submitted_job_are_served_until_it_is_over() {
    let Some(origin) = Origin::up("origin-submit", 2) else { return };
    let job = "sh -c 'cat input.txt >from-$TUTTI_RANK'";
    let ran = origin.sh(&format!("cd work && tutti submit -N 2 -n 2 --bind-to none --files -o log {job}"));
    let number = ran.stdout.trim().strip_prefix("job ").expect("a number").to_owned();
    let ended = origin.sh(&format!("tutti wait {number}; cat work/log work/from-0 work/from-1"));
    assert_eq!(ended.stdout, "hello\nhello\n", "{ended}");
    await_that("the server has ended", || {
        !origin.0.lab.node(0).sh("grep -lz -- [-]-serve-files /proc/[0-9]*/cmdline").status.success()
    });
}

#[test]
fn origin_server_that_is_killed_ends_the_calls_with_an_error() {
    let Some(origin) = Origin::up("origin-gone", 2) else { return };
    let script = "cat input.txt; echo ready-$TUTTI_RANK; while cat input.txt >/dev/null 2>why; do sleep 0.05; done; \
                  echo ended-$TUTTI_RANK";
    origin.sh(&format!("cat >work/loop.sh <<'END'\n{script}\nEND"));
    let mut command = origin.0.command(0, "sh");
    let said = "/home/alice/said";
    command.args(["-c", &format!("cd {WORK} && tutti run -H node1 -n 1 --files sh loop.sh >{said} 2>&1")]);
    let mut job = command.stdin(Stdio::null()).spawn().expect("tutti run");
    await_that("the rank reads", || origin.sh(&format!("cat {said}")).stdout.contains("ready-0"));
    let kill = "kill -9 $(grep -lz -- [-]-serve-files /proc/[0-9]*/cmdline | cut -d/ -f3)";
    origin.0.lab.node(0).run(&["sh", "-c", kill]);
    job.wait().expect("it ends");
    let told = origin.sh(&format!("cat {said}")).stdout;
    assert!(told.contains("ended-0"), "{told}");
    assert!(told.contains("calls on files of the origin fail from now on"), "{told}");
}

#[test]
fn origin_files_without_fuse_are_reached_by_calls_and_one_line_says_why() {
    let Some(origin) = Origin::up("origin-calls", 2) else { return };
    let node = origin.0.lab.node(1);
    node.run(&["mount", "--bind", "/etc/hostname", "/dev/fuse"]);
    // The program is there by hand; its input is not.
    (0..2).for_each(|node| origin.put_program(node, "/var/tmp/program"));
    let ran = origin.sh("cd work && tutti run -N 2 -n 2 --bind-to none --files /var/tmp/program");
    assert!(ran.stdout.contains("files of the origin are right\n"), "{ran}");
    assert_eq!(ran.stderr.matches("are not mounted here").count(), 1, "{ran}");
    assert!(ran.stderr.contains("/dev/fuse"), "{ran}");
    let none = origin.sh("cd work; tutti run -H node1 -n 1 --files=/no/such true");
    assert!(none.stderr.contains("--files=/no/such: No such file"), "{none}");
}
