//! The starters of a job and the wires to them: one for each node.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;

use rustix::event::{PollFd, PollFlags};
use tutti_os::netns::Namespaces;
use tutti_os::random::fill_random;
use tutti_protocol::wire::{self, Decoder, Input, Job, Kind, Part, Reached};

use crate::cluster;
use crate::description::Described;
use crate::nodes::{self, Nodes};
use crate::starter;

/// How a starter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Works.
    Alive,
    /// Daemon that has gone: the next one is awaited.
    Away,
    /// Over: nothing of the job is left on its node.
    Over,
    /// Died before it had reported that.
    Dead,
}

/// One starter.
#[derive(Debug)]
pub struct Link {
    /// None: the other end is the daemon of this node, in place of all starters.
    child: Option<Child>,
    wire: OwnedFd,
    /// Decoder of what it has sent.
    pub decoder: Decoder,
    /// Frames on their way to it.
    out: VecDeque<u8>,
    /// How it is.
    pub state: State,
    /// Number of its node, if there are several.
    pub node: Option<u32>,
    /// World rank of its first rank.
    pub first_rank: u32,
    /// Whether its ranks get what we read from stdin.
    pub wants_input: bool,
    /// Whether its ranks have started and have taken the last piece.
    pub input_room: bool,
    /// All its ranks are stopped.
    pub suspended: bool,
    /// Whether nothing of the job has worked there for long.
    pub idle: bool,
    /// No rank of its node is left, and none can come.
    pub left: bool,
    /// No rank of its node was left as of this order of new ranks.
    pub empty: Option<u32>,
    /// Where its ranks are reached, as soon as it has reported that.
    pub reached: Option<Reached>,
    /// The barrier of PMI in which its ranks are, and what they have put since the last one.
    pub fence: Option<(u32, Vec<u8>)>,
    /// Requests of its ranks ([`Kind::Ask`]) of which no order has been given.
    pub asks: VecDeque<(u32, Vec<u8>)>,
    /// How its share of the last order of new ranks began.
    pub spawned: Option<(u32, Vec<u8>)>,
}

impl Link {
    /// Starts a starter and hands it its part of the job.
    ///
    /// # Errors
    /// When it cannot be started; a text for the user.
    pub fn start(job: &Job) -> Result<Self, String> {
        let (child, wire) = starter::start().map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        wire::put_json(&mut out, Kind::Job, job);
        let local = job.local_ranks();
        let input_is_here = match job.input {
            Input::None => false,
            Input::All => true,
            Input::Rank(rank) => local.contains(&u64::from(rank)),
        };
        let link = Link {
            node: job.part.as_ref().map(|part| part.node),
            first_rank: local.start as u32,
            wants_input: input_is_here && !job.input_inherited,
            ..Link::new(Some(child), wire, out)
        };
        match rustix::io::ioctl_fionbio(&link.wire, true) {
            Ok(()) => Ok(link),
            Err(error) => {
                link.abandon();
                Err(format!("cannot use the wire: {error}"))
            }
        }
    }

    /// Sends a request to the daemon of this node, whose answer comes as a frame; from then on it takes the
    /// place of all starters of the job.
    ///
    /// # Errors
    /// When there is no daemon; a text for the user.
    pub fn request(request: &cluster::Request) -> Result<Self, String> {
        Link::over(cluster::connect()?, request)
    }

    /// The same over a connection over which the request has gone.
    ///
    /// # Errors
    /// When the kernel does not let us use it; a text for the user.
    pub fn begun(wire: OwnedFd) -> Result<Self, String> {
        let mut link = Link::over(wire, &cluster::Request::Nodes)?;
        link.out.clear();
        Ok(link)
    }

    /// The same over a connection that is there.
    ///
    /// # Errors
    /// When the kernel does not let us use it; a text for the user.
    pub fn over(wire: OwnedFd, request: &cluster::Request) -> Result<Self, String> {
        rustix::io::ioctl_fionbio(&wire, true)
            .map_err(|error| format!("cannot use the daemon's socket: {error}"))?;
        let mut out = Vec::new();
        wire::put_json(&mut out, Kind::Request, request);
        Ok(Link::new(None, wire, out))
    }

    fn new(child: Option<Child>, wire: OwnedFd, out: Vec<u8>) -> Self {
        Link {
            child,
            wire,
            decoder: Decoder::default(),
            out: out.into(),
            state: State::Alive,
            node: None,
            first_rank: 0,
            wants_input: true,
            input_room: false,
            suspended: false,
            idle: false,
            left: false,
            empty: None,
            reached: None,
            fence: None,
            asks: VecDeque::new(),
            spawned: None,
        }
    }

    /// The daemon is at its other end.
    pub fn is_daemon(&self) -> bool {
        self.child.is_none()
    }

    /// The daemon at its other end is that process.
    pub fn is_daemon_of_pid(&self, pid: i32) -> bool {
        let peer = || rustix::net::sockopt::socket_peercred(&self.wire).ok();
        self.is_daemon() && peer().is_some_and(|peer| peer.pid.as_raw_nonzero().get() == pid)
    }

    /// Ends a starter whose job is not to be.
    pub fn abandon(mut self) {
        self.kill();
        let _ = self.bury();
    }

    /// To be polled.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }

    /// Whether it works, or another is to take its place.
    pub fn is_alive(&self) -> bool {
        matches!(self.state, State::Alive | State::Away)
    }

    /// Whether it works.
    pub fn is_connected(&self) -> bool {
        self.state == State::Alive
    }

    /// The daemon has gone. What is put from now on is for the next one.
    pub fn lose(&mut self) {
        self.state = State::Away;
        self.out.clear();
        self.decoder = Decoder::default();
    }

    /// The next daemon is at its other end, and gets this request first.
    ///
    /// # Errors
    /// When the kernel does not let us use the socket.
    pub fn begin_again(&mut self, wire: OwnedFd, request: &cluster::Request) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&wire, true)?;
        self.wire = wire;
        self.state = State::Alive;
        let mut first = Vec::new();
        wire::put_json(&mut first, Kind::Request, request);
        let later = std::mem::replace(&mut self.out, first.into());
        self.out.extend(later);
        self.send();
        Ok(())
    }

    /// Frames wait to be sent.
    pub fn has_to_send(&self) -> bool {
        self.is_connected() && !self.out.is_empty()
    }

    /// Adds a frame and sends what can be sent.
    pub fn put(&mut self, kind: Kind, number: u32, payload: &[u8]) {
        if self.is_alive() {
            let mut frame = Vec::new();
            wire::put(&mut frame, kind, number, payload);
            self.out.extend(frame);
            self.send();
        }
    }

    /// Sends what can be sent.
    pub fn send(&mut self) {
        while self.is_connected() && !self.out.is_empty() {
            let (bytes, _) = self.out.as_slices();
            match rustix::net::send(&self.wire, bytes, rustix::net::SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                // Its death is seen by reading.
                Err(_) => return self.out.clear(),
            }
        }
    }

    /// Reads once. `false`: the starter is dead.
    pub fn receive(&mut self) -> bool {
        let mut bytes = [0_u8; 64 << 10];
        match rustix::io::read(&self.wire, &mut bytes) {
            Ok(0) => false,
            Ok(read) => {
                self.decoder.extend(&bytes[..read]);
                true
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// Whether something that it has sent, or its end, waits to be read.
    pub fn has_input(&self) -> bool {
        tutti_os::look(&mut [PollFd::new(&self.wire, PollFlags::IN)]).is_ok_and(|ready| ready > 0)
    }

    /// Kills the starter. A daemon sees that we have gone.
    pub fn kill(&mut self) {
        match &mut self.child {
            Some(child) => drop(child.kill()),
            None => drop(rustix::net::shutdown(&self.wire, rustix::net::Shutdown::Both)),
        }
    }

    /// Waits for the starter's process; how it ended. None: it was a daemon.
    pub fn bury(&mut self) -> Option<io::Result<std::process::ExitStatus>> {
        self.child.as_mut().map(Child::wait)
    }
}

/// Starts a starter for each node of the job; the namespaces of the nodes, if they have any, are to be held
/// as long as it runs.
///
/// # Errors
/// When one cannot be started: then there is none. A text for the user.
pub fn start_all(described: &Described) -> Result<(Vec<Link>, Option<Namespaces>), String> {
    let Described { job, nodes, .. } = described;
    if let Nodes::Cluster(nodes) = nodes {
        let submit = cluster::submission(job, nodes, described.per_node, described.terms, &described.batch)?;
        let submit = cluster::Submit { script: described.script, ..submit };
        return Ok((vec![Link::request(&cluster::Request::Run(Box::new(submit)))?], None));
    }
    let firsts = nodes.first_ranks();
    if firsts.is_empty() {
        return Ok((vec![Link::start(job)?], None));
    }
    let mut key = [0; 8];
    fill_random(&mut key).map_err(|error| format!("cannot draw random bytes: {error}"))?;
    let namespaces = nodes.make().map_err(|error| error.to_string())?;
    let mut links = Vec::new();
    for node in 0..firsts.len() {
        let address =
            namespaces.as_ref().map_or_else(nodes::loopback, |namespaces| namespaces.nodes[node].address);
        let part = part(node, firsts, address, u64::from_ne_bytes(key));
        let job = Job { part: Some(part), ..job.clone() };
        let started = match &namespaces {
            None => Link::start(&job),
            Some(namespaces) => {
                namespaces.inside(node, || Link::start(&job)).map_err(|error| error.to_string()).flatten()
            }
        };
        match started {
            Ok(link) => links.push(link),
            Err(error) => {
                links.into_iter().for_each(Link::abandon);
                return Err(error);
            }
        }
    }
    Ok((links, namespaces))
}

/// The part of a node in a job on several.
fn part(node: usize, first_ranks: &[u32], address: IpAddr, key: u64) -> Part {
    let names = Vec::new();
    Part {
        node: node as u32,
        first_ranks: first_ranks.to_vec(),
        address,
        key,
        shares_machine: true,
        names,
        ports: None,
    }
}
