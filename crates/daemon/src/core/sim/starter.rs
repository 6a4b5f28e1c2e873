//! A starter as far as its daemon sees it: what it reports, in which order, and what it does when it is told
//! something.

use std::ops::Range;

use tutti_protocol::wire::{Cause, Ended, Job, Kind, Reached, Reattach, Report};
use tutti_testkit::Random;

/// How its ranks are going to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Well.
    Ends,
    /// One of them with this status.
    Fails(u8),
    /// Not by itself.
    Hangs,
    /// It cannot be started.
    Refused,
}

#[derive(Clone, Debug)]
struct Frame {
    kind: Kind,
    rank: u32,
    payload: Vec<u8>,
    /// Not for a daemon that follows.
    passing: bool,
}

/// A starter; it lives on when its daemon dies.
#[derive(Debug)]
pub(super) struct Starter {
    pub job: u64,
    ranks: Range<u64>,
    several: bool,
    pub fate: Fate,
    /// Lines that each rank writes.
    lines: u64,
    written: u64,
    log: Vec<Frame>,
    /// Frames of the log that the daemon has.
    sent: usize,
    base: u64,
    pub connected: bool,
    pub listens: bool,
    phase: Phase,
    frozen: bool,
    has_peers: bool,
    may_leave: bool,
    piece: u32,
    taken: bool,
    status: u8,
    pub received_signals: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Preparing,
    Ready,
    Running,
    Left,
    Over,
}

/// Bytes that no daemon has taken, at most.
const BUFFER_BYTES: usize = 512 << 10;

impl Starter {
    pub(super) fn new(job: u64, described: &Job, fate: Fate, lines: u64) -> Self {
        Starter {
            job,
            ranks: described.local_ranks(),
            several: described.part.is_some(),
            fate,
            lines,
            written: 0,
            log: Vec::new(),
            sent: 0,
            base: 0,
            connected: true,
            listens: true,
            phase: Phase::Preparing,
            frozen: false,
            has_peers: false,
            may_leave: false,
            piece: 0,
            taken: false,
            status: 0,
            received_signals: Vec::new(),
        }
    }

    fn report(&mut self, report: &Report) {
        let passing = matches!(report, Report::InputTaken | Report::Suspended);
        let payload = serde_json::to_vec(report).unwrap();
        self.log.push(Frame { kind: Kind::Report, rank: 0, payload, passing });
    }

    /// No rank of it is left.
    pub(super) fn is_dead(&self) -> bool {
        self.phase >= Phase::Left
    }

    /// Nothing of it is left.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// It was not killed, and was told that nobody needs its sockets.
    pub(super) fn left_well(&self) -> bool {
        self.several && self.may_leave && self.status == 0
    }

    /// A little of its incarnation.
    pub(super) fn step(&mut self, random: &mut Random) {
        match self.phase {
            Phase::Preparing if self.fate == Fate::Refused => {
                self.status = 1;
                self.report(&Report::Ending { status: 1 });
                self.report(&Report::Refused("no room".into()));
                self.leave();
            }
            Phase::Preparing if self.several => {
                let address = |rank| format!("127.0.0.1:{}", 1 + rank % 60_000).parse().unwrap();
                let addresses = self.ranks.clone().map(address).collect();
                self.report(&Report::Addresses(Reached {
                    addresses,
                    datagram_bytes: 1472,
                    ..Reached::default()
                }));
                self.phase = Phase::Ready;
            }
            Phase::Preparing => self.begin(),
            Phase::Ready => {}
            Phase::Running if self.frozen => {}
            Phase::Running => self.write(random),
            Phase::Left => {
                if self.may_leave || self.status != 0 {
                    self.phase = Phase::Over;
                    self.report(&Report::End { status: self.status });
                }
            }
            Phase::Over => {}
        }
        if self.piece > 0 && !self.taken && self.phase == Phase::Running {
            self.taken = true;
            self.report(&Report::InputTaken);
        }
    }

    fn begin(&mut self) {
        let pids = self.ranks.clone().map(|rank| 1000 + rank as u32).collect();
        let cores = self.ranks.clone().map(|_| String::new()).collect();
        self.report(&Report::Started { pids, cores });
        self.phase = Phase::Running;
    }

    fn unsent_bytes(&self) -> usize {
        self.log.iter().filter(|frame| frame.kind == Kind::Output).map(|frame| frame.payload.len()).sum()
    }

    fn write(&mut self, random: &mut Random) {
        for _ in 0..1 + random.below(4) {
            if self.written < self.lines && self.unsent_bytes() < BUFFER_BYTES {
                for rank in self.ranks.clone() {
                    let mut payload = format!("{} ", self.written).into_bytes();
                    let more = if random.below(8) == 0 { 9000 } else { random.below(60) as usize };
                    payload.resize(payload.len() + more, b'x');
                    self.log.push(Frame { kind: Kind::Output, rank: rank as u32, payload, passing: false });
                }
                self.written += 1;
            }
        }
        if self.written < self.lines {
            return;
        }
        match self.fate {
            Fate::Hangs | Fate::Refused => {}
            Fate::Ends => self.leave(),
            Fate::Fails(status) => {
                self.status = status;
                self.report(&Report::Ending { status });
                let cause = Cause::Status(i32::from(status));
                self.report(&Report::Ended(Ended { rank: self.ranks.start as u32, pid: 1, cause }));
                self.leave();
            }
        }
    }

    fn leave(&mut self) {
        self.phase = Phase::Left;
        if self.several {
            self.report(&Report::Left);
        } else {
            self.phase = Phase::Over;
            self.report(&Report::End { status: self.status });
        }
    }

    /// The daemon says something.
    pub(super) fn receive(&mut self, kind: Kind, number: u32, payload: &[u8]) {
        match kind {
            Kind::Peers => {
                assert!(!self.has_peers, "peers twice");
                self.has_peers = true;
                if self.phase == Phase::Ready {
                    self.begin();
                }
            }
            Kind::Kill if !self.is_dead() => {
                self.status = if self.status == 0 { 1 } else { self.status };
                self.report(&Report::Ending { status: self.status });
                self.leave();
            }
            Kind::Kill => self.status = self.status.max(1),
            Kind::Leave => self.may_leave = true,
            Kind::Suspend => {
                self.frozen = true;
                self.report(&Report::Suspended);
            }
            Kind::Resume => self.frozen = false,
            Kind::Signal => {
                assert!(number != 15 || !self.received_signals.contains(&15), "TERM twice");
                self.received_signals.push(number);
            }
            Kind::Input => {
                assert!(number != self.piece, "a piece of stdin twice");
                (self.piece, self.taken) = (number, false);
            }
            Kind::Taken => self.forget(u64::from_le_bytes(payload.try_into().unwrap())),
            other => panic!("{other:?} to a starter"),
        }
    }

    /// Output below this place is not needed any more.
    fn forget(&mut self, have: u64) {
        let mut place = self.base;
        let (mut record, mut sent) = (Vec::new(), 0);
        for (at, frame) in std::mem::take(&mut self.log).into_iter().enumerate() {
            let is_output = frame.kind == Kind::Output;
            place += if is_output { frame.payload.len() as u64 + 12 } else { 0 };
            if is_output && place <= have {
                self.base = place;
            } else {
                sent += usize::from(at < self.sent);
                record.push(frame);
            }
        }
        (self.log, self.sent) = (record, sent);
    }

    /// What the daemon has not heard, if it listens.
    pub(super) fn poll_frames(&mut self) -> Vec<(Kind, u32, Vec<u8>)> {
        if !self.connected || !self.listens || self.sent == self.log.len() {
            return Vec::new();
        }
        let end = self.log.len().min(self.sent + 40);
        let frames =
            self.log[self.sent..end].iter().map(|frame| (frame.kind, frame.rank, frame.payload.clone()));
        let frames = frames.collect();
        (self.sent, self.listens) = (end, false);
        frames
    }

    /// Another daemon is there: what it is told first.
    pub(super) fn come_back(&mut self) -> Reattach {
        self.log.retain(|frame| !frame.passing);
        (self.sent, self.connected, self.listens) = (0, true, false);
        let (frozen, has_peers) = (self.frozen, self.has_peers);
        Reattach {
            job: self.job,
            token: 0,
            base: self.base,
            piece: self.piece,
            taken: self.taken,
            frozen,
            has_peers,
        }
    }
}
