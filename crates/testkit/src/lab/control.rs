//! Requests to a lab's keeper, over the socket `control` in the lab's folder: one line of JSON, and one in
//! answer.

use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::LabError;
use super::lane::Counts;
use super::terms::Terms;

/// Name of the socket.
pub(super) const SOCKET: &str = "control";
/// The keeper answers in this time.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How a cable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// The link carries.
    Up,
    /// The link is down, and both ends see it.
    Cut,
    /// The link looks well, and nothing comes through.
    Silent,
}

/// How a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MachineState {
    /// Processes run.
    Running,
    /// Processes stand still.
    Paused,
    /// No processes.
    Off,
}

/// A request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// How everything is.
    Status,
    /// A cable is to be so.
    Link { node: u32, state: LinkState },
    /// A cable is to do so.
    Cable { node: u32, terms: Terms },
    /// All processes of a machine stand still, or go on.
    Pause { node: u32, pause: bool },
    /// A machine loses its power.
    Kill { node: u32 },
    /// A machine that is off starts.
    Boot { node: u32 },
    /// The end.
    Down,
}

/// A machine, for people and scripts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Number of the machine.
    pub node: u32,
    /// Host name of the machine.
    pub name: String,
    /// Address of the machine on the bridge.
    pub address: Ipv4Addr,
    /// How it is.
    pub state: MachineState,
    /// First process of the machine, as it is seen outside.
    pub pid: Option<u32>,
    /// Uid outside that the machine's root has.
    pub first_uid: u32,
    /// How its cable is.
    pub link: LinkState,
    /// Terms of its cable.
    pub cable: Terms,
    /// Counts of frames, from it and to it, where the cable counts them.
    pub frames: Option<[Counts; 2]>,
}

/// A lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Mark of the lab.
    pub mark: String,
    /// Process of its keeper.
    pub keeper: u32,
    /// Whether home folders and the installation are the same files on all machines.
    pub shared_files: bool,
    /// Whether each machine has uids of its own outside.
    pub own_uids: bool,
    /// Machines of the lab.
    pub nodes: Vec<NodeStatus>,
}

/// An answer.
pub(super) type Answer = Result<Option<Status>, String>;

/// Asks a lab's keeper.
pub(super) fn ask(folder: &Path, request: &Request) -> Result<Option<Status>, LabError> {
    let gone = |error: std::io::Error| LabError::Gone { folder: folder.to_owned(), error };
    let mut stream = UnixStream::connect(folder.join(SOCKET)).map_err(gone)?;
    stream.set_read_timeout(Some(ANSWER_MAX)).map_err(gone)?;
    let mut line = serde_json::to_vec(request).map_err(std::io::Error::other).map_err(gone)?;
    line.push(b'\n');
    stream.write_all(&line).map_err(gone)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(gone)?;
    let answer: Answer = serde_json::from_str(&answer).map_err(std::io::Error::other).map_err(gone)?;
    answer.map_err(LabError::Refused)
}
