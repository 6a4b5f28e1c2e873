//! The starter's side of the wire: frames that come, and what is on its way to the front end.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use super::reconnect::Reconnect;
use super::{ROOM_BYTES, Starter, StarterError};
use crate::launch;
use crate::readiness::now_ns;
use tutti_os::cgroup::{self, Granted};
use tutti_protocol::wire::{self, Decoder, FrameHeader, Job, Kind, Report, SIGNAL_ALONE};

/// Waits for the job, the first frame but for the cgroup that root's daemon gives it.
///
/// # Errors
/// When something else comes, or nothing.
pub(super) fn read_job(front: &OwnedFd) -> Result<(Job, Option<Granted>, Decoder), StarterError> {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0_u8; 64 << 10];
    let (mut descriptors, mut granted) = (Vec::new(), None);
    loop {
        let read = cgroup::receive(front, &mut bytes, &mut descriptors)
            .map_err(|error| StarterError::NoJob(io::Error::from(error).to_string()))?;
        if read == 0 {
            return Err(StarterError::NoJob("it has gone".into()));
        }
        decoder.extend(&bytes[..read]);
        while let Some((head, payload)) =
            decoder.next_frame().map_err(|error| StarterError::NoJob(error.to_string()))?
        {
            match head.kind {
                Kind::Group => granted = Granted::new(std::mem::take(&mut descriptors), head.rank),
                Kind::Job => {
                    let job = serde_json::from_slice(payload)
                        .map_err(|error| StarterError::NoJob(error.to_string()))?;
                    return Ok((job, granted, decoder));
                }
                kind => return Err(StarterError::NoJob(format!("its first frame is {kind:?}"))),
            }
        }
    }
}

impl Starter {
    pub(super) fn receive(&mut self) {
        let mut bytes = [0_u8; 16 << 10];
        let Some(front) = &self.front else { return };
        match rustix::io::read(front, &mut bytes) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Ok(read) if read > 0 => {
                self.decoder.extend(&bytes[..read]);
                self.handle_frames();
            }
            _ => self.lose_front("has died"),
        }
    }

    pub(super) fn handle_frames(&mut self) {
        loop {
            let (head, payload) = match self.decoder.next_frame() {
                Ok(Some((head, payload))) => (head, payload.to_vec()),
                Ok(None) => return,
                Err(error) => return self.lose_front(&error.to_string()),
            };
            self.handle_frame(head, &payload);
        }
    }

    fn handle_frame(&mut self, head: FrameHeader, payload: &[u8]) {
        match head.kind {
            Kind::Signal => {
                if let Some(reconnect) = &mut self.reconnect {
                    reconnect.told.signals.hear(payload);
                }
                let (number, is_alone) = (head.rank & !SIGNAL_ALONE, head.rank & SIGNAL_ALONE != 0);
                if let Some(signal) = Signal::from_named_raw(number as i32) {
                    match is_alone {
                        true => self.parts.ranks.signal_processes(signal),
                        false => self.parts.ranks.signal(signal),
                    }
                    let ends = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal);
                    if ends && self.ready.is_some() {
                        self.parts.ranks.set_ending(128 + number as u8);
                        self.kill();
                    }
                }
            }
            Kind::Peers => self.handle_peers(payload),
            Kind::Fence => self.handle_fence(head.rank, payload),
            Kind::Spawn => self.handle_spawn(head.rank, payload),
            Kind::SpawnEnd => self.end_spawn(head.rank, payload),
            Kind::Leave => {
                self.may_leave = true;
                if head.rank == wire::FOR_GOOD {
                    self.reconnect = None;
                }
            }
            Kind::Taken => {
                if let (Some(reconnect), Ok(have)) = (&mut self.reconnect, payload.try_into()) {
                    reconnect.handle_taken(u64::from_le_bytes(have));
                }
            }
            Kind::Input => {
                if let Some(reconnect) = &mut self.reconnect {
                    (reconnect.piece, reconnect.taken) = (head.rank, false);
                }
                self.parts.inputs.handle_piece(payload);
            }
            Kind::Suspend => {
                self.suspend();
                self.report(&Report::Suspended);
            }
            Kind::Resume => self.resume(),
            Kind::Thaw => {
                self.end_hold();
                self.end_turn();
            }
            Kind::Context => self.handle_context(head.rank, payload),
            Kind::Hold => self.handle_hold(payload),
            Kind::Release => self.handle_release(payload),
            Kind::Terminated => self.handle_terminated(payload),
            Kind::Window => self.parts.streams.set_window((head.rank >> 16) as u16, head.rank as u16),
            Kind::Kill if head.rank == wire::SPARE_FILTERS => self.end_but_filters(),
            Kind::Kill => {
                self.parts.ranks.set_ending(1);
                self.kill();
            }
            #[cfg(feature = "next-wire")]
            Kind::Next => {}
            _ => self.lose_front("sent a frame of a wrong kind"),
        }
    }

    fn handle_fence(&mut self, fence: u32, puts: &[u8]) {
        if let Some(pmix) = self.parts.foreign.as_mut().and_then(|foreign| foreign.pmix.as_mut()) {
            let events = pmix.handle_fence(fence, puts.to_vec());
            return self.run_pmix(|_| events);
        }
        let mut wrong = false;
        self.run_pmi(|pmi| {
            pmi.handle_fence(fence, puts).unwrap_or_else(|_| {
                wrong = true;
                Vec::new()
            })
        });
        if wrong {
            self.lose_front("sent invalid keys and values");
        }
    }

    fn handle_peers(&mut self, payload: &[u8]) {
        if let Some(reconnect) = &mut self.reconnect {
            reconnect.told.has_peers = true;
        }
        let Some(ready) = self.ready.as_ref().filter(|_| self.parts.peers.is_none()) else {
            if self.parts.ranks.is_ending() {
                return;
            }
            return self.lose_front("sent the addresses of ranks twice");
        };
        let Ok(reached) = serde_json::from_slice(payload) else {
            return self.lose_front("sent invalid addresses");
        };
        match launch::take_peers(ready, reached, &mut self.parts) {
            Ok(()) => self.launch_if_ready(),
            Err(error) => self.refuse(error.to_string(), 1),
        }
    }

    pub(super) fn lose_front(&mut self, why: &str) {
        if self.reconnect.is_some() {
            return self.go_away(why);
        }
        self.log_debug(|| format!("the front end {why}: the job ends"));
        self.front = None;
        self.parts.ranks.set_ending(1);
        self.kill();
    }

    pub(super) fn report(&mut self, report: &Report) {
        self.report_all(std::slice::from_ref(report));
    }

    /// Reports that go in one piece: a starter that is killed has said all of them, or none.
    pub(super) fn report_all(&mut self, reports: &[Report]) {
        for report in reports {
            if let Some(reconnect) = &mut self.reconnect {
                reconnect.keep_report(report);
            }
            if self.front.is_some() {
                wire::put_json(&mut self.out, Kind::Report, report);
            }
        }
        self.send();
    }

    pub(super) fn forward(&mut self) {
        if std::mem::take(&mut self.parts.inputs.taken_unreported) {
            self.report(&Report::InputTaken);
        }
        if std::mem::take(&mut self.parts.inputs.unwanted_unreported) {
            self.report(&Report::InputUnwanted);
        }
        self.out.drain(..self.sent);
        self.sent = 0;
        if self.is_jammed() {
            let hurried = self.hurried;
            self.reconnect.iter_mut().for_each(|reconnect| reconnect.handle_jam(hurried));
        } else {
            let before = self.out.len();
            self.parts.streams.forward(&mut self.out, ROOM_BYTES, now_ns());
            self.keep_output(before);
        }
        self.send();
    }

    /// Output that has just been added to what is on its way.
    fn keep_output(&mut self, before: usize) {
        match &mut self.reconnect {
            Some(reconnect) => {
                let is_kept = reconnect.keep_output(&self.out[before..]);
                if self.front.is_none() {
                    self.out.clear();
                } else if !is_kept {
                    self.out.truncate(before);
                }
            }
            None if self.front.is_none() => self.out.clear(),
            None => {}
        }
    }

    /// No more output fits on its way, or beside it.
    pub(super) fn is_jammed(&self) -> bool {
        let waits = self.reconnect.as_ref().is_some_and(Reconnect::is_jammed);
        waits || self.out.len() - self.sent >= ROOM_BYTES
    }

    pub(super) fn send(&mut self) {
        while let Some(front) = &self.front
            && self.sent < self.out.len()
        {
            match rustix::io::write(front, &self.out[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => return self.lose_front("does not read any more"),
            }
        }
        self.out.clear();
        self.sent = 0;
    }

    pub(super) fn wait_for_front(&mut self) {
        let Some(front) = &self.front else { return };
        let flags = PollFlags::OUT | PollFlags::IN;
        let ready = {
            let mut polled = [PollFd::new(front, flags)];
            let _ = poll(&mut polled, None);
            polled[0].revents()
        };
        if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.receive();
        }
        self.send();
    }
}
