//! A job as its front end describes it to a starter: programs, ranks, the node's part in it, the daemon
//! behind it.

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tutti_os::cgroup::part_name;

use crate::ports::Ports;

/// A text of the operating system: arguments, paths and values need not be UTF-8.
///
/// In JSON it is a string, or a list of numbers if it is not UTF-8; between daemons it is its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// The usual case.
    Utf8(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl Text {
    /// Bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Text::Utf8(text) => text.as_bytes(),
            Text::Bytes(bytes) => bytes,
        }
    }
}

/// A text that is not copied.
pub(crate) struct BorrowedText<'a>(pub(crate) &'a [u8]);

impl Serialize for BorrowedText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(self.0) {
            _ if !serializer.is_human_readable() => serializer.serialize_bytes(self.0),
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(self.0),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        BorrowedText(self.as_bytes()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_any(TextVisitor),
            false => deserializer.deserialize_byte_buf(TextVisitor),
        }
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of its bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text::Utf8(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Text, E> {
        Ok(Text::Utf8(text))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Text, E> {
        Ok(OsString::from_vec(bytes.to_vec()).into())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Text, E> {
        Ok(OsString::from_vec(bytes).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(Text::Bytes(bytes))
    }
}

impl From<OsString> for Text {
    fn from(text: OsString) -> Self {
        text.into_string().map_or_else(|text| Text::Bytes(text.into_vec()), Text::Utf8)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text::Utf8(text.to_owned())
    }
}

impl From<&Text> for OsString {
    fn from(text: &Text) -> Self {
        std::ffi::OsStr::from_bytes(text.as_bytes()).to_owned()
    }
}

/// A job as the front end describes it. Environment, working directory, limits and affinity are inherited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Random number of the job, for the names of its socket and cgroup. `mpiexec` draws that of a job that
    /// it starts itself, so that it can clean up after a starter that died before its first report; a daemon
    /// draws those of its jobs.
    pub id: u64,
    /// Pid of the front end: when it is not the starter's parent any more, the job is over.
    pub front_end: u32,
    /// The programs, in order of ranks.
    pub programs: Vec<Program>,
    /// Which ranks get the front end's stdin.
    pub input: Input,
    /// The front end's stdin is to be inherited; else it comes in frames.
    pub input_inherited: bool,
    /// Stdout of the ranks is a terminal of this size (rows, columns); none: a pipe.
    pub terminal: Option<(u16, u16)>,
    /// Stdin, stdout and stderr of rank 0 are that terminal, and it is its controlling one: keys go to rank
    /// 0.
    pub pty: bool,
    /// Which cores a rank may use.
    pub binding: Binding,
    /// Cores of a rank, when the user gave a number.
    pub cores_per_rank: Option<u32>,
    /// More ranks than cores are an error.
    pub no_oversubscribe: bool,
    /// Each line of output begins with its rank. The starter does it, for jobs that have no front end: a
    /// front end that labels does not set it.
    #[serde(default)]
    pub label: bool,
    /// Part of the job that is this starter's; none: all.
    pub part: Option<Part>,
    /// Log on stderr what the starter does.
    pub debug: bool,
    /// The front end is a daemon, whose death is not the job's; none: it is.
    #[serde(default)]
    pub daemon: Option<Daemon>,
    /// Limit of memory for its ranks on this node, where the kernel can see to that; none: no limit.
    #[serde(default)]
    pub memory: Option<MemoryLimit>,
    /// Ranks that the user expects, with those that are started later; none: as many as there are cores.
    #[serde(default)]
    pub universe: Option<u32>,
    /// Terms on which it shares the parallel slots of its node with others; none: it does not.
    #[serde(default)]
    pub shared_slots: Option<SharedSlots>,
    /// After so long without work its starter reports it as idle; none: never.
    #[serde(default)]
    pub idle_ms: Option<u64>,
    /// First rank of the job, where it is there already; none: all are to be started.
    #[serde(default)]
    pub adopted: Option<Adopted>,
    /// Number, as `tutti ps` shows it; none: neither a daemon nor its front end has drawn one.
    #[serde(default)]
    pub number: Option<u64>,
}

/// A process that was started without `mpiexec` and wants more ranks: rank 0 of a job that is made for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopted {
    /// The process.
    pub pid: u32,
    /// Number of the descriptor that the starter inherits: its connection to the starter.
    pub connection: i32,
    /// The same of its segment.
    pub segment: i32,
}

/// Terms of a job that shares parallel slots with others (`tutti_sched::phases`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedSlots {
    /// Time for which it may hold them while others want them.
    pub lease_ns: u64,
    /// A yield counts so long after the grant.
    pub yield_min_ns: u64,
    /// Weight of the job beside the others.
    pub weight: u32,
}

/// Memory that the ranks of a node may have together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// Bytes that they may have.
    pub bytes: u64,
    /// The line for the user about a rank that was killed for it: "the job's memory on node ... reached ...".
    pub reached: String,
}

/// How a starter finds its daemon again, when that has died and another has taken its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    /// The local socket.
    pub socket: Text,
    /// The cluster's number of the job.
    pub job: u64,
    /// Random number that shows that it is the starter.
    pub token: u64,
    /// Time for which it tries, in ms.
    pub reconnect_ms: u64,
}

/// The part of one node in a job that runs on several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Number of the node, from 0.
    pub node: u32,
    /// World rank of each node's first rank.
    pub first_ranks: Vec<u32>,
    /// Address of this node on which its ranks are reached.
    pub address: IpAddr,
    /// Random number that every packet of the job carries.
    pub key: u64,
    /// The nodes are virtual ones: they share the cores of this machine.
    pub shares_machine: bool,
    /// Names of the nodes, for those who wish processes there; none: `node0`, `node1`, ...
    #[serde(default)]
    pub names: Vec<String>,
    /// Where the sockets of its ranks are to be; none: where the kernel chooses.
    #[serde(default)]
    pub ports: Option<Ports>,
}

impl Job {
    /// A job of these programs that asks for nothing more: without input, on any cores, on this node alone.
    pub fn of_programs(programs: Vec<Program>) -> Self {
        Job {
            id: 0,
            front_end: 0,
            programs,
            input: Input::None,
            input_inherited: false,
            terminal: None,
            pty: false,
            binding: Binding::None,
            cores_per_rank: None,
            no_oversubscribe: false,
            label: false,
            part: None,
            debug: false,
            daemon: None,
            memory: None,
            universe: None,
            shared_slots: None,
            idle_ms: None,
            adopted: None,
            number: None,
        }
    }

    /// Ranks of all programs.
    pub fn ranks(&self) -> u64 {
        self.programs.iter().map(|program| u64::from(program.ranks)).sum()
    }

    /// Which of the programs a world rank runs.
    pub fn program_of(&self, rank: u64) -> usize {
        let mut end = 0;
        let begins_behind = |program: &&Program| {
            end += u64::from(program.ranks);
            end <= rank
        };
        self.programs.iter().take_while(begins_behind).count()
    }

    /// Ranks that may be started later, on all nodes of a job that runs on several.
    pub fn later_ranks(&self) -> u32 {
        let began = u32::try_from(self.ranks()).unwrap_or(u32::MAX);
        self.universe.filter(|_| self.part.is_some()).map_or(0, |universe| universe.saturating_sub(began))
    }

    /// World ranks of this starter.
    pub fn local_ranks(&self) -> Range<u64> {
        match &self.part {
            None => 0..self.ranks(),
            Some(part) => {
                let first = |node: usize| part.first_ranks.get(node).copied().map(u64::from);
                let node = part.node as usize;
                first(node).unwrap_or(0)..first(node + 1).unwrap_or(self.ranks())
            }
        }
    }

    /// Number of this starter's node.
    pub fn node(&self) -> u32 {
        self.part.as_ref().map_or(0, |part| part.node)
    }

    /// Text for the names of what belongs to this starter alone: job, and node if there are several.
    pub fn name(&self) -> String {
        part_name(self.id, self.part.as_ref().map(|part| part.node))
    }
}

/// One program of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The file to execute.
    pub file: Text,
    /// Arguments of the program; the first is its name.
    pub arguments: Vec<Text>,
    /// How many ranks run it.
    pub ranks: u32,
    /// Working directory, if not the front end's.
    pub directory: Option<Text>,
    /// Which variables of the front end's environment it gets.
    pub inherits: Inherits,
    /// Variables set for it.
    pub variables: Vec<(Text, Text)>,
}

/// Which variables of the front end's environment a program gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inherits {
    /// All.
    All,
    /// Named ones and the few without which nothing starts (PATH, HOME, ...).
    Only(Vec<Text>),
}

/// Which ranks get the front end's stdin; the others read end of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// None.
    None,
    /// Every rank gets all of it.
    All,
    /// One rank.
    Rank(u32),
}

/// Which cores a rank may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binding {
    /// All of the job.
    None,
    /// One each, or `cores_per_rank`.
    Core,
    /// A fair share as a set.
    Share,
}
