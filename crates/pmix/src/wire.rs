//! Messages between starter and PMIx server: `bytes: u32, lowest first | value`, the value as
//! [`tutti_protocol::codec`] writes it. Both ends are of one installation.
//!
//! The server is a process of the job's user, so the starter believes none of its numbers: it checks every
//! rank.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tutti_protocol::codec;
use tutti_protocol::wire::PUTS_BYTES_MAX;

/// Bytes of a message, at most: what all ranks of a job give in one fence, and some more.
pub const MESSAGE_BYTES_MAX: usize = PUTS_BYTES_MAX + 1024;
/// Bytes that the ranks of a node give in one fence, or ask of the other nodes in one request, at most.
pub const GIVEN_BYTES_MAX: usize = PUTS_BYTES_MAX / 2;
const HEAD_BYTES: usize = size_of::<u32>();

/// The job, as the server describes it to libpmix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Files of libpmix in the order in which they are tried. A name without a slash is searched for by the
    /// loader; a path that does not exist is passed over.
    pub libraries: Vec<String>,
    /// The namespace: no other start of a job on this machine has had that name.
    pub space: String,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// World rank of each node's first rank.
    pub first_ranks: Vec<u32>,
    /// Number of this node.
    pub node: u32,
    /// Ranks of each program, in their order.
    pub programs: Vec<u32>,
    /// Number of ranks that the user expects.
    pub universe: u32,
    /// A folder of this job and node alone, for all files of server and ranks.
    pub folder: String,
}

impl Description {
    /// Ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.programs.iter().sum()
    }

    /// World ranks of a node.
    pub fn ranks_of(&self, node: usize) -> std::ops::Range<u32> {
        let end = self.first_ranks.get(node + 1).copied().unwrap_or_else(|| self.ranks());
        self.first_ranks[node]..end
    }
}

/// Ranks that others have asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newcomers {
    /// The order that starts them: no other ranks of the job have that number.
    pub order: u32,
    /// Numbers of the ranks in the job.
    pub ranks: Vec<u32>,
    /// The node of each.
    pub nodes: Vec<u32>,
    /// Ranks of each program, in their order.
    pub programs: Vec<u32>,
    /// Number in the job of the one that has asked.
    pub parent: u32,
}

/// A command that a rank wants to be executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// By how many processes.
    pub ranks: u32,
    /// File of the program, or its name.
    #[serde(with = "serde_bytes")]
    pub file: Vec<u8>,
    /// Arguments of the program without its name.
    pub arguments: Vec<Vec<u8>>,
    /// Variables (`NAME=value`) beside those of the rank.
    pub environment: Vec<Vec<u8>>,
    /// Working directory; empty: that of the rank.
    #[serde(with = "serde_bytes")]
    pub directory: Vec<u8>,
    /// The node that the user wishes, by its name; empty: any.
    #[serde(with = "serde_bytes")]
    pub host: Vec<u8>,
}

/// A message from starter to server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToServer {
    /// The job; the first message.
    Begin(Description),
    /// End of a fence that all ranks are in.
    Fenced {
        /// Number of the fence.
        number: u32,
        /// Bytes that the ranks of all nodes have given.
        #[serde(with = "serde_bytes")]
        given: Vec<u8>,
    },
    /// Ranks have ended: what they have sent before is to come before [`FromServer::Flushed`].
    Flush,
    /// A piece of a word of the server of a node ([`crate::machine`]).
    Word {
        /// The node.
        node: u32,
        /// The piece.
        #[serde(with = "serde_bytes")]
        piece: Vec<u8>,
    },
    /// New ranks, some of which may be of this node.
    Admit(Newcomers),
    /// Tells that there are none of this order: one could not be started.
    Dismiss(u32),
    /// Outcome of [`FromServer::Spawn`]: the order that has started them, if they are there.
    Spawned {
        /// Number of the request.
        number: u32,
        /// The order.
        order: Option<u32>,
    },
    /// The answer to [`FromServer::Clock`]: how long the job has stood still by now, in nanoseconds.
    Frozen(u64),
}

/// A message from server to starter. Ranks are world ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromServer {
    /// The ranks may start, with these variables (`NAME=value`), in the order of this node's ranks.
    Ready(Vec<Vec<String>>),
    /// Refusal to serve: one line of why.
    Refused(String),
    /// A rank has called PMIx_Init.
    Connected(u32),
    /// A rank has called PMIx_Finalize.
    Finalized(u32),
    /// A rank wants the job to end.
    Abort {
        /// Rank.
        rank: u32,
        /// With this status.
        status: i32,
    },
    /// A rank has a text for the user.
    Log {
        /// Rank.
        rank: u32,
        /// The text, which need not be UTF-8.
        #[serde(with = "serde_bytes")]
        text: Vec<u8>,
    },
    /// All ranks of this node are in a fence of all ranks.
    Fence {
        /// Number of the fence: they begin with 1.
        number: u32,
        /// Bytes that the ranks have given.
        #[serde(with = "serde_bytes")]
        given: Vec<u8>,
    },
    /// The answer to [`ToServer::Flush`].
    Flushed,
    /// The ranks have gone beyond a bound.
    Full(Bound),
    /// A piece of a word for the servers of all nodes.
    Word(#[serde(with = "serde_bytes")] Vec<u8>),
    /// New ranks may start, with these variables, in the order of those of this node.
    Admitted {
        /// The order that starts them.
        order: u32,
        /// Variables of the ranks.
        variables: Vec<Vec<String>>,
    },
    /// New ranks cannot start: one line of why.
    NotAdmitted {
        /// The order that should have started them.
        order: u32,
        /// The line.
        line: String,
    },
    /// A rank wants more processes.
    Spawn {
        /// Number of the request.
        number: u32,
        /// The rank.
        rank: u32,
        /// Commands that they are to execute.
        commands: Vec<Command>,
    },
    /// A rank waits only so long: how long has the job stood still?
    Clock,
    /// The ranks hold more connections than the server may have: so many.
    Crowded(u32),
}

/// Bound of what ranks put and ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// Keys and values that the server holds.
    Keys,
    /// Bytes that the ranks of a node give in one fence of all ([`GIVEN_BYTES_MAX`]).
    Fence,
    /// Bytes of one request to the other nodes ([`GIVEN_BYTES_MAX`]).
    Word,
}

/// A message as it travels.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = codec::encode_behind(message, vec![0; HEAD_BYTES]);
    let length = (bytes.len() - HEAD_BYTES) as u32;
    bytes[..HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMessage;

/// Bytes that have come, until they are messages.
#[derive(Debug, Default)]
pub struct Incoming(Vec<u8>);

impl Incoming {
    /// Adds bytes that have come.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next message, if it is whole.
    ///
    /// # Errors
    /// When it is too long, or none.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, BadMessage> {
        let Some(head) = self.0.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(BadMessage);
        }
        let end = HEAD_BYTES + length;
        if self.0.len() < end {
            return Ok(None);
        }
        let message = codec::decode(&self.0[HEAD_BYTES..end]).map_err(|_| BadMessage)?;
        self.0.drain(..end);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        Description {
            libraries: vec!["libpmix.so.2".into()],
            space: "tutti".into(),
            nodes: vec!["a".into(), "b".into()],
            first_ranks: vec![0, 2],
            node: 1,
            programs: vec![1, 2, 2],
            universe: 5,
            folder: "/f".into(),
        }
    }

    fn fence(given: Vec<u8>) -> FromServer {
        FromServer::Fence { number: 1, given }
    }

    #[test]
    fn description_counts_ranks_of_nodes() {
        let job = description();
        assert_eq!((job.ranks(), job.ranks_of(0), job.ranks_of(1)), (5, 0..2, 2..5));
    }

    #[test]
    fn messages_arrive_whole_from_any_pieces() {
        let messages = [
            FromServer::Ready(vec![vec!["A=1".into()]]),
            fence(vec![0, 255]),
            FromServer::Full(Bound::Fence),
        ];
        let bytes = messages.iter().flat_map(encode).collect::<Vec<u8>>();
        for piece in 1..bytes.len() {
            let (mut incoming, mut taken) = (Incoming::default(), Vec::new());
            for part in bytes.chunks(piece) {
                incoming.extend(part);
                while let Some(message) = incoming.take::<FromServer>().unwrap() {
                    taken.push(message);
                }
            }
            assert_eq!(taken, messages);
        }
    }

    #[test]
    fn messages_that_are_none_are_refused() {
        for bytes in [&[255; 8][..], &[1, 0, 0, 0, 99], &[0, 0, 0, 0]] {
            let mut incoming = Incoming::default();
            incoming.extend(bytes);
            assert_eq!(incoming.take::<FromServer>(), Err(BadMessage), "{bytes:?}");
        }
        let mut incoming = Incoming::default();
        incoming.extend(&encode(&ToServer::Begin(description())));
        assert_eq!(incoming.take(), Ok(Some(ToServer::Begin(description()))));
    }

    /// Both ways: what is read is read again as it is written, and no more waits than has come.
    #[test]
    fn messages_that_are_nearly_right_are_read_or_refused() {
        let log = FromServer::Log { rank: 1, text: b"text".to_vec() };
        let ready = FromServer::Ready(vec![vec!["A=1".into()], vec!["B=2".into(); 3]]);
        let ended = [
            FromServer::Connected(1),
            FromServer::Abort { rank: u32::MAX, status: -1 },
            FromServer::Crowded(300),
        ];
        let fence = fence(vec![7; 100]);
        let command = Command { ranks: 2, file: b"a".to_vec(), ..Command::default() };
        let spawn = FromServer::Spawn { number: 1, rank: 0, commands: vec![command] };
        let admitted = FromServer::Admitted { order: 3, variables: vec![vec!["A=1".into()]] };
        let from = [log, ready, fence, spawn, admitted];
        let from = from.iter().chain(&ended).map(encode).collect::<Vec<_>>();
        let new = Newcomers { order: 3, ranks: vec![4, 5], nodes: vec![0, 1], programs: vec![2], parent: 1 };
        let word = ToServer::Word { node: 1, piece: vec![1, 2, 3] };
        let to = [
            ToServer::Begin(description()),
            ToServer::Fenced { number: 2, given: vec![1; 50] },
            ToServer::Flush,
        ];
        let to = to.into_iter().chain([ToServer::Admit(new), word]);
        let to: Vec<Vec<u8>> = to.map(|to| encode(&to)).collect();
        let samples = [from, to].concat();
        tutti_testkit::nearly::read_frames(&samples, |bytes| {
            read_all::<FromServer>(bytes);
            read_all::<ToServer>(bytes);
        });
    }

    fn read_all<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
        let mut incoming = Incoming::default();
        for part in bytes.chunks(17) {
            incoming.extend(part);
            while let Ok(Some(message)) = incoming.take::<T>() {
                let mut again = Incoming::default();
                again.extend(&encode(&message));
                assert_eq!(again.take(), Ok(Some(message)));
            }
        }
        assert!(incoming.0.len() <= bytes.len());
    }
}
