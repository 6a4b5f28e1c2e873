//! A hold: the ranks of this node are frozen for a snapshot of the job.
//!
//! ```text
//! Hold n -> freeze -> all stand still -> Held n, what is seen -> ... all nodes have said so ... -> Release n -> thaw -> Released n, whole?
//! ```
//!
//! What is seen is of one moment if no rank has run before all had been frozen: the starter reports at the
//! end whether it has been held from Held to Release. No rank stays frozen: a hold is over after [`HOLD_NS`],
//! when the daemon is gone, and when the job ends. A user's suspension outlasts it.

use super::Starter;
use crate::readiness::now_ns;
use tutti_os::stat::Stat;
use tutti_protocol::wire::{self, Kind};
use tutti_shm::segment::Segment;
use tutti_snapshot::{VIEWS_BYTES_MAX, View, view};

/// A hold lasts at most so long.
const HOLD_NS: u64 = 8_000_000_000;
/// Ranks that are not frozen after this time are not waited for.
const FREEZE_NS: u64 = 2_000_000_000;
/// Between two polls whether all are frozen.
const POLL_NS: u64 = 200_000;

/// A hold that is not over.
#[derive(Debug)]
pub(super) struct Hold {
    number: u64,
    data_bytes: usize,
    begun_ns: u64,
    reported: bool,
}

impl Hold {
    /// When there is something to do.
    pub(super) fn due_ns(&self) -> u64 {
        if self.reported { self.begun_ns + HOLD_NS } else { now_ns() + POLL_NS }
    }
}

impl Starter {
    /// A snapshot is wanted: its number, and how many bytes of messages' data it may have.
    pub(super) fn handle_hold(&mut self, payload: &[u8]) {
        let Some((number, data_bytes)) = wire::two_numbers(payload) else { return };
        if number <= self.last_hold {
            return;
        }
        self.last_hold = number;
        let begun_ns = now_ns();
        self.hold = Some(Hold { number, data_bytes: data_bytes as usize, begun_ns, reported: false });
        self.settle_freeze();
        self.handle_hold_time(begun_ns);
    }

    /// A snapshot is complete, or given up.
    pub(super) fn handle_release(&mut self, payload: &[u8]) {
        let Some((number, _)) = wire::two_numbers(payload) else { return };
        let is_complete = self.hold.as_ref().is_some_and(|hold| hold.number == number && hold.reported);
        self.end_hold();
        let mut frame = Vec::new();
        wire::put_numbers(&mut frame, Kind::Released, number, u64::from(is_complete));
        self.put(&frame);
    }

    /// The job had terminated as of a snapshot: the ranks that were armed then are told, whatever they do
    /// now. One of them may have been woken already by another that was told before.
    pub(super) fn handle_terminated(&mut self, payload: &[u8]) {
        let number = payload.first_chunk::<8>().map(|number| u64::from_le_bytes(*number));
        if let (Some((_, armed)), Some(segment)) =
            (self.armed.take_if(|(hold, _)| Some(*hold) == number), &self.parts.segment)
        {
            segment.announce_terminated(&armed);
        }
    }

    /// All ranks run again, unless a user has suspended the job.
    pub(super) fn end_hold(&mut self) {
        if self.hold.take().is_some() {
            self.settle_after_hold();
        }
    }

    pub(super) fn handle_hold_time(&mut self, now_ns: u64) {
        let Some(hold) = &self.hold else { return };
        if now_ns >= hold.begun_ns + HOLD_NS {
            return self.end_hold();
        }
        let is_late = now_ns >= hold.begun_ns + FREEZE_NS;
        let is_frozen = !hold.reported && self.is_job_frozen();
        if hold.reported || !is_late && !is_frozen {
            return;
        }
        let seen = match &self.parts.segment {
            _ if !is_frozen => View::of_trouble("its ranks are not frozen"),
            Some(segment) => view(segment, hold.data_bytes),
            None => View::of_trouble("it has no ranks"),
        };
        let bytes_max = self.parts.segment.as_ref().map_or(VIEWS_BYTES_MAX, |segment| {
            let geometry = segment.geometry();
            let (here, began) = (segment.present(), geometry.local_ranks);
            let world = geometry.world_ranks + (here - began);
            View::bytes_max(here.into(), world.into(), hold.data_bytes as u64)
        });
        let armed = self.parts.segment.as_ref().map_or_else(Vec::new, Segment::armed);
        self.armed = Some((hold.number, armed));
        let mut payload = hold.number.to_le_bytes().to_vec();
        let json = serde_json::to_string(&seen).expect("views are serialisable");
        payload.extend(View::fitting(json, bytes_max).into_bytes());
        let mut frame = Vec::new();
        wire::put(&mut frame, Kind::Held, 0, &payload);
        self.hold.iter_mut().for_each(|hold| hold.reported = true);
        self.put(&frame);
    }

    /// No rank runs a single instruction.
    pub(super) fn is_job_frozen(&self) -> bool {
        match self.parts.cgroup.as_ref().and_then(tutti_os::cgroup::Cgroup::is_frozen) {
            Some(frozen) => frozen,
            None => {
                let segment = self.parts.segment.as_ref();
                let ranks = segment.map_or(0, |segment| segment.present() as usize);
                let pids = (0..ranks).filter_map(|rank| Some(segment?.pid(rank))).filter(|pid| *pid != 0);
                pids.into_iter().all(is_stopped)
            }
        }
    }

    /// Sends a daemon something that need not be kept for the next one.
    pub(super) fn put(&mut self, frame: &[u8]) {
        if self.front.is_some() {
            self.out.extend(frame);
            self.send();
        }
    }
}

/// All threads of a process are stopped, or dead.
fn is_stopped(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    tasks.flatten().all(|task| {
        Stat::read(task.path().join("stat")).is_none_or(|stat| stat.is_stopped() || stat.is_dead())
    })
}
