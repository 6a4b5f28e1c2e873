//! Messages between daemons (as bytes, [`tutti_protocol::codec`]), and of users to daemons (as JSON,
//! in frames of the starter's wire). What may change in both: SPECIFICATION.md, "Releases".
//!
//! The protocol between daemons is one of states, not of events: whatever is said may be said again, and a
//! link that comes back begins with all that holds, both ways: what is to be goes down, what is, and the
//! orders that it follows, goes up. Nothing has to be remembered of a link that broke, and a controller that
//! has lost its memory gets it back from the nodes.
//!
//! | message | way | meaning |
//! |---|---|---|
//! | Hello | a node to the one that it dials | who I am; and my number, if I have one |
//! | Welcome | controller to a new node | your number, and who there is: dial your parent |
//! | Refused | controller to a new node | why it is not wanted |
//! | Members | down | the list has changed |
//! | Orders | down | what is to be with these jobs |
//! | States | up | what is with these jobs on these nodes, several changes in one message; on a new link also their orders |
//! | Gone | up | a child does not answer any more |
//! | Route | any | something for one node, handed on hop by hop |
//! | Gang | any | what switch threads say to each other and datagrams do not carry |
//! | Down | down | the end of all daemons |
//! | Board | any | words of the nodes' boards that have changed |
//! | Alive | any | we live; and how long ago the controller did, as far as we know |

use serde::{Deserialize, Serialize};

pub use tutti_sched::{Bytes, JobId};

use crate::members::{About, Members, NodeId};

mod launch;
mod order;
mod part;
pub mod room;
mod routed;
mod user;

pub use launch::{Allocation, Launch, Steps};
pub use order::{Amended, Clock, End, Fence, Hold, Order, Renewed, Run, SpawnOrder};
pub use part::{Held, PartState, Phase, State};
pub(crate) use room::{
    ASK_BYTES_MAX, MESSAGE_BYTES_MAX, SPAWNED_BYTES_MAX, STATE_BYTES_MAX, USER_REPORTED_BYTES_MAX,
    USER_STATE_BYTES_MAX,
};
pub use routed::{Notice, Pipe, RegionClient, RegionPlace, Routed};
pub use tutti_protocol::batch::{After, BATCH_AFTER_MAX, Batch, NAME_CHARS_MAX, NOTE_BYTES_MAX};
pub use tutti_protocol::end::{EndKind, Ending, JobEnd};
pub use tutti_protocol::environment::{Environment, Environments};
pub use tutti_protocol::output;
pub use tutti_protocol::terms::Terms;
pub use tutti_protocol::users::{
    Answer, Change, Control, Host, JobRow, JobState, NodeRow, Request, Return, Script, Submit, Suspended,
};
pub use user::{Account, User};

/// From daemon to daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The first on every link, from the one who dialled.
    Hello {
        /// Description of the node that dialled.
        about: About,
        /// Number of the node, if it has one and takes the other for its parent.
        node: Option<NodeId>,
        /// The number that it had, for a controller that does not know it.
        preferred: Option<NodeId>,
        /// The list as it knows it, for such a controller.
        known: Option<Members>,
    },
    /// The controller's answer to a node without a number.
    Welcome {
        /// The node's number.
        node: NodeId,
        /// List of the nodes.
        members: Members,
    },
    /// The controller does not want the node; one line.
    Refused(String),
    /// The list has changed.
    Members(Members),
    /// Orders: what is to be.
    Orders(Vec<(JobId, Order)>),
    /// States: what is.
    States {
        /// On a new link: the orders that hold here.
        orders: Vec<(JobId, Order)>,
        /// By part.
        states: Vec<State>,
    },
    /// A child does not answer.
    Gone {
        /// The child.
        node: NodeId,
        /// In which of its incarnations.
        incarnation: u64,
        /// Parent of the child, who says so.
        by: NodeId,
    },
    /// For one node.
    Route {
        /// Whom it is for.
        to: NodeId,
        /// Whom it is from.
        from: NodeId,
        /// Content of the message.
        body: Routed,
    },
    /// The neighbour's switch thread says something to ours: a word that has not come as a datagram.
    Gang {
        /// Number of the word on this link.
        number: u64,
        /// As the threads write them.
        #[serde(with = "serde_bytes")]
        word: Vec<u8>,
    },
    /// All daemons end.
    Down,
    /// Sign of life: there is nothing else to say.
    Alive {
        /// How long the sender has heard nothing of the controller, directly or by its parents, in ms.
        controller_silent_ms: u64,
    },
    /// Lines of the nodes' boards, as far as the neighbour does not know them yet.
    Board(Vec<BoardLine>),
    /// A kind more, as a later release may have it.
    #[cfg(feature = "next-wire")]
    Next(Vec<String>),
}

impl Message {
    /// The first version of the wire that has it: it does not go to a daemon of an earlier one.
    pub(crate) fn since(&self) -> u32 {
        match self {
            Message::Hello { .. }
            | Message::Welcome { .. }
            | Message::Refused(_)
            | Message::Members(_)
            | Message::Orders(_)
            | Message::States { .. }
            | Message::Gone { .. }
            | Message::Route { .. }
            | Message::Gang { .. }
            | Message::Down
            | Message::Alive { .. }
            | Message::Board(_) => 3,
            // No harm is done where it is left out: it goes to everybody.
            #[cfg(feature = "next-wire")]
            Message::Next(_) => 3,
        }
    }

    /// Name of the kind, for the log: what the message says may be a user's secret.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Message::Hello { .. } => "Hello",
            Message::Welcome { .. } => "Welcome",
            Message::Refused(_) => "Refused",
            Message::Members(_) => "Members",
            Message::Orders(_) => "Orders",
            Message::States { .. } => "States",
            Message::Gone { .. } => "Gone",
            Message::Route { .. } => "Route",
            Message::Gang { .. } => "Gang",
            Message::Down => "Down",
            Message::Alive { .. } => "Alive",
            Message::Board(_) => "Board",
            #[cfg(feature = "next-wire")]
            Message::Next(_) => "Next",
        }
    }
}

/// Words of a node's line on the boards that have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardLine {
    /// The node.
    pub node: NodeId,
    /// How long ago it was measured.
    pub age_ms: u64,
    /// Places and values; the time of the measurement is not among them.
    pub words: Vec<(u8, u64)>,
}
