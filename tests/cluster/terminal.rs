//! A job of the cluster at a terminal: keys and signals do to it what they do to any program, on all its
//! nodes at once.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::Signal;
use tutti_tests::Scratch;

use crate::Cluster;
use crate::harness::{RANK, await_that, state_of};

/// Ranks whose hearts beat into files until there is a marker.
const HEARTS: &str =
    "echo here; while ! [ -e $HEARTS/go ]; do echo x >>$HEARTS/$TUTTI_RANK; sleep 0.01; done; echo over";

/// Where hearts beat.
struct Hearts(Scratch);

impl Hearts {
    fn new(name: &str) -> Self {
        Hearts(Scratch::new(name))
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn beats(&self) -> Vec<u64> {
        let beats =
            |rank: u32| std::fs::metadata(self.folder().join(rank.to_string())).map_or(0, |file| file.len());
        (0..4).map(beats).collect()
    }

    /// All beat, or none does.
    #[track_caller]
    fn await_that_they(&self, beat: bool) {
        await_that(if beat { "all hearts beat" } else { "all hearts stand still" }, || {
            let before = self.beats();
            std::thread::sleep(std::time::Duration::from_millis(100));
            let moved: Vec<bool> =
                before.iter().zip(self.beats()).map(|(before, now)| now > *before).collect();
            moved.iter().all(|moved| *moved == beat)
        });
    }

    fn release(&self) {
        std::fs::write(self.folder().join("go"), "").expect("a file");
    }
}

// Paper: S5
#[test]
fn terminal_ctrl_z_stops_the_job_on_all_nodes_and_fg_resumes() {
    let cluster = Cluster::up("cluster-ctrl-z", 2, &[]);
    let hearts = Hearts::new("cluster-ctrl-z-hearts");
    let script =
        "set -m; $tutti run -N 2 -n 4 bash -c \"$PROGRAM\"; echo stopped $?; read go; fg; echo status $?";
    let variables = [("HEARTS", hearts.folder().as_os_str()), ("PROGRAM", HEARTS.as_ref())];
    let mut terminal = cluster.at_terminal(script, &variables);
    (0..4).for_each(|_| terminal.await_text("here"));
    hearts.await_that_they(true);
    terminal.press("\x1a");
    terminal.await_text("stopped 148");
    hearts.await_that_they(false);
    await_that("the job is suspended", || cluster.job(1).contains("\"suspended\""));
    terminal.press("\n");
    hearts.await_that_they(true);
    hearts.release();
    (0..4).for_each(|_| terminal.await_text("over"));
    terminal.await_text("status 0");
}

#[test]
fn terminal_ctrl_z_and_bg_run_in_the_background() {
    let cluster = Cluster::up("cluster-bg", 2, &[]);
    let hearts = Hearts::new("cluster-bg-hearts");
    let script =
        "set -m; $tutti run -N 2 -n 4 bash -c \"$PROGRAM\"; echo stopped $?; bg; wait %1; echo status $?";
    let variables = [("HEARTS", hearts.folder().as_os_str()), ("PROGRAM", HEARTS.as_ref())];
    let mut terminal = cluster.at_terminal(script, &variables);
    (0..4).for_each(|_| terminal.await_text("here"));
    terminal.press("\x1a");
    terminal.await_text("stopped 148");
    hearts.await_that_they(true);
    // Rank 0 would read the terminal: in the background nobody does, so nobody is stopped for it.
    terminal.press("typed for the shell\n");
    hearts.release();
    terminal.await_text("status 0");
}

#[test]
fn terminal_ctrl_c_and_ctrl_backslash_end_the_job() {
    let cluster = Cluster::up("cluster-ctrl-c", 2, &[]);
    for (key, status) in [("\x03", "status 130"), ("\x1c", "status 131")] {
        let mut terminal = cluster
            .at_terminal("trap : INT QUIT; $tutti run -N 2 -n 2 $rank say=here hang; echo status $?", &[]);
        terminal.await_text("here");
        terminal.await_text("here");
        terminal.press(key);
        terminal.await_text(status);
    }
}

// Paper: S5
#[test]
fn terminal_sigstop_of_the_front_end_stops_the_job() {
    let cluster = Cluster::up("cluster-sigstop", 2, &[]);
    let hearts = Hearts::new("cluster-sigstop-hearts");
    let mut command = cluster.command(&["run", "-N", "2", "-n", "4", "sh", "-c", HEARTS]);
    let job = crate::harness::Running::start_command(command.env("HEARTS", hearts.folder()));
    hearts.await_that_they(true);
    for _ in 0..3 {
        job.signal(Signal::STOP);
        await_that("the job is suspended", || cluster.job(1).contains("\"suspended\""));
        hearts.await_that_they(false);
        job.signal(Signal::CONT);
        hearts.await_that_they(true);
        await_that("the front end goes on", || state_of(job.pid()) != Some('T'));
        await_that("the job runs", || cluster.job(1).contains("\"running\""));
    }
    hearts.release();
    assert_eq!(job.end(), (0, String::new()));
}

#[test]
fn terminal_input_and_window_size_reach_the_ranks() {
    let cluster = Cluster::up("cluster-typing", 2, &[]);
    let program =
        "trap 'stty size <&1; exit' WINCH; echo here; read x; echo got $x; while :; do sleep 0.02; done";
    let mut terminal = cluster.at_terminal(
        "$tutti run -N 2 -n 2 bash -c \"$PROGRAM\"; echo status $?",
        &[("PROGRAM", program.as_ref())],
    );
    // A rank that has set no trap yet would not notice.
    terminal.await_text("here");
    terminal.await_text("here");
    terminal.press("hello\n");
    terminal.await_text("got hello");
    terminal.resize(33, 77);
    terminal.await_text("33 77");
    terminal.await_text("33 77");
    terminal.await_text("status 0");
}

#[test]
fn terminal_pty_keys_are_for_rank_0() {
    let cluster = Cluster::up("cluster-pty", 2, &[]);
    let hearts = Hearts::new("cluster-pty-hearts");
    let program = format!("trap 'echo int' INT; tty -s; echo terminal $?; {HEARTS}");
    let script = "set -m; $tutti run --pty -N 2 -n 4 bash -c \"$PROGRAM\"; echo stopped $?; read go; fg; echo status $?";
    let variables = [("HEARTS", hearts.folder().as_os_str()), ("PROGRAM", program.as_ref())];
    let mut terminal = cluster.at_terminal(script, &variables);
    hearts.await_that_they(true);
    terminal.press("\x03");
    terminal.await_text("int");
    terminal.press("\x1a");
    terminal.await_text("stopped 148");
    hearts.await_that_they(false);
    terminal.press("\n");
    hearts.await_that_they(true);
    hearts.release();
    (0..4).for_each(|_| terminal.await_text("over"));
    terminal.await_text("status 0");
}

#[test]
fn terminal_hangup_ends_the_job() {
    let cluster = Cluster::up("cluster-hangup", 2, &[]);
    let mut terminal = cluster.at_terminal("$tutti run -N 2 -n 2 $rank say=here hang; echo over", &[]);
    terminal.await_text("here");
    terminal.await_text("here");
    terminal.hang_up();
    await_that("the job is over", || cluster.job(1).contains("\"over\""));
}

#[test]
fn terminal_stopped_reader_blocks_only_its_ranks() {
    let cluster = Cluster::up("cluster-full-pipe", 2, &[]);
    let scratch = Scratch::new("cluster-full-pipe-marker");
    let written: PathBuf = scratch.path().join("written");
    let touch = format!("touch={}", written.display());
    let mut command = cluster.command(&["run", "-N", "2", "-n", "2", RANK, "spray=20000,1000", &touch]);
    let mut front = command.stdout(Stdio::piped()).spawn().expect("tutti");
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    for _ in 0..3 {
        cluster.run(&["run", "-N", "2", "-n", "4", RANK, "exchange"]).expect_success();
    }
    // 40 MB do not fit on the way: nobody can be through.
    assert!(!written.exists());
    for node in 0..2 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", cluster.daemon(node).as_raw_nonzero()));
        let resident = status.expect("it lives").lines().find(|line| line.starts_with("VmRSS")).map(|line| {
            line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number")
        });
        assert!(resident.expect("a line") < 64 << 10, "{resident:?} KiB");
    }
    let mut bytes = 0;
    let mut piece = vec![0; 1 << 16];
    let mut pipe = front.stdout.take().expect("piped");
    while let Ok(read) = pipe.read(&mut piece)
        && read > 0
    {
        bytes += read;
    }
    assert!(front.wait().expect("it was ours").success());
    assert!(written.exists());
    assert_eq!(bytes, 2 * 20000 * 1000);
}
