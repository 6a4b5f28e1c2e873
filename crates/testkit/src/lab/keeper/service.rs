//! Requests that come over the keeper's socket, one at a time.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::{Keeper, Machine};
use crate::lab::cable::address_of;
use crate::lab::control::{Answer, MachineState, NodeStatus, Request, Status};
use crate::lab::sys;

/// A client has sent its line in this time.
const LINE_MAX: Duration = Duration::from_secs(2);

impl Keeper {
    /// Does what is asked for, until the end is asked for or comes.
    pub(super) fn serve(&mut self, stays: bool) -> io::Result<Option<UnixStream>> {
        loop {
            let stdin = io::stdin();
            let mut waits =
                vec![PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
            let lives: Vec<usize> =
                (0..self.machines.len()).filter(|index| self.machines[*index].life.is_some()).collect();
            for index in &lives {
                waits.push(PollFd::new(&self.machines[*index].life().socket, PollFlags::IN));
            }
            if !stays {
                waits.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
            }
            match poll(&mut waits, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready: Vec<bool> = waits.iter().map(|wait| !wait.revents().is_empty()).collect();
            if !stays && is_ready.last() == Some(&true) {
                return Ok(None);
            }
            for (_, index) in is_ready[2..].iter().zip(&lives).filter(|(is_ready, _)| **is_ready) {
                // Nothing comes from a machine that is up but its end.
                self.switch_off(*index);
            }
            while let Some(signal) = sys::take_signal(self.signals.as_fd()) {
                if matches!(signal, libc::SIGTERM | libc::SIGINT) {
                    return Ok(None);
                }
            }
            if is_ready[0] {
                let (stream, _) = self.listener.accept()?;
                // A client that says nothing or hears nothing is its own affair.
                match receive(&stream) {
                    Ok(Request::Down) => return Ok(Some(stream)),
                    Ok(request) => drop(reply(stream, &self.handle(request))),
                    Err(_) => {}
                }
            }
        }
    }

    pub(super) fn handle(&mut self, request: Request) -> Answer {
        let index_of = |node: u32| -> Result<usize, String> {
            let nodes = self.settings.nodes;
            (node < nodes)
                .then_some(node as usize)
                .ok_or_else(|| format!("there is no machine {node}: this lab has 0 to {}", nodes - 1))
        };
        let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        match request {
            Request::Status => return Ok(Some(self.status())),
            Request::Down => {}
            Request::Link { node, state } => {
                let machine = &mut self.machines[index_of(node)?];
                machine.link = state;
                if let Some(cable) = machine.life.as_mut().and_then(|life| life.cable.as_mut()) {
                    cable
                        .set_state(&self.bridge, state)
                        .map_err(|error| failed("change the cable", error))?;
                }
            }
            Request::Cable { node, terms } => {
                let machine = &mut self.machines[index_of(node)?];
                if let Some(cable) = machine.life.as_mut().and_then(|life| life.cable.as_mut()) {
                    cable
                        .set_terms(&mut self.bridge, terms)
                        .map_err(|error| failed("change the cable", error))?;
                }
                machine.terms = terms;
            }
            Request::Pause { node, pause } => {
                let index = index_of(node)?;
                self.pause(index, pause)?;
            }
            Request::Kill { node } => {
                let index = index_of(node)?;
                if self.machines[index].life.is_none() {
                    return Err(format!("machine {node} is off already"));
                }
                self.switch_off(index);
            }
            Request::Boot { node } => {
                let index = index_of(node)?;
                if self.machines[index].life.is_some() {
                    return Err(format!("machine {node} is on already: kill it first"));
                }
                self.boot(&[index]).map_err(|error| error.to_string())?;
            }
        }
        Ok(None)
    }

    pub(super) fn status(&self) -> Status {
        let node = |machine: &Machine| NodeStatus {
            node: machine.node,
            name: machine.name.clone(),
            address: address_of(machine.node),
            state: match &machine.life {
                None => MachineState::Off,
                Some(life) if life.is_paused => MachineState::Paused,
                Some(_) => MachineState::Running,
            },
            pid: machine
                .life
                .as_ref()
                .and_then(|life| life.first)
                .map(|pid| pid.as_raw_nonzero().get() as u32),
            first_uid: machine.first_uid,
            link: machine.link,
            cable: machine.terms,
            frames: machine
                .life
                .as_ref()
                .and_then(|life| life.cable.as_ref())
                .and_then(|cable| cable.counts(&self.bridge)),
        };
        Status {
            mark: self.mark.name().to_owned(),
            keeper: std::process::id(),
            shared_files: self.settings.shared_files,
            own_uids: self.maps_owners,
            nodes: self.machines.iter().map(node).collect(),
        }
    }
}

pub(super) fn receive(stream: &UnixStream) -> io::Result<Request> {
    stream.set_read_timeout(Some(LINE_MAX))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

pub(super) fn reply(mut stream: UnixStream, answer: &Answer) -> io::Result<()> {
    stream.set_write_timeout(Some(LINE_MAX))?;
    let mut line = serde_json::to_vec(answer).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}
