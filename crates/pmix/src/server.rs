//! The life of the server: one job, until the starter closes its end.
//!
//! | thread | does |
//! |---|---|
//! | this one | reads the starter's messages; gives libpmix the ends of fences, and new namespaces |
//! | libpmix's own | makes upcalls: a message to the starter, and the answer goes to the next |
//! | replies | gives libpmix the answers: never from an upcall itself |
//! | watch | says that the ranks have put too much, and ends the process; looks at how long ranks wait |
//!
//! A message to the starter is written before the rank gets its answer: so the starter has it before it sees
//! what the rank does then.
//!
//! What other nodes have a part in is a word ([`crate::machine`]), also for a job on one node, which needs
//! nobody to pass it on. A fence of all ranks that the job began with goes its own way: it carries more. Its
//! number is the same on all nodes, also where it is given up ([`Fences`]).
//!
//! A rank that waits only so long waits in the job's time: without that in which the job stands still, which
//! the starter knows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getpid, getrlimit, kill_process, setrlimit};
use serde::Serialize;

use crate::fences::Fences;
use crate::gathers::Kind;
use crate::library::{Library, NUMBERS, Pending, Reply, Request, Upcalls};
use crate::machine::{Answer, Deed, Machine, Pieces, Word, pieces};
use crate::spaces::{Process, Space};
use crate::status;
use crate::texts::{LEFT_OUT, Rate, Taken};
use crate::wire::{Bound, Description, FromServer, GIVEN_BYTES_MAX, Incoming, Newcomers, ToServer, encode};

/// Memory that ranks may fill with keys and values, beyond what the server has when they start.
const KEYS_BYTES_MAX: u64 = 256 << 20;
/// Address space beyond that of the beginning, where one message is faster than the look at the memory.
const ROOM_BYTES: u64 = 2 << 30;
/// Between two looks at the memory, and at who waits.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a text of a rank, at most: the rest is cut.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Connections that the ranks may hold: so many each, and some more. A program of MPI has one.
const CONNECTIONS_PER_RANK: u32 = 4;
const CONNECTIONS_MIN: u32 = 256;
/// Descriptors that the process has beside them, at most.
const OTHER_DESCRIPTORS: u64 = 64;
/// Number that no request has.
const NO_REQUEST: u64 = 0;
/// Requests that wait at once, at most.
const WAITING_MAX: usize = 4096;

/// Serves the job that comes on `starter`, until that end is closed.
///
/// # Errors
/// When no job comes. What libpmix refuses is told to the starter.
pub fn run(starter: OwnedFd) -> io::Result<()> {
    let mut reading = File::from(starter.try_clone()?);
    let mut incoming = Incoming::default();
    let Some(ToServer::Begin(job)) = next_message(&mut reading, &mut incoming)? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the starter sent no job"));
    };
    let (replies, answers) = channel::<Reply>();
    let shared = Arc::new(Shared::new(File::from(starter), replies, &job));
    let begun = spawn_thread("replies", move || answers.into_iter().for_each(Reply::give));
    match begun.and_then(|()| begin(&job, &shared)) {
        Ok(variables) => shared.send(&FromServer::Ready(variables)),
        Err(line) => shared.send(&FromServer::Refused(line)),
    }
    while let Some(message) = next_message(&mut reading, &mut incoming)? {
        shared.handle_message(message, &job);
    }
    // Where the starter has died nobody else removes it. The threads of libpmix may use it still: this
    // process does not return, and runs nothing of what a library wants run at its end.
    let _ = std::fs::remove_dir_all(&job.folder);
    let _ = kill_process(getpid(), Signal::KILL);
    Ok(())
}

fn spawn_thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let started = std::thread::Builder::new().name(name.into()).stack_size(256 << 10).spawn(body);
    started.map(drop).map_err(|error| format!("the PMIx server cannot start a thread: {error}"))
}

/// Gives the variables of the ranks.
fn begin(job: &Description, shared: &Arc<Shared>) -> Result<Vec<Vec<String>>, String> {
    let is_whole = job.nodes.len() == job.first_ranks.len() && (job.node as usize) < job.nodes.len();
    if !is_whole
        || !job.first_ranks.is_sorted()
        || job.first_ranks.last().is_some_and(|last| *last > job.ranks())
    {
        return Err("the PMIx server got a job whose ranks and nodes do not fit".into());
    }
    let library = Library::open(&job.libraries)?;
    let _ = shared.library.set(library);
    library.serve(job, Box::new(Server(Arc::clone(shared))))?;
    let variables = library.admit(job, &Space::first(job))?;
    limit_address_space();
    library.limit_connections(allow_connections(job.ranks().max(job.universe)));
    let (watching, limit) = (Arc::clone(shared), used_bytes() + KEYS_BYTES_MAX);
    spawn_thread("watch", move || watch(&watching, limit))?;
    Ok(variables)
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
    replies: Mutex<Sender<Reply>>,
    library: OnceLock<Library>,
    /// Whether this is the job's only node.
    is_alone: bool,
    /// Number of this node.
    here: u32,
    /// The beginning of the process's time.
    began: Instant,
}

struct State {
    machine: Machine,
    pieces: Pieces,
    fences: Fences,
    /// Requests that wait for their answer.
    waiting: BTreeMap<u64, Waiting>,
    /// Number of the last one.
    last: u64,
    texts: Rate,
}

/// A request that waits.
struct Waiting {
    pending: Pending,
    ends: Ends,
    lateness: Lateness,
}

/// Action when a request has waited as long as its processes wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lateness {
    /// Answer: no other node knows of it.
    Answer,
    /// All servers end it by its number.
    GiveUp,
    /// The same, and libpmix answers on this node itself, at this moment.
    Forget(Instant),
    /// All servers end this fence.
    EndFence(u32),
}

/// The end of a request that has not got its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Never,
    /// Time after this moment; it is not known yet how long the job had stood still until then.
    After(Instant, Duration),
    /// Of what the process has lived, without what the job has stood still.
    At(Duration),
}

impl Shared {
    fn new(starter: File, replies: Sender<Reply>, job: &Description) -> Self {
        let machine = Machine::new(job.node, Space::first(job));
        let state = State {
            machine,
            pieces: Pieces::default(),
            fences: Fences::default(),
            waiting: BTreeMap::new(),
            last: 0,
            texts: Rate::default(),
        };
        let (starter, state, replies) = (Mutex::new(starter), Mutex::new(state), Mutex::new(replies));
        let is_alone = job.nodes.len() == 1;
        let (library, began) = (OnceLock::new(), Instant::now());
        Shared { starter, state, replies, library, is_alone, here: job.node, began }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message; where the starter is gone, the reading thread sees it.
    fn send(&self, message: &(impl Serialize + ?Sized)) {
        let mut starter = self.starter.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = starter.write_all(&encode(&message));
    }

    fn reply(&self, pending: Pending, answer: Answer) {
        let replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = replies.send(Reply(pending, answer));
    }

    /// Answers a request, if it waits still.
    fn answer(&self, number: Option<u64>, answer: &Answer) {
        let waiting = number.and_then(|number| self.state().waiting.remove(&number));
        // What libpmix has answered itself it does not know any more.
        let is_known = |one: &Waiting| !matches!(one.lateness, Lateness::Forget(at) if at <= Instant::now());
        let waiting = waiting.filter(is_known);
        waiting.into_iter().for_each(|one| self.reply(one.pending, answer.clone()));
    }

    fn handle_message(&self, message: ToServer, job: &Description) {
        match message {
            ToServer::Begin(_) => {}
            ToServer::Fenced { number, given } => {
                let request = self.state().fences.end(number);
                self.answer(request, &Answer::Gathered(given, None, Vec::new()));
            }
            ToServer::Flush => {
                // The job ends: what ranks say about that is to be read.
                self.state().texts.refill();
                self.library.get().into_iter().for_each(Library::settle);
                self.send(&FromServer::Flushed);
            }
            ToServer::Word { node, piece } => {
                let word = self.state().pieces.take(node, &piece);
                word.into_iter().for_each(|word| self.handle_word(node, word));
            }
            ToServer::Admit(new) => self.admit(&new, job),
            ToServer::Dismiss(order) => {
                let name = self.state().machine.spaces.remove(order);
                self.dismiss(name.as_slice());
            }
            ToServer::Spawned { number, order } => {
                let name = order.map(|order| self.state().machine.spaces.name_of(order));
                let answer = name.map_or(Answer::Status(status::FAILED_TO_LAUNCH), Answer::Space);
                self.answer(Some(number.into()), &answer);
            }
            ToServer::Frozen(ns) => self.handle_frozen(Duration::from_nanos(ns)),
        }
    }

    fn dismiss(&self, spaces: &[String]) {
        if let Some(library) = self.library.get() {
            spaces.iter().for_each(|space| library.dismiss(space));
        }
    }

    /// New ranks: their namespace is known before any of them starts, and on all nodes.
    fn admit(&self, new: &Newcomers, job: &Description) {
        let (space, over) = self.state().machine.admit(new);
        self.dismiss(&over);
        let Some(library) = self.library.get() else { return };
        self.send(&match library.admit(job, &space) {
            Ok(variables) => FromServer::Admitted { order: new.order, variables },
            Err(line) => FromServer::NotAdmitted { order: new.order, line },
        });
    }

    /// Tells all servers.
    fn tell(&self, word: Word) {
        if self.is_alone {
            return self.handle_word(self.here, word);
        }
        let pieces = pieces(&word);
        if pieces.iter().map(Vec::len).sum::<usize>() > GIVEN_BYTES_MAX {
            return self.send(&FromServer::Full(Bound::Word));
        }
        // In one go: the starter passes on what it gets.
        let mut starter = self.starter.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| encode(&FromServer::Word(piece))).collect();
        let _ = starter.write_all(&bytes);
    }

    fn handle_word(&self, node: u32, word: Word) {
        let deeds = self.state().machine.handle_word(node, word);
        for deed in deeds {
            match deed {
                Deed::Answer(number, answer) => self.answer(Some(number), &answer),
                Deed::EndFence(fence) => {
                    let request = self.state().fences.give_up(fence);
                    self.answer(request, &Answer::Status(status::TIMEOUT));
                }
                Deed::AskRank(to, number, process) => {
                    let asked = self.library.get().map(|library| library.ask_rank(&process, to, number));
                    if let Some(Err(status)) = asked {
                        self.tell(Word::Keys { to, number, status, bytes: Vec::new() });
                    }
                }
            }
        }
    }

    /// Keeps a request until its answer; gives its number.
    fn keep(&self, pending: Pending, timeout_s: Option<u64>, lateness: Lateness) -> Result<u64, i32> {
        let ends = match timeout_s {
            Some(seconds) => Ends::After(Instant::now(), Duration::from_secs(seconds.min(u32::MAX.into()))),
            None => Ends::Never,
        };
        let number = {
            let mut state = self.state();
            if state.waiting.len() >= WAITING_MAX {
                return Err(status::OUT_OF_RESOURCE);
            }
            state.last += 1;
            let number = state.last;
            state.waiting.insert(number, Waiting { pending, ends, lateness });
            number
        };
        if ends != Ends::Never {
            self.send(&FromServer::Clock);
        }
        Ok(number)
    }

    /// The job has stood still for so long: some may have waited as long as they wanted.
    fn handle_frozen(&self, frozen: Duration) {
        let lived = |at: Instant| at.saturating_duration_since(self.began);
        let now = lived(Instant::now()).saturating_sub(frozen);
        let (mut late, mut answered, mut words) = (Vec::new(), Vec::new(), Vec::new());
        let late: Vec<Waiting> = {
            let mut state = self.state();
            for (number, waiting) in &mut state.waiting {
                if let Ends::After(began, time) = waiting.ends {
                    waiting.ends = Ends::At(lived(began).saturating_sub(frozen) + time);
                }
                if let Ends::At(end) = waiting.ends
                    && end <= now
                {
                    waiting.ends = Ends::Never;
                    match waiting.lateness {
                        Lateness::Answer => late.push(*number),
                        Lateness::GiveUp => words.push(Word::GiveUp { number: *number }),
                        Lateness::Forget(_) => {
                            answered.push(*number);
                            words.push(Word::GiveUp { number: *number });
                        }
                        Lateness::EndFence(fence) => words.push(Word::EndFence(fence)),
                    }
                }
            }
            state.waiting.retain(|number, _| !answered.contains(number));
            late.iter().filter_map(|number| state.waiting.remove(number)).collect()
        };
        late.into_iter().for_each(|one| self.reply(one.pending, Answer::Status(status::TIMEOUT)));
        words.into_iter().for_each(|word| self.tell(word));
    }

    /// Whether somebody may have waited as long as it wanted, if the job had not stood still.
    fn may_be_late(&self) -> bool {
        let now = self.began.elapsed();
        self.state().waiting.values().any(|waiting| matches!(waiting.ends, Ends::At(end) if end <= now))
    }
}

struct Server(Arc<Shared>);

impl Server {
    fn number(&self, process: &Process) -> Option<u32> {
        self.0.state().machine.spaces.number(process)
    }

    /// A message about a process, which then gets its answer.
    fn pass_on(&self, process: &Process, pending: Pending, message: impl FnOnce(u32) -> FromServer) {
        if let Some(number) = self.number(process) {
            self.0.send(&message(number));
        }
        self.0.reply(pending, Answer::Status(status::SUCCESS));
    }

    fn log(&self, process: Option<Process>, text: Vec<u8>, pending: Pending) {
        if !text.is_empty() {
            let rank = process.and_then(|process| self.number(&process)).unwrap_or(u32::MAX);
            let taken = self.0.state().texts.take(self.0.began.elapsed());
            let text = match taken {
                Taken::Whole => text[..text.len().min(TEXT_BYTES_MAX)].to_vec(),
                Taken::Last => LEFT_OUT.into(),
                Taken::Not => Vec::new(),
            };
            if !text.is_empty() {
                self.0.send(&FromServer::Log { rank, text });
            }
        }
        self.0.reply(pending, Answer::Status(status::SUCCESS));
    }

    /// A fence of all that the job began with.
    fn fence_all(&self, given: Vec<u8>, timeout_s: Option<u64>, pending: Pending) -> Result<(), i32> {
        if given.len() > GIVEN_BYTES_MAX {
            self.0.send(&FromServer::Full(Bound::Fence));
            return Ok(());
        }
        // In an upcall: they come one after the other.
        let number = self.0.state().fences.next();
        let kept = self.0.keep(pending, timeout_s, Lateness::EndFence(number));
        // Before the message: its answer may be faster than this thread.
        let is_open = self.0.state().fences.begin(number, kept.unwrap_or(NO_REQUEST));
        match kept {
            Ok(_) if is_open => self.0.send(&FromServer::Fence { number, given }),
            Ok(request) => self.0.answer(Some(request), &Answer::Status(status::TIMEOUT)),
            Err(_) => self.0.tell(Word::EndFence(number)),
        }
        kept.map(drop)
    }

    /// Action when PMIx_Connect or PMIx_Disconnect has waited so long.
    fn connect_lateness(&self, timeout_s: Option<u64>) -> Lateness {
        let is_minded = self.0.library.get().is_some_and(Library::leaves_connect_times);
        let at = timeout_s.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
        at.filter(|_| !is_minded).map_or(Lateness::GiveUp, Lateness::Forget)
    }

    /// A request that is a word.
    fn ask(
        &self,
        pending: Pending,
        timeout_s: Option<u64>,
        word: impl FnOnce(u64) -> Word,
    ) -> Result<(), i32> {
        let number = self.0.keep(pending, timeout_s, Lateness::GiveUp)?;
        self.0.tell(word(number));
        Ok(())
    }
}

impl Upcalls for Server {
    fn handle(&self, request: Request, pending: Pending) -> Result<(), i32> {
        match request {
            Request::Connected(process) => self.pass_on(&process, pending, FromServer::Connected),
            Request::Finalized(process) => self.pass_on(&process, pending, FromServer::Finalized),
            Request::Abort(process, status) => {
                self.0.state().texts.refill();
                self.pass_on(&process, pending, |rank| FromServer::Abort { rank, status });
            }
            Request::Log(process, text) => self.log(process, text, pending),
            Request::Gather { kind: Kind::Fence, processes, bytes, timeout_s, .. }
                if self.0.state().machine.spaces.are_first(&processes) =>
            {
                return self.fence_all(bytes, timeout_s, pending);
            }
            Request::Gather { kind, processes, bytes, wants_context, timeout_s } => {
                let library = self.0.library.get();
                let (timeout_s, lateness) = match kind {
                    Kind::Connect | Kind::Disconnect => (timeout_s, self.connect_lateness(timeout_s)),
                    Kind::Construct(_) | Kind::Destruct(_) => {
                        let is_minded = library.is_some_and(Library::leaves_group_times);
                        (timeout_s.filter(|_| is_minded), Lateness::GiveUp)
                    }
                    Kind::Fence => (timeout_s, Lateness::GiveUp),
                };
                let number = self.0.keep(pending, timeout_s, lateness)?;
                self.0.tell(Word::Gather { number, kind, processes, bytes, wants_context });
            }
            Request::Keys(process, timeout_s) => {
                let number = self.0.keep(pending, timeout_s, Lateness::Answer)?;
                self.0.tell(Word::AskKeys { number, process });
            }
            Request::Publish { owner, range, is_read_once, entries } => {
                return self.ask(pending, None, |number| Word::Publish {
                    number,
                    owner,
                    range,
                    is_read_once,
                    entries,
                });
            }
            Request::Lookup(lookup, timeout_s) => {
                let timeout_s = timeout_s.filter(|_| lookup.wanted > 0);
                return self.ask(pending, timeout_s, |number| Word::Lookup { number, lookup });
            }
            Request::Unpublish(owner, keys) => {
                return self.ask(pending, None, |number| Word::Unpublish { number, owner, keys });
            }
            Request::Spawn(process, commands) => {
                let rank = self.number(&process).ok_or(status::BAD_PARAMETER)?;
                let number = self.0.keep(pending, None, Lateness::Answer)? as u32;
                self.0.send(&FromServer::Spawn { number, rank, commands });
            }
        }
        Ok(())
    }

    fn handle_crowd(&self, limit: u32) {
        self.0.send(&FromServer::Crowded(limit));
    }

    fn handle_keys(&self, to: u32, number: u64, status: i32, bytes: &[u8]) {
        self.0.tell(Word::Keys { to, number, status, bytes: bytes.to_vec() });
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

/// Makes room for the connections of so many ranks, as far as the process may; gives how many that is.
fn allow_connections(ranks: u32) -> u32 {
    let wanted = CONNECTIONS_MIN.saturating_add(ranks.saturating_mul(CONNECTIONS_PER_RANK));
    let needed = u64::from(wanted) + OTHER_DESCRIPTORS + NUMBERS as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return wanted;
    }
    let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum });
    u32::try_from(raised.saturating_sub(OTHER_DESCRIPTORS)).map_or(wanted, |allowed| allowed.min(wanted))
}

fn watch(shared: &Shared, limit: u64) {
    while used_bytes() <= limit {
        if shared.may_be_late() {
            shared.send(&FromServer::Clock);
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    shared.send(&FromServer::Full(Bound::Keys));
    let _ = kill_process(getpid(), Signal::KILL);
}
