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
//! | mcmd=spawn ... endcmd | spawn_result | when all have become their programs, or why not; on several nodes rc=-1, and the user gets a line |
//! | publish_name, lookup_name, unpublish_name | publish_result, lookup_result, unpublish_result | on one node |
//! | anything else | NAME_result rc=-1 | |
//!
//! In a job on several nodes the hub ends a barrier. [`Pmi::poll_fence`] gives the report to it when all
//! ranks of this node are there; [`Pmi::handle_fence`] takes its answer, with what the ranks of all nodes
//! have put. Both name the barrier's number. The next one begins only when this one is over, so either may be
//! repeated.
//!
//! Ranks that were started together are a group with a store, a name of it, and barriers of their own: those
//! that the job began with, and each that a rank has asked for.
//!
//! What a rank can make this process hold is bounded: a line of 64 KiB, an answer, and its share of the store
//! ([`share_bytes`]). A rank is not read from while its answer waits or while it is in a barrier. What is no
//! line of PMI ends the job.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use self::line::{Lines, Request};
use self::spawning::{Blocks, Command, Pair};
use self::store::Store;
use tutti_protocol::pmi::share_bytes;
use tutti_protocol::wire::Job;

pub mod line;
pub mod spawning;
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
/// Names that are published at once, at most.
const NAMES_MAX: usize = 1024;
/// The group of those that the job began with.
const FIRST_GROUP: u32 = 0;

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
    /// It wants more processes; [`Pmi::answer_spawn`] answers.
    Spawn(u32, Vec<Command>),
    /// A line for the user.
    Line(String),
}

/// The server.
#[derive(Debug)]
pub struct Pmi {
    clients: Vec<PmiClient>,
    groups: BTreeMap<u32, Group>,
    next_group: u32,
    /// How many processes the user expects.
    universe: u64,
    /// What a rank may put, in bytes.
    share_bytes: usize,
    /// Names of ports, and the ranks that have published them.
    names: BTreeMap<Vec<u8>, (u32, Vec<u8>)>,
    /// The job's number.
    job: u64,
    /// The hub knows that all ranks of this node are in the next one.
    fence_reported: bool,
    /// This is the job's only node.
    alone: bool,
}

/// Ranks that were started together.
#[derive(Debug)]
struct Group {
    store: Store,
    /// The rank in its world of the first on this node.
    first: u32,
    /// Its ranks of this node.
    members: Vec<u32>,
    /// How many of them there are to be.
    local: usize,
    /// For each program the last rank in the world and one more.
    programs: Vec<u64>,
    /// Name of its key-value space.
    space: String,
    /// Barriers that are over.
    fences: u32,
}

/// A rank's place.
#[derive(Debug, Default)]
struct PmiClient {
    /// None: it has closed its end, or is not read any more.
    socket: Option<OwnedFd>,
    lines: Lines,
    /// The answer that waits for room.
    out: Vec<u8>,
    /// It is in a barrier.
    waits: bool,
    /// It has asked for processes.
    spawns: bool,
    group: u32,
    /// Which of the group's ranks of this node.
    place: u32,
    /// Lines of a request for more processes are being read.
    blocks: Blocks,
    /// The user has a line about the store being full.
    reported_full: bool,
    /// The user has a line about processes that cannot be started.
    reported_spawn: bool,
}

impl Pmi {
    /// For the ranks of this node; each gets its socket by [`Self::add`]. `universe`: how many processes the
    /// user expects.
    pub fn new(job: &Job, universe: u32) -> Self {
        let local = job.local_ranks();
        let ranks = (local.end - local.start) as usize;
        let share_bytes = share_bytes(job.ranks());
        let mut store = Store::new(ranks, share_bytes);
        let first_ranks = job.part.as_ref().map_or(&[0][..], |part| &part.first_ranks);
        store.preset(b"PMI_process_mapping", mapping(first_ranks, job.ranks()).as_bytes());
        let group = Group {
            store,
            first: local.start as u32,
            members: Vec::new(),
            local: ranks,
            programs: ends(job.programs.iter().map(|program| program.ranks)),
            space: format!("kvs_{:016x}", job.id),
            fences: 0,
        };
        Pmi {
            clients: Vec::new(),
            groups: BTreeMap::from([(FIRST_GROUP, group)]),
            next_group: FIRST_GROUP + 1,
            universe: job.ranks().max(universe.into()),
            share_bytes,
            names: BTreeMap::new(),
            job: job.id,
            fence_reported: false,
            alone: job.part.is_none(),
        }
    }

    /// The end of the next rank that the job begins with, which it inherits.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn add(&mut self) -> io::Result<OwnedFd> {
        self.add_to(self.clients.len() as u32, FIRST_GROUP)
    }

    /// A group of ranks that a rank has asked for, so many of each program; what its store has from the
    /// beginning.
    pub fn begin_group(&mut self, programs: &[u32], preput: &[Pair]) -> u32 {
        let number = self.next_group;
        self.next_group += 1;
        let ranks = programs.iter().sum::<u32>();
        let mut store = Store::new(ranks as usize, self.share_bytes);
        store.preset(b"PMI_process_mapping", mapping(&[0], ranks.into()).as_bytes());
        preput.iter().for_each(|(key, value)| store.preset(key, value));
        let group = Group {
            store,
            first: 0,
            members: Vec::new(),
            local: ranks as usize,
            programs: ends(programs.iter().copied()),
            space: format!("kvs_{:016x}_{number}", self.job),
            fences: 0,
        };
        self.groups.insert(number, group);
        number
    }

    /// The end of the next rank of a group, which it inherits.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn add_to(&mut self, rank: u32, group: u32) -> io::Result<OwnedFd> {
        let (own, end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        self.put_client(rank, PmiClient { socket: Some(own), group, ..PmiClient::default() });
        if let Some(of) = self.groups.get_mut(&group) {
            self.clients[rank as usize].place = of.members.len() as u32;
            of.members.push(rank);
        }
        Ok(end)
    }

    /// A rank that does not speak PMI.
    pub fn add_silent(&mut self, rank: u32) {
        self.put_client(rank, PmiClient { group: u32::MAX, ..PmiClient::default() });
    }

    fn put_client(&mut self, rank: u32, client: PmiClient) {
        let at = rank as usize;
        if at < self.clients.len() {
            let former = std::mem::replace(&mut self.clients[at], client);
            self.names.retain(|_, (publisher, _)| *publisher != rank);
            // What nobody is left of nobody reads.
            if let Some(of) = self.groups.get_mut(&former.group) {
                of.members.retain(|member| *member != rank);
                if of.members.is_empty() && former.group != FIRST_GROUP {
                    self.groups.remove(&former.group);
                }
            }
        } else {
            self.clients.resize_with(at, PmiClient::default);
            self.clients.push(client);
        }
    }

    /// The ranks of a group are taken back.
    pub fn end_group(&mut self, group: u32) {
        for rank in self.groups.remove(&group).into_iter().flat_map(|group| group.members) {
            self.clients[rank as usize] = PmiClient { group: u32::MAX, ..PmiClient::default() };
        }
    }

    /// What has become of the processes that a rank has asked for: all are there, or none.
    pub fn answer_spawn(&mut self, rank: u32, ranks: u32, is_good: bool) -> Vec<PmiEvent> {
        let mut events = Vec::new();
        if let Some(client) = self.clients.get_mut(rank as usize) {
            client.spawns = false;
            let (code, each) = if is_good { (0, "0") } else { (-1, "-1") };
            let codes = vec![each; ranks as usize].join(",");
            client.answer(&format!("cmd=spawn_result rc={code} errcodes={codes}"));
            self.run_ready(&mut events);
        }
        events
    }

    /// To be polled for these, then given to [`Self::handle_ready`].
    pub fn polled(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>, PollFlags)> {
        self.clients.iter().enumerate().filter_map(|(rank, client)| {
            let flags = match client {
                PmiClient { out, .. } if !out.is_empty() => PollFlags::OUT,
                PmiClient { waits: true, .. } | PmiClient { spawns: true, .. } => return None,
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
        let Some(group) = self.groups.get_mut(&FIRST_GROUP) else { return Ok(events) };
        if fence == group.fences + 1 {
            if !group.store.merge(puts) {
                return Err(NoPmi);
            }
            self.release(FIRST_GROUP);
            self.run_ready(&mut events);
        }
        Ok(events)
    }

    /// The report to the hub: the number of the barrier in which all ranks of this node are, and what they
    /// have put.
    pub fn poll_fence(&mut self) -> Option<(u32, Vec<u8>)> {
        let due = !self.alone && !self.fence_reported && self.all_wait(FIRST_GROUP);
        let group = self.groups.get_mut(&FIRST_GROUP).filter(|_| due)?;
        self.fence_reported = true;
        Some((group.fences + 1, group.store.take_fresh()))
    }

    fn all_wait(&self, group: u32) -> bool {
        self.groups.get(&group).is_some_and(|group| {
            group.members.len() == group.local
                && group.members.iter().all(|rank| self.clients[*rank as usize].waits)
        })
    }

    /// The barrier of a group is over.
    fn release(&mut self, group: u32) {
        let Some(group) = self.groups.get_mut(&group) else { return };
        group.fences += 1;
        self.fence_reported = false;
        for rank in &group.members {
            let client = &mut self.clients[*rank as usize];
            client.waits = false;
            client.answer("cmd=barrier_out rc=0");
        }
    }

    /// Takes the lines that have come, of all ranks, until nothing more can be done.
    fn run_ready(&mut self, events: &mut Vec<PmiEvent>) {
        loop {
            (0..self.clients.len() as u32).for_each(|rank| self.take_lines(rank, events));
            let full: Vec<u32> = self.groups.keys().copied().filter(|group| self.all_wait(*group)).collect();
            // Those of the first one wait for other nodes, if there are any.
            let full: Vec<u32> =
                full.into_iter().filter(|group| self.alone || *group != FIRST_GROUP).collect();
            if full.is_empty() {
                return;
            }
            for group in full {
                // No other process needs it.
                self.groups.get_mut(&group).into_iter().for_each(|group| drop(group.store.take_fresh()));
                self.release(group);
            }
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
        if self.clients[rank as usize].blocks.is_open() {
            self.handle_spawn_line(rank, line, events);
            return Ok(());
        }
        let request = Request::parse(line)?;
        let Some(group) = self.groups.get(&self.clients[rank as usize].group) else { return Err(NoPmi) };
        let answer = match request.space().filter(|space| *space != group.space.as_bytes()) {
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
        let group = self.groups.get_mut(&client.group)?;
        Some(match request {
            Request::Init { version } => {
                let code = if version == 1 { 0 } else { -1 };
                events.extend((code == 0).then_some(PmiEvent::Started(rank)));
                format!("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={code}").into()
            }
            Request::Maxes => format!("cmd=maxes rc=0 {MAXES}").into(),
            Request::AppNumber => {
                let world_rank = u64::from(group.first + client.place);
                let program = group.programs.partition_point(|end| *end <= world_rank);
                format!("cmd=appnum rc=0 appnum={program}").into()
            }
            Request::UniverseSize => format!("cmd=universe_size rc=0 size={}", self.universe).into(),
            Request::SpaceName => format!("cmd=my_kvsname rc=0 kvsname={}", group.space).into(),
            Request::Put { key, value, .. } => self.put(rank, key, value, events).into(),
            Request::Get { key, .. } => match group.store.get(key) {
                Some(value) => [b"cmd=get_result rc=0 value=", value].concat(),
                None => [b"cmd=get_result rc=-1 msg=key_", key, b"_not_found"].concat(),
            },
            Request::GetByIndex(index) => match group.store.at(index) {
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
                client.blocks.begin();
                return None;
            }
            Request::Publish { service, port } if self.alone => {
                let is_new = !self.names.contains_key(service) && self.names.len() < NAMES_MAX;
                if is_new {
                    self.names.insert(service.to_vec(), (rank, port.to_vec()));
                    "cmd=publish_result rc=0 info=ok".into()
                } else {
                    "cmd=publish_result rc=-1 msg=name_is_published info=duplicate".into()
                }
            }
            Request::Lookup(service) if self.alone => match self.names.get(service) {
                Some((_, port)) => [b"cmd=lookup_result rc=0 info=ok port=", &port[..]].concat(),
                None => "cmd=lookup_result rc=-1 msg=no_such_name info=not_found".into(),
            },
            Request::Unpublish(service) if self.alone => match self.names.remove(service) {
                Some(_) => "cmd=unpublish_result rc=0 info=ok".into(),
                None => "cmd=unpublish_result rc=-1 msg=no_such_name info=not_found".into(),
            },
            Request::Publish { .. } => "cmd=publish_result rc=-1 msg=not_supported".into(),
            Request::Lookup(_) => "cmd=lookup_result rc=-1 msg=not_supported".into(),
            Request::Unpublish(_) => "cmd=unpublish_result rc=-1 msg=not_supported".into(),
        })
    }

    /// World rank of one, for messages.
    fn world_rank(&self, rank: u32) -> u32 {
        // Of several nodes ranks of the first group alone speak PMI.
        rank + self.groups.get(&FIRST_GROUP).map_or(0, |group| group.first)
    }

    fn put(&mut self, rank: u32, key: &[u8], value: &[u8], events: &mut Vec<PmiEvent>) -> &'static str {
        let PmiClient { group, place, .. } = &self.clients[rank as usize];
        let Some(group) = self.groups.get_mut(group) else { return "cmd=put_result rc=-1 msg=no_such_kvs" };
        match group.store.put(*place, key, value) {
            Ok(()) => "cmd=put_result rc=0 msg=success",
            Err(store::Full) => {
                if !std::mem::replace(&mut self.clients[rank as usize].reported_full, true) {
                    let kib = self.share_bytes >> 10;
                    let world_rank = self.world_rank(rank);
                    events.push(PmiEvent::Line(format!(
                        "rank {world_rank} has stored {kib} KiB over PMI, its share; more is refused"
                    )));
                }
                "cmd=put_result rc=-1 msg=no_room"
            }
        }
    }

    /// A line of a request for more processes; behind the last one it is served.
    fn handle_spawn_line(&mut self, rank: u32, line: &[u8], events: &mut Vec<PmiEvent>) {
        let world_rank = self.world_rank(rank);
        let client = &mut self.clients[rank as usize];
        let Some(commands) = client.blocks.take_line(line) else { return };
        if self.alone && !commands.is_empty() {
            client.spawns = true;
            events.push(PmiEvent::Spawn(rank, commands));
            return;
        }
        client.answer("cmd=spawn_result rc=-1 msg=not_supported");
        if !self.alone && !std::mem::replace(&mut client.reported_spawn, true) {
            events.push(PmiEvent::Line(format!(
                "rank {world_rank} wants to start more processes (MPI_Comm_spawn), which programs of another MPI cannot on several nodes"
            )));
        }
    }
}

/// For each program its last rank and one more.
fn ends(programs: impl Iterator<Item = u32>) -> Vec<u64> {
    let ends = programs.scan(0, |end, ranks| {
        *end += u64::from(ranks);
        Some(*end)
    });
    ends.collect()
}

impl PmiClient {
    /// Its next line may be taken.
    fn is_readable(&self) -> bool {
        self.socket.is_some() && self.out.is_empty() && !self.waits && !self.spawns
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
