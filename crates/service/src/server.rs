//! A service: its functions, and the loop that serves its clients.

mod connection;
mod door;
mod network;

use std::os::fd::OwnedFd;

use core::ffi::c_int;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use tutti_shm::published::Audience;

use super::frame::{Ask, DATA_BYTES_MAX, Reply, hash};
use super::{left, now_ns};
use crate::status::*;
use connection::Came;
use door::{Door, Ready};

pub use door::{CLIENTS_MAX, CLIENTS_OF_USER_MAX};

/// Packets of one connection before others get their turn.
const PACKETS_PER_TURN: usize = 16;
/// A call that a function answers: a status and its data.
#[derive(Debug, Default)]
pub struct Served {
    /// User of the client.
    pub uid: u32,
    answer: Option<(c_int, Vec<u8>)>,
}

impl Served {
    /// Answers it, once: with data, or with [`THREW`] and a text.
    ///
    /// # Errors
    /// [`TOO_LONG`]: it can still be answered. [`INVALID`]: a second answer, or another status.
    pub fn answer(&mut self, status: c_int, data: &[u8]) -> Result<(), c_int> {
        if data.len() > DATA_BYTES_MAX {
            return Err(TOO_LONG);
        }
        if self.answer.is_some() || !(status == OK || status == THREW) {
            return Err(INVALID);
        }
        self.answer = Some((status, data.to_vec()));
        Ok(())
    }
}

/// Function for a call: it gets the arguments, and answers.
pub type Run = Box<dyn FnMut(&[u8], &mut Served) + Send>;

struct Function {
    signature: String,
    hash: u64,
    run: Run,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.signature)
    }
}

/// A name under which functions are offered.
#[derive(Debug)]
pub struct Service {
    door: Door,
    functions: Vec<Function>,
    /// Read ends a wait of [`Service::serve`].
    bell: OwnedFd,
}

/// Ends the loop of a service, from any thread.
#[derive(Debug)]
pub struct Stop(OwnedFd);

impl Stop {
    /// [`Service::serve`] returns, also when it is called later, once.
    pub fn stop(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Service {
    /// Offers a name, of letters, digits and `. _ -`, to an audience; this user is always one of it.
    ///
    /// # Errors
    /// [`BUSY`]: the name is in use. [`INVALID`]: it is no name. [`MEMORY`].
    pub fn open(name: &str, audience: Audience) -> Result<(Self, Stop), c_int> {
        let door = Door::open(name, audience)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|_| MEMORY)?;
        let stop = Stop(bell.try_clone().map_err(|_| MEMORY)?);
        Ok((Service { door, functions: Vec::new(), bell }, stop))
    }

    /// Offers a function by its signature, one line of text that its clients give too.
    ///
    /// # Errors
    /// [`INVALID`]: no line, or a function with this name is there. [`TOO_LONG`]: all signatures together.
    pub fn add(&mut self, signature: &str, run: Run) -> Result<(), c_int> {
        let name = |text: &str| text.split('(').next().unwrap_or_default().to_owned();
        let is_taken = self.functions.iter().any(|other| name(&other.signature) == name(signature));
        if is_taken || signature.is_empty() || signature.contains(|c: char| c.is_control()) {
            return Err(INVALID);
        }
        if self.signatures().len() + signature.len() + 1 > DATA_BYTES_MAX {
            return Err(TOO_LONG);
        }
        self.functions.push(Function { signature: signature.to_owned(), hash: hash(signature), run });
        Ok(())
    }

    fn signatures(&self) -> String {
        self.functions.iter().map(|function| format!("{}\n", function.signature)).collect()
    }

    /// Serves clients until [`Stop::stop`] is called, or a time by CLOCK_MONOTONIC: how many calls there
    /// were.
    ///
    /// # Errors
    /// [`MEMORY`] when the kernel has none.
    pub fn serve(&mut self, until_ns: Option<u64>) -> Result<usize, c_int> {
        let mut calls = 0;
        loop {
            let Some(ready) = self.wait(until_ns)? else { return Ok(calls) };
            // From behind: a connection that is closed moves the last one to its place.
            for one in ready.into_iter().rev() {
                match one {
                    Ready::Client(at) => calls += self.serve_one(at),
                    other => self.door.handle(other),
                }
            }
            if until_ns.is_some_and(|until| now_ns() >= until) {
                return Ok(calls);
            }
        }
    }

    /// Waits for something: what is ready; none: it is stopped.
    fn wait(&mut self, until_ns: Option<u64>) -> Result<Option<Vec<Ready>>, c_int> {
        let due_ns = self.door.due_ns();
        let until_ns = until_ns.into_iter().chain(due_ns).min();
        let timeout: Option<Timespec> = until_ns.map(left);
        let (mut all, named) = self.door.polled();
        all.push(PollFd::new(&self.bell, PollFlags::IN));
        match poll(&mut all, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Some(Vec::new())),
            Err(_) => return Err(MEMORY),
        }
        if all.pop().is_some_and(|bell| !bell.revents().is_empty()) {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.bell, &mut count);
            return Ok(None);
        }
        let is_ready = |one: &(PollFd<'_>, Ready)| !one.0.revents().is_empty();
        let ready = all.into_iter().zip(named).filter(is_ready).map(|(_, ready)| ready).collect();
        Ok(Some(self.door.also_ready(ready)))
    }

    /// Takes packets of a connection; how many calls there were. One that sends no packet, takes no answers
    /// or has ended is closed.
    fn serve_one(&mut self, at: usize) -> usize {
        let mut calls = 0;
        for _ in 0..PACKETS_PER_TURN {
            let packet = match self.door.connection(at).receive() {
                Came::Packet(packet) => packet,
                Came::Nothing => return calls,
                Came::End => {
                    self.door.close(at);
                    return calls;
                }
            };
            let (uid, is_let_in) = self.door.connection(at).user();
            let reply = match Ask::decode(&packet) {
                Some(_) if !is_let_in => Some(refusal(0, RIGHT)),
                Some(ask) => {
                    calls += usize::from(ask != Ask::Open);
                    Some(self.reply_to(uid, ask))
                }
                None => self.door.admit(at, &packet),
            };
            if !reply.is_some_and(|reply| self.door.connection(at).send(&reply)) {
                self.door.close(at);
                return calls;
            }
        }
        calls
    }

    /// The packet that answers a question.
    fn reply_to(&mut self, uid: u32, ask: Ask<'_>) -> Vec<u8> {
        match ask {
            Ask::Open => Reply { status: OK, number: 0, data: self.signatures().as_bytes() }.encode(),
            Ask::Call { number, deadline_ns, hash, function, data } => {
                let found = self.functions.get_mut(function as usize).filter(|found| found.hash == hash);
                let Some(function) = found else { return refusal(number, VERSION) };
                if now_ns() >= deadline_ns {
                    return refusal(number, DEADLINE);
                }
                let mut served = Served { uid, answer: None };
                (function.run)(data, &mut served);
                let none = || (THREW, b"\0the function has not answered".to_vec());
                let (status, data) = served.answer.unwrap_or_else(none);
                Reply { status, number, data: &data }.encode()
            }
        }
    }
}

fn refusal(number: u64, status: c_int) -> Vec<u8> {
    Reply { status, number, data: &[] }.encode()
}
