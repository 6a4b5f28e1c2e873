//! The thread of the keeper that carries the frames of all cables that are not plain: it reads them from the
//! TAP device at one end, and writes them to that at the other end when they are due ([`Lane`]). A TAP device
//! takes no frame longer than its packets and no work off the kernel, so each datagram is one frame or more.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::lane::{Counts, Lane};
use super::terms::Terms;

/// Frames taken from an end before the others have their turn.
const BATCH: usize = 64;
/// The longest frame that is read.
const FRAME_MAX: usize = 16 << 10;
const SECOND_NS: u64 = 1_000_000_000;

/// Both directions of a cable: from the machine, and to it.
#[derive(Debug)]
struct Carried {
    ends: [Arc<OwnedFd>; 2],
    lanes: [Lane; 2],
}

/// The thread and what it carries.
#[derive(Debug)]
pub(super) struct Carrier {
    cables: Mutex<BTreeMap<u32, Carried>>,
    /// Bell that rings when something has changed.
    bell: OwnedFd,
}

impl Carrier {
    /// Starts the thread; it ends with the process.
    pub(super) fn start() -> io::Result<Arc<Self>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let carrier = Arc::new(Carrier { cables: Mutex::default(), bell });
        let thread = carrier.clone();
        std::thread::Builder::new().name("carrier".into()).spawn(move || thread.carry())?;
        Ok(carrier)
    }

    fn cables(&self) -> MutexGuard<'_, BTreeMap<u32, Carried>> {
        self.cables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Carries a cable between these ends.
    pub(super) fn add(&self, node: u32, machine: Arc<OwnedFd>, port: Arc<OwnedFd>, terms: Terms) {
        let lanes = [0, 1].map(|direction| Lane::new(terms, direction_of(node, direction)));
        self.cables().insert(node, Carried { ends: [machine, port], lanes });
        self.ring();
    }

    /// Carries it under other terms.
    pub(super) fn set_terms(&self, node: u32, terms: Terms) {
        if let Some(cable) = self.cables().get_mut(&node) {
            for (direction, lane) in cable.lanes.iter_mut().enumerate() {
                lane.set_terms(terms, direction_of(node, direction as u64));
            }
        }
        self.ring();
    }

    /// Carries it no longer.
    pub(super) fn remove(&self, node: u32) {
        self.cables().remove(&node);
        self.ring();
    }

    /// Counts of the frames of a cable, by what became of them.
    pub(super) fn counts(&self, node: u32) -> Option<[Counts; 2]> {
        self.cables().get(&node).map(|cable| [0, 1].map(|lane: usize| cable.lanes[lane].counts()))
    }

    fn carry(&self) {
        // Microseconds count here; the default is 50.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
        let mut frame = vec![0; FRAME_MAX];
        loop {
            let (ends, due_ns) = {
                let cables = self.cables();
                let ends: Vec<(u32, usize, Arc<OwnedFd>)> = cables
                    .iter()
                    .flat_map(|(node, cable)| [0, 1].map(|end: usize| (*node, end, cable.ends[end].clone())))
                    .collect();
                let lanes = cables.values().flat_map(|cable| &cable.lanes);
                (ends, lanes.filter_map(Lane::next_due).min())
            };
            let ready = self.wait(&ends, due_ns);
            let mut cables = self.cables();
            for (node, end, descriptor) in ready {
                let Some(cable) = cables.get_mut(&node) else { continue };
                for _ in 0..BATCH {
                    let Ok(length) = rustix::io::read(&*descriptor, &mut frame) else { break };
                    cable.lanes[end].handle_frame(now_ns(), &frame[..length]);
                }
            }
            let now_ns = now_ns();
            for cable in cables.values_mut() {
                for direction in 0..2 {
                    while let Some(frame) = cable.lanes[direction].poll_frame(now_ns) {
                        // An end that is down or full takes nothing: such frames are lost, as on a cable.
                        let _ = rustix::io::write(&*cable.ends[1 - direction], &frame);
                    }
                }
            }
        }
    }

    /// The ends from which there is something to take, once there is or a frame is due.
    fn wait(
        &self,
        ends: &[(u32, usize, Arc<OwnedFd>)],
        due_ns: Option<u64>,
    ) -> Vec<(u32, usize, Arc<OwnedFd>)> {
        let timeout = due_ns.map(|due_ns| {
            let rest_ns = due_ns.saturating_sub(now_ns());
            Timespec { tv_sec: (rest_ns / SECOND_NS) as i64, tv_nsec: (rest_ns % SECOND_NS) as i64 }
        });
        let mut waits: Vec<PollFd<'_>> =
            ends.iter().map(|(_, _, end)| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN)).collect();
        waits.push(PollFd::new(&self.bell, PollFlags::IN));
        match poll(&mut waits, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Only a lack of memory is left.
            Err(_) => std::thread::yield_now(),
        }
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        let has_frames = |(_, wait): &(_, &PollFd<'_>)| wait.revents().contains(PollFlags::IN);
        ends.iter().zip(&waits).filter(has_frames).map(|(end, _)| end.clone()).collect()
    }
}

fn direction_of(node: u32, direction: u64) -> u64 {
    u64::from(node) << 1 | direction
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64
}
