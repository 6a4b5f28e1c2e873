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
//! | mcmd=spawn ... endcmd | spawn_result | when all have become their programs, or why not |
//! | publish_name, lookup_name, unpublish_name | publish_result, lookup_result, unpublish_result | when all nodes know |
//! | anything else | NAME_result rc=-1 | |
//!
//! In a job on several nodes the hub ends a barrier. [`Pmi::poll_fence`] gives the report to it when all
//! ranks of this node are there; [`Pmi::handle_fence`] takes its answer, with what the ranks of all nodes
//! have put. Both name the barrier's number. The next one begins only when this one is over, so either may be
//! repeated.
//!
//! Ranks that were started together are a group with a store, a name of it, and barriers of their own: those
//! that the job began with, and each that a rank has asked for. On several nodes the barriers of the latter,
//! and published names, are words ([`word`]) that reach all starters in one order: [`Pmi::poll_words`],
//! [`Pmi::handle_word`].
//!
//! What a rank can make this process hold is bounded: a line of 64 KiB, an answer, and its share of the store
//! ([`share_bytes`]). A rank is not read from while its answer waits or while it is in a barrier. What is no
//! line of PMI ends the job.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use self::client::PmiClient;
use self::group::{Group, Placement};
use self::line::Request;
use self::names::Names;
use self::spawning::{Command, Pair};
use self::word::Word;
use tutti_protocol::pmi::share_bytes;
use tutti_protocol::wire::Job;

mod client;
pub mod group;
pub mod line;
mod names;
pub mod spawning;
pub mod store;
pub mod word;

pub use self::names::NameChange;

/// Returned for what is not to be understood as PMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPmi;

/// Of a name of a space, a key, a value: what we promise. Longer ones are taken; older programs cannot send
/// them.
const MAXES: &str = "kvsname_max=256 keylen_max=64 vallen_max=1024";
/// Reads of what a rank that has died can have left behind: more than its socket holds.
const LAST_READS: usize = 64;
/// The group of those that the job began with.
const FIRST_GROUP: u32 = 0;

/// An event of a rank that concerns others. Ranks are counted on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmiEvent {
    /// Rank that has begun with MPI.
    Started(u32),
    /// Rank that is done with MPI.
    Finished(u32),
    /// The job is to end with this code.
    Abort(u32, u32),
    /// Rank that does not speak PMI.
    NoPmi(u32),
    /// Rank that wants more processes; [`Pmi::answer_spawn`] answers.
    Spawn(u32, Vec<Command>),
    /// Rank that wants all nodes to know a name, or to forget it; [`Pmi::answer_name`] answers.
    Name(u32, NameChange),
    /// Rank that has put as many KiB as it may.
    Full(u32, usize),
}

/// The server.
#[derive(Debug)]
pub struct Pmi {
    clients: Vec<PmiClient>,
    groups: BTreeMap<u32, Group>,
    /// How many processes the user expects.
    universe: u64,
    /// Bytes that a rank may put.
    share_bytes: usize,
    names: Names,
    /// The job's number.
    job: u64,
    /// Whether this is the job's only node.
    alone: bool,
}

impl Pmi {
    /// For the ranks of this node; each gets its socket by [`Self::add`]. `universe`: how many processes the
    /// user expects.
    pub fn new(job: &Job, universe: u32) -> Self {
        let share_bytes = share_bytes(job.ranks());
        Pmi {
            clients: Vec::new(),
            groups: BTreeMap::from([(FIRST_GROUP, Group::first(job, share_bytes))]),
            universe: job.ranks().max(universe.into()),
            share_bytes,
            names: Names::default(),
            job: job.id,
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

    /// The group of the ranks that this order starts, so many of each program; what its store has from the
    /// beginning.
    pub fn begin_group(&mut self, order: u32, programs: &[u32], preput: &[Pair], at: Placement<'_>) -> u32 {
        let space = format!("kvs_{:016x}_{order}", self.job);
        self.groups.insert(order, Group::later(programs, preput, at, space, self.share_bytes));
        order
    }

    /// The end of the next rank of a group, which it inherits.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn add_to(&mut self, rank: u32, group: u32) -> io::Result<OwnedFd> {
        let (own, end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        self.put_client(rank, PmiClient::new(own, group));
        if let Some(of) = self.groups.get_mut(&group) {
            self.clients[rank as usize].set_place(of.members.len() as u32);
            of.members.push(rank);
        }
        Ok(end)
    }

    /// A rank that does not speak PMI.
    pub fn add_silent(&mut self, rank: u32) {
        self.put_client(rank, PmiClient::silent());
    }

    fn put_client(&mut self, rank: u32, client: PmiClient) {
        let at = rank as usize;
        if at < self.clients.len() {
            let former = std::mem::replace(&mut self.clients[at], client);
            if self.alone {
                self.names.forget(&[rank]);
            }
            // What nobody is left of nobody reads.
            if let Some(of) = self.groups.get_mut(&former.group()) {
                of.members.retain(|member| *member != rank);
                if of.members.is_empty() && former.group() != FIRST_GROUP {
                    self.groups.remove(&former.group());
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
            self.clients[rank as usize] = PmiClient::silent();
        }
    }

    /// Answers what has become of the processes that a rank has asked for: all are there, or none.
    pub fn answer_spawn(&mut self, rank: u32, ranks: u32, is_good: bool) -> Vec<PmiEvent> {
        let mut events = Vec::new();
        if let Some(client) = self.clients.get_mut(rank as usize) {
            let (code, each) = if is_good { (0, "0") } else { (-1, "-1") };
            let codes = vec![each; ranks as usize].join(",");
            client.end_asking(&format!("cmd=spawn_result rc={code} errcodes={codes}"));
            self.run_ready(&mut events);
        }
        events
    }

    /// To be polled for these, then given to [`Self::handle_ready`].
    pub fn polled(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>, PollFlags)> {
        self.clients.iter().enumerate().filter_map(|(rank, client)| {
            let (descriptor, flags) = client.polled()?;
            Some((rank as u32, descriptor, flags))
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
        let due = !self.alone && self.all_wait(FIRST_GROUP);
        let group = self.groups.get_mut(&FIRST_GROUP).filter(|group| due && !group.reported)?;
        group.reported = true;
        Some((group.fences + 1, group.store.take_fresh()))
    }

    /// Gives what the other nodes are to be told of groups that were started later. `node`: this one.
    pub fn poll_words(&mut self, node: u32) -> Vec<Word> {
        let due = |pmi: &Self, number: &u32, group: &Group| {
            *number != FIRST_GROUP && !group.is_alone() && !group.reported && pmi.all_wait(*number)
        };
        let numbers: Vec<u32> = self
            .groups
            .iter()
            .filter(|(number, group)| due(self, number, group))
            .map(|(at, _)| *at)
            .collect();
        let of = |number: u32| self.groups.get_mut(&number).map(|group| group.report(number, node));
        numbers.into_iter().filter_map(of).flatten().collect()
    }

    /// A word that all nodes take, in the same order. Whether it could be done.
    ///
    /// # Errors
    /// When what a node has put are no keys and values.
    pub fn handle_word(&mut self, word: &Word) -> Result<(bool, Vec<PmiEvent>), NoPmi> {
        let mut events = Vec::new();
        let is_done = match word {
            Word::Fence { group, number, node, is_last, puts } => {
                let of = self.groups.get_mut(group);
                if of.map_or(Ok(false), |of| of.take_fence(*number, *node, puts, *is_last))? {
                    self.release(*group);
                    self.run_ready(&mut events);
                }
                true
            }
            Word::Publish { rank, service, port } => self.names.publish(*rank, service, port),
            Word::Unpublish { service, .. } => self.names.unpublish(service),
            Word::Spawn(..) | Word::Pmix { .. } | Word::Absent(_) => false,
        };
        Ok((is_done, events))
    }

    /// Ranks of these numbers in the job are started again: what the former ones have published is gone.
    pub fn forget_names(&mut self, ranks: &[u32]) {
        self.names.forget(ranks);
    }

    /// Outcome of a rank's wish about a name, on all nodes.
    pub fn answer_name(&mut self, rank: u32, change: &NameChange, is_done: bool) -> Vec<PmiEvent> {
        let mut events = Vec::new();
        if let Some(client) = self.clients.get_mut(rank as usize) {
            client.end_asking(change.answer(is_done));
            self.run_ready(&mut events);
        }
        events
    }

    /// Whether all living ranks of this node, of those that the job began with, are in a barrier, and there
    /// are some.
    pub fn do_living_wait(&self, is_dead: impl Fn(u32) -> bool) -> bool {
        let members = self.groups.get(&FIRST_GROUP).into_iter().flat_map(|group| &group.members);
        let mut living = members.filter(|rank| !is_dead(**rank)).peekable();
        living.peek().is_some() && living.all(|rank| self.clients[*rank as usize].is_in_barrier())
    }

    fn all_wait(&self, group: u32) -> bool {
        self.groups.get(&group).is_some_and(|group| {
            group.members.len() == group.places.len()
                && group.members.iter().all(|rank| self.clients[*rank as usize].is_in_barrier())
        })
    }

    /// The barrier of a group is over.
    fn release(&mut self, group: u32) {
        let Some(group) = self.groups.get_mut(&group) else { return };
        group.end_fence();
        for rank in &group.members {
            self.clients[*rank as usize].leave_barrier();
        }
    }

    /// Takes the lines that have come, of all ranks, until nothing more can be done.
    fn run_ready(&mut self, events: &mut Vec<PmiEvent>) {
        loop {
            (0..self.clients.len() as u32).for_each(|rank| self.take_lines(rank, events));
            // Those that have ranks on other nodes wait for them.
            let alone = self.groups.iter().filter(|(_, group)| group.is_alone()).map(|(number, _)| *number);
            let full: Vec<u32> = alone.filter(|group| self.all_wait(*group)).collect();
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
        let has_read = self.clients[rank as usize].read();
        if has_read {
            self.take_lines(rank, events);
        }
        has_read
    }

    fn take_lines(&mut self, rank: u32, events: &mut Vec<PmiEvent>) {
        loop {
            let line = match self.clients[rank as usize].next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return,
                Err(NoPmi) => return self.refuse(rank, events),
            };
            if self.handle_line(rank, &line, events).is_err() {
                return self.refuse(rank, events);
            }
        }
    }

    /// Ends reading from a rank that does not speak PMI.
    fn refuse(&mut self, rank: u32, events: &mut Vec<PmiEvent>) {
        self.clients[rank as usize].close();
        events.push(PmiEvent::NoPmi(rank));
    }

    fn handle_line(&mut self, rank: u32, line: &[u8], events: &mut Vec<PmiEvent>) -> Result<(), NoPmi> {
        if self.clients[rank as usize].is_in_block() {
            self.handle_spawn_line(rank, line, events);
            return Ok(());
        }
        let request = Request::parse(line)?;
        let Some(group) = self.groups.get(&self.clients[rank as usize].group()) else { return Err(NoPmi) };
        let answer = match request.space().filter(|space| *space != group.space.as_bytes()) {
            Some(_) => Some(format!("cmd={}_result rc=-1 msg=no_such_kvs", request.verb()).into()),
            None => self.handle_request(rank, request, events),
        };
        if let Some(answer) = answer {
            self.clients[rank as usize].answer(&answer);
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
        let group = self.groups.get_mut(&client.group())?;
        Some(match request {
            Request::Init { version } => {
                let code = if version == 1 { 0 } else { -1 };
                events.extend((code == 0).then_some(PmiEvent::Started(rank)));
                format!("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={code}").into()
            }
            Request::Maxes => format!("cmd=maxes rc=0 {MAXES}").into(),
            Request::AppNumber => {
                let world_rank = u64::from(group.places.get(client.place() as usize).copied().unwrap_or(0));
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
                client.enter_barrier();
                return None;
            }
            Request::Abort(code) => {
                events.push(PmiEvent::Abort(rank, code));
                return None;
            }
            Request::Spawn => {
                client.begin_block();
                return None;
            }
            Request::Publish { service, port } => {
                let change = NameChange::Publish(service.to_vec(), port.to_vec());
                return self.change_name(rank, change, events);
            }
            Request::Lookup(service) => match self.names.port(service) {
                Some(port) => [b"cmd=lookup_result rc=0 info=ok port=", port].concat(),
                None => "cmd=lookup_result rc=-1 msg=no_such_name info=not_found".into(),
            },
            Request::Unpublish(service) => {
                return self.change_name(rank, NameChange::Unpublish(service.to_vec()), events);
            }
        })
    }

    /// Changes a name at once, or asks all nodes to do so; gives the answer, if it is to be sent now.
    fn change_name(&mut self, rank: u32, change: NameChange, events: &mut Vec<PmiEvent>) -> Option<Vec<u8>> {
        if self.alone {
            let is_done = match &change {
                NameChange::Publish(service, port) => self.names.publish(rank, service, port),
                NameChange::Unpublish(service) => self.names.unpublish(service),
            };
            return Some(change.answer(is_done).into());
        }
        self.clients[rank as usize].begin_asking();
        events.push(PmiEvent::Name(rank, change));
        None
    }

    fn put(&mut self, rank: u32, key: &[u8], value: &[u8], events: &mut Vec<PmiEvent>) -> &'static str {
        let client = &mut self.clients[rank as usize];
        let Some(group) = self.groups.get_mut(&client.group()) else {
            return "cmd=put_result rc=-1 msg=no_such_kvs";
        };
        match group.store.put(client.place(), key, value) {
            Ok(()) => "cmd=put_result rc=0 msg=success",
            Err(store::Full) => {
                if client.is_first_full() {
                    events.push(PmiEvent::Full(rank, self.share_bytes >> 10));
                }
                "cmd=put_result rc=-1 msg=no_room"
            }
        }
    }

    /// A line of a request for more processes; behind the last one it is served.
    fn handle_spawn_line(&mut self, rank: u32, line: &[u8], events: &mut Vec<PmiEvent>) {
        let client = &mut self.clients[rank as usize];
        let Some(commands) = client.take_block_line(line) else { return };
        if commands.is_empty() {
            return client.answer(b"cmd=spawn_result rc=-1 msg=not_supported");
        }
        client.begin_asking();
        events.push(PmiEvent::Spawn(rank, commands));
    }
}

#[cfg(test)]
mod tests;
