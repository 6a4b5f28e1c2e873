//! `mpiexec` at a terminal: typing, Ctrl-C, Ctrl-Z, background.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::harness::{LIMIT, Mark, mpiexec_path};

/// A shell at a terminal of its own.
struct Terminal {
    shell: Child,
    keyboard: std::fs::File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    mark: Mark,
}

impl Terminal {
    /// Runs a script, with `$mpiexec` set.
    fn run(script: &str) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&master).expect("a terminal");
        unlockpt(&master).expect("a terminal");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let slave =
            open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("a terminal");
        let end = || -> OwnedFd { slave.try_clone().expect("a descriptor") };
        let mark = Mark::new();
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", "bash", "-c", script]);
        command.env("mpiexec", mpiexec_path()).stdin(end()).stdout(end()).stderr(end());
        mark.on(&mut command);
        let shell = command.spawn().expect("setsid");
        let keyboard = std::fs::File::from(master);
        let mut master = keyboard.try_clone().expect("a descriptor");
        let (shown, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // EIO: nobody has the terminal open any more.
            while let Ok(read) = master.read(&mut bytes) {
                if read == 0 || shown.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { shell, keyboard, screen, seen: String::new(), mark }
    }

    /// Waits for a text on the screen, and forgets everything before it.
    #[track_caller]
    fn await_text(&mut self, text: &str) {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            match self.screen.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} was awaited, the screen shows {:?}", self.seen),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        if !std::thread::panicking() {
            self.mark.assert_nothing_left();
        }
    }
}

#[test]
fn what_is_typed_reaches_rank_0() {
    let mut terminal =
        Terminal::run("$mpiexec -n 2 sh -c 'while read x; do echo $TUTTI_RANK got $x; done; echo end'");
    terminal.await_text("end");
    terminal.press("hello\n");
    terminal.await_text("0 got hello");
    terminal.press("again\n");
    terminal.await_text("0 got again");
    terminal.press("\x04");
    terminal.await_text("end");
}

#[test]
fn ctrl_c_ends_the_job() {
    let mut terminal =
        Terminal::run("trap 'echo trapped' INT; $mpiexec -n 2 sh -c 'echo here; sleep 1000'; echo status $?");
    terminal.await_text("here");
    terminal.await_text("here");
    terminal.press("\x03");
    // The shell sees a program that died of the signal, as the loops of scripts need it.
    terminal.await_text("trapped");
    terminal.await_text("status 130");
}

#[test]
fn ctrl_z_stops_the_job_and_fg_lets_it_go_on() {
    let script = "$mpiexec -n 2 sh -c 'echo here; while ! [ -e $MARKER ]; do sleep 0.02; done; echo over'; \
                  echo stopped $?; touch $MARKER; fg; echo status $?";
    let scratch = tutti_tests::Scratch::new("ctrl-z");
    let marker = scratch.path().join("marker");
    let mut terminal = Terminal::run(&format!("set -m; export MARKER={}; {script}", marker.display()));
    terminal.await_text("here");
    terminal.await_text("here");
    terminal.press("\x1a");
    terminal.await_text("stopped 148");
    terminal.await_text("over");
    terminal.await_text("over");
    terminal.await_text("status 0");
}

#[test]
fn a_job_in_the_background_is_not_stopped_for_reading() {
    let mut terminal =
        Terminal::run("set -m; $mpiexec -n 1 sh -c 'sleep 0.2; echo alive' & wait $!; echo status $?");
    terminal.press("typed for the shell\n");
    terminal.await_text("alive");
    terminal.await_text("status 0");
}

#[test]
fn a_prompt_is_seen_at_once() {
    let mut terminal = Terminal::run("$mpiexec -n 1 sh -c 'printf \"name? \"; read x; echo hello $x'");
    terminal.await_text("name? ");
    terminal.press("you\n");
    terminal.await_text("hello you");
}
