//! Our stdout and stderr, which take the job's, and our stdin, which the job gets.

use std::io;

use rustix::process::Signal;
use rustix::stdio::stdin;
use tutti_protocol::wire::{self, Kind};

use super::{Front, libc_signal};

impl Front {
    pub(super) fn write(&mut self) {
        let Err((kind, name, error)) = self.stdio.write() else { return };
        self.stdio.discard();
        if self.options.detach_on_hangup && error == rustix::io::Errno::IO {
            // The terminal is gone before its signal has come.
            self.detach();
        } else if error != rustix::io::Errno::PIPE {
            let reason = io::Error::from(error);
            self.complain(&format!("cannot write the job's output to {name}: {reason}; the job is ended"));
            self.kill(1);
        } else if kind == Kind::Output {
            self.kill(128 + libc_signal(Signal::PIPE) as u8);
        } else {
            self.kill(1);
        }
    }

    /// Has all output written where it goes; the status with which this command ends then, if it was to end
    /// with this one.
    pub(super) fn flush_output(&self, status: u8) -> u8 {
        match self.stdio.flush() {
            Err((name, reason)) if !self.stdio.is_discarding() => {
                self.complain(&format!("cannot write the job's output to {name}: {reason}"));
                status.max(1)
            }
            _ => status,
        }
    }

    /// Some rank wants input, and all that do have taken the last piece.
    pub(super) fn takes_input(&self) -> bool {
        let mut takers = self.links.iter().filter(|link| link.is_connected() && link.wants_input).peekable();
        takers.peek().is_some() && takers.all(|link| link.input_room && !link.has_to_send())
    }

    pub(super) fn read_input(&mut self) {
        let mut bytes = vec![0_u8; wire::DATA_BYTES_MAX];
        let read = match rustix::io::read(stdin(), &mut bytes[..]) {
            Ok(read) => read,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
            Err(_) => 0,
        };
        self.input_open = read > 0;
        let mut typed = bytes[..read].to_vec();
        if let Some(escape) = self.escape.as_mut().filter(|_| read > 0) {
            let (passed, leaves) = escape.filter(&typed);
            if leaves {
                return self.detach();
            }
            if passed.is_empty() {
                return;
            }
            typed = passed;
        }
        for link in self.links.iter_mut().filter(|link| link.wants_input) {
            link.input_room = false;
            let number = if link.is_daemon() { self.comeback.number_input(&typed) } else { 0 };
            link.put(Kind::Input, number, &typed);
        }
    }
}
