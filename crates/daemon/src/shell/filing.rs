//! Files of jobs that wait for nodes, written by a thread of its own: a disk takes some milliseconds to have
//! something for good, or a second, and the loop waits for nobody.
//!
//! ```text
//! put    -> written -> in force -> on the disk -> done: the user is notified     (in the order of puts)
//! remove -> what is not in force never is; what is loses it, before remove returns
//! ```
//!
//! Records that are put while the disk is waited for are written at once ([`groups`]), and the disk is waited
//! for once for all of them: the tasks of an array wait for it a few times, not a thousand. Records behind
//! others of the same file wait for the file alone, and not for its name too.
//!
//! So an order that leaves behind a `remove` never meets the file of its job again. What happens if it stops
//! right here: the record of a job is there as a whole or not at all, and nobody has been notified of one
//! that is not.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::ShellError;
use crate::core::record::Queued;
use crate::message::JobId;

mod groups;

use groups::{Groups, Settle, ToSync, Writing};

/// Pause in which nothing is put, after which records that have lost their force are brought to the disk.
const PAUSE: Duration = if cfg!(test) { Duration::from_millis(1) } else { Duration::from_secs(1) };

/// The same where records are put all the time.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// The thread's desk.
#[derive(Debug)]
pub(super) struct Filing(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    folder: PathBuf,
    stack: Mutex<Stack>,
    bell: Condvar,
}

/// A job whose record is to be written; none: it is not wanted any more.
type Put = (JobId, Option<Box<Queued>>);

#[derive(Debug)]
struct Stack {
    groups: Groups,
    waiting: VecDeque<Put>,
    /// Jobs whose records are being written, and wanted, until they are in force.
    written: BTreeSet<JobId>,
    over: bool,
}

/// The folder of jobs that wait, before its thread has begun.
#[derive(Debug)]
pub(super) struct Folder(PathBuf, Groups);

impl Folder {
    /// Opens the folder; returns the jobs that waited when an earlier controller ended.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<(JobId, Queued)>), ShellError> {
        Groups::open(path).map(|(groups, queued)| (Folder(path.to_owned(), groups), queued))
    }
}

impl Filing {
    /// Begins; `sync` brings what was written to the disk, of a file or of the folder, `done` is called for
    /// each put, in their order, both by the thread.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(super) fn start(
        Folder(folder, groups): Folder,
        sync: impl Fn(&File) -> io::Result<()> + Send + 'static,
        done: impl Fn(JobId, Result<(), String>) + Send + 'static,
    ) -> io::Result<Self> {
        let stack = Stack { groups, waiting: VecDeque::new(), written: BTreeSet::new(), over: false };
        let desk = Arc::new(Desk { folder, stack: Mutex::new(stack), bell: Condvar::new() });
        let filing = Filing(Arc::clone(&desk));
        std::thread::Builder::new().name("tutti-filing".into()).spawn(move || {
            let mut settled = Instant::now();
            while let Some(first) = desk.next(&mut settled, &sync) {
                let mut group = vec![first];
                let filed = desk.write(&mut group, true, &sync);
                if group.len() > 1 && filed.is_err() && !desk.stack().written.is_empty() {
                    // One of them may be too long for the disk: the others are written all the same.
                    for put in group {
                        let job = put.0;
                        done(job, desk.write(&mut vec![put], false, &sync));
                    }
                } else {
                    group.into_iter().for_each(|(job, _)| done(job, filed.clone()));
                }
            }
        })?;
        Ok(filing)
    }

    /// The record of a job is to be written.
    pub(super) fn put(&self, job: JobId, queued: Box<Queued>) {
        self.0.stack().waiting.push_back((job, Some(queued)));
        self.0.bell.notify_one();
    }

    /// Removes the record of the job; none comes of what was put before.
    pub(super) fn remove(&self, job: JobId) {
        let mut stack = self.0.stack();
        stack.written.remove(&job);
        let unwanted = stack.waiting.iter_mut().filter(|(waiting, _)| *waiting == job);
        unwanted.for_each(|(_, queued)| *queued = None);
        stack.groups.remove(job);
        if stack.groups.changed() > 0 {
            self.0.bell.notify_one();
        }
    }
}

impl Drop for Filing {
    /// Ends the thread; what is being written is not waited for: nobody has been notified of it.
    fn drop(&mut self) {
        let mut stack = self.0.stack();
        stack.over = true;
        stack.groups.close();
        self.0.bell.notify_one();
    }
}

impl Desk {
    fn stack(&self) -> MutexGuard<'_, Stack> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first record of a group. While there is none, what has lost its force is brought to the disk: a
    /// power cut brings no job back that is over for long.
    fn next(&self, settled: &mut Instant, sync: impl Fn(&File) -> io::Result<()>) -> Option<Put> {
        loop {
            let is_idle =
                |stack: &mut Stack| stack.waiting.is_empty() && stack.groups.changed() == 0 && !stack.over;
            let stack = self.bell.wait_while(self.stack(), is_idle);
            let mut stack = stack.unwrap_or_else(PoisonError::into_inner);
            if stack.over {
                return None;
            }
            let changed = stack.groups.changed();
            if changed == 0 || settled.elapsed() < SETTLE_MAX {
                if let Some(next) = stack.take() {
                    return Some(next);
                }
                let is_idle = |stack: &mut Stack| stack.waiting.is_empty() && !stack.over;
                let waited = self.bell.wait_timeout_while(stack, PAUSE, is_idle);
                let (stack, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                drop(stack);
                if !waited.timed_out() {
                    continue;
                }
            } else {
                drop(stack);
            }
            for _ in 0..changed {
                self.settle(&sync);
                // Who submits is not to wait for all of them.
                let stack = self.stack();
                if stack.over || !stack.waiting.is_empty() {
                    break;
                }
            }
            *settled = Instant::now();
        }
    }

    /// Brings a group to the disk of which records have lost their force, or writes anew what is left of it.
    fn settle(&self, sync: impl Fn(&File) -> io::Result<()>) {
        let next = self.stack().groups.settle();
        let settled = match next {
            Some(Settle::Sync(path)) => File::open(path).and_then(|file| sync(&file)),
            Some(Settle::Gather(group, path)) => self.gather(group, &path, sync),
            None => Ok(()),
        };
        if let Err(error) = settled {
            // It may have been removed meanwhile.
            tracing::debug!("a group of jobs that wait is not settled: {error}");
        }
    }

    /// Writes anew what is in force of a group, if that is little of it. The record of a job that goes
    /// meanwhile gets no force; until the new ones are on the disk the old ones have theirs. Losses of force
    /// are brought to the disk by the old file, or by the folder, which has it no longer.
    fn gather(&self, group: u64, path: &Path, sync: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
        let old = File::open(path)?;
        let records = groups::sparse(path)?;
        let gathered = if records.is_empty() { Ok(()) } else { self.try_gather(group, &records, &sync) };
        if gathered.is_err() {
            self.stack().groups.give_up();
        }
        if records.is_empty() || gathered.is_err() {
            sync(&old)?
        } else {
            sync(&File::open(&self.folder)?)?
        }
        gathered
    }

    fn try_gather(
        &self,
        group: u64,
        records: &[(u64, JobId, Queued)],
        sync: impl Fn(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut writing = self.stack().groups.begin()?;
        for (_, job, queued) in records {
            writing.put(*job, queued)?;
        }
        let written = writing.finish()?;
        let mut stack = self.stack();
        let still = records.iter().filter(|(at, job, _)| stack.groups.is_at(*job, group, *at));
        let wanted: BTreeSet<JobId> = still.map(|(_, job, _)| *job).collect();
        let to_sync = stack.groups.enforce(&written, &wanted, true)?;
        drop(stack);
        self.bring_to_disk(&to_sync, sync)?;
        self.stack().groups.keep(&written, true);
        Ok(())
    }

    /// Writes a group, and takes into it what else waits, if it is to.
    fn write(
        &self,
        group: &mut Vec<Put>,
        takes_more: bool,
        sync: impl Fn(&File) -> io::Result<()>,
    ) -> Result<(), String> {
        self.try_write(group, takes_more, sync).map_err(|error| {
            let mut stack = self.stack();
            let text = format!("cannot write {}: {error}", stack.groups.next_file().display());
            let wanted = stack.groups.give_up();
            stack.written.extend(wanted);
            tracing::error!("{text}");
            text
        })
    }

    /// A job that no front end awaits is there after a power cut too: it is on the disk, with the name of its
    /// file, before anybody is notified.
    fn try_write(
        &self,
        group: &mut Vec<Put>,
        takes_more: bool,
        sync: impl Fn(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut writing: Option<Writing> = None;
        let (mut at, mut for_good) = (0, false);
        while let Some((job, queued)) = group.get(at) {
            if let Some(queued) = queued {
                for_good |= queued.launch.detached;
                let out = match writing.take() {
                    Some(out) => writing.insert(out),
                    None => writing.insert(self.stack().groups.begin()?),
                };
                out.put(*job, queued)?;
            }
            at += 1;
            if at == group.len() && takes_more && writing.as_ref().is_none_or(Writing::has_room) {
                let more = self.stack().take_beside(group);
                group.extend(more);
            }
        }
        let Some(writing) = writing else { return Ok(()) };
        let written = writing.finish()?;
        let mut stack = self.stack();
        let wanted: BTreeSet<JobId> =
            group.iter().map(|(job, _)| *job).filter(|job| stack.written.contains(job)).collect();
        let is_to_stay = for_good && !wanted.is_empty();
        let to_sync = stack.groups.enforce(&written, &wanted, is_to_stay)?;
        stack.written.retain(|job| !wanted.contains(job));
        drop(stack);
        if is_to_stay {
            self.bring_to_disk(&to_sync, sync)?;
        }
        self.stack().groups.keep(&written, is_to_stay);
        Ok(())
    }

    fn bring_to_disk(&self, to_sync: &ToSync, sync: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
        sync(&to_sync.file)?;
        if to_sync.has_new_name { sync(&File::open(&self.folder)?) } else { Ok(()) }
    }
}

impl Stack {
    /// The next record.
    fn take(&mut self) -> Option<Put> {
        let next = self.waiting.pop_front()?;
        self.written.extend(next.1.as_ref().map(|_| next.0));
        Some(next)
    }

    /// The next record that is of none of these jobs.
    fn take_beside(&mut self, group: &[Put]) -> Option<Put> {
        let next = self.waiting.front()?.0;
        if group.iter().any(|(job, _)| *job == next) { None } else { self.take() }
    }
}

/// For [`Filing::start`]. Some file systems know no such thing for a folder.
pub(super) fn sync(file: &File) -> io::Result<()> {
    let is_folder = file.metadata()?.is_dir();
    match if is_folder { file.sync_all() } else { file.sync_data() } {
        Err(error)
            if is_folder
                && matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

#[cfg(test)]
pub(super) mod tests;
