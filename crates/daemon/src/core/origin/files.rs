//! The files that the output of a submitted job goes to: one home, one job.
//!
//! ```text
//! Placed -> Opening --Opened--> Ready <-> a batch is with the writer --all written--> Over
//!              |                  |  \-- the writer is gone --> Opening again, nothing truncated
//!              \---- refused -----+----> Refused: the job is ended, what still comes is thrown away and counted
//! ```
//!
//! Frames come in here in the order in which a front end would get them. A batch of them goes to the writer,
//! a process of the user's (`tutti_protocol::writer`), one batch at a time. A node hears that its output is
//! taken when it is in its file, not before: what no file has is kept here, or by the node's daemon, or by
//! the starter.
//!
//! What an origin must know of this when its daemon dies is the [`Journal`]: how far each node's output is in
//! the files, and of the batch under way whose bytes go to which file, in which order, and how long the files
//! were before it. It is written before the batch goes to the writer. What happens if it stops right here:
//!
//! | who stops | when | what follows |
//! |---|---|---|
//! | daemon | before the journal of a batch | the batch is not written; nodes still have it |
//! | daemon | behind it | the writer writes what it has of the batch and exits. The next one waits for that. How much the files have grown says which bytes they have: the rest is asked for again, and of it what is there is left out |
//! | daemon | the batch is written | the same; nodes that have heard so begin behind it, which counts for more than lengths |
//! | writer | in a batch | another one is started: the same, with the batch that is still here |
//! | another node's daemon | at any time | its starter has what was not taken, as for any front end |
//! | the machine | at any time | as for daemon and writer; what its kernel had not written to the disk is lost, as with any program. An origin that is gone for good: see the controller |
//!
//! Lengths say it as long as nobody else writes to these files. What has no length (a terminal, a pipe) may
//! get the bytes of one batch twice when a daemon dies.
//!
//! A file that takes nothing more (a full disk, a quota) does not hold up the job: the rest of the batch that
//! is for it is lost, counted, and said in the job's status; the next batch is tried as if nothing had been.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use tutti_protocol::wire::{self, Kind, Text};
use tutti_protocol::writer::{Open, Opened, Written};

use crate::core::journal::{Entry, Journal};
use crate::members::NodeId;
use crate::message::JobId;
use crate::message::output::{OutputPlan, OutputState, expand, is_of_ranks};

/// Bytes of a batch, about.
const BATCH_BYTES: usize = 256 << 10;
/// Frames of a batch.
const BATCH_FRAMES: usize = 1024;
/// Files of a job.
const FILES_MAX: usize = 16 << 10;
/// A writer that ends so often without having written anything is not started again.
const TRIES_MAX: u32 = 5;

/// A frame on its way.
#[derive(Debug)]
struct Piece {
    node: NodeId,
    to: u64,
    file: Option<u32>,
    present: u64,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Opening,
    Ready,
    /// Given up: nothing is written any more.
    Refused,
    Over,
}

/// Which files what a rank writes goes to.
#[derive(Debug)]
enum Route {
    Nowhere,
    One(u32),
    ByRank(Vec<u32>),
}

impl Route {
    fn of(&self, rank: u32) -> Option<u32> {
        match self {
            Route::Nowhere => None,
            Route::One(file) => Some(*file),
            Route::ByRank(files) => files.get(rank as usize).copied(),
        }
    }
}

/// Actions for the files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileActions {
    /// To be written before anything is done.
    pub(super) journal: Option<Journal>,
    /// A writer is to be started.
    pub(super) open: Option<Open>,
    /// Frames for the writer.
    pub(super) frames: Vec<u8>,
    /// The writer may go.
    pub(super) close: bool,
    /// Nodes of whose output more is taken than before.
    pub(super) taken: BTreeSet<NodeId>,
    /// The nodes' output is to begin anew: the places are known.
    pub(super) resumes: bool,
    /// The controller is to hear of it at once.
    pub(super) status_changed: bool,
}

/// The files of a job.
#[derive(Debug)]
pub(super) struct Files {
    plan: OutputPlan,
    names: Vec<Text>,
    out: Route,
    errors: Route,
    state: State,
    /// Output of the nodes is taken: it is known where it goes on.
    takes: bool,
    journal: Journal,
    durable: BTreeMap<NodeId, u64>,
    present: BTreeMap<(NodeId, u32), u64>,
    lengths: BTreeMap<u32, u64>,
    queue: VecDeque<Piece>,
    /// With the writer.
    batch: Vec<Piece>,
    pub(super) status: OutputState,
    /// When the writer was last heard of.
    pub(super) moved_ms: u64,
    tries: u32,
}

impl Files {
    /// The files of a job that has its nodes. `names`: of its nodes. `journal`: what an earlier incarnation
    /// of this daemon, or this one when the job was submitted, has written of them; without one nothing is
    /// truncated.
    pub(super) fn new(
        job: JobId,
        plan: OutputPlan,
        nodes: &[String],
        journal: Option<Journal>,
        now_ms: u64,
    ) -> Self {
        let journal = journal.filter(|journal| journal.request_id == plan.request_id);
        let begun = !plan.begins_anew;
        let journal = journal.unwrap_or(Journal { request_id: plan.request_id, begun, ..Journal::default() });
        let mut files = Files {
            names: Vec::new(),
            out: Route::Nowhere,
            errors: Route::Nowhere,
            state: State::Opening,
            takes: !journal.begun,
            durable: journal.durable.iter().copied().collect(),
            present: BTreeMap::new(),
            lengths: BTreeMap::new(),
            queue: VecDeque::new(),
            batch: Vec::new(),
            status: OutputState {
                inode: journal.inode,
                lost_bytes: journal.lost_bytes,
                trouble: journal.trouble.clone(),
                ..OutputState::default()
            },
            moved_ms: now_ms,
            tries: 0,
            plan,
            journal,
        };
        if files.journal.over {
            (files.state, files.takes) = (State::Over, true);
            return files;
        }
        if let Err(text) = files.name_all(job, nodes) {
            files.refuse(text);
        }
        files
    }

    fn name_all(&mut self, job: JobId, nodes: &[String]) -> Result<(), String> {
        let mut known: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let (plan, names) = (&self.plan, &mut self.names);
        let mut number = |name: Vec<u8>| -> Result<u32, String> {
            if known.len() >= FILES_MAX && !known.contains_key(&name) {
                return Err(format!("the output would be in more than {FILES_MAX} files"));
            }
            Ok(*known.entry(name).or_insert_with_key(|name| {
                names.push(OsString::from_vec(name.clone()).into());
                names.len() as u32 - 1
            }))
        };
        let mut route = |pattern: Option<&Text>| -> Result<Route, String> {
            let Some(pattern) = pattern.map(Text::as_bytes) else { return Ok(Route::Nowhere) };
            let mut of_rank = |rank: u32| {
                let index = plan.first_ranks.partition_point(|first| *first <= rank).saturating_sub(1);
                let node = nodes.get(index).map_or("", String::as_str);
                number(expand(pattern, job, Some((rank, node))))
            };
            if is_of_ranks(pattern) {
                (0..plan.ranks).map(of_rank).collect::<Result<_, _>>().map(Route::ByRank)
            } else {
                of_rank(0).map(Route::One)
            }
        };
        (self.out, self.errors) = (route(plan.output.out.as_ref())?, route(plan.output.errors.as_ref())?);
        Ok(())
    }

    /// Output of the nodes may be taken: it is known where it goes on.
    pub(super) fn takes(&self) -> bool {
        self.takes
    }

    /// Place below which the output of a node need not be kept by it.
    pub(super) fn durable(&self, node: NodeId) -> u64 {
        self.durable.get(&node).copied().unwrap_or(0)
    }

    /// Whether nothing waits to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.batch.is_empty() && self.state != State::Opening
    }

    /// The first thing to do.
    pub(super) fn begin(&mut self) -> FileActions {
        if self.state != State::Opening {
            return FileActions { status_changed: true, ..FileActions::default() };
        }
        let truncate = !self.journal.begun && !self.plan.output.append;
        FileActions { open: Some(self.open(truncate)), ..FileActions::default() }
    }

    fn open(&self, truncate: bool) -> Open {
        Open {
            // Whoever starts it knows whether it must become somebody.
            identity: None,
            locks: false,
            umask: self.plan.umask,
            directory: self.plan.directory.clone(),
            files: self.names.clone(),
            truncate,
        }
    }

    /// As whom the files are written.
    pub(super) fn groups(&self) -> &[u32] {
        &self.plan.groups
    }

    /// A frame of output of a node, which ends at a place in all that it has to say.
    pub(super) fn take(&mut self, node: NodeId, to: u64, kind: Kind, rank: u32, bytes: &[u8]) {
        let route = if kind == Kind::Errors { &self.errors } else { &self.out };
        let file = route.of(rank);
        let bytes = if file.is_some() { bytes.to_vec() } else { Vec::new() };
        self.queue.push_back(Piece { node, to, file, present: 0, bytes });
    }

    /// The next batch, if the writer has none. What is for no file is done with at once.
    pub(super) fn poll(&mut self) -> FileActions {
        let mut actions = FileActions::default();
        if matches!(self.state, State::Refused | State::Over) {
            while let Some(piece) = self.queue.pop_front() {
                self.status.lost_bytes += piece.bytes.len() as u64;
                self.finish(&piece, &mut actions);
            }
            return actions;
        }
        if self.state != State::Ready || !self.batch.is_empty() {
            return actions;
        }
        let (mut bytes, mut entries) = (0, Vec::<Entry>::new());
        while bytes < BATCH_BYTES
            && self.batch.len() < BATCH_FRAMES
            && let Some(mut piece) = self.queue.pop_front()
        {
            if let Some(file) = piece.file {
                self.leave_out_present(&mut piece, file);
                wire::put(&mut actions.frames, Kind::Write, file, &piece.bytes);
            }
            bytes += piece.bytes.len();
            let entry = piece.entry();
            match entries.last_mut() {
                Some(last) if last.node == entry.node && last.file == entry.file => {
                    last.to = entry.to;
                    last.present += entry.present;
                    last.bytes += entry.bytes;
                }
                _ => entries.push(entry),
            }
            self.batch.push(piece);
        }
        if self.batch.is_empty() {
            return actions;
        }
        wire::put(&mut actions.frames, Kind::Flush, 0, &[]);
        actions.journal = Some(self.record_batch(entries));
        actions
    }

    /// A file has the first bytes of the piece already.
    fn leave_out_present(&mut self, piece: &mut Piece, file: u32) {
        let Some(present) = self.present.get_mut(&(piece.node, file)) else { return };
        let bytes = (*present).min(piece.bytes.len() as u64);
        piece.bytes.drain(..bytes as usize);
        piece.present += bytes;
        *present -= bytes;
        if *present == 0 {
            self.present.remove(&(piece.node, file));
        }
    }

    fn record_batch(&mut self, batch: Vec<Entry>) -> Journal {
        let files: BTreeSet<u32> = batch.iter().filter_map(|entry| entry.file).collect();
        let length = |file: u32| Some((file, *self.lengths.get(&file)?));
        let mut present = self.present.clone();
        for piece in self.queue.iter().filter(|piece| piece.present > 0) {
            let file = piece.file.expect("bytes of it are in a file");
            *present.entry((piece.node, file)).or_default() += piece.present;
        }
        self.journal = Journal {
            request_id: self.plan.request_id,
            begun: true,
            over: self.state == State::Over,
            durable: self.durable.iter().map(|(node, place)| (*node, *place)).collect(),
            present: present.into_iter().map(|((node, file), bytes)| (node, file, bytes)).collect(),
            lengths: files.into_iter().filter_map(length).collect(),
            batch,
            inode: self.status.inode,
            lost_bytes: self.status.lost_bytes,
            trouble: self.status.trouble.clone(),
        };
        self.journal.clone()
    }

    fn finish(&mut self, piece: &Piece, actions: &mut FileActions) {
        self.durable.insert(piece.node, piece.to);
        actions.taken.insert(piece.node);
    }

    /// The writer has opened the files, or cannot.
    pub(super) fn handle_opened(&mut self, opened: Opened, now_ms: u64) -> FileActions {
        if self.state != State::Opening {
            return FileActions::default();
        }
        self.moved_ms = now_ms;
        let (lengths, inode) = match opened {
            Opened::Ready { lengths, inode } if lengths.len() == self.names.len() => (lengths, inode),
            Opened::Ready { .. } => return self.refuse("the writer is of another version".into()),
            Opened::Refused(text) => return self.refuse(text),
        };
        let length = |(file, length): (usize, Option<u64>)| Some((file as u32, length?));
        let lengths: BTreeMap<u32, u64> = lengths.into_iter().enumerate().filter_map(length).collect();
        let mut actions =
            FileActions { status_changed: self.status.inode != Some(inode), ..FileActions::default() };
        self.status.inode = Some(inode);
        self.state = State::Ready;
        if !std::mem::replace(&mut self.takes, true) {
            self.recover(&lengths);
            actions.resumes = true;
        }
        self.take_up_batch(&lengths, &mut actions);
        self.lengths = lengths;
        actions
    }

    /// Takes stock of what the daemon before has given to its writer: how much of it the files have.
    fn recover(&mut self, lengths: &BTreeMap<u32, u64>) {
        let journal = &self.journal;
        self.present = journal.present.iter().map(|(node, file, bytes)| ((*node, *file), *bytes)).collect();
        let mut grown = grown(&journal.lengths, lengths);
        let mut stopped = BTreeSet::new();
        for entry in &journal.batch {
            let written = take_grown(&mut grown, entry.file, entry.bytes);
            if written == entry.bytes && !stopped.contains(&entry.node) {
                self.durable.insert(entry.node, entry.to);
            } else {
                stopped.insert(entry.node);
                if let Some(file) = entry.file {
                    *self.present.entry((entry.node, file)).or_default() += entry.present + written;
                }
            }
        }
    }

    /// Takes up what this daemon has given to a writer that has ended.
    fn take_up_batch(&mut self, lengths: &BTreeMap<u32, u64>, actions: &mut FileActions) {
        let mut grown = grown(&self.journal.lengths, lengths);
        let mut batch = std::mem::take(&mut self.batch);
        for piece in &mut batch {
            let written = take_grown(&mut grown, piece.file, piece.bytes.len() as u64);
            piece.bytes.drain(..written as usize);
            piece.present += written;
        }
        self.take_up(batch, actions);
    }

    /// Pieces of a batch without what is written of them: a node's are done with in order, and the rest is to
    /// be written again.
    fn take_up(&mut self, batch: Vec<Piece>, actions: &mut FileActions) {
        let mut stopped = BTreeSet::new();
        let mut again = Vec::new();
        for piece in batch {
            if piece.bytes.is_empty() && !stopped.contains(&piece.node) {
                self.finish(&piece, actions);
            } else {
                stopped.insert(piece.node);
                again.push(piece);
            }
        }
        again.into_iter().rev().for_each(|piece| self.queue.push_front(piece));
    }

    /// The writer says how far it came with the batch.
    pub(super) fn handle_written(&mut self, written: Written, now_ms: u64) -> FileActions {
        let mut actions = FileActions::default();
        if self.state != State::Ready || self.batch.is_empty() {
            return actions;
        }
        (self.moved_ms, self.tries) = (now_ms, 0);
        self.lengths
            .extend(written.lengths.into_iter().filter(|(file, _)| (*file as usize) < self.names.len()));
        let mut left = written.bytes;
        let mut batch = std::mem::take(&mut self.batch);
        // Writes are in order: what is not written comes behind what is.
        for piece in &mut batch {
            let bytes = left.min(piece.bytes.len() as u64);
            piece.bytes.drain(..bytes as usize);
            piece.present += bytes;
            left -= bytes;
        }
        let failed = written.error.map(|error| (error, batch.iter().find(|piece| !piece.bytes.is_empty())));
        let mut full = None;
        if let Some((error, piece)) = failed {
            full = piece.map(|piece| piece.file);
            actions.status_changed = self.status.trouble.is_none();
            self.status.trouble = Some(error);
        }
        // What else is for this file has no room either.
        for piece in batch.iter_mut().filter(|piece| Some(piece.file) == full) {
            self.status.lost_bytes += piece.bytes.len() as u64;
            piece.bytes.clear();
        }
        self.take_up(batch, &mut actions);
        if full.is_some() {
            // Nodes forget what is lost: lengths of files do not say it to the next daemon.
            actions.journal = Some(self.record_batch(Vec::new()));
        }
        actions
    }

    /// The writer has ended, or could not be started.
    pub(super) fn handle_gone(&mut self, text: &str) -> FileActions {
        if !matches!(self.state, State::Opening | State::Ready) {
            return FileActions::default();
        }
        self.tries += 1;
        if self.tries >= TRIES_MAX {
            return self.refuse(format!("cannot write the output: {text}"));
        }
        self.state = State::Opening;
        let truncate = !self.journal.begun && !self.plan.output.append;
        FileActions { open: Some(self.open(truncate)), ..FileActions::default() }
    }

    /// Ends all writing; the job need not run for it.
    pub(super) fn refuse(&mut self, text: String) -> FileActions {
        (self.state, self.takes) = (State::Refused, true);
        self.status.refused = Some(text);
        let mut actions =
            FileActions { close: true, status_changed: true, resumes: true, ..FileActions::default() };
        let batch = std::mem::take(&mut self.batch);
        let queue = std::mem::take(&mut self.queue);
        for piece in batch.into_iter().chain(queue) {
            self.status.lost_bytes += piece.bytes.len() as u64;
            self.finish(&piece, &mut actions);
        }
        actions
    }

    /// All output is here and written.
    pub(super) fn end(&mut self) -> FileActions {
        let was_over = std::mem::replace(&mut self.state, State::Over) == State::Over;
        let journal = (!was_over).then(|| self.record_batch(Vec::new()));
        FileActions { journal, close: true, status_changed: true, ..FileActions::default() }
    }

    /// A node has its output from a place on: where what is wanted of it begins. What is in front of that
    /// place it has heard to be taken.
    pub(super) fn begin_at(&mut self, node: NodeId, place: u64) -> u64 {
        let durable = self.durable.entry(node).or_insert(0);
        if place > *durable {
            *durable = place;
            self.present.retain(|(other, _), _| *other != node);
        }
        *durable
    }
}

impl Piece {
    fn entry(&self) -> Entry {
        let (node, to, file, present) = (self.node, self.to, self.file, self.present);
        Entry { node, to, file, present, bytes: self.bytes.len() as u64 }
    }
}

/// By how much files have grown.
fn grown(before: &[(u32, u64)], now: &BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    let growth = |(file, before): &(u32, u64)| Some((*file, now.get(file)?.saturating_sub(*before)));
    before.iter().filter_map(growth).collect()
}

fn take_grown(grown: &mut BTreeMap<u32, u64>, file: Option<u32>, bytes: u64) -> u64 {
    let Some(left) = file.and_then(|file| grown.get_mut(&file)) else {
        return if file.is_some() { 0 } else { bytes };
    };
    let taken = (*left).min(bytes);
    *left -= taken;
    taken
}

#[cfg(test)]
mod tests;
