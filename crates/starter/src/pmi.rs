//! The server of PMI-1, by which programs of MPICH and its relatives start: a socket for each rank, lines of
//! text, a store of keys and values, and barriers. Programs of ours get the socket too and never look at it.
//!
//! | a rank sends | it receives | |
//! |---|---|---|
//! | init | response_to_init | it is between MPI_Init and MPI_Finalize from now on |
//! | get_maxes, get_appnum, get_universe_size, get_my_kvsname | maxes, appnum, universe_size, my_kvsname | |
//! | put | put_result | seen by the ranks of this node at once, by the others after the next barrier |
//! | get, getbyidx | get_result, getbyidx_results | |
//! | barrier_in | barrier_out | when all ranks of the job are there |
//! | finalize | finalize_ack | a program that the rank runs next may begin with init again |
//! | abort | | the job ends |
//! | mcmd=spawn ... endcmd | spawn_result rc=-1 | the user gets a line |
//! | anything else | NAME_result rc=-1 | |
//!
//! In a job on several nodes the hub ends a barrier. [`Pmi::poll_fence`] gives the report to it when all
//! ranks of this node are there; [`Pmi::handle_fence`] takes its answer, with what the ranks of all nodes
//! have put. Both name the barrier's number. The next one begins only when this one is over, so either may be
//! repeated.
//!
//! What a rank can make this process hold is bounded: a line of 64 KiB, an answer, and its share of the store
//! ([`share_bytes`]). A rank is not read from while its answer waits or while it is in a barrier. What is no
//! line of PMI ends the job.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use self::line::{Lines, Request, number};
use self::store::Store;
use tutti_protocol::pmi::share_bytes;
use tutti_protocol::wire::Job;

pub mod line;
pub mod store;

/// What is not to be understood as PMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPmi;

/// Of a name of a space, a key, a value: what we promise. Longer ones are taken; older programs cannot send
/// them.
const MAXES: &str = "kvsname_max=256 keylen_max=64 vallen_max=1024";
/// Read from a rank before others get their turn.
const READ_BYTES: usize = 16 << 10;
/// What a rank that has died can have left behind: more than its socket holds.
const LAST_READS: usize = 64;

/// An event of a rank that concerns others. Ranks are counted on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmiEvent {
    /// It has begun with MPI.
    Started(u32),
    /// It is done with it.
    Finished(u32),
    /// The job is to end with this code.
    Abort(u32, u32),
    /// It does not speak PMI.
    NoPmi(u32),
    /// A line for the user.
    Line(String),
}

/// The server.
#[derive(Debug)]
pub struct Pmi {
    clients: Vec<PmiClient>,
    store: Store,
    /// World rank of the first.
    first: u32,
    /// Ranks of this node, of the job.
    local: usize,
    world: u64,
    /// For each program its last world rank and one more.
    programs: Vec<u64>,
    /// Name of the job's key-value space.
    space: String,
    /// Barriers that are over.
    fences: u32,
    /// The hub knows that all ranks of this node are in the next one.
    fence_reported: bool,
    /// This is the job's only node.
    alone: bool,
}

/// A rank's place.
#[derive(Debug, Default)]
struct PmiClient {
    /// None: it has closed its end, or is not read any more.
    socket: Option<OwnedFd>,
    lines: Lines,
    /// The answer that waits for room.
    out: Vec<u8>,
    waits: bool,
    /// Lines of a request for more processes are being read.
    spawn: Option<Spawn>,
    /// The user has a line about the store being full.
    reported_full: bool,
    /// The user has a line about processes that cannot be started.
    reported_spawn: bool,
}

#[derive(Clone, Copy, Debug)]
struct Spawn {
    /// Parts that it will have, as announced so far.
    parts: u32,
    /// Parts that have come whole.
    complete: u32,
    /// Inside of a part.
    open: bool,
}

impl Pmi {
    /// For the ranks of this node; each gets its socket by [`Self::add`].
    pub fn new(job: &Job) -> Self {
        let local = job.local_ranks();
        let ranks = (local.end - local.start) as usize;
        let mut store = Store::new(ranks, share_bytes(job.ranks()));
        let first_ranks = job.part.as_ref().map_or(&[0][..], |part| &part.first_ranks);
        store.preset("PMI_process_mapping", &mapping(first_ranks, job.ranks()));
        let programs = job.programs.iter().scan(0, |end, program| {
            *end += u64::from(program.ranks);
            Some(*end)
        });
        Pmi {
            clients: Vec::new(),
            store,
            first: local.start as u32,
            local: ranks,
            world: job.ranks(),
            programs: programs.collect(),
            space: format!("kvs_{:016x}", job.id),
            fences: 0,
            fence_reported: false,
            alone: job.part.is_none(),
        }
    }

    /// The end of the next rank, which it inherits.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn add(&mut self) -> io::Result<OwnedFd> {
        let (own, end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        self.clients.push(PmiClient { socket: Some(own), ..PmiClient::default() });
        Ok(end)
    }

    /// The next rank does not speak PMI.
    pub fn add_silent(&mut self) {
        self.clients.push(PmiClient::default());
    }

    /// To be polled for these, then given to [`Self::handle_ready`].
    pub fn polled(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>, PollFlags)> {
        self.clients.iter().enumerate().filter_map(|(rank, client)| {
            let flags = match client {
                PmiClient { out, .. } if !out.is_empty() => PollFlags::OUT,
                PmiClient { waits: true, .. } => return None,
                _ => PollFlags::IN,
            };
            Some((rank as u32, client.socket.as_ref()?.as_fd(), flags))
        })
    }

    /// A rank has sent something, or has room for its answer.
    pub fn handle_ready(&mut self, rank: u32) -> Vec<PmiEvent> {
        let mut events = Vec::new();
        self.clients[rank as usize].flush();
        self.read(rank, &mut events);
        self.run_ready(&mut events);
        events
    }

    /// A rank is dead: what it sent before is handled before its death is judged.
    pub fn handle_death(&mut self, rank: u32) -> Vec<PmiEvent> {
        let mut events = Vec::new();
        for _ in 0..LAST_READS {
            if self.clients.get(rank as usize).is_none_or(|client| !client.is_readable()) {
                break;
            }
            if !self.read(rank, &mut events) {
                break;
            }
        }
        self.run_ready(&mut events);
        events
    }

    /// All ranks of the job are in a barrier; this is what they have put since the last one.
    ///
    /// # Errors
    /// When these are no keys and values.
    pub fn handle_fence(&mut self, fence: u32, puts: &[u8]) -> Result<Vec<PmiEvent>, NoPmi> {
        let mut events = Vec::new();
        if fence == self.fences + 1 {
            if !self.store.merge(puts) {
                return Err(NoPmi);
            }
            self.release();
            self.run_ready(&mut events);
        }
        Ok(events)
    }

    /// The report to the hub: the number of the barrier in which all ranks of this node are, and what they
    /// have put.
    pub fn poll_fence(&mut self) -> Option<(u32, Vec<u8>)> {
        let due = !self.alone && !self.fence_reported && self.all_wait();
        due.then(|| {
            self.fence_reported = true;
            (self.fences + 1, self.store.take_fresh())
        })
    }

    fn all_wait(&self) -> bool {
        self.clients.len() == self.local && self.clients.iter().all(|client| client.waits)
    }

    /// The barrier is over.
    fn release(&mut self) {
        self.fences += 1;
        self.fence_reported = false;
        for client in &mut self.clients {
            client.waits = false;
            client.answer("cmd=barrier_out rc=0");
        }
    }

    /// Takes the lines that have come, of all ranks, until nothing more can be done.
    fn run_ready(&mut self, events: &mut Vec<PmiEvent>) {
        loop {
            (0..self.clients.len() as u32).for_each(|rank| self.take_lines(rank, events));
            if !self.alone || !self.all_wait() {
                return;
            }
            // No other process needs it.
            drop(self.store.take_fresh());
            self.release();
        }
    }

    /// Reads once; `false` when there was nothing.
    fn read(&mut self, rank: u32, events: &mut Vec<PmiEvent>) -> bool {
        let client = &mut self.clients[rank as usize];
        let Some(socket) = client.socket.as_ref().filter(|_| client.is_readable()) else { return false };
        let mut bytes = [0_u8; READ_BYTES];
        match recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((read, _)) if read > 0 => {
                client.lines.extend(&bytes[..read]);
                self.take_lines(rank, events);
                true
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => false,
            // Deaths are seen elsewhere: a program may close what it does not use.
            _ => {
                client.socket = None;
                false
            }
        }
    }

    fn take_lines(&mut self, rank: u32, events: &mut Vec<PmiEvent>) {
        while self.clients[rank as usize].is_readable() {
            let line = match self.clients[rank as usize].lines.next_line() {
                Ok(Some(line)) => line.to_vec(),
                Ok(None) => return,
                Err(NoPmi) => return self.refuse(rank, events),
            };
            if self.handle_line(rank, &line, events).is_err() {
                return self.refuse(rank, events);
            }
        }
    }

    /// Nothing more is read from a rank that does not speak PMI.
    fn refuse(&mut self, rank: u32, events: &mut Vec<PmiEvent>) {
        let client = &mut self.clients[rank as usize];
        client.socket = None;
        client.lines.clear();
        events.push(PmiEvent::NoPmi(rank));
    }

    fn handle_line(&mut self, rank: u32, line: &[u8], events: &mut Vec<PmiEvent>) -> Result<(), NoPmi> {
        if self.clients[rank as usize].spawn.is_some_and(|spawn| spawn.open) {
            self.handle_spawn_line(rank, line, events);
            return Ok(());
        }
        let request = Request::parse(line)?;
        let answer = match request.space().filter(|space| *space != self.space.as_bytes()) {
            Some(_) => Some(format!("cmd={}_result rc=-1 msg=no_such_kvs", request.verb()).into()),
            None => self.handle_request(rank, request, events),
        };
        if let Some(answer) = answer {
            self.clients[rank as usize].answer_bytes(&answer);
        }
        Ok(())
    }

    /// Serves a request; gives the answer, if it is to be sent now.
    fn handle_request(
        &mut self,
        rank: u32,
        request: Request<'_>,
        events: &mut Vec<PmiEvent>,
    ) -> Option<Vec<u8>> {
        let client = &mut self.clients[rank as usize];
        Some(match request {
            Request::Init { version } => {
                let code = if version == 1 { 0 } else { -1 };
                events.extend((code == 0).then_some(PmiEvent::Started(rank)));
                format!("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={code}").into()
            }
            Request::Maxes => format!("cmd=maxes rc=0 {MAXES}").into(),
            Request::AppNumber => {
                let world_rank = u64::from(self.first + rank);
                let program = self.programs.partition_point(|end| *end <= world_rank);
                format!("cmd=appnum rc=0 appnum={program}").into()
            }
            Request::UniverseSize => format!("cmd=universe_size rc=0 size={}", self.world).into(),
            Request::SpaceName => format!("cmd=my_kvsname rc=0 kvsname={}", self.space).into(),
            Request::Put { key, value, .. } => self.put(rank, key, value, events).into(),
            Request::Get { key, .. } => match self.store.get(key) {
                Some(value) => [b"cmd=get_result rc=0 value=", value].concat(),
                None => [b"cmd=get_result rc=-1 msg=key_", key, b"_not_found"].concat(),
            },
            Request::GetByIndex(index) => match self.store.at(index) {
                Some((key, value)) => {
                    let head = format!("cmd=getbyidx_results rc=0 nextidx={} key=", index + 1);
                    [head.as_bytes(), key, b" value=", value].concat()
                }
                None => "cmd=getbyidx_results rc=-2 reason=no_more_keyvals".into(),
            },
            Request::Finalize => {
                events.push(PmiEvent::Finished(rank));
                "cmd=finalize_ack rc=0".into()
            }
            Request::Other(command) => {
                let name = command.strip_suffix(b"_name").unwrap_or(command);
                [b"cmd=", name, b"_result rc=-1 msg=not_supported"].concat()
            }
            Request::Barrier => {
                client.waits = true;
                return None;
            }
            Request::Abort(code) => {
                events.push(PmiEvent::Abort(rank, code));
                return None;
            }
            Request::Spawn => {
                client.spawn.get_or_insert(Spawn { parts: 1, complete: 0, open: true }).open = true;
                return None;
            }
        })
    }

    fn put(&mut self, rank: u32, key: &[u8], value: &[u8], events: &mut Vec<PmiEvent>) -> &'static str {
        match self.store.put(rank, key, value) {
            Ok(()) => "cmd=put_result rc=0 msg=success",
            Err(store::Full) => {
                if !std::mem::replace(&mut self.clients[rank as usize].reported_full, true) {
                    let kib = share_bytes(self.world) >> 10;
                    let world_rank = self.first + rank;
                    events.push(PmiEvent::Line(format!(
                        "rank {world_rank} has stored {kib} KiB over PMI, its share; more is refused"
                    )));
                }
                "cmd=put_result rc=-1 msg=no_room"
            }
        }
    }

    /// A line of a request for more processes; the last one is answered.
    fn handle_spawn_line(&mut self, rank: u32, line: &[u8], events: &mut Vec<PmiEvent>) {
        let client = &mut self.clients[rank as usize];
        let Some(spawn) = &mut client.spawn else { return };
        if let Some(parts) = line.strip_prefix(b"totspawns=").and_then(number) {
            spawn.parts = parts;
        }
        if line != b"endcmd" {
            return;
        }
        spawn.open = false;
        spawn.complete += 1;
        if spawn.complete >= spawn.parts {
            client.spawn = None;
            client.answer("cmd=spawn_result rc=-1 msg=not_supported");
            if !std::mem::replace(&mut client.reported_spawn, true) {
                let world_rank = self.first + rank;
                events.push(PmiEvent::Line(format!(
                    "rank {world_rank} wants to start more processes (MPI_Comm_spawn), which programs of another MPI cannot here"
                )));
            }
        }
    }
}

impl PmiClient {
    /// Its next line may be taken.
    fn is_readable(&self) -> bool {
        self.socket.is_some() && self.out.is_empty() && !self.waits
    }

    fn answer(&mut self, text: &str) {
        self.answer_bytes(text.as_bytes());
    }

    fn answer_bytes(&mut self, line: &[u8]) {
        if self.socket.is_some() {
            self.out.extend_from_slice(line);
            self.out.push(b'\n');
            self.flush();
        }
    }

    fn flush(&mut self) {
        while let Some(socket) = self.socket.as_ref().filter(|_| !self.out.is_empty()) {
            match send(socket, &self.out, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                // Its reader is gone; what it sent before may still be read.
                Err(_) => self.out.clear(),
            }
        }
    }
}

/// Which ranks share a node, as MPICH wants it: blocks (first node, nodes, ranks on each).
fn mapping(first_ranks: &[u32], ranks: u64) -> String {
    let ends = first_ranks.iter().skip(1).map(|first| u64::from(*first)).chain([ranks]);
    let mut blocks: Vec<(usize, usize, u64)> = Vec::new();
    for (node, (first, end)) in first_ranks.iter().zip(ends).enumerate() {
        let ranks = end - u64::from(*first);
        match blocks.last_mut() {
            Some((_, nodes, each)) if *each == ranks => *nodes += 1,
            _ => blocks.push((node, 1, ranks)),
        }
    }
    let blocks: Vec<String> =
        blocks.iter().map(|(node, nodes, ranks)| format!("({node},{nodes},{ranks})")).collect();
    format!("(vector,{})", blocks.join(","))
}

#[cfg(test)]
mod tests;
