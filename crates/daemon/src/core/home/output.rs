//! Output on its way from the nodes of a job to its front end: each node's stream in order, whole frames, one long line at a time,
//! no more than there is room for.

use tutti_protocol::wire::{self, Decoder};

use super::Home;
use crate::core::parts::FIRST_ROOM_BYTES;
use crate::core::{ClientId, Core};
use crate::members::NodeId;
use crate::message::{JobId, Routed};

/// Bytes on their way to a front end, about; beyond it nodes get no more room.
const JAM_BYTES: usize = 1 << 20;
/// What a job has written lately, kept for `tutti logs` and for who attaches.
const LOG_BYTES: usize = 1 << 20;
/// The rest of a long line has this time to follow before other nodes speak.
const FLOOR_MS: u64 = 500;

#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Something has come: what comes next follows it. Before, it begins with whatever its node still has.
    pub(super) begun: bool,
    pub(super) have: u64,
    /// Whole frames have been passed on up to here.
    pub(super) passed: u64,
    pub(super) limit: u64,
    pub(super) decoder: Decoder,
}

impl Core {
    pub(in crate::core) fn handle_data(
        &mut self,
        from: NodeId,
        job: JobId,
        offset: u64,
        start: u64,
        bytes: &[u8],
    ) {
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        // It is not known yet where it goes on. Nodes say it again.
        if home.files.as_ref().is_some_and(|files| !files.takes()) {
            return;
        }
        let Some(stream) = home.streams.get_mut(&from) else { return };
        if !stream.begun {
            if offset != start {
                // The middle of what an earlier life of ours had the beginning of: from its start, please.
                return self.give_room(job, from, true);
            }
            let place = home.files.as_mut().map_or(offset, |files| files.begin_at(from, offset));
            (stream.begun, stream.have, stream.passed) = (true, place, place);
        }
        let known = stream.have.saturating_sub(offset);
        if offset <= stream.have && known < bytes.len() as u64 {
            stream.decoder.extend(&bytes[known as usize..]);
            stream.have = offset + bytes.len() as u64;
        }
        let held = home.floor.is_some();
        self.pass_frames(job);
        self.give_room(job, from, true);
        if held {
            self.give_room_to_all(job);
        }
        self.try_to_end(job);
    }

    /// Whole frames go to the front end; those of other nodes wait while one is in the middle of a long line.
    pub(super) fn pass_frames(&mut self, job: JobId) {
        let now_ms = self.now_ms;
        let Some(home) = self.home.homes.get_mut(&job).filter(|home| !home.over) else { return };
        let frames = home.take_frames(now_ms);
        for frame in frames {
            if let Some(home) = self.home.homes.get_mut(&job) {
                home.keep(frame.clone());
                self.give(job, frame);
            }
        }
        self.write_on(job);
    }

    /// The rest of a line that has not come in time is not waited for.
    pub(super) fn end_lines(&mut self) {
        let now_ms = self.now_ms;
        let is_late = |home: &Home| home.floor.is_some_and(|(_, until_ms)| now_ms >= until_ms);
        let late = self.home.homes.iter().filter(|(_, home)| is_late(home));
        let late: Vec<JobId> = late.map(|(job, _)| *job).collect();
        for job in late {
            self.pass_frames(job);
            self.give_room_to_all(job);
        }
    }

    /// Tells a node what has come of its output, and what may come.
    pub(super) fn give_room(&mut self, job: JobId, node: NodeId, always: bool) {
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let jammed = home.under_way >= JAM_BYTES;
        let Some(stream) = home.streams.get_mut(&node) else { return };
        // What no file has is not taken.
        let taken = home.files.as_ref().map_or(stream.have, |files| files.kept(node));
        // What waits for the end of another node's line is as good as not taken.
        let waits = home.floor.is_some_and(|(holder, _)| holder != node);
        let limit = if jammed || waits { stream.limit } else { stream.limit.max(taken + FIRST_ROOM_BYTES) };
        if always || limit > stream.limit {
            stream.limit = limit;
            let have = stream.begun.then_some(taken);
            self.route(node, Routed::Room { job, have, limit });
        }
    }

    /// The front end has taken so many bytes.
    pub(in crate::core) fn handle_taken(&mut self, client: ClientId, bytes: usize) {
        self.tunnel_taken(client, bytes);
        let Some(&job) = self.home.clients.get(&client) else { return };
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let jammed = home.under_way >= JAM_BYTES;
        home.under_way = home.under_way.saturating_sub(bytes);
        if jammed && home.under_way < JAM_BYTES {
            home.floor = home.floor.map(|(holder, _)| (holder, self.now_ms + FLOOR_MS));
            self.give_room_to_all(job);
        }
    }

    pub(super) fn give_room_to_all(&mut self, job: JobId) {
        let nodes = self.home.homes.get(&job).map(|home| home.streams.keys().copied().collect::<Vec<_>>());
        nodes.into_iter().flatten().for_each(|node| self.give_room(job, node, false));
    }
}

impl Home {
    /// What may be passed on. A frame of half the longest length without a newline at its end is a part of a long line.
    fn take_frames(&mut self, now_ms: u64) -> Vec<Vec<u8>> {
        // While the front end does not read, the rest has no room to come.
        let jammed = self.under_way >= JAM_BYTES;
        self.floor = self.floor.filter(|(_, until_ms)| jammed || now_ms < *until_ms);
        let (mut frames, mut at) = (Vec::new(), 0);
        while let Some((node, stream)) = self.streams.iter_mut().nth(at) {
            let holds = self.floor.is_some();
            let may_speak = self.floor.is_none_or(|(holder, _)| holder == *node);
            let next = if may_speak { stream.decoder.next_frame().ok().flatten() } else { None };
            let Some((head, payload)) = next else {
                at += 1;
                continue;
            };
            let goes_on = payload.last() != Some(&b'\n') && (holds || head.bytes >= wire::DATA_BYTES_MAX / 2);
            self.floor = goes_on.then_some((*node, now_ms + FLOOR_MS));
            let mut frame = Vec::new();
            wire::put(&mut frame, head.kind, head.rank, payload);
            stream.passed += frame.len() as u64;
            if let Some(files) = &mut self.files {
                files.take(*node, stream.passed, head.kind, head.rank, payload);
            }
            frames.push(frame);
            if holds && !goes_on {
                // Those who waited for the end of the line.
                at = 0;
            }
        }
        frames
    }

    fn keep(&mut self, frame: Vec<u8>) {
        self.log_bytes += frame.len();
        self.log.push_back(frame);
        while self.log_bytes > LOG_BYTES
            && let Some(old) = self.log.pop_front()
        {
            self.log_bytes -= old.len();
        }
    }
}
