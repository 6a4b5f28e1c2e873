//! A starter outlives its daemon: its reports are kept until no daemon can need them again, and it connects
//! to the daemon that takes the place of a dead one.
//!
//! ```text
//! wire breaks -> away: the ranks go on, their output waits -> connect to the daemon's socket, every RETRY_MS
//!      -> Reattach(token, base, ...), all reports, all output from `base` on -> as before
//! ```
//!
//! Reports are kept for good (there are some per rank), output until the daemon sends Taken: then the job's
//! origin node has it. After [`Daemon::reconnect_ms`] without a daemon a job of several nodes is ended, since
//! the cluster has given it up long before. One of this node alone continues by itself: its ranks run, what
//! they write beyond the backlog is thrown away, and its end waits for no daemon. One that comes before gets
//! the job back, with a line on what was thrown away.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use tutti_shm::users::is_own_user;

use super::Starter;
use crate::readiness::now_ns;
use tutti_protocol::paths::{SOCKET, SOCKET_VARIABLE};
use tutti_protocol::version::Greeting;
use tutti_protocol::wire::{self, Daemon, Decoder, HEAD_BYTES, Kind, Reattach, Report, Told};

/// Output that is kept, about; beyond it no output of ranks is read.
pub(super) const BACKLOG_BYTES: usize = 512 << 10;
/// Between two attempts to reach a daemon.
const RETRY_NS: u64 = 100_000_000;
/// The same when none has come for long.
const RETRY_SELDOM_NS: u64 = 1_000_000_000;

/// State that is kept for a daemon that follows.
#[derive(Debug)]
pub(super) struct Reconnect {
    daemon: Daemon,
    /// Reports, each with its place in the output.
    reports: Vec<(u64, Vec<u8>)>,
    /// Pids of all ranks that other ranks have asked for.
    later: Vec<u32>,
    /// The last barrier of PMI.
    fence: Option<Vec<u8>>,
    /// Request of a rank, as long as there is no order of it.
    ask: Option<Vec<u8>>,
    /// How the last ranks began that were ordered.
    spawned: Option<Vec<u8>>,
    /// As of which order no rank was left.
    empty: Option<Vec<u8>>,
    /// Which launches the ranks are connected to.
    connected: Option<Vec<u8>>,
    /// The last word on whether the ranks are still.
    stalled: Option<Vec<u8>>,
    /// The last word on whether the job is idle.
    idle: Option<Vec<u8>>,
    /// Frames of output from `base` on.
    output: VecDeque<Vec<u8>>,
    base: u64,
    end: u64,
    /// Output had no room and nothing to wait for: what follows is thrown away too.
    drops: bool,
    /// Output that was thrown away since a daemon was there.
    dropped_bytes: u64,
    /// No daemon has come for so long that none is awaited.
    gave_up: bool,
    /// Since when there is no daemon, and when to look for one.
    away_ns: Option<(u64, u64)>,
    /// The last Input frame, and whether it has been taken.
    pub piece: u32,
    pub taken: bool,
    /// Of it whether the job is stopped is known elsewhere.
    pub told: Told,
}

impl Reconnect {
    pub(super) fn new(daemon: Daemon) -> Self {
        Reconnect {
            daemon,
            reports: Vec::new(),
            later: Vec::new(),
            fence: None,
            ask: None,
            spawned: None,
            empty: None,
            connected: None,
            stalled: None,
            idle: None,
            output: VecDeque::new(),
            base: 0,
            end: 0,
            drops: false,
            dropped_bytes: 0,
            gave_up: false,
            away_ns: None,
            piece: 0,
            taken: false,
            told: Told::default(),
        }
    }

    fn is_full(&self) -> bool {
        self.end - self.base >= BACKLOG_BYTES as u64
    }

    /// No more output is read until a daemon has taken some.
    pub(super) fn is_jammed(&self) -> bool {
        self.is_full() && !self.drops
    }

    /// A daemon is awaited as long as it takes.
    pub(super) fn is_awaiting(&self) -> bool {
        !self.gave_up
    }

    /// Output finds no room, and waits for none if the job is `hurried` or alone.
    pub(super) fn handle_jam(&mut self, hurried: bool) {
        self.drops |= self.is_full() && (hurried || self.gave_up);
    }

    /// When to look for a daemon, if there is none.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.away_ns.map(|(_, due_ns)| due_ns)
    }

    /// A report on its way to the daemon.
    pub(super) fn keep_report(&mut self, report: &Report) {
        match report {
            Report::InputTaken => self.taken = true,
            Report::Suspended => {}
            // A job may ask for ranks as long as it runs: a daemon that follows needs those of now.
            Report::Later { pids, gone } => {
                self.later.retain(|pid| !gone.contains(pid));
                self.later.extend(pids);
            }
            report => {
                let mut frame = Vec::new();
                wire::put_json(&mut frame, Kind::Report, report);
                match report {
                    Report::Empty(_) => self.empty = Some(frame),
                    Report::Connected(_) => self.connected = Some(frame),
                    Report::Stalled(_) => self.stalled = Some(frame),
                    Report::Idle(_) => self.idle = Some(frame),
                    _ => self.reports.push((self.end, frame)),
                }
            }
        }
    }

    /// A barrier of PMI that all ranks are in; the one before is over.
    pub(super) fn keep_fence(&mut self, frame: Vec<u8>) {
        self.fence = Some(frame);
    }

    /// Keeps what a rank has asked for; none: there is an order of it.
    pub(super) fn keep_ask(&mut self, frame: Option<Vec<u8>>) {
        self.ask = frame;
    }

    /// How ranks began that were ordered; the order before is over.
    pub(super) fn keep_spawned(&mut self, frame: Vec<u8>) {
        self.spawned = Some(frame);
    }

    /// Whole frames of output on their way to the daemon; whether they are kept.
    pub(super) fn keep_output(&mut self, mut frames: &[u8]) -> bool {
        while let Some(length) = frames.get(8..HEAD_BYTES) {
            let length = u32::from_ne_bytes(length.try_into().expect("four bytes")) as usize;
            let (frame, rest) = frames.split_at(HEAD_BYTES + length);
            frames = rest;
            if self.drops {
                self.dropped_bytes += length as u64;
                continue;
            }
            self.end += frame.len() as u64;
            self.output.push_back(frame.to_vec());
        }
        !self.drops
    }

    /// The output below a place is where it belongs.
    pub(super) fn handle_taken(&mut self, have: u64) {
        while let Some(frame) = self.output.front()
            && self.base + frame.len() as u64 <= have
        {
            self.base += frame.len() as u64;
            self.output.pop_front();
        }
    }

    /// Everything for a daemon that knows nothing of the job.
    fn put_all(&mut self, frozen: bool, out: &mut Vec<u8>) {
        let back = Reattach {
            job: self.daemon.job,
            token: self.daemon.token,
            base: self.base,
            piece: self.piece,
            taken: self.taken,
            told: Told { frozen, ..self.told },
            greeting: Some(Greeting::ours()),
        };
        wire::put_json(out, Kind::Reattach, &back);
        let mut reports = self.reports.iter().peekable();
        let mut place = self.base;
        for frame in &self.output {
            while let Some((_, report)) = reports.next_if(|(before, _)| *before <= place) {
                out.extend(report);
            }
            out.extend(frame);
            place += frame.len() as u64;
        }
        reports.for_each(|(_, report)| out.extend(report));
        if !self.later.is_empty() {
            let later = Report::Later { pids: self.later.clone(), gone: Vec::new() };
            wire::put_json(out, Kind::Report, &later);
        }
        let last =
            [&self.fence, &self.ask, &self.spawned, &self.empty, &self.connected, &self.stalled, &self.idle];
        last.into_iter().flatten().for_each(|frame| out.extend(frame));
    }

    /// A daemon is there again.
    fn end_absence(&mut self, hurried: bool) {
        (self.away_ns, self.gave_up) = (None, false);
        self.drops &= hurried;
        let lost_bytes = std::mem::take(&mut self.dropped_bytes);
        if lost_bytes > 0 && !hurried {
            let text = format!(
                "{lost_bytes} bytes that the job wrote while it had no daemon found no room: they are lost"
            );
            self.keep_report(&Report::Warning(text));
        }
    }

    fn connect(&self) -> Option<OwnedFd> {
        let address = SocketAddrUnix::new(self.daemon.socket.as_bytes()).ok()?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        connect(&socket, &address).ok()?;
        // Its folder may be gone, and somebody else have made one of that name. A daemon that the user has
        // named may be anybody's.
        let peer = sockopt::socket_peercred(&socket).ok()?;
        let is_own = peer.uid.is_root() || is_own_user(peer.uid.as_raw(), peer.pid.as_raw_nonzero().get());
        // By its socket, or by that one's folder.
        let own = Path::new(OsStr::from_bytes(self.daemon.socket.as_bytes()));
        let is_it = |given: &OsString| own == Path::new(given) || own == Path::new(given).join(SOCKET);
        let is_named = || std::env::var_os(SOCKET_VARIABLE).as_ref().is_some_and(is_it);
        (is_own || is_named()).then_some(socket)
    }
}

impl Starter {
    /// Whether there is a front end, or one is awaited.
    pub(super) fn is_reachable(&self) -> bool {
        self.front.is_some() || self.awaits_daemon()
    }

    /// A daemon may need again what it was sent, or is to come.
    pub(super) fn awaits_daemon(&self) -> bool {
        self.reconnect.as_ref().is_some_and(Reconnect::is_awaiting)
    }

    /// The daemon is gone; another one may come.
    pub(super) fn go_away(&mut self, why: &str) {
        self.log_debug(|| format!("the daemon {why}: it waits for another one"));
        (self.front, self.sent) = (None, 0);
        self.out.clear();
        self.end_hold();
        // No rank stays frozen in a turn that no daemon ends; a job that a user has suspended stays so.
        self.end_turn();
        let now_ns = now_ns();
        if let Some(reconnect) = &mut self.reconnect {
            reconnect.away_ns.get_or_insert((now_ns, now_ns + RETRY_NS));
        }
    }

    /// Looks for a daemon that none was awaited of, before the job is over and none can have it back.
    pub(super) fn look_for_daemon(&mut self) {
        let now_ns = now_ns();
        if let Some(reconnect) = self.reconnect.as_mut().filter(|reconnect| reconnect.gave_up) {
            reconnect.away_ns = reconnect.away_ns.map(|(since_ns, _)| (since_ns, now_ns));
        }
        self.handle_away(now_ns);
    }

    /// Looks for a daemon when it is time.
    pub(super) fn handle_away(&mut self, now_ns: u64) {
        let Some(reconnect) = &mut self.reconnect else { return };
        let Some((since_ns, due_ns)) = reconnect.away_ns else { return };
        if now_ns < due_ns {
            return;
        }
        if let Some(socket) = reconnect.connect() {
            reconnect.end_absence(self.hurried);
            reconnect.put_all(self.suspended, &mut self.out);
            (self.front, self.decoder) = (Some(socket), Decoder::default());
            return self.send();
        }
        let retry_ns = if reconnect.gave_up { RETRY_SELDOM_NS } else { RETRY_NS };
        reconnect.away_ns = Some((since_ns, now_ns + retry_ns));
        let until_ns = since_ns.saturating_add(reconnect.daemon.reconnect_ms.saturating_mul(1_000_000));
        if now_ns < until_ns || reconnect.gave_up {
            return;
        }
        if self.alone {
            reconnect.gave_up = true;
        } else {
            self.reconnect = None;
        }
        self.suspended = false;
        self.settle_freeze();
        if !self.alone {
            self.lose_front("does not come back");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_later_ranks_are_kept_as_one() {
        let daemon = Daemon { socket: "/none".into(), job: 1, token: 2, reconnect_ms: 3 };
        let mut kept = Reconnect::new(daemon);
        kept.keep_report(&Report::Started { pids: vec![7], cores: vec![String::new()] });
        for pid in 100..1100 {
            let gone = if pid > 101 { vec![pid - 2] } else { Vec::new() };
            kept.keep_report(&Report::Later { pids: vec![pid], gone });
        }
        let mut out = Vec::new();
        kept.put_all(false, &mut out);
        let mut decoder = Decoder::default();
        decoder.extend(&out);
        let mut reports: Vec<Report> = Vec::new();
        while let Some((head, payload)) = decoder.next_frame().expect("frames") {
            if head.kind == Kind::Report {
                reports.push(serde_json::from_slice(payload).expect("a report"));
            }
        }
        let started = Report::Started { pids: vec![7], cores: vec![String::new()] };
        assert_eq!(reports, [started, Report::Later { pids: vec![1098, 1099], gone: Vec::new() }]);
    }
}
