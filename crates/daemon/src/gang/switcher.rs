//! The switch thread as the main loop has it.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::{EventfdFlags, eventfd};
use tutti_os::PriorityClass;
use tutti_sched::{Config, Generation, Mode, Scheduler, Version};
use tutti_shm::board::JobLines;

use super::command::{Command, GangSettings, SwitchEvent};
use super::mailbox::{self, Outbox, Served};
use super::switch_links::SwitchLinks;
use super::switch_thread::{self, SwitchThread};
use super::turns::Turns;
use super::worker;

/// The thread, as the main loop has it.
#[derive(Debug)]
pub struct Switcher {
    commands: mailbox::CommandSender,
    outbox: Outbox,
    served: Served,
    bell: OwnedFd,
    turns: Turns,
    priority_class: PriorityClass,
    wanted: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Switcher {
    /// Starts the thread; `emit` carries away what it says, but for its [`Outbox`], and must not wait.
    /// `board`: where its jobs are shown. `socket` is for datagrams to its neighbours, does not block, and is
    /// where they expect it: at the address where they dial this daemon.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(
        gangs: &GangSettings,
        is_controller: bool,
        socket: Option<UdpSocket>,
        board: Option<JobLines>,
        emit: impl Fn(SwitchEvent) + Send + 'static,
    ) -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (commands, receiver) = mailbox::commands();
        let (outbox, served) = (Outbox::new()?, Served::default());
        let turns = Turns::default();
        let controller =
            is_controller.then(|| scheduler(gangs)).transpose().map_err(std::io::Error::other)?;
        let wanted = Arc::new(AtomicBool::new(false));
        let endpoints = switch_thread::Endpoints {
            wanted: Arc::clone(&wanted),
            commands: receiver,
            bell: bell.try_clone()?,
            emit: Box::new(emit),
            outbox: mailbox::OutboxSender::new(outbox.clone()),
            served: served.clone(),
            switch_links: SwitchLinks::new(socket),
            turns: turns.clone(),
            board,
        };
        // From here: a thread is as preferred as who starts it.
        let (worker, worker_thread) = worker::Worker::start()?;
        let mut switch_thread = SwitchThread::new(endpoints, gangs.slice_ns, controller, worker);
        let (preferred, asked) = channel();
        let thread = std::thread::Builder::new().name("switch".into()).spawn(move || {
            switch_thread.run(&preferred);
            // It has been ordered to let all jobs go on, and ends when it has.
            drop(switch_thread);
            let _ = worker_thread.join();
        })?;
        let priority_class = asked.recv().map_err(std::io::Error::other)?;
        Ok(Switcher { commands, outbox, served, bell, turns, priority_class, wanted, thread: Some(thread) })
    }

    /// How far the kernel prefers it.
    pub fn priority_class(&self) -> PriorityClass {
        self.priority_class
    }

    /// Returns the messages to its neighbours that do not go by datagram: each is a [`SwitchEvent::Relay`].
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// On the controller: the slices that jobs have had.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Returns the record of what it has done and nobody has taken yet.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// On the controller: a job takes its turns and does not sleep.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Returns the bell that wakes it.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub(crate) fn waker(&self) -> std::io::Result<OwnedFd> {
        self.bell.try_clone()
    }

    /// Tells it something.
    pub fn send(&self, command: Command) {
        self.commands.put(command);
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

impl Drop for Switcher {
    fn drop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn scheduler(gangs: &GangSettings) -> Result<Scheduler, String> {
    // A controller that takes over knows nothing of the numbers of the one before. They grew by far less than
    // one each microsecond; where the clock was set back `first` is more.
    let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    let first = first.max(gangs.first);
    let config = Config {
        slice_ns: gangs.slice_ns,
        policy: gangs.policy,
        mode: if gangs.strict { Mode::Strict } else { Mode::Overlapped },
        force_switch: gangs.force_switch,
        generation: Generation(first),
        version: Version(first),
        ..Config::default()
    };
    Scheduler::new(config).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
