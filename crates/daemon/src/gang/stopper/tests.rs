use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

/// A child whose children are the job; killed with them.
struct Job(Child, Vec<Pid>);

impl Job {
    /// `script` prints the pids of all its processes but itself, one a line, and then `.`.
    fn start(script: &str) -> Self {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let pids = lines.take_while(|line| line != ".");
        let pids = pids.map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect();
        Job(child, pids)
    }

    fn stopper(&self) -> Stopper {
        let starter = Pid::from_child(&self.0);
        // The thread ends with the stopper.
        let (worker, _thread) = Worker::start().unwrap();
        Stopper::new(starter, rustix::process::geteuid().as_raw(), worker)
    }

    fn states(&self) -> Vec<u8> {
        self.1.iter().map(|pid| Stat::of(*pid).map_or(b'X', |stat| stat.state)).collect()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn freeze(stopper: &mut Stopper) {
    stopper.freeze(0);
    while !stopper.try_confirm(0) {
        std::thread::yield_now();
    }
}

/// Waits for what the kernel does a little later; the test's limit ends it.
fn await_that(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

const THREE: &str = "for i in 1 2 3; do sleep 60 & echo $!; done; echo .; wait";

#[test]
fn stopper_stops_and_continues_all_descendants() {
    let job = Job::start(THREE);
    let mut stopper = job.stopper();
    for _ in 0..3 {
        freeze(&mut stopper);
        assert_eq!(job.states(), b"TTT");
        stopper.thaw(0);
        await_that(|| job.states() == b"SSS");
    }
    assert_ne!(Stat::of(Pid::from_child(&job.0)).unwrap().state, b'T', "its parent, the starter, goes on");
}

#[test]
fn stopper_distinguishes_sleep_and_work() {
    let looks = |script| {
        let job = Job::start(script);
        let mut stopper = job.stopper();
        await_that(|| descendants::all_of(stopper.crowd.starter).len() == 3);
        let (start, mut seen) = (std::time::Instant::now(), Vec::new());
        // What a process does when it has just been started is over soon.
        while seen.len() < 3 || seen.last() == Some(&false) && script == THREE {
            seen.extend(stopper.try_activity(start.elapsed().as_nanos() as u64).map(|done| done.asleep));
            std::thread::yield_now();
        }
        freeze(&mut stopper);
        assert_eq!(stopper.try_activity(u64::MAX), None, "it stands still");
        seen
    };
    assert_eq!(looks(THREE).last(), Some(&true));
    let busy = "sleep 60 & echo $!; sleep 60 & echo $!; (while :; do :; done) & echo $!; echo .; wait";
    assert_eq!(looks(busy), [false; 3]);
}

#[test]
fn stopper_leaves_stopped_processes_stopped() {
    let job = Job::start(THREE);
    rustix::process::kill_process(job.1[1], Signal::STOP).unwrap();
    await_that(|| job.states()[1] == b'T');
    let mut stopper = job.stopper();
    freeze(&mut stopper);
    assert_eq!(job.states(), b"TTT");
    stopper.thaw(0);
    await_that(|| job.states() == b"STS");
}

#[test]
fn stopper_stops_escaped_processes_again() {
    let job = Job::start(THREE);
    let mut stopper = job.stopper();
    freeze(&mut stopper);
    rustix::process::kill_process(job.1[2], Signal::CONT).unwrap();
    await_that(|| job.states() == b"TTS");
    assert!(!stopper.try_confirm(GUARD_NS), "it was confirmed long ago");
    await_that(|| job.states() == b"TTT");
    stopper.thaw(0);
    await_that(|| job.states() == b"SSS");
}

#[test]
fn stopper_stops_a_forking_process() {
    let job = Job::start("( while :; do ( : ) ; done ) & echo $!; echo .; wait");
    let mut stopper = job.stopper();
    for _ in 0..20 {
        freeze(&mut stopper);
        let states = descendants::all_of(stopper.crowd.starter).into_iter().filter_map(Stat::of);
        assert!(states.into_iter().all(|stat| stat.is_stopped() || stat.is_dead()));
        stopper.thaw(0);
    }
}

/// Begins a program in a child that uses its memory until then, and opens a FIFO first.
const SPAWNS: &str = r#"
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
int main(int count, char **words) {
    (void)count;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, words[1], O_RDONLY, 0);
    pid_t child = 0;
    int error = posix_spawn(&child, "/bin/true", &actions, NULL, words, NULL);
    return error ? error : wait(NULL) != child;
}
"#;

#[test]
fn stopper_stops_a_process_that_waits_in_vfork_for_its_stopped_child() {
    let scratch = tutti_testkit::Scratch::new("stopper-vfork");
    let (source, program, fifo) =
        (scratch.path().join("spawns.c"), scratch.path().join("spawns"), scratch.path().join("fifo"));
    std::fs::write(&source, SPAWNS).unwrap();
    assert!(Command::new("cc").arg("-o").args([&program, &source]).status().unwrap().success());
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let script = format!("{} {} & echo $!; echo .; wait", program.display(), fifo.display());
    let job = Job::start(&script);
    await_that(|| job.states() == b"D");
    let mut stopper = job.stopper();
    for _ in 0..3 {
        freeze(&mut stopper);
        let child = descendants::children_of(job.1[0])[0];
        assert_eq!((job.states(), Stat::of(child).unwrap().state), (b"D".to_vec(), b'T'));
        stopper.thaw(0);
        await_that(|| Stat::of(child).unwrap().state == b'S');
        assert_eq!(job.states(), b"D", "it was not stopped, and is not continued");
    }
    drop(std::fs::File::options().write(true).open(&fifo).unwrap());
    await_that(|| job.states() == b"X" || Stat::of(job.1[0]).is_none_or(|stat| stat.is_dead()));
}

/// Ends its main thread while another one works.
const ENDS_MAIN: &str = r#"
#include <pthread.h>
static void *work(void *arg) {
    (void)arg;
    for (volatile unsigned long turns = 0;; turns++);
    return NULL;
}
int main(void) {
    pthread_t other;
    if (pthread_create(&other, NULL, work, NULL)) return 1;
    pthread_exit(NULL);
}
"#;

#[test]
fn stopper_stops_a_process_whose_main_thread_has_ended() {
    let scratch = tutti_testkit::Scratch::new("stopper-main");
    let (source, program) = (scratch.path().join("main.c"), scratch.path().join("main"));
    std::fs::write(&source, ENDS_MAIN).unwrap();
    let built = Command::new("cc").arg("-pthread").arg("-o").args([&program, &source]).status();
    assert!(built.unwrap().success());
    let job = Job::start(&format!("{} & echo $!; echo .; wait", program.display()));
    let threads = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", job.1[0].as_raw_nonzero())).unwrap();
        let states = tasks.flatten().filter_map(|task| Stat::read(task.path().join("stat")));
        let mut states: Vec<u8> = states.map(|stat| stat.state).collect();
        states.sort_unstable();
        states
    };
    await_that(|| threads() == b"RZ");
    let mut stopper = job.stopper();
    for _ in 0..3 {
        freeze(&mut stopper);
        assert_eq!(threads(), b"TZ");
        stopper.thaw(0);
        await_that(|| threads() == b"RZ");
    }
}

/// More than the switch thread goes through.
const MANY: &str = "i=0; while [ $i -lt 100 ]; do sleep 60 & echo $!; i=$((i + 1)); done; echo .; wait";

#[test]
fn crowd_is_stopped_and_goes_on_by_an_errand() {
    let job = Job::start(MANY);
    let mut stopper = job.stopper();
    let all = |state: u8| job.states().iter().all(|found| *found == state);
    for _ in 0..3 {
        freeze(&mut stopper);
        assert!(stopper.is_crowd() && all(b'T'), "{:?}", job.states());
        stopper.thaw(0);
        await_that(|| all(b'S'));
    }
    // Whatever comes last holds.
    for _ in 0..50 {
        stopper.freeze(0);
        stopper.thaw(0);
    }
    await_that(|| all(b'S'));
    stopper.thaw(0);
    for _ in 0..50 {
        stopper.thaw(0);
        stopper.freeze(0);
    }
    while !stopper.try_confirm(0) {
        std::thread::yield_now();
    }
    assert!(all(b'T'));
    // Who escapes is found, more rarely.
    await_that(|| !stopper.crowd.left.load(Ordering::SeqCst) && stopper.crowd.stopped.try_lock().is_ok());
    rustix::process::kill_process(job.1[70], Signal::CONT).unwrap();
    await_that(|| job.states()[70] == b'S');
    assert!(!stopper.try_confirm(u64::MAX), "it was confirmed long ago");
    await_that(|| all(b'T'));
    stopper.thaw(0);
    await_that(|| all(b'S'));
}

#[test]
fn crowd_that_has_gone_is_none_any_more() {
    let job = Job::start(MANY);
    let mut stopper = job.stopper();
    freeze(&mut stopper);
    stopper.thaw(0);
    job.1[3..].iter().for_each(|pid| rustix::process::kill_process(*pid, Signal::KILL).unwrap());
    await_that(|| job.states()[3..].iter().all(|state| *state == b'X'));
    freeze(&mut stopper);
    stopper.thaw(0);
    freeze(&mut stopper);
    assert!(!stopper.is_crowd());
    stopper.thaw(0);
    await_that(|| job.states()[..3] == *b"SSS");
}
