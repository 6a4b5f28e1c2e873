//! Starters: one process for each part of a job on this node. Its stdin is its end of the wire.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::fs::Mode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{Notify, mpsc};
use tutti_node::wire::{self, Decoder, Job, Kind};

use super::{Event, Happened, Happenings, JobId, Shell};
use crate::message::Launch;

pub(super) struct Starter {
    child: Child,
    writer: mpsc::UnboundedSender<Vec<u8>>,
    listen: Arc<Notify>,
}

impl Starter {
    pub(super) fn put(&self, kind: Kind, number: u32, payload: &[u8]) {
        let mut frame = Vec::new();
        wire::put(&mut frame, kind, number, payload);
        let _ = self.writer.send(frame);
    }

    pub(super) fn listen(&self) {
        self.listen.notify_one();
    }

    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// The end of the wire ends the job; the starter is waited for.
    pub(super) async fn end(mut self) {
        self.put(Kind::Kill, 0, &[]);
        drop(self.writer);
        self.listen.notify_one();
        let _ = tokio::task::spawn_blocking(move || self.child.wait()).await;
    }
}

impl Shell {
    pub(super) fn start(&mut self, job: JobId, launch: &Launch, mut described: Job) {
        described.front_end = std::process::id();
        match self.spawn(launch) {
            Ok((child, stream)) => {
                let (reader, mut wire_out) = stream.into_split();
                let (writer, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
                tokio::spawn(async move {
                    while let Some(bytes) = queue.recv().await {
                        if wire_out.write_all(&bytes).await.is_err() {
                            break;
                        }
                    }
                });
                let listen = Arc::new(Notify::new());
                tokio::spawn(hear(job, reader, Arc::clone(&listen), self.happenings.clone()));
                let mut frame = Vec::new();
                wire::put_json(&mut frame, Kind::Job, &described);
                let _ = writer.send(frame);
                self.starters.insert(job, Starter { child, writer, listen });
            }
            Err(text) => drop(self.happenings.send(Happened::Core(Event::StarterGone(job, text)))),
        }
    }

    fn spawn(&self, launch: &Launch) -> Result<(Child, UnixStream), String> {
        let (own, end) = std::os::unix::net::UnixStream::pair()
            .map_err(|error| format!("cannot open a socket: {error}"))?;
        own.set_nonblocking(true).map_err(|error| error.to_string())?;
        let stream = UnixStream::from_std(own).map_err(|error| error.to_string())?;
        let text = std::ffi::OsString::from;
        let mut command = Command::new(&self.settings.starter);
        command
            .arg("0")
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(end)))
            .stdout(Stdio::null())
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (text(name), text(value))))
            .current_dir(text(&launch.directory));
        let me = rustix::process::geteuid().as_raw();
        if launch.user.uid != me {
            if me != 0 {
                return Err(format!(
                    "the daemon of node {} is not root: it starts jobs of its owner only",
                    self.settings.name
                ));
            }
            command.gid(launch.user.gid).uid(launch.user.uid);
        }
        // Inherited, as all that the front end has; this thread starts nothing else in between.
        let before = rustix::process::umask(Mode::from_raw_mode(launch.umask));
        let child = command.spawn();
        rustix::process::umask(before);
        let child = child.map_err(|error| {
            let (starter, directory) = (self.settings.starter.display(), text(&launch.directory));
            format!(
                "cannot start {starter} in {} on node {}: {error}",
                directory.display(),
                self.settings.name
            )
        })?;
        Ok((child, stream))
    }

    /// A starter has closed its wire: it is dead or about to be.
    pub(super) fn bury(&mut self, job: JobId) {
        let Some(mut starter) = self.starters.remove(&job) else { return };
        let happenings = self.happenings.clone();
        tokio::task::spawn_blocking(move || {
            let how =
                starter.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            let text = format!("the starter died ({how}); the job is ended");
            let _ = happenings.send(Happened::Core(Event::StarterGone(job, text)));
        });
    }
}

/// Reads frames, as many at a time as came together, each time after the core has asked for them.
async fn hear(job: JobId, mut reader: OwnedReadHalf, listen: Arc<Notify>, happenings: Happenings) {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0_u8; 64 << 10];
    while let Ok(read) = reader.read(&mut bytes).await
        && read > 0
    {
        decoder.extend(&bytes[..read]);
        let mut frames = Vec::new();
        while let Ok(Some((head, payload))) = decoder.next_frame() {
            frames.push((head.kind, head.rank, payload.to_vec()));
        }
        if frames.is_empty() {
            continue;
        }
        if happenings.send(Happened::Core(Event::Starter(job, frames))).is_err() {
            return;
        }
        listen.notified().await;
    }
    let _ = happenings.send(Happened::StarterClosed(job));
}
