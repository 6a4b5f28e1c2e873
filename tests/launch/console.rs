//! A terminal with a shell at it: keys are pressed, the screen is read.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::harness::{LIMIT, Mark};

/// A shell at a terminal of its own.
pub struct Terminal {
    shell: Child,
    keyboard: std::fs::File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    mark: Mark,
}

impl Terminal {
    /// Runs a script in an environment.
    pub fn run(script: &str, variables: &[(&str, &std::ffi::OsStr)]) -> Self {
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
        command.envs(variables.iter().copied()).stdin(end()).stdout(end()).stderr(end());
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
    pub fn await_text(&mut self, text: &str) {
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

    /// Reads what comes next on the screen, as it is sent; none within the limit.
    #[allow(dead_code, reason = "for programs that draw")]
    pub fn next_bytes(&mut self) -> Option<Vec<u8>> {
        self.screen.recv_timeout(LIMIT).ok()
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal");
    }

    /// The window gets another size.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keyboard, size).expect("a terminal");
    }

    /// The shell dies: to what runs in the foreground it is a hang-up, as a closed window is. (A script of
    /// one command is no shell: bash becomes that command.)
    pub fn hang_up(&mut self) {
        self.shell.kill().and_then(|()| self.shell.wait()).expect("it was ours");
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
