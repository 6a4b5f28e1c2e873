//! A front end whose daemon has gone: the job goes on, and the next daemon at the same place gets its front
//! end back, which says how far the output has come.
//!
//! Whatever was reported before is reported again by that daemon, and passed over here. A piece of stdin that
//! nobody has confirmed is sent again under its number.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tutti_client::at;
use tutti_protocol::paths;
use tutti_protocol::wire::{HEAD_BYTES, Kind, Report};
use tutti_shm::local_socket::connect_to;

use super::watch::Watch;
use super::{End, Front, libc_signal};
use crate::cluster::{JobId, Request, Return};
use crate::link::{Link, State};

/// The next daemon is awaited for so long: jobs await theirs for as long, by default.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Between two tries, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// A daemon that has no room for a connection is awaited for so long at each try: the job has other things to
/// do.
const PATIENCE: Duration = Duration::from_millis(1);
/// A daemon that is back by then has not been missed: its user is told nothing.
const UNSAID: Duration = Duration::from_secs(3);
/// Reports that are remembered.
const REPORTS_MAX: usize = 1024;

/// The place of a daemon.
#[derive(Debug)]
enum Place {
    /// A socket, and whose the daemon behind it was.
    Socket(PathBuf, u32),
    /// Another host.
    Host(String),
    /// Unknown, or no daemon is needed.
    None,
}

/// The wait for the next daemon.
#[derive(Debug)]
struct Wait {
    since: Instant,
    next: Instant,
    between: Duration,
    is_said: bool,
}

/// Words for the next daemon, and the wait for it.
#[derive(Debug)]
pub struct Comeback {
    place: Place,
    /// The job ends with this front end.
    coupled: bool,
    wait: Option<Wait>,
    /// The node that speaks.
    speaker: Option<u32>,
    /// By node, how far its output has come.
    places: BTreeMap<u32, u64>,
    pieces: u64,
    /// Pieces of stdin so far, and the last one, which nobody has confirmed.
    sent: u32,
    piece: Option<Vec<u8>>,
    reports: Vec<Report>,
    /// Reports that the next daemon says again.
    repeated: Vec<Report>,
}

impl Comeback {
    /// For the link to a daemon, if there is one.
    pub fn new(link: Option<&Link>) -> Self {
        let place = match link {
            None => Place::None,
            Some(link) => at::target().map(Place::Host).or_else(|| socket_of(link)).unwrap_or(Place::None),
        };
        Comeback {
            place,
            coupled: true,
            wait: None,
            speaker: None,
            places: BTreeMap::new(),
            pieces: 0,
            sent: 0,
            piece: None,
            reports: Vec::new(),
            repeated: Vec::new(),
        }
    }

    /// The job had no front end, and goes on without this one.
    pub fn attached(&mut self) {
        self.coupled = false;
    }

    /// When there is something to do.
    pub fn wake_at(&self) -> Option<Instant> {
        self.wait.as_ref().map(|wait| wait.next)
    }

    /// The output that follows is of this node.
    pub fn handle_place(&mut self, node: u32, place: u64) {
        self.speaker = Some(node);
        self.places.insert(node, place);
    }

    /// A frame of output with so many bytes has come.
    pub fn handle_output(&mut self, bytes: usize) {
        let place = self.speaker.and_then(|node| self.places.get_mut(&node));
        place.into_iter().for_each(|place| *place += (HEAD_BYTES + bytes) as u64);
    }

    /// Number before that of the first piece of stdin.
    pub fn handle_pieces(&mut self, pieces: u64) {
        self.pieces = pieces;
    }

    /// Number of one more piece of stdin.
    pub fn number_input(&mut self, bytes: &[u8]) -> u32 {
        self.sent += 1;
        self.piece = Some(bytes.to_vec());
        self.sent
    }

    /// The last piece has arrived.
    pub fn handle_input_taken(&mut self) {
        self.piece = None;
    }

    /// The same was reported by the daemon before.
    pub fn is_known(&mut self, report: &Report) -> bool {
        let is_remembered = matches!(
            report,
            Report::Started { .. }
                | Report::Ended(_)
                | Report::Warning(_)
                | Report::Refused(_)
                | Report::Library(_)
        );
        if let Some(at) = self.repeated.iter().position(|known| known == report) {
            self.repeated.remove(at);
            return true;
        }
        if is_remembered && self.reports.len() < REPORTS_MAX {
            self.reports.push(report.clone());
        }
        false
    }

    fn connect(&self) -> Option<OwnedFd> {
        match &self.place {
            Place::Socket(path, uid) => {
                // The daemon may see its socket by another path than we do.
                let stream =
                    connect_to(path, PATIENCE).or_else(|_| connect_to(&paths::socket(), PATIENCE)).ok()?;
                let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
                (peer.uid.as_raw() == *uid).then(|| stream.into())
            }
            Place::Host(target) => at::open(target, &at::Opening::Frames).ok().map(OwnedFd::from),
            Place::None => None,
        }
    }

    fn request(&self, job: JobId) -> Request {
        let places = self.places.iter().map(|(node, place)| (*node, *place)).collect();
        Request::Return(Box::new(Return { job, coupled: self.coupled, places, pieces: self.pieces }))
    }
}

/// The socket at which a daemon was found.
fn socket_of(link: &Link) -> Option<Place> {
    let stream = UnixStream::from(link.descriptor().try_clone_to_owned().ok()?);
    let path = stream.peer_addr().ok()?.as_pathname()?.to_owned();
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    Some(Place::Socket(path, peer.uid.as_raw()))
}

impl Front {
    /// The job has a number, and there is a place where the next daemon would be.
    pub(super) fn may_come_back(&self) -> bool {
        let is_awaited = matches!(self.end, End::Open | End::Requested(_) | End::TimedOut);
        self.number.is_some() && is_awaited && !matches!(self.comeback.place, Place::None)
    }

    /// The daemon has gone, and the next one is awaited.
    pub(super) fn is_without_daemon(&self) -> bool {
        self.links.iter().any(|link| link.state == State::Away)
    }

    pub(super) fn lose_daemon(&mut self, index: usize) {
        let now = Instant::now();
        self.links[index].lose();
        self.daemon = None;
        self.comeback.wait = Some(Wait { since: now, next: now, between: AGAIN.0, is_said: false });
    }

    /// Describes the fate of the job of a daemon that has gone.
    pub(super) fn describe_loss(&self) -> String {
        match (self.number, self.comeback.coupled) {
            (None, _) => "the daemon of this node has died before the job had a number".into(),
            (Some(job), true) => {
                format!(
                    "the daemon of this node has gone, and the next one ends job {job}, which nobody watches"
                )
            }
            (Some(job), false) => format!("the daemon of this node has gone; job {job} goes on"),
        }
    }

    /// Looks for the next daemon when it is time.
    pub(super) fn come_back(&mut self) {
        let now = Instant::now();
        let Some(mut wait) = self.comeback.wait.take_if(|wait| now >= wait.next) else { return };
        let Some(job) = self.number else { return };
        let Some(index) = self.links.iter().position(Link::is_daemon) else { return };
        let request = self.comeback.request(job);
        let found = self.comeback.connect();
        if found.is_some_and(|wire| self.links[index].begin_again(wire, &request).is_ok()) {
            self.greet_daemon(index);
            if wait.is_said {
                self.complain("the daemon of this node is there again");
            }
            return;
        }
        if now - wait.since >= GIVE_UP {
            self.complain(&format!(
                "no daemon has come for {} s: {}",
                GIVE_UP.as_secs(),
                self.describe_loss()
            ));
            self.note(1);
            self.links[index].state = State::Dead;
            return;
        }
        if now - wait.since >= UNSAID && !std::mem::replace(&mut wait.is_said, true) {
            self.complain(
                "the daemon of this node has gone: the job goes on, and the next daemon is awaited",
            );
        }
        wait.next = now + wait.between;
        wait.between = (wait.between * 2).min(AGAIN.1);
        self.comeback.wait = Some(wait);
    }

    /// Repeats to the next daemon, behind the request, whatever the last one may have missed.
    fn greet_daemon(&mut self, index: usize) {
        self.comeback.repeated.clone_from(&self.comeback.reports);
        self.comeback.speaker = None;
        let link = &mut self.links[index];
        self.daemon = Watch::new(link.descriptor());
        if let Some(piece) = &self.comeback.piece {
            link.put(Kind::Input, self.comeback.sent, piece);
        }
        match self.end {
            End::Requested(signal) => link.put(Kind::Signal, signal as u32, &[]),
            End::TimedOut => link.put(Kind::Signal, libc_signal(Signal::TERM) as u32, &[]),
            End::Killed(_) => link.put(Kind::Kill, 0, &[]),
            End::Open | End::Detaching => {}
        }
        if matches!(self.end, End::Requested(_) | End::TimedOut) {
            self.begin_grace();
        }
    }
}
