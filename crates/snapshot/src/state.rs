//! State of ranks, messages and flows, as it is seen; also the format of the file, as JSON.

use serde::{Deserialize, Serialize};

/// Bytes of all views of a job as JSON, at most: they travel in one message between daemons. What has no room
/// is counted.
pub const VIEWS_BYTES_MAX: usize = 48 << 20;
/// Of a view for the search for deadlocks, which the controller judges itself: beside so much, so much for
/// each rank.
const SEARCH_BYTES: (u64, u64) = (1 << 20, 16 << 10);

/// The state of all channels of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Number of the job.
    pub job: u64,
    /// Command that runs, shortened.
    pub command: String,
    /// Ranks on all nodes.
    pub ranks: u64,
    /// When, in ms since 1970.
    pub taken_ms: u64,
    /// Ranks may have started others, whose numbers are below this; none: it has not been possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<u64>,
    /// Views of the nodes.
    pub nodes: Vec<View>,
}

impl Snapshot {
    /// All numbers of ranks are below this.
    pub fn ranks_end(&self) -> u64 {
        self.room.map_or(self.ranks, |room| room.max(self.ranks))
    }
}

/// View of a node on its ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Number of the node in the job.
    pub node: u32,
    /// Why nothing can be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Ranks of the node.
    pub ranks: Vec<RankView>,
    /// Messages in the rings between ranks of the node.
    pub rings: Vec<Message>,
    /// Flows to ranks of other nodes on which anything was ever sent or received; for the search for
    /// deadlocks only those on which something that was sent is not acknowledged.
    pub flows: Vec<Flow>,
    /// Messages that are there and not listed, since there were too many.
    pub omitted: u64,
    /// Flows that are not listed: neither is what is under way on them.
    #[serde(default)]
    pub flows_omitted: u64,
    /// Flows on which all that was sent is acknowledged are not listed: what has been received on them is not
    /// known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acknowledged_omitted: bool,
    /// Messages that its ranks have taken and no receive has asked for, in the order in which each rank took
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Message>,
    /// Number of such messages that are not listed.
    #[serde(default)]
    pub held_omitted: u64,
}

impl View {
    /// One that shows nothing, and why.
    pub fn of_trouble(text: &str) -> Self {
        View { trouble: Some(text.into()), ..View::default() }
    }

    /// Bytes of the view of a node with so many of the job's ranks, at most; without data of messages it is
    /// for the search for deadlocks.
    pub fn bytes_max(ranks: u64, of: u64, data_bytes: u64) -> usize {
        let share = (VIEWS_BYTES_MAX as u128 * u128::from(ranks) / u128::from(of.max(1))) as usize;
        let (base, each) = SEARCH_BYTES;
        if data_bytes == 0 { share.min((base + ranks * each) as usize) } else { share }
    }

    /// A view as JSON; without room, one with that reason and nothing else.
    pub fn fitting(json: String, bytes_max: usize) -> String {
        if json.len() <= bytes_max {
            return json;
        }
        let bytes = json.len();
        let text =
            format!("what it sees of its ranks takes {bytes} bytes, and there is room for {bytes_max}");
        serde_json::to_string(&View::of_trouble(&text)).expect("views are serialisable")
    }
}

/// View of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankView {
    /// Number of the rank in the world.
    pub rank: u32,
    /// Process of the rank.
    pub pid: u32,
    /// Activity of the rank.
    pub doing: Doing,
    /// Whether it was stopped while it may have been taking messages: one may be missing, or be listed twice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taking: bool,
    /// Why it is not known what it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// Activity of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// Is not in our library.
    Elsewhere,
    /// Runs, or waits for less time than a rank waits before it sleeps.
    Runs,
    /// Sleeps until something comes for it.
    Waits {
        /// The function of MPI that it is in; none: that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// Alternatives that it waits for; the end of any of them lets it continue.
        any: Vec<Alternative>,
        /// Collective operations that were started and advance by themselves: what each awaits at its step.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        background: Vec<Alternative>,
        /// Whether there are more, or others.
        more: bool,
        /// Whether nothing but a message can wake it: no other thread of it, no timer.
        sure: bool,
        /// A message of any rank may start a function of it ([`tutti_shm::observe::Signals`]).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        signals: bool,
        /// Whether it is to be notified when the job has terminated ([`tutti_shm::termination`]).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        armed: bool,
        /// Messages that it has and no receive has asked for.
        unasked: u32,
    },
    /// Has left MPI_Finalize.
    HasLeft,
}

/// Condition that lets a rank continue: it ends when all its parts have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    /// Parts that have not ended.
    pub all: Vec<Wait>,
    /// Whether there are more of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// Wait of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Kind of event that is waited for.
    pub what: What,
    /// The data are under way.
    pub matched: bool,
    /// The other rank; none: any.
    pub peer: Option<u32>,
    /// Tag; none: any.
    pub tag: Option<i32>,
    /// Context of the communicator.
    pub context: u32,
    /// Bytes of the message, or of the buffer for it.
    pub bytes: u64,
    /// How many of them have arrived, or left, when they move piece by piece.
    #[serde(default)]
    pub moved: u64,
}

/// Kinds of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// A receive.
    Receive,
    /// A send.
    Send,
    /// A member of a collective operation that has not come.
    Member,
    /// Another rank's step in the synchronisation of a window.
    Window,
    /// A word of its memory that another rank is to change.
    Word,
    /// The lock of a window that a rank grants; or, with `tag`, the end of the place with the number `bytes`
    /// that the rank holds in the queue of that lock.
    Lock,
    /// In the background: rank `moved` waits for the place with the number `bytes` in the queue of the lock
    /// `tag` here, behind `peer`.
    Place,
    /// In the background: the same, and the rank has the lock.
    Held,
    /// A page of shared memory.
    Page,
    /// The lock of shared memory with the number `tag`, which a rank keeps for all.
    SharedLock,
    /// The same lock, which the rank holds.
    SharedHolder,
    /// The barrier of shared memory with the number `tag`.
    Barrier,
    /// The pause of shared memory with the number `tag`.
    Pause,
    /// A message that a probe looks for.
    Probe,
    /// Event that is not described.
    Other,
}

/// A message as in its header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Kind of message: eager, stream, announce, write, part, clear, done, join, tell, credit.
    pub kind: String,
    /// Context of the communicator.
    pub context: u32,
    /// Tag.
    pub tag: i32,
    /// Bytes of the whole message.
    pub bytes: u64,
    /// Data of the message that are there, in hexadecimal; none: they are not there, or there was no room for
    /// them in the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

impl Message {
    /// Whether it carries data of the program, or represents such a message: no answer, and no part of one
    /// that was counted.
    pub fn is_message(&self) -> bool {
        ["eager", "stream", "announce", "write"].contains(&self.kind.as_str())
    }
}

/// A large message that comes from another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkIn {
    /// How long it is.
    pub bytes: u64,
    /// Number of its first bytes that are where they belong; of what is behind them there may be more.
    pub here: u64,
}

/// The words of a flow from a rank of the node to one of another node, and what its send FIFO holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The rank of this node.
    pub from: u32,
    /// Where it leads.
    pub to: u32,
    /// First record not acknowledged.
    pub snd_una: u32,
    /// Behind the highest that may be in the network.
    pub snd_high: u32,
    /// Behind the last in the FIFO.
    pub snd_nxt: u32,
    /// Next record expected from the other side.
    pub rcv_nxt: u32,
    /// A large message from there that is coming in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<BulkIn>,
    /// The records of `[snd_una, snd_nxt)` in order.
    pub records: Vec<Message>,
}
