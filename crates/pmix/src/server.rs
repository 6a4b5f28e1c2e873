//! The life of the server: one job, until the starter closes its end.
//!
//! | thread | does |
//! |---|---|
//! | this one | reads the starter's messages; gives libpmix the ends of fences |
//! | libpmix's own | makes upcalls: a message to the starter, and the answer goes to the next |
//! | replies | gives libpmix the answers: never from an upcall itself |
//! | memory | says that the ranks have put too much, and ends the process |
//!
//! A message to the starter is written before the rank gets its answer: so the starter has it before it sees
//! what the rank does then.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getpid, getrlimit, kill_process, setrlimit};
use serde::Serialize;

use crate::library::{Library, PendingFence, Reply, Upcalls};
use crate::wire::{Description, FromServer, Incoming, MESSAGE_BYTES_MAX, ToServer, encode};

/// Memory that ranks may fill with keys and values, beyond what the server has when they start.
const KEYS_BYTES_MAX: u64 = 256 << 20;
/// Address space beyond that of the beginning, where one message is faster than the look at the memory.
const ROOM_BYTES: u64 = 2 << 30;
/// Between two looks at the memory.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a text of a rank, at most: the rest is cut.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Texts of all ranks, at most.
const TEXTS_MAX: usize = 1024;

/// Serves the job that comes on `starter`, until that end is closed.
///
/// # Errors
/// When no job comes. What libpmix refuses is told to the starter.
pub fn run(starter: OwnedFd) -> io::Result<()> {
    let mut reading = File::from(starter.try_clone()?);
    let shared = Arc::new(Shared { starter: Mutex::new(File::from(starter)), state: Mutex::default() });
    let mut incoming = Incoming::default();
    let Some(ToServer::Begin(job)) = next_message(&mut reading, &mut incoming)? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the starter sent no job"));
    };
    let library = match begin(&job, &shared) {
        Ok((library, variables)) => {
            shared.send(&FromServer::Ready(variables));
            Some(library)
        }
        Err(line) => {
            shared.send(&FromServer::Refused(line));
            None
        }
    };
    while let Some(message) = next_message(&mut reading, &mut incoming)? {
        match message {
            ToServer::Begin(_) => {}
            ToServer::Fenced(given) => {
                let fence = shared.state().fences.pop_front();
                fence.into_iter().for_each(|fence| Reply::Fence(fence, given.clone()).give());
            }
            ToServer::Flush => {
                library.iter().for_each(Library::settle);
                shared.send(&FromServer::Flushed);
            }
        }
    }
    // Where the starter has died nobody else removes it. The threads of libpmix may use it still: this
    // process does not return, and runs nothing of what a library wants run at its end.
    let _ = std::fs::remove_dir_all(&job.folder);
    let _ = kill_process(getpid(), Signal::KILL);
    Ok(())
}

fn begin(job: &Description, shared: &Arc<Shared>) -> Result<(Library, Vec<Vec<String>>), String> {
    let is_whole = job.nodes.len() == job.first_ranks.len() && (job.node as usize) < job.nodes.len();
    if !is_whole
        || !job.first_ranks.is_sorted()
        || job.first_ranks.last().is_some_and(|last| *last > job.ranks())
    {
        return Err("the PMIx server got a job whose ranks and nodes do not fit".into());
    }
    let (replies, answers) = channel::<Reply>();
    let thread = |name: &str| std::thread::Builder::new().name(name.into()).stack_size(256 << 10);
    let failed = |error: io::Error| format!("the PMIx server cannot start a thread: {error}");
    thread("replies").spawn(move || answers.into_iter().for_each(Reply::give)).map_err(failed)?;
    let upcalls = Server { shared: Arc::clone(shared), replies: Mutex::new(replies) };
    let library = Library::open(&job.libraries)?;
    let variables = library.serve(job, Box::new(upcalls))?;
    limit_address_space();
    let (watching, limit) = (Arc::clone(shared), used_bytes() + KEYS_BYTES_MAX);
    thread("memory").spawn(move || watch_memory(&watching, limit)).map_err(failed)?;
    Ok((library, variables))
}

/// The next message; none when the starter has closed its end.
fn next_message(reading: &mut File, incoming: &mut Incoming) -> io::Result<Option<ToServer>> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match incoming.take() {
            Ok(Some(message)) => return Ok(Some(message)),
            Ok(None) => {}
            Err(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "the starter sent no message")),
        }
        match reading.read(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(read) => incoming.extend(&bytes[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // It has been killed with messages of ours unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// State that the threads share.
struct Shared {
    starter: Mutex<File>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Fences that wait for the other nodes, in the order in which they began.
    fences: VecDeque<PendingFence>,
    /// Texts that have been sent.
    texts: usize,
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message; where the starter is gone, the reading thread sees it.
    fn send(&self, message: &(impl Serialize + ?Sized)) {
        let mut starter = self.starter.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = starter.write_all(&encode(&message));
    }
}

struct Server {
    shared: Arc<Shared>,
    replies: Mutex<Sender<Reply>>,
}

impl Server {
    fn reply(&self, reply: Reply) {
        let _ = self.replies.lock().unwrap_or_else(PoisonError::into_inner).send(reply);
    }
}

impl Upcalls for Server {
    fn handle_connected(&self, rank: u32, reply: Reply) {
        self.shared.send(&FromServer::Connected(rank));
        self.reply(reply);
    }

    fn handle_finalized(&self, rank: u32, reply: Reply) {
        self.shared.send(&FromServer::Finalized(rank));
        self.reply(reply);
    }

    fn handle_abort(&self, rank: u32, status: i32, reply: Reply) {
        self.shared.send(&FromServer::Abort { rank, status });
        self.reply(reply);
    }

    fn handle_log(&self, rank: u32, text: &[u8], reply: Reply) {
        let is_taken = {
            let mut state = self.shared.state();
            state.texts += 1;
            state.texts <= TEXTS_MAX
        };
        if is_taken && !text.is_empty() {
            let text = text[..text.len().min(TEXT_BYTES_MAX)].to_vec();
            self.shared.send(&FromServer::Log { rank, text });
        }
        self.reply(reply);
    }

    fn handle_fence(&self, given: &[u8], fence: PendingFence) {
        if given.len() > MESSAGE_BYTES_MAX / 2 {
            return self.shared.send(&FromServer::Full);
        }
        // Before the message: its answer may be faster than this thread.
        self.shared.state().fences.push_back(fence);
        self.shared.send(&FromServer::Fence(given.to_vec()));
    }
}

/// Memory of this process that is its own.
fn used_bytes() -> u64 {
    statm(1)
}

fn address_space_bytes() -> u64 {
    statm(0)
}

fn statm(field: usize) -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(field).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// A rank that sends faster than the memory is looked at gets no further than this: then libpmix falls, and
/// the starter says so.
fn limit_address_space() {
    let limit = getrlimit(Resource::As);
    let wanted = address_space_bytes() + ROOM_BYTES;
    let current = limit.current.map_or(wanted, |current| current.min(wanted));
    let _ = setrlimit(Resource::As, Rlimit { current: Some(current), maximum: limit.maximum });
}

fn watch_memory(shared: &Shared, limit: u64) {
    while used_bytes() <= limit {
        std::thread::sleep(LOOK_PAUSE);
    }
    shared.send(&FromServer::Full);
    let _ = kill_process(getpid(), Signal::KILL);
}
