//! The board of this node ([`tutti_shm::board`]): refreshed from the main loop, and handed out on a socket of
//! its own, which takes no request: who connects gets the descriptor, open for reading only.
//!
//! What is on it every user of the machine may know: numbers of jobs, and how loaded nodes are.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::net::{UnixListener, UnixStream};
use tutti_os::load::{Meter, Traffic};
use tutti_shm::board::{self, Board, JobLines, NODE_UP, Node, NodeLines, Reader, Running};
use tutti_shm::local_socket;

use super::alarm::Alarm;
use crate::gang::now_ns;
use crate::members::NodeId;

/// Before the own refresh is due by this part of the time between two, the lines of a neighbour bring it
/// about.
const EARLY: u32 = 4;

/// The board as the main loop has it.
#[derive(Debug)]
pub(super) struct Keeper {
    nodes: NodeLines,
    reading: OwnedFd,
    /// For the lines of jobs, which the switch thread writes.
    own: Reader,
    meter: Meter,
    cores: u64,
    /// The network when it was last looked at, and when.
    before: Option<(Traffic, u64)>,
    highest: u64,
}

/// Socket of those who want the board, and when it is refreshed.
#[derive(Debug)]
pub(super) struct BoardSocket {
    listener: Option<UnixListener>,
    path: PathBuf,
    refresh: Duration,
    alarm: Alarm,
    due: Instant,
}

impl BoardSocket {
    /// Opens the socket beside the daemon's. Without it nobody gets the board.
    ///
    /// # Errors
    /// When there is no timer.
    pub(super) fn open(daemon: &Path, refresh_ms: u64) -> io::Result<Self> {
        let path = tutti_protocol::paths::board(daemon);
        let listener =
            listen(&path).inspect_err(|error| tracing::warn!("no board at {}: {error}", path.display())).ok();
        let refresh = Duration::from_millis(refresh_ms);
        Ok(BoardSocket { listener, path, refresh, alarm: Alarm::new()?, due: Instant::now() })
    }

    /// Lines of a neighbour have come. If the own refresh is due soon it comes now: a node then wakes once
    /// for both, and since all neighbours do so the nodes of a tree come to refresh together.
    pub(super) fn hasten(&mut self) {
        let now = Instant::now();
        if self.due <= now + self.refresh / EARLY {
            self.due = now;
        }
    }

    /// Somebody who wants the board, while anybody `is_open` to is let in; none: it is time to refresh it.
    pub(super) async fn next(&mut self, is_open: bool) -> Option<io::Result<UnixStream>> {
        let BoardSocket { listener, alarm, refresh, due, .. } = self;
        let until = due.saturating_duration_since(Instant::now());
        tokio::select! {
            accepted = accept(listener.as_ref()), if is_open => Some(accepted),
            () = alarm.ring(until) => {
                *due = Instant::now() + *refresh;
                None
            }
        }
    }
}

impl Drop for BoardSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The next one who connects; never anybody without a socket.
async fn accept(listener: Option<&UnixListener>) -> io::Result<UnixStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

/// Opens the listening socket: whoever has opened the daemon's own socket owns this one too.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    local_socket::let_descriptors_pass(listener.as_fd(), false);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

impl Keeper {
    /// A board, and its lines of jobs for the switch thread; none where the kernel gives none.
    pub(super) fn open(cores: u32, refresh_ms: u64) -> Option<(Self, JobLines)> {
        let made = Board::create(board::OF_DAEMON, refresh_ms)
            .and_then(|board| {
                let reading = board.reading_end()?;
                Ok((Reader::map(reading.as_fd())?, reading, board))
            })
            .inspect_err(|error| tracing::warn!("no board: {error}"));
        let (own, reading, board) = made.ok()?;
        let (nodes, jobs) = board.split();
        let meter = Meter::new();
        Some((Keeper { nodes, reading, own, meter, cores: cores.into(), before: None, highest: 0 }, jobs))
    }

    /// Measures this node, and which jobs have its processors.
    pub(super) fn measure(&mut self, jobs: u64) -> (Node, Running) {
        let (load, now_ns) = (self.meter.measure(), now_ns());
        let (before, before_ns) =
            self.before.replace((load.traffic, now_ns)).unwrap_or((load.traffic, now_ns));
        let passed_ms = (now_ns - before_ns) / 1_000_000;
        let in_second =
            |now: u64, before: u64| (now.saturating_sub(before) * 1000).checked_div(passed_ms).unwrap_or(0);
        let node = Node {
            updated_ns: now_ns,
            state: NODE_UP,
            cores: self.cores,
            runnable: load.runnable,
            load_milli: load.load_milli,
            memory_bytes: load.memory_bytes,
            memory_available_bytes: load.memory_available_bytes,
            memory_pressure: load.memory_pressure,
            bytes_in_s: in_second(load.traffic.bytes_in, before.bytes_in),
            bytes_out_s: in_second(load.traffic.bytes_out, before.bytes_out),
            dropped_s: in_second(load.traffic.dropped, before.dropped),
            retransmitted_s: in_second(load.traffic.retransmitted, before.retransmitted),
            generation: 0,
            jobs,
        };
        (node, self.own.running_here())
    }

    /// Writes a node's lines, measured so long ago.
    pub(super) fn show(&mut self, node: NodeId, (line, running): &(Node, Running), age_ms: u64) {
        self.highest = self.highest.max(u64::from(node.0) + 1);
        let updated_ns = now_ns().saturating_sub(age_ms * 1_000_000);
        self.nodes.write(node.0 as usize, &Node { updated_ns, ..*line });
        self.nodes.write_running(node.0 as usize, &Running { updated_ns, ..*running });
    }

    /// The network is congested until then.
    pub(super) fn show_congestion(&mut self, until_ns: u64) {
        self.nodes.publish_congestion(until_ns);
    }

    /// All lines of this time are there.
    pub(super) fn publish(&mut self, me: NodeId) {
        self.nodes.publish(me.0.into(), self.highest, now_ns());
    }

    /// Hands the board out and closes. Nobody waits: an empty socket takes so little at once.
    pub(super) fn hand_out(&self, stream: &UnixStream) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [self.reading.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let magic = board::MAGIC.to_le_bytes();
        // Who has gone wants no board.
        let _ = sendmsg(stream, &[io::IoSlice::new(&magic)], &mut control, SendFlags::NOSIGNAL);
    }
}
