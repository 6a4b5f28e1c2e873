//! Output on its way from the nodes of a job to its front end: each node's stream in order, whole frames, one
//! long line at a time, no more than there is room for.

use tutti_protocol::wire::{self, Decoder, Report};

use super::{Origin, OriginJob};
use crate::core::context::Context;
use crate::core::outbox::Outbox;
use crate::core::outlet::FIRST_ROOM_BYTES;
use crate::ids::ClientId;
use crate::members::NodeId;
use crate::message::{JobId, Routed};

/// Bytes on their way to a front end, about; beyond it nodes get no more room.
const JAM_BYTES: usize = 1 << 20;
/// Bytes of a job's latest output that are kept for `tutti logs` and for who attaches.
const LOG_BYTES: usize = 1 << 20;
/// The rest of a long line has this time to follow before other nodes speak.
const LINE_MS: u64 = 500;

#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Whether something has come: what comes next follows it. Before, it begins with whatever its node still
    /// has.
    pub(super) begun: bool,
    pub(super) have: u64,
    /// Whole frames have been passed on up to here.
    pub(super) passed: u64,
    pub(super) limit: u64,
    pub(super) decoder: Decoder,
}

/// A whole frame of output.
#[derive(Clone, Debug)]
pub(super) struct Passed {
    /// Node that has written it.
    pub(super) node: NodeId,
    /// Place of the byte behind it.
    pub(super) end: u64,
    pub(super) bytes: Vec<u8>,
}

impl Passed {
    /// Place of its first byte.
    pub(super) fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }
}

impl Origin {
    pub(in crate::core) fn handle_data(
        &mut self,
        cx: Context<'_>,
        from: NodeId,
        job: JobId,
        (offset, start): (u64, u64),
        bytes: &[u8],
    ) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        // It is not known yet where it goes on. Nodes say it again.
        if entry.files.as_ref().is_some_and(|files| !files.takes()) {
            return;
        }
        // Its front end is to come back, and says what it has.
        if entry.comeback.is_awaited() {
            return;
        }
        let Some(stream) = entry.streams.get_mut(&from) else { return };
        let mut lost_bytes = 0;
        if !stream.begun {
            if offset != start {
                // The middle of what an earlier incarnation of ours had the beginning of: from its start,
                // please.
                return self.give_room(cx.out, job, from, true);
            }
            let known = entry.comeback.place_of(from);
            lost_bytes = known.map_or(0, |known| offset.saturating_sub(known));
            let place = known.map_or(offset, |known| known.max(offset));
            let place = entry.files.as_mut().map_or(place, |files| files.begin_at(from, offset));
            (stream.begun, stream.have, stream.passed) = (true, place, place);
        }
        let known = stream.have.saturating_sub(offset);
        if offset <= stream.have && known < bytes.len() as u64 {
            stream.decoder.extend(&bytes[known as usize..]);
            stream.have = offset + bytes.len() as u64;
        }
        let held = entry.line_holder.is_some();
        if lost_bytes > 0 {
            self.report_gap(cx, job, from, lost_bytes);
        }
        self.pass_frames(cx, job);
        self.give_room(cx.out, job, from, true);
        if held {
            self.give_room_to_all(cx.out, job);
        }
        self.try_to_end(cx, job);
    }

    /// Whole frames go to the front end; those of other nodes wait while one is in the middle of a long line.
    pub(super) fn pass_frames(&mut self, cx: Context<'_>, job: JobId) {
        let now_ms = cx.local.now_ms;
        let Some(entry) = self.jobs.get_mut(&job).filter(|entry| !entry.over) else { return };
        let frames = entry.take_frames(now_ms);
        for frame in frames {
            if let Some(entry) = self.jobs.get_mut(&job) {
                entry.append_log(frame.clone());
                self.give_output(cx.out, job, frame);
            }
        }
        self.write_on(cx.out, job);
    }

    /// A frame of output for the front end, which knows its place.
    pub(super) fn give_output(&mut self, out: &Outbox, job: JobId, frame: Passed) {
        let Some(entry) = self.jobs.get_mut(&job).filter(|entry| entry.client.is_some()) else { return };
        let (node, place) = (frame.node, frame.start());
        let known = entry.comeback.known.replace((node, frame.end));
        if known != Some((node, place)) {
            self.report(out, job, &Report::Stands { node: node.0, place });
        }
        self.give(out, job, frame.bytes);
    }

    /// Output that no daemon has any more.
    pub(super) fn report_gap(&mut self, cx: Context<'_>, job: JobId, node: NodeId, bytes: u64) {
        let name = cx.local.members.as_ref().map_or_else(|| node.to_string(), |members| members.name(node));
        let text = format!(
            "{bytes} bytes of the output of job {job} on node {name} are lost with the daemon that had them"
        );
        self.report(cx.out, job, &Report::Warning(text));
    }

    /// The rest of a line that has not come in time is not waited for.
    pub(super) fn end_lines(&mut self, cx: Context<'_>) {
        let now_ms = cx.local.now_ms;
        let is_late = |entry: &OriginJob| entry.line_holder.is_some_and(|(_, until_ms)| now_ms >= until_ms);
        let late = self.jobs.iter().filter(|(_, entry)| is_late(entry));
        let late: Vec<JobId> = late.map(|(job, _)| *job).collect();
        for job in late {
            self.pass_frames(cx, job);
            self.give_room_to_all(cx.out, job);
        }
    }

    /// Tells a node what has come of its output, and what may come.
    pub(super) fn give_room(&mut self, out: &Outbox, job: JobId, node: NodeId, always: bool) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let jammed = entry.in_flight_bytes >= JAM_BYTES;
        let Some(stream) = entry.streams.get_mut(&node) else { return };
        // What no file has is not taken.
        let taken = entry.files.as_ref().map_or(stream.have, |files| files.durable(node));
        // What waits for the end of another node's line is as good as not taken.
        let waits = entry.line_holder.is_some_and(|(holder, _)| holder != node);
        let limit = if jammed || waits { stream.limit } else { stream.limit.max(taken + FIRST_ROOM_BYTES) };
        if always || limit > stream.limit {
            stream.limit = limit;
            let have = stream.begun.then_some(taken);
            out.route(node, Routed::Room { job, have, limit });
        }
    }

    /// The front end has taken so many bytes.
    pub(in crate::core) fn handle_taken(&mut self, cx: Context<'_>, client: ClientId, bytes: usize) {
        let Some(&job) = self.clients.get(&client) else { return };
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let jammed = entry.in_flight_bytes >= JAM_BYTES;
        entry.in_flight_bytes = entry.in_flight_bytes.saturating_sub(bytes);
        if jammed && entry.in_flight_bytes < JAM_BYTES {
            entry.line_holder = entry.line_holder.map(|(holder, _)| (holder, cx.local.now_ms + LINE_MS));
            self.give_room_to_all(cx.out, job);
        }
    }

    pub(super) fn give_room_to_all(&mut self, out: &Outbox, job: JobId) {
        let nodes = self.jobs.get(&job).map(|entry| entry.streams.keys().copied().collect::<Vec<_>>());
        nodes.into_iter().flatten().for_each(|node| self.give_room(out, job, node, false));
    }
}

impl OriginJob {
    /// Takes what may be passed on. A frame of half the longest length without a newline at its end is a part
    /// of a long line.
    fn take_frames(&mut self, now_ms: u64) -> Vec<Passed> {
        // While the front end does not read, the rest has no room to come.
        let jammed = self.in_flight_bytes >= JAM_BYTES;
        self.line_holder = self.line_holder.filter(|(_, until_ms)| jammed || now_ms < *until_ms);
        let (mut frames, mut at) = (Vec::new(), 0);
        while let Some((node, stream)) = self.streams.iter_mut().nth(at) {
            let holds = self.line_holder.is_some();
            let may_pass = self.line_holder.is_none_or(|(holder, _)| holder == *node);
            let next = if may_pass { stream.decoder.next_frame().ok().flatten() } else { None };
            let Some((header, payload)) = next else {
                at += 1;
                continue;
            };
            let continues =
                payload.last() != Some(&b'\n') && (holds || header.bytes >= wire::DATA_BYTES_MAX / 2);
            self.line_holder = continues.then_some((*node, now_ms + LINE_MS));
            let mut frame = Vec::new();
            wire::put(&mut frame, header.kind, header.rank, payload);
            stream.passed += frame.len() as u64;
            if let Some(files) = &mut self.files {
                files.take(*node, stream.passed, header.kind, header.rank, payload);
            }
            frames.push(Passed { node: *node, end: stream.passed, bytes: frame });
            if holds && !continues {
                // Those who waited for the end of the line.
                at = 0;
            }
        }
        frames
    }

    fn append_log(&mut self, frame: Passed) {
        self.log_bytes += frame.bytes.len();
        self.log.push_back(frame);
        while self.log_bytes > LOG_BYTES
            && let Some(old) = self.log.pop_front()
        {
            self.log_bytes -= old.bytes.len();
        }
    }
}
