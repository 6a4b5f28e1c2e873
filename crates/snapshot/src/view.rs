//! The view of a starter of its ranks, which are frozen.
//!
//! What ranks have written is hostile: everything is copied, then judged, and bounded in number and bytes.

use tutti_channel::WORDS;
use tutti_channel::cut::{self, Cut, FlowWords, in_flight};
use tutti_shm::envelope::{self, Head};
use tutti_shm::envelope_ring::Envelope;
use tutti_shm::observe;
use tutti_shm::report;
use tutti_shm::segment::Segment;
use tutti_shm::unexpected::Entry;

use super::held::Memory;
use crate::state::{Alternative, BulkIn, Doing, Flow, Message, RankView, View, Wait, What};

/// Messages of a node that are listed, at most.
const MESSAGES_MAX: usize = 16 << 10;
/// Bytes of a message without its data, and of the later entry of a rank, as JSON, at most.
const MESSAGE_BYTES: usize = 144;
const UNREAD_BYTES: usize = 160;
/// Bytes of ranks' memory that are read for what they hold, at most, on the node.
const READ_BYTES_MAX: usize = 32 << 20;
/// Signals of timers: a rank that catches one may be woken by it.
const TIMERS: [u32; 3] = [libc::SIGALRM as u32, libc::SIGVTALRM as u32, libc::SIGPROF as u32];

/// Room that is left.
#[derive(Debug, Default)]
struct Room {
    messages: usize,
    /// For messages' data.
    data_bytes: usize,
    /// For everything, as JSON.
    json_bytes: usize,
    omitted: u64,
    flows_omitted: u64,
}

/// View of a node on its ranks, all of which are frozen; with at most `data_bytes` bytes of the messages'
/// data. Without any it is for the search for deadlocks. Then two things are left out: what ranks hold that
/// no receive has asked for, and flows on which all is acknowledged (a job has as many as its ranks squared).
pub fn view(segment: &Segment, data_bytes: usize) -> View {
    let geometry = segment.geometry();
    let (ranks, numbers) = (segment.present() as usize, *segment.layout().numbers());
    let world_ranks = geometry.world_ranks + (ranks as u32 - geometry.local_ranks);
    let others = (0..geometry.world_room()).filter(|rank| !numbers.contains(*rank as usize));
    let searches = data_bytes == 0;
    let mut view = View { node: geometry.node, acknowledged_omitted: searches, ..View::default() };
    for rank in 0..ranks {
        view.ranks.push(rank_view(segment, rank));
    }
    let of_ranks = serde_json::to_vec(&view).expect("views are serialisable").len() + ranks * UNREAD_BYTES;
    let bytes_max = View::bytes_max(ranks as u64, world_ranks.into(), data_bytes as u64);
    let json_bytes = bytes_max.saturating_sub(of_ranks);
    let mut room = Room { messages: MESSAGES_MAX, data_bytes, json_bytes, ..Room::default() };
    for (from, receivers) in segment.receivers().into_iter().enumerate() {
        for to in receivers {
            for (envelope, data) in segment.in_ring(from, to) {
                let message = local(numbers.rank_at(from) as u32, numbers.rank_at(to) as u32, &envelope);
                view.rings.extend(room.take(message, &data));
            }
        }
        let is_used = segment.used_flows(from);
        for to in others.clone().filter(|to| is_used(*to as usize)) {
            view.flows.extend(flow(segment, from, to, searches, &mut room));
        }
    }
    view.flows_omitted = room.flows_omitted;
    view.omitted = std::mem::take(&mut room.omitted);
    if !searches {
        let mut read_bytes = READ_BYTES_MAX;
        for rank in 0..ranks {
            // None has all of it; what one does not need is for those behind it.
            let mut share = read_bytes / (ranks - rank).min(8);
            read_bytes -= share;
            put_held(segment, rank, &mut share, &mut room, &mut view);
            read_bytes += share;
        }
        view.held_omitted = room.omitted;
    }
    view
}

impl Room {
    /// The message, with its data if there is room for them. Behind one that has none no other has: of a flow
    /// the first are listed.
    fn take(&mut self, mut message: Message, data: &[u8]) -> Option<Message> {
        if self.messages == 0 || self.json_bytes < MESSAGE_BYTES {
            self.omitted += 1;
            return None;
        }
        self.messages -= 1;
        self.json_bytes -= MESSAGE_BYTES;
        if self.has_for_data(data.len() as u64) {
            message.data = Some(hexadecimal(data));
        }
        Some(message)
    }

    /// Whether there is room for so many bytes of data, which is taken.
    fn has_for_data(&mut self, bytes: u64) -> bool {
        let has_room = bytes > 0 && bytes <= (self.data_bytes as u64).min(self.json_bytes as u64 / 2);
        if has_room {
            self.data_bytes -= bytes as usize;
            self.json_bytes -= 2 * bytes as usize;
        }
        has_room
    }

    /// Whether there is room for a flow without its records; it is counted if there is none.
    fn has_for(&mut self, flow: &Flow) -> bool {
        let rest = self.json_bytes.checked_sub(json_bytes(flow));
        match rest {
            Some(rest) => self.json_bytes = rest,
            None => self.flows_omitted += 1,
        }
        rest.is_some()
    }
}

/// Adds the messages that a rank has taken and no receive has asked for, as far as they may be read.
fn put_held(segment: &Segment, rank: usize, read_bytes: &mut usize, room: &mut Room, view: &mut View) {
    let (root, seen) = (segment.kept(rank), &mut view.ranks[rank]);
    if root == 0 || matches!(seen.doing, Doing::Elsewhere | Doing::HasLeft) {
        return;
    }
    let memory = Memory::open(seen.pid);
    let found = memory.and_then(|memory| memory.kept(root, read_bytes).map(|found| (memory, found)));
    let (memory, found) = match found {
        Ok(found) => found,
        Err(error) => {
            seen.unread = Some(error.to_string());
            return;
        }
    };
    seen.taking = found.taking;
    seen.unread = found.more.then(|| "there is too much of it to read all".into());
    for kept in found.messages {
        let Entry { from, kind, context, tag, bytes, here, data, .. } = kept;
        let to = seen.rank;
        let message = Message { from, to, kind: name(kind).into(), context, tag, bytes, data: None };
        let Some(mut message) = room.take(message, &[]) else { continue };
        // What cannot be read takes as much room: it may have been read for the most part.
        if here <= bytes && room.has_for_data(here) {
            message.data = memory.read(data, here as usize).ok().map(|data| hexadecimal(&data));
        }
        view.held.push(message);
    }
}

fn hexadecimal(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// View of one rank, counted on this node.
///
/// # Panics
/// When there is no such rank.
pub fn rank_view(segment: &Segment, rank: usize) -> RankView {
    let geometry = segment.geometry();
    let pid = segment.pid(rank);
    let doing = match segment.doing(rank) {
        observe::Doing::NotHere => Doing::Elsewhere,
        observe::Doing::Runs => Doing::Runs,
        observe::Doing::HasLeft => Doing::HasLeft,
        observe::Doing::Sleeps(asleep) => {
            let has_service = geometry.world_ranks > geometry.local_ranks;
            let signals = segment.signals(rank);
            let handlers = signals.map_or(0, |signals| signals.at_rest);
            let termination = segment.termination(rank);
            let own = u32::from(has_service) + u32::from(termination.has_thread());
            let threads = asleep.threads.saturating_add(own).saturating_add(handlers);
            Doing::Waits {
                call: Some(asleep.call.clone()).filter(|call| !call.is_empty()),
                sure: !asleep.more
                    && !asleep.owes
                    && !asleep.waits.is_empty()
                    && signals.is_some()
                    && sleeps_for_good(pid, threads, asleep.multiple),
                signals: signals.is_none_or(|signals| signals.open > 0),
                armed: termination.armed().is_some(),
                more: asleep.more,
                unasked: asleep.unasked,
                any: alternatives(&asleep, false),
                background: alternatives(&asleep, true),
            }
        }
    };
    let rank = segment.layout().numbers().rank_at(rank) as u32;
    RankView { rank, pid, doing, taking: false, unread: None }
}

/// No timer of the process wakes it, and if any thread may call MPI all threads are those that wait.
fn sleeps_for_good(pid: u32, threads: u32, multiple: bool) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let all: Option<u32> = field("Threads:").and_then(|text| text.parse().ok());
    let caught = field("SigCgt:").and_then(|text| u64::from_str_radix(text, 16).ok());
    let (Some(all), Some(caught)) = (all, caught) else { return false };
    (!multiple || all <= threads) && TIMERS.iter().all(|signal| caught >> (signal - 1) & 1 == 0)
}

/// Alternatives of the calls, or of the background. Left out parts belong to the last one.
fn alternatives(asleep: &report::Asleep, background: bool) -> Vec<Alternative> {
    let number = |wait: &report::Wait| (wait.background, wait.alternative);
    let last = asleep.waits.last().filter(|_| asleep.more_parts).map(number);
    let runs = asleep.waits.chunk_by(|one, next| number(one) == number(next));
    let of_it = runs.filter(|run| run[0].background == background);
    let alternative = |run: &[report::Wait]| Alternative {
        all: run.iter().map(wait).collect(),
        more: last == Some(number(&run[0])),
    };
    // One that is not named may continue.
    let unnamed = (background && asleep.more_background).then(|| Alternative { all: Vec::new(), more: true });
    of_it.map(alternative).chain(unnamed).collect()
}

fn wait(wait: &report::Wait) -> Wait {
    Wait {
        what: match wait.what {
            report::What::Receive => What::Receive,
            report::What::Send => What::Send,
            report::What::Member => What::Member,
            report::What::Window => What::Window,
            report::What::Word => What::Word,
            report::What::Lock => What::Lock,
            report::What::Place => What::Place,
            report::What::Held => What::Held,
            report::What::Page => What::Page,
            report::What::SharedLock => What::SharedLock,
            report::What::Barrier => What::Barrier,
            report::What::Pause => What::Pause,
            report::What::Probe => What::Probe,
            report::What::Other => What::Other,
        },
        matched: wait.matched,
        peer: u32::try_from(wait.peer).ok(),
        tag: (wait.tag >= 0).then_some(wait.tag),
        context: wait.context,
        bytes: wait.bytes,
        moved: wait.moved,
    }
}

/// Name of a kind of messages inside a node, and of those that are held.
fn name(kind: u8) -> &'static str {
    match kind {
        envelope::EAGER => "eager",
        envelope::STREAM => "stream",
        envelope::RTS => "announce",
        envelope::WRITE => "write",
        envelope::CTS => "clear",
        envelope::FIN => "done",
        envelope::COOP => "join",
        envelope::RTR => "tell",
        _ => "unknown",
    }
}

fn local(from: u32, to: u32, envelope: &Envelope) -> Message {
    let Envelope { kind, context, tag, length: bytes, .. } = *envelope;
    Message { from, to, kind: name(kind).into(), context, tag, bytes, data: None }
}

fn remote(from: u32, to: u32, head: &Head) -> Message {
    let kind = match head.kind {
        envelope::EAGER => "eager",
        envelope::STREAM => "stream",
        envelope::RTS => "announce",
        envelope::CTS => "clear",
        envelope::FIN => "done",
        envelope::PART => "part",
        envelope::CREDIT => "credit",
        envelope::FAR_RTR => "tell",
        envelope::FAR_WRITE => "write",
        _ => "unknown",
    };
    Message {
        from,
        to,
        kind: kind.into(),
        context: head.context,
        tag: head.tag,
        bytes: head.length,
        data: None,
    }
}

/// The flow of a local rank to world rank `to`; none when nothing was ever sent on it or received, or all is
/// acknowledged and it is `open_only`.
fn flow(segment: &Segment, from: usize, to: u32, open_only: bool, room: &mut Room) -> Option<Flow> {
    let published = segment.flow_words(from, to as usize);
    if published[..WORDS].iter().all(|word| *word == 0) {
        return None;
    }
    let published: [u64; WORDS] = std::array::from_fn(|word| published[word]);
    let words = FlowWords::from(published);
    if open_only && words.snd_una == words.snd_nxt {
        return None;
    }
    let rank = segment.layout().numbers().rank_at(from) as u32;
    let mut flow = Flow {
        from: rank,
        to,
        snd_una: words.snd_una.0,
        snd_high: words.snd_high.0,
        snd_nxt: words.snd_nxt.0,
        rcv_nxt: words.rcv_nxt.0,
        bulk: cut::BulkIn::of(&published).map(|bulk| BulkIn { bytes: bulk.bytes, here: bulk.here }),
        records: Vec::new(),
    };
    if !room.has_for(&flow) {
        return None;
    }
    if words.snd_nxt != words.snd_una {
        let all = Cut { from: words.snd_una, end: words.snd_nxt };
        let fifo = segment.fifo(from, to as usize);
        for record in in_flight(&words, &all, &fifo) {
            let unknown = || Message {
                from: rank,
                to,
                kind: "unknown".into(),
                context: 0,
                tag: 0,
                bytes: 0,
                data: None,
            };
            let Ok((_, record)) = record else { break };
            let (message, data) = match Head::decode(record) {
                Some((head, data)) => (remote(rank, to, &head), data),
                None => (unknown(), record),
            };
            flow.records.extend(room.take(message, data));
        }
    }
    Some(flow)
}

/// Bytes of a flow without its records as JSON, and a comma: a job may have hundreds of thousands.
fn json_bytes(flow: &Flow) -> usize {
    let Flow { from, to, snd_una, snd_high, snd_nxt, rcv_nxt, bulk, .. } = *flow;
    let digits = |number: u64| number.checked_ilog10().map_or(1, |most| most as usize + 1);
    let words = [from, to, snd_una, snd_high, snd_nxt, rcv_nxt].map(|word| digits(word.into()));
    let of_bulk =
        |bulk: BulkIn| r#","bulk":{"bytes":,"here":}"#.len() + digits(bulk.bytes) + digits(bulk.here);
    let names = r#"{"from":,"to":,"snd_una":,"snd_high":,"snd_nxt":,"rcv_nxt":,"records":[]},"#;
    names.len() + words.iter().sum::<usize>() + bulk.map_or(0, of_bulk)
}

#[cfg(test)]
mod tests {
    use tutti_channel::FlowWord;
    use tutti_shm::layout::Geometry;

    use super::*;
    use crate::state::VIEWS_BYTES_MAX;

    fn message() -> Message {
        let (from, to, context) = (u32::MAX, u32::MAX, u32::MAX);
        let (tag, bytes, data) = (i32::MIN, u64::MAX, Some(String::new()));
        Message { from, to, kind: "announce".into(), context, tag, bytes, data }
    }

    fn flow(word: u32, bulk: Option<BulkIn>) -> Flow {
        let (from, to, snd_una, snd_high, snd_nxt, rcv_nxt) = (word, word, word, word, word, word);
        Flow { from, to, snd_una, snd_high, snd_nxt, rcv_nxt, bulk, records: Vec::new() }
    }

    #[test]
    fn snapshot_view_size_is_never_underestimated() {
        let of_message = serde_json::to_string(&message()).unwrap() + ",";
        assert!(of_message.len() <= MESSAGE_BYTES, "{} bytes: {of_message}", of_message.len());
        for word in [0, 9, 10, 12_345, u32::MAX] {
            for bulk in [None, Some(BulkIn { bytes: u64::MAX, here: 0 })] {
                let of_flow = serde_json::to_string(&flow(word, bulk)).unwrap() + ",";
                assert_eq!(json_bytes(&flow(word, bulk)), of_flow.len(), "{of_flow}");
            }
        }
    }

    /// Two ranks of 4096, each of which has received something from all others, and awaits an acknowledgement
    /// of one.
    #[test]
    fn snapshot_view_holds_flows_of_thousands_of_ranks() {
        const RANKS: u32 = 4096;
        let segment = Segment::create(Geometry {
            world_ranks: RANKS,
            local_ranks: 2,
            first_rank: 2,
            cores: 2,
            starter_pid: std::process::id(),
            node: 1,
            room: 0,
            universe: 0,
            nodes: 2,
            world_room: 0,
            job: 1,
        })
        .unwrap();
        for from in 0..2 {
            for to in (0..RANKS).filter(|to| !(2..4).contains(to)) {
                let mut words = [0_u64; WORDS];
                words[FlowWord::RcvNxt as usize] = 1_000_000;
                words[FlowWord::SndNxt as usize] = u64::from(to == 9);
                let at = segment.layout().flow_words_at(from, to as usize) as u64;
                rustix::io::pwrite(segment.descriptor(), &words.map(u64::to_ne_bytes).concat(), at).unwrap();
            }
        }
        let ends = |view: &View| view.flows.iter().map(|flow| (flow.from, flow.to)).collect::<Vec<_>>();
        let search = view(&segment, 0);
        assert_eq!((ends(&search), search.flows_omitted), (vec![(2, 9), (3, 9)], 0));
        assert!(search.acknowledged_omitted);
        let seen = view(&segment, 1 << 20);
        assert!(seen.flows_omitted > 0 && !seen.acknowledged_omitted, "a user's has no room for all");
    }

    #[test]
    fn snapshot_view_counts_what_has_no_room() {
        let json_bytes = json_bytes(&flow(7, None)) + 3 * MESSAGE_BYTES;
        let mut room = Room { messages: 9, data_bytes: 100, json_bytes, ..Room::default() };
        assert!(room.has_for(&flow(7, None)));
        let mut take = |data: &[u8]| room.take(message(), data).map(|message| message.data.unwrap().len());
        let long = [0; MESSAGE_BYTES / 2 - 1];
        assert_eq!(
            [take(&[]), take(&long), take(&[]), take(&long)],
            [Some(0), Some(2 * long.len()), None, None]
        );
        assert!(!room.has_for(&flow(7, None)));
        assert_eq!((room.omitted, room.flows_omitted), (2, 1));
    }

    #[test]
    fn snapshot_views_of_all_nodes_fit_a_message() {
        let shares = |data_bytes| [1, 7, 100].map(|ranks| View::bytes_max(ranks, 108, data_bytes));
        assert!(shares(1).iter().sum::<usize>() <= VIEWS_BYTES_MAX && shares(1)[0] > 400_000);
        assert_eq!(shares(0), [shares(1)[0], (1 << 20) + (112 << 10), (1 << 20) + (1600 << 10)]);
        assert_eq!(View::bytes_max(512, 1 << 14, 0), VIEWS_BYTES_MAX / 32);
        assert_eq!(View::fitting("{}".into(), 2), "{}");
        let view: View = serde_json::from_str(&View::fitting("{ }".into(), 2)).expect("a view");
        let trouble = "what it sees of its ranks takes 3 bytes, and there is room for 2";
        assert_eq!(view, View::of_trouble(trouble));
    }
}
