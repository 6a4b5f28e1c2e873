//! States: what is with a job on a node. That node alone changes them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tutti_os::cgroup::Enforced;
use tutti_protocol::users::FreezeMethod;
use tutti_protocol::wire::{Counted, Ended, Library, Reached, Stalled};
use tutti_sched::JobId;
use tutti_sched::fill_trial::PutOut;

use super::order::Fence;
use crate::members::NodeId;

/// State of a job on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The job.
    pub job: JobId,
    /// The node.
    pub node: NodeId,
    /// How far it is.
    pub part: PartState,
}

/// How far a part of a job is. It only ever goes forward, but for `suspended`,
/// `stalled` and `idle`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartState {
    /// Grows with every change: an older one that comes late is not taken.
    pub version: u64,
    /// How far.
    pub phase: Phase,
    /// Where its ranks are reached, from [`Phase::Ready`] on.
    pub reached: Reached,
    /// Pids in the order of ranks, from [`Phase::Running`] on.
    pub pids: Vec<u32>,
    /// Cores in the order of ranks.
    pub cores: Vec<String>,
    /// All its processes stand still.
    pub suspended: bool,
    /// How they are held while others have the cores, when that is known.
    #[serde(default)]
    pub held_by: Option<FreezeMethod>,
    /// Which of its limits the kernel sees to, when that is known: not of a starter that an earlier daemon
    /// has started.
    #[serde(default)]
    pub enforced: Option<Enforced>,
    /// Reason for which a filler does not fill: it costs a job here too much.
    #[serde(default)]
    pub put_out: Option<PutOut>,
    /// The last snapshot.
    pub held: Option<Held>,
    /// All its ranks sleep until something comes for them.
    #[serde(default)]
    pub stalled: Option<Stalled>,
    /// Whether nothing of it has worked for as long as its user has said (`--on-idle`).
    #[serde(default)]
    pub idle: bool,
    /// Launches that its ranks are connected to, by their public numbers, as its starter says it.
    #[serde(default)]
    pub connected: Vec<u64>,
    /// The job is over here, with this status.
    pub ending: Option<u8>,
    /// Ranks that ended in a way that the user should read.
    pub ended: Vec<Ended>,
    /// Reason for which it could not be started.
    pub refused: Option<String>,
    /// The daemon that was to begin it died before it did. This one, of this incarnation, would.
    #[serde(default)]
    pub unbegun: Option<u64>,
    /// Lines for the user.
    pub warnings: Vec<String>,
    /// Exit status as far as this node knows.
    pub status: u8,
    /// The last barrier of PMI that all its ranks have reached.
    pub fence: Arc<Fence>,
    /// The last time that a rank has asked for more ranks, as its starter says it.
    #[serde(default)]
    pub ask: Arc<Fence>,
    /// How its share of the last [`SpawnOrder`](super::SpawnOrder) began, as its starter says it.
    #[serde(default)]
    pub spawned: Arc<Fence>,
    /// No rank was left here as of this order of new ranks, as its starter says it.
    #[serde(default)]
    pub empty: Option<u32>,
    /// Bytes of output, when it is over and they are known.
    pub written: Option<u64>,
    /// Counts of its ranks, if its user wants to know.
    #[serde(default)]
    counted: Option<Box<Counted>>,
    /// Libraries on which its ranks have begun with MPI, in their order.
    #[serde(default)]
    libraries: Vec<Library>,
    /// Whether the keeper's prolog has failed here: nothing of it was started.
    #[serde(default)]
    prolog_failed: bool,
    /// A field more, as a later release may have it.
    #[cfg(feature = "next-wire")]
    #[serde(default)]
    pub next: tutti_protocol::version::Next,
}

impl PartState {
    /// The first one of a part, of this version.
    pub fn of_version(version: u64) -> Self {
        PartState { version, ..PartState::default() }
    }

    /// Whether the keeper's prolog has failed here.
    pub fn is_unprepared(&self) -> bool {
        self.prolog_failed
    }

    /// Records whether the keeper's prolog has failed here.
    pub fn set_unprepared(&mut self, is_unprepared: bool) {
        self.prolog_failed = is_unprepared;
    }

    /// The last one of a part that is over whatever its starter says: the line says why.
    pub fn given_up(text: String) -> Self {
        PartState {
            version: u64::MAX,
            phase: Phase::Over,
            ending: Some(1),
            status: 1,
            refused: Some(text),
            ..PartState::default()
        }
    }

    /// Counts of its ranks, as its starter says it.
    pub fn note_counted(&mut self, counted: Counted) {
        self.counted = Some(Box::new(counted));
    }

    /// Counts of its ranks, if its user wants to know.
    pub fn counted(&self) -> Option<Counted> {
        self.counted.as_deref().copied()
    }

    /// Ranks have begun with MPI on this library, as its starter says it.
    pub fn note_library(&mut self, library: Library) {
        library.note(&mut self.libraries);
    }

    /// Libraries on which its ranks have begun with MPI.
    pub fn libraries(&self) -> &[Library] {
        &self.libraries
    }
}

/// How far a part of a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Preparation: its starter is being started.
    #[default]
    Preparing,
    /// Everything is there; the ranks start when all nodes are so far.
    Ready,
    /// Ranks are forked.
    Running,
    /// No rank is left here, and none can come.
    Left,
    /// End: nothing is left here.
    Over,
}

/// Answer of a node to a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Of the hold.
    pub number: u64,
    /// View of its starter, as JSON; nothing any more when the controller has it.
    pub seen: Arc<str>,
    /// The ranks go on; whether they had stood still from the look until they were told to.
    pub released: Option<bool>,
}
