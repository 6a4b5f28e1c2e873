//! Records that a daemon keeps of its starters, for the daemon that takes its place: a file for each, which
//! only its owner may read (there is a token in it, and a user's environment).
//!
//! Writer: the daemon, when an order has changed; it removes the file when the job is over. What happens if
//! it stops right here: files are replaced as a whole, so the next daemon reads the old or the new one. A
//! machine that starts anew has no starters, and so files of none; they are removed. One beside the folder
//! has the daemon's own number ([`Manifest`]): what has no file, the daemon before did not begin. Jobs that
//! wait for nodes are in another folder, on the controller ([`super::filing`]).

use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tutti_os::cgroup::{self, PartGroup, PartPlace};
use tutti_os::stat::Stat;

use super::error::{ShellError, failed};
use super::script_files::Around;
use crate::core::record::StarterRecord;
use crate::message::JobId;

/// Files are written in pieces of so many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Content of the file of a starter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct File {
    /// Token that the starter must show to be taken back.
    pub token: u64,
    /// Process of the starter.
    pub pid: u32,
    /// When that was started, in clock ticks since boot: pids are used again.
    pub since: u64,
    /// Cgroup of the starter, if it could make one.
    pub cgroup: Option<PathBuf>,
    /// The cgroups that root's daemon has made for its part.
    #[serde(default)]
    pub group: Option<PartPlace>,
    /// For the core.
    pub record: Option<StarterRecord>,
    /// For the epilog of its part; none: it has none.
    #[serde(default)]
    pub around: Option<Around>,
}

impl File {
    /// Of a process that the daemon has not started.
    pub(super) fn of_none(pid: u32, since: u64) -> Self {
        File { token: 0, pid, since, cgroup: None, group: None, record: None, around: None }
    }
}

/// The folder of these files.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, ShellError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(failed(format!("make {}", path.display())))?;
        Ok(Folder(path.to_owned()))
    }

    fn file(&self, job: JobId) -> PathBuf {
        self.0.join(format!("{job}.json"))
    }

    /// Path of the file that has no name yet; there is one at a time.
    fn new_file(&self) -> PathBuf {
        self.0.join("new")
    }

    /// Of a job that has nodes a full disk costs the incarnation beyond the daemon's, and nothing else.
    ///
    /// # Errors
    /// When it is not written; the user need not know.
    pub(super) fn put(&self, job: JobId, file: &impl Serialize) -> io::Result<()> {
        self.begin(file).and_then(|()| self.name(job)).inspect_err(|error| {
            self.discard();
            tracing::error!("cannot write {}: {error}", self.file(job).display());
        })
    }

    /// Writes a file that has no name.
    fn begin(&self, file: &impl Serialize) -> io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let out = options.write(true).create(true).truncate(true).mode(0o600).open(self.new_file())?;
        // Piece by piece: a user's environment may be long, and is in memory once already.
        let mut pieces = io::BufWriter::with_capacity(PIECE_BYTES, out);
        serde_json::to_writer(&mut pieces, file)?;
        pieces.into_inner().map(drop).map_err(io::IntoInnerError::into_error)
    }

    /// Gives it the name of a job, whose file it replaces.
    fn name(&self, job: JobId) -> io::Result<()> {
        std::fs::rename(self.new_file(), self.file(job))
    }

    /// Discards the file that has no name: it is not wanted, or could not be written, and takes room that
    /// there is not.
    fn discard(&self) {
        let _ = std::fs::remove_file(self.new_file());
    }

    pub(super) fn remove(&self, job: JobId) {
        let _ = std::fs::remove_file(self.file(job));
    }

    /// The jobs' files of one kind. What is none is removed, with a line.
    pub(super) fn read_all<T: DeserializeOwned>(&self) -> Vec<(JobId, T)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let path = entry.path();
            let job = path.file_stem().and_then(|name| name.to_str()?.parse().ok()).map(JobId);
            let read = std::fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
            match (job, read) {
                (Some(job), Ok(file)) => found.push((job, file)),
                (job, read) => {
                    if let (Some(_), Err(error)) = (job, read) {
                        tracing::error!("{} is not read: {error}", path.display());
                    }
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
        found
    }

    /// All that an earlier daemon has left. What belongs to starters that are dead, cgroups with all that is
    /// in them, is removed.
    pub(super) fn sweep(&self) -> Vec<(JobId, File)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let path = entry.path();
            let job = path.file_stem().and_then(|name| name.to_str()?.parse().ok()).map(JobId);
            let file =
                std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<File>(&bytes).ok());
            match (job, file) {
                (Some(job), Some(mut file)) if file.record.is_some() => {
                    let alive = started(file.pid) == Some(file.since);
                    file.record.iter_mut().for_each(|record| record.alive = alive);
                    if !alive {
                        file.cgroup
                            .iter()
                            .filter(|path| is_of_starter(path))
                            .for_each(|path| cgroup::remove(path));
                        let group = file.group.as_ref().and_then(PartGroup::reopen);
                        remove_blocking(group.as_ref());
                    }
                    found.push((job, file));
                }
                _ => drop(std::fs::remove_file(&path)),
            }
        }
        found
    }
}

/// Owner of the files: what is in a file beside the folder.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    /// The daemon's incarnation.
    incarnation: u64,
    /// The kernel's, which is another when the machine has been started anew.
    boot: String,
}

/// Says that whatever the daemon has begun and is not over has left a file. A starter is told its job by a
/// task that runs after all that the daemon does at once, and so after the file has been written; if one
/// cannot be written this one is removed.
#[derive(Debug)]
pub(super) struct Manifest(PathBuf);

impl Manifest {
    /// Takes over what the daemon before has left in the folder; its number, if that is all.
    pub(super) fn take(parts: &Path, incarnation: u64) -> (Self, Option<u64>) {
        let manifest = Manifest(parts.with_extension("life"));
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let read = || serde_json::from_slice::<Owner>(&std::fs::read(&manifest.0).ok()?).ok();
        let before = read().filter(|before| !boot.is_empty() && before.boot == boot);
        // What is half written says nothing; what is not replaced would say it of the daemon before.
        let written = serde_json::to_vec(&Owner { incarnation, boot })
            .map_err(io::Error::from)
            .and_then(|bytes| std::fs::write(&manifest.0, bytes));
        if written.is_err() {
            manifest.renounce();
        }
        (manifest, before.map(|before| before.incarnation))
    }

    /// Jobs may have been begun here from now on of which there is no file.
    pub(super) fn renounce(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Whether it has the name of a starter's cgroup. A file that was damaged may name any other.
fn is_of_starter(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&cgroup::name("")))
}

/// When a living process was started, in clock ticks since boot.
pub(super) fn started(pid: u32) -> Option<u64> {
    let stat = Stat::of(Pid::from_raw(i32::try_from(pid).ok()?)?)?;
    (!stat.is_dead()).then_some(stat.since)
}

/// Ends all of a part, and removes its cgroups; says so if they stay.
pub(super) fn remove_blocking(group: Option<&PartGroup>) {
    if let Some(Err(left)) = group.map(PartGroup::remove_blocking) {
        tracing::warn!("a cgroup of a job that is over stays: {left}");
    }
}
