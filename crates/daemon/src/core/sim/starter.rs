//! A starter as far as its daemon sees it: what it reports, in which order, and what it does when it is told
//! something.

use std::ops::Range;

use tutti_protocol::wire::{Cause, Ended, Job, Kind, Reached, Reattach, Report, SignalsHeard, Told};
use tutti_testkit::Random;

/// How its ranks are going to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Well.
    Ends,
    /// A rank ends with this status.
    Fails(u8),
    /// Not by itself.
    Hangs,
    /// Cannot be started.
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
    /// None: its job has no room for more ranks.
    later: Option<Later>,
    pub received_signals: Vec<u32>,
    heard: SignalsHeard,
    /// Whether it has just got ranks when it had none.
    pub refilled: bool,
}

/// Ranks that others ask for.
#[derive(Clone, Debug, Default)]
struct Later {
    /// Of the job's, which one this is.
    node: u32,
    nodes: u64,
    /// Number of the last Ask, and whether there is no order of it yet.
    asked: u32,
    waits: bool,
    /// Number of the last order, and whether its end is waited for here.
    begun: u32,
    is_open: bool,
    /// Steps that the new ranks take.
    steps: u32,
    /// The order as of which it has said that it has no ranks.
    empty: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Preparing,
    Ready,
    Running,
    /// No rank is left, and others may ask for some.
    Empty,
    Left,
    Over,
}

/// Bytes that no daemon has taken, at most.
const BUFFER_BYTES: usize = 512 << 10;
/// Times that ranks of a part ask for more.
const ASKS_MAX: u32 = 3;

impl Starter {
    pub(super) fn new(job: u64, described: &Job, fate: Fate, lines: u64) -> Self {
        let part = described.part.as_ref().filter(|_| job.is_multiple_of(2));
        let later = part.map(|part| Later {
            node: part.node,
            nodes: part.first_ranks.len() as u64,
            ..Later::default()
        });
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
            later,
            received_signals: Vec::new(),
            heard: SignalsHeard::default(),
            refilled: false,
        }
    }

    fn report(&mut self, report: &Report) {
        let passing = matches!(report, Report::InputTaken | Report::Suspended);
        let payload = serde_json::to_vec(report).unwrap();
        self.log.push(Frame { kind: Kind::Report, rank: 0, payload, passing });
    }

    /// No rank of it is left.
    pub(super) fn is_dead(&self) -> bool {
        self.phase >= Phase::Empty
    }

    /// Whether nothing of it is left.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether it was not killed, and was told that nobody needs its sockets.
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
            Phase::Running => {
                self.ask(random);
                self.write(random);
            }
            Phase::Empty => self.wait_for_order(),
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
            Fate::Ends => self.end_ranks(),
            Fate::Fails(status) => {
                self.status = status;
                self.report(&Report::Ending { status });
                let cause = Cause::Status(i32::from(status));
                self.report(&Report::Ended(Ended { rank: self.ranks.start as u32, pid: 1, cause }));
                self.leave();
            }
        }
    }

    /// A rank may want more ranks, on some node.
    fn ask(&mut self, random: &mut Random) {
        let Some(later) = &mut self.later else { return };
        if later.waits || later.asked == ASKS_MAX || random.below(8) > 0 {
            return;
        }
        (later.asked, later.waits) = (later.asked + 1, true);
        let payload = vec![random.below(later.nodes) as u8];
        self.log.push(Frame { kind: Kind::Ask, rank: later.asked, payload, passing: false });
    }

    /// The ranks that it began with have ended well; those that came later take some steps.
    fn end_ranks(&mut self) {
        match &mut self.later {
            None => {
                if !self.several {
                    // Whatever its ranks have left behind is killed now.
                    self.report(&Report::Ending { status: 0 });
                }
                self.leave();
            }
            Some(later) if later.steps > 0 => later.steps -= 1,
            Some(later) if later.waits || later.is_open => {}
            Some(_) => self.phase = Phase::Empty,
        }
    }

    fn wait_for_order(&mut self) {
        if self.may_leave {
            return self.leave();
        }
        let Some(later) = self.later.as_mut().filter(|later| later.empty != Some(later.begun)) else {
            return;
        };
        let order = *later.empty.insert(later.begun);
        self.report(&Report::Empty(order));
    }

    /// New ranks, perhaps here. Whether it had none before.
    fn begin_later(&mut self, order: u32, payload: &[u8]) -> bool {
        let later = self.later.as_mut().expect("nobody asks for ranks in such a job");
        if order <= later.begun || self.phase >= Phase::Left {
            return false;
        }
        assert_eq!(order, later.begun + 1, "an order of new ranks is left out");
        let by = u32::from_le_bytes(payload[..4].try_into().unwrap());
        let (is_asker, has_share) = (by == later.node, u32::from(payload[8]) == later.node);
        (later.begun, later.waits) = (order, later.waits && !is_asker);
        later.is_open = is_asker || has_share;
        let is_back = has_share && self.phase == Phase::Empty;
        if has_share {
            assert!(!self.may_leave, "new ranks behind Leave");
            (later.steps, self.phase) = (3, Phase::Running);
        }
        self.log.push(Frame { kind: Kind::Spawned, rank: order, payload: b"{}\n".to_vec(), passing: false });
        is_back
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
            Kind::Kill if self.phase < Phase::Left => {
                self.status = if self.status == 0 { 1 } else { self.status };
                self.report(&Report::Ending { status: self.status });
                self.leave();
            }
            Kind::Kill => self.status = self.status.max(1),
            Kind::Leave => self.may_leave = true,
            Kind::Spawn => self.refilled = self.begin_later(number, payload),
            Kind::SpawnEnd => {
                self.later
                    .iter_mut()
                    .filter(|later| later.begun == number)
                    .for_each(|later| later.is_open = false);
            }
            Kind::Suspend => {
                self.frozen = true;
                self.report(&Report::Suspended);
            }
            Kind::Resume => self.frozen = false,
            Kind::Signal => {
                assert!(number != 15 || !self.received_signals.contains(&15), "TERM twice");
                self.received_signals.push(number);
                self.heard.hear(payload);
            }
            Kind::Input => {
                assert!(number != self.piece, "a piece of stdin twice");
                (self.piece, self.taken) = (number, false);
            }
            Kind::Taken => self.forget(u64::from_le_bytes(payload.try_into().unwrap())),
            // Its ranks have put nothing themselves.
            Kind::Fence => {}
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

    /// Takes the frames that the daemon has not heard, if it listens.
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
            told: Told { frozen, has_peers, signals: self.heard },
            greeting: None,
        }
    }
}
