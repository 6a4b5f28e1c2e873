//! Messages to one node, handed on hop by hop: questions and answers, reports of the controller, output and
//! input of jobs, tunnels, clients of regions and services.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tutti_protocol::output::{OutputPlan, OutputState};
use tutti_protocol::turns::TurnBatch;
use tutti_protocol::users::{Answer, Request};
use tutti_protocol::wire::{Counted, Report, Used};
use tutti_sched::JobId;
use tutti_sched::market::NodeUse;

use super::user::User;
use crate::members::NodeId;

/// Message to one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Routed {
    /// A user of the sender asks the controller.
    Request {
        /// Number of the question at its node: an answer names it, and the same one asked again is one.
        request_id: u64,
        /// User who asks; the sender vouches for him.
        user: User,
        /// Request of the user.
        request: Request,
        /// Whether it has been asked before.
        again: bool,
    },
    /// The controller's answer.
    Answer {
        /// The question.
        request_id: u64,
        /// The answer.
        answer: Answer,
        /// Number of the reason of a refusal; 0: there is none, or a controller of an earlier release does
        /// not say.
        #[serde(default)]
        reason: u32,
    },
    /// Reports of the controller for a job's front end, from number `first` on, until all have been heard.
    Reports {
        /// The job.
        job: JobId,
        /// The question that submitted it.
        request_id: u64,
        /// The controller's incarnation, in which the reports are numbered.
        incarnation: u64,
        /// Number of the first.
        first: u64,
        /// The reports.
        reports: Vec<Notice>,
    },
    /// The origin of a job has the reports below this number. Also asks whether there is still such a job.
    ReportsReceived {
        /// The job.
        job: JobId,
        /// The controller's incarnation.
        incarnation: u64,
        /// The number.
        below: u64,
        /// State of the files of its output, if it has any.
        #[serde(default)]
        output: Option<Box<OutputState>>,
    },
    /// A part of what a node's ranks wrote: the bytes of Output and Errors frames.
    Data {
        /// The job.
        job: JobId,
        /// Place of the first byte in all that the node has to say of the job.
        offset: u64,
        /// Place of the first byte that the node still has; a frame begins there.
        start: u64,
        /// The bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// The origin has the bytes below `have`, and room to `limit`.
    Room {
        /// The job.
        job: JobId,
        /// Bytes that need not be kept any more; none: the origin knows nothing of the bytes before those
        /// that are kept.
        have: Option<u64>,
        /// Bytes that may be sent.
        limit: u64,
    },
    /// A piece of stdin for the ranks of a node that get it; empty: its end.
    Input {
        /// The job.
        job: JobId,
        /// Number of the piece, from 1; the next one is sent after [`Routed::InputTaken`].
        piece: u64,
        /// The bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// For the controller's log: what the sender's switch thread has done lately.
    Turns(TurnBatch),
    /// For the controller: what jobs have had of the sender's memory and network.
    Use(Box<NodeUse>),
    /// Between a user's node and the origin of the job that he wants.
    Tunnel {
        /// Number of the user's connection at his node.
        id: u64,
        /// Whether it goes to the origin.
        to_origin: bool,
        /// Message of the tunnel.
        pipe: Pipe,
    },
    /// The sender has stored this version of the cluster's configuration.
    Configuration {
        /// See `tutti_protocol::settings::version`.
        version: u64,
    },
    /// A piece of stdin has been taken.
    InputTaken {
        /// The job.
        job: JobId,
        /// Number of the piece.
        piece: u64,
        /// Whether nobody reads any more.
        unwanted: bool,
    },
    /// A user of the sender wants a published region of the receiver.
    RegionWanted {
        /// Number of the user's connection at his node.
        id: u64,
        /// Client, and the region that it wants.
        client: RegionClient,
    },
    /// The answer.
    RegionGiven {
        /// The question.
        id: u64,
        /// Where it is reached, or the number of a status of `tutti_shm::published`.
        result: Result<RegionPlace, i32>,
    },
    /// For the controller: what the processes of a job have used on the sender, once, when they are gone.
    Used(JobId, Used),
    /// A user of the sender wants to know the services of the receiver.
    ServicesWanted {
        /// Number of the user's connection at his node.
        id: u64,
    },
    /// The answer.
    ServicesGiven {
        /// The question.
        id: u64,
        /// Users and names.
        services: Vec<(u32, String)>,
    },
}

impl Routed {
    /// The controller's answer to a question.
    pub(crate) fn answer(request_id: u64, answer: Answer) -> Routed {
        let (answer, reason) = answer.part();
        Routed::Answer { request_id, answer, reason }
    }
}

/// A client of a published region; its node's daemon vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionClient {
    /// User whose client it is.
    pub uid: u32,
    /// Groups of the client.
    pub groups: Vec<u32>,
    /// User of the region that is wanted.
    pub owner: u32,
    /// The region's name.
    pub name: String,
}

/// Where the server of a published region lets a client in, once.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionPlace {
    /// Where.
    pub address: SocketAddr,
    /// Key that the client shows.
    pub key: [u64; 2],
    /// Proof that the server shows.
    pub proof: [u64; 2],
}

impl std::fmt::Debug for RegionPlace {
    /// Without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RegionPlace({})", self.address)
    }
}

/// Notice of the controller to the origin of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// Where it runs; the first of all.
    Placed {
        /// The nodes.
        nodes: Vec<NodeId>,
        /// User of the job.
        user: User,
        /// Nodes whose ranks get the front end's stdin.
        takers: Vec<NodeId>,
        /// The files that it writes to.
        #[serde(default)]
        output: Option<Box<OutputPlan>>,
        /// Whether it has a front end.
        #[serde(default)]
        has_front_end: bool,
    },
    /// For the front end as it is.
    Report(Report),
    /// The job goes on: so does its front end.
    Resumed,
    /// The job is over; what each node has had to write by then comes first.
    End {
        /// Exit status of the job.
        status: u8,
        /// Bytes of output by node.
        written: Vec<(NodeId, u64)>,
        /// Why, if not by itself.
        #[serde(default)]
        cause: Option<String>,
        /// Counts of the ranks of all nodes, if its user wants to know.
        #[serde(default)]
        counted: Option<Counted>,
        /// Number of the report, in this incarnation of the controller, whose warning says the cause already.
        #[serde(default)]
        cause_report: Option<u64>,
    },
}

/// A message of one of the two streams of a tunnel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pipe {
    /// User, and what he wants, from the user's side.
    pub open: Option<(User, Request)>,
    /// Place of the first byte.
    pub offset: u64,
    /// Bytes of frames.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// Bytes of the other stream that have come.
    pub have: u64,
    /// Bytes of it that may come.
    pub limit: u64,
    /// Where this stream ends.
    pub end: Option<u64>,
    /// The tunnel is forgotten.
    pub over: bool,
}
