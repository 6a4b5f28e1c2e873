//! Writers of output files: one process for each job that was submitted here with files, its user's
//! (`tutti_protocol::writer`). Its stdin is its wire, its stdout what it locks.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc;
use tutti_os::stderr::print_line;
use tutti_protocol::wire::{self, Decoder, Kind};
use tutti_protocol::writer::{Identity, Open, Opened};

use super::orphans::{KILLED_MAX, Wards, await_end_blocking};
use super::{Event, JobId, Shell, ShellEvent, ShellEvents};
use crate::core::event::WriterEvent;
use crate::message::User;

/// A writer whose wire has ended, and which stands in a write, is killed after this time.
const DYING_MAX: Duration = Duration::from_secs(30);
/// Bound of what a writer says at a time, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

pub(super) type Writers = HashMap<JobId, Writer>;

pub(super) struct Writer {
    number: u64,
    frames: mpsc::UnboundedSender<Vec<u8>>,
}

impl Shell {
    /// Starts the writer of a job and tells it its files. One that this daemon has started before has ended,
    /// or is about to.
    pub(super) fn open_files(&mut self, job: JobId, user: User, groups: &[u32], mut open: Open) {
        let me = rustix::process::geteuid().as_raw();
        if user.uid != me && me != 0 {
            let name = &self.settings.node.name;
            let text = format!("the daemon of node {name} is not root: it writes files of its owner only");
            return self.forward_writer_event(job, WriterEvent::Opened(Opened::Refused(text)));
        }
        open.identity =
            (user.uid != me).then(|| Identity { uid: user.uid, gid: user.gid, groups: groups.to_vec() });
        let lock = self.journals.lock(job);
        open.locks = lock.is_some();
        match self.spawn_writer(lock) {
            Ok((child, stream)) => {
                let number = self.number();
                self.wards.add(child.id());
                let (reader, mut writer) = stream.into_split();
                let (frames, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
                tokio::spawn(async move {
                    while let Some(bytes) = queue.recv().await {
                        if writer.write_all(&bytes).await.is_err() {
                            break;
                        }
                    }
                });
                let reaped = (child, self.wards.clone());
                tokio::spawn(listen(job, number, reader, reaped, self.shell_events.clone()));
                let mut frame = Vec::new();
                wire::put_json(&mut frame, Kind::Files, &open);
                let _ = frames.send(frame);
                self.writers.insert(job, Writer { number, frames });
            }
            Err(text) => self.forward_writer_event(job, WriterEvent::Gone(text)),
        }
    }

    /// A writer has said something; it counts if it is the job's present one.
    pub(super) fn handle_writer_event(
        &mut self,
        job: JobId,
        number: u64,
        event: WriterEvent,
    ) -> Option<Event> {
        self.writers.get(&job).filter(|writer| writer.number == number)?;
        if matches!(event, WriterEvent::Gone(_)) {
            self.writers.remove(&job);
        }
        Some(Event::Writer(job, event))
    }

    /// Behind what happens now.
    fn forward_writer_event(&self, job: JobId, event: WriterEvent) {
        let _ = self.shell_events.send(ShellEvent::Core(Event::Writer(job, event)));
    }

    pub(super) fn write_files(&self, job: JobId, frames: Vec<u8>) {
        if let Some(writer) = self.writers.get(&job) {
            let _ = writer.frames.send(frames);
        }
    }

    fn spawn_writer(&self, lock: Option<std::fs::File>) -> Result<(Child, UnixStream), String> {
        let (own, end) = std::os::unix::net::UnixStream::pair()
            .map_err(|error| format!("cannot open a socket: {error}"))?;
        own.set_nonblocking(true).map_err(|error| error.to_string())?;
        let stream = UnixStream::from_std(own).map_err(|error| error.to_string())?;
        // It becomes the user itself: no program of the user's, nor any name that the user gave, is here yet.
        let child = Command::new(&self.settings.node.starter)
            .arg("writer")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(end)))
            .stdout(lock.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null())
            .spawn();
        let starter = self.settings.node.starter.display();
        child.map(|child| (child, stream)).map_err(|error| format!("cannot start {starter}: {error}"))
    }
}

/// Until the writer has closed its wire; then it is reaped.
async fn listen(
    job: JobId,
    number: u64,
    mut reader: OwnedReadHalf,
    (child, wards): (Child, Wards),
    shell_events: ShellEvents,
) {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0; 16 << 10];
    let why = loop {
        let waiting = decoder.waiting();
        let event = match decoder.next_frame() {
            Ok(Some((header, payload))) => match header.kind {
                Kind::Opened => serde_json::from_slice(payload).map(WriterEvent::Opened).ok(),
                Kind::Written => serde_json::from_slice(payload).map(WriterEvent::Written).ok(),
                _ => None,
            },
            Ok(None) if waiting > ANSWER_BYTES_MAX => None,
            Ok(None) => match reader.read(&mut bytes).await {
                Ok(read) if read > 0 => {
                    decoder.extend(&bytes[..read]);
                    continue;
                }
                _ => break "the writer of the output has ended",
            },
            Err(_) => None,
        };
        let Some(event) = event else { break "the writer broke its protocol" };
        if shell_events.send(ShellEvent::Writer(job, number, event)).is_err() {
            break "the daemon has ended";
        }
    };
    // What it may still have to say concerns nobody, and a write to us would be its error.
    drop(reader);
    let how = tokio::task::spawn_blocking(move || reap_blocking(child, &wards)).await.unwrap_or_default();
    let text = format!("{why} ({how})");
    let _ = shell_events.send(ShellEvent::Writer(job, number, WriterEvent::Gone(text)));
}

/// How it has ended; one that does not is killed.
fn reap_blocking(mut child: Child, wards: &Wards) -> String {
    let process = Pid::from_raw(child.id() as i32).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    if let Some(Ok(process)) = process
        && !await_end_blocking(&process, DYING_MAX)
    {
        print_line(format_args!("tuttid: the writer {} does not end, it is killed", child.id()));
        let _ = child.kill();
        // It may be in a file system that hangs.
        if !await_end_blocking(&process, KILLED_MAX) {
            wards.give_up(child.id());
            return "it does not die".into();
        }
    }
    let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    wards.remove(child.id());
    how
}
