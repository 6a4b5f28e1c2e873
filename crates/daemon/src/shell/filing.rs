//! Files of jobs that wait for nodes, written by a thread of its own: a disk takes some milliseconds to have
//! something for good, or a second, and the loop waits for nobody.
//!
//! ```text
//! put    -> written, on the disk -> it has its name -> the name on the disk -> done: the user is told     (in the order of puts)
//! remove -> what has no name yet gets none; what has one loses it, before remove returns
//! ```
//!
//! So an order that leaves behind a `remove` never meets the file of its job again. What happens if it stops
//! right here: a file is there as a whole or not at all, and nobody has been told of one that is not.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::records::Folder;
use crate::core::record::Queued;
use crate::message::JobId;

/// The thread's desk.
#[derive(Debug)]
pub(super) struct Filing(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    folder: Folder,
    stack: Mutex<Stack>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Stack {
    /// Jobs whose files are to be written; none: the file is not wanted any more.
    waiting: VecDeque<(JobId, Option<Box<Queued>>)>,
    /// Job whose file is being written, until it has its name.
    written: Option<JobId>,
    over: bool,
}

impl Filing {
    /// Begins; `sync` brings what was written to the disk, of a file or of the folder, `done` is called for
    /// each put, in their order, both by the thread.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(super) fn start(
        folder: Folder,
        sync: impl Fn(&File) -> io::Result<()> + Send + 'static,
        done: impl Fn(JobId, Result<(), String>) + Send + 'static,
    ) -> io::Result<Self> {
        let desk = Arc::new(Desk { folder, stack: Mutex::default(), bell: Condvar::new() });
        let filing = Filing(Arc::clone(&desk));
        std::thread::Builder::new().name("tutti-filing".into()).spawn(move || {
            while let Some((job, queued)) = desk.next() {
                let filed = queued.map_or(Ok(()), |queued| desk.write(job, &queued, &sync));
                done(job, filed);
            }
        })?;
        Ok(filing)
    }

    /// The file of a job is to be written.
    pub(super) fn put(&self, job: JobId, queued: Box<Queued>) {
        self.0.stack().waiting.push_back((job, Some(queued)));
        self.0.bell.notify_one();
    }

    /// Removes the file of the job; none comes of what was put before.
    pub(super) fn remove(&self, job: JobId) {
        let mut stack = self.0.stack();
        stack.written = stack.written.filter(|written| *written != job);
        let unwanted = stack.waiting.iter_mut().filter(|(waiting, _)| *waiting == job);
        unwanted.for_each(|(_, queued)| *queued = None);
        self.0.folder.remove(job);
    }
}

impl Drop for Filing {
    /// Ends the thread; what is being written is not waited for: nobody has been told of it.
    fn drop(&mut self) {
        self.0.stack().over = true;
        self.0.bell.notify_one();
    }
}

impl Desk {
    fn stack(&self) -> MutexGuard<'_, Stack> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<(JobId, Option<Box<Queued>>)> {
        let is_idle = |stack: &mut Stack| stack.waiting.is_empty() && !stack.over;
        let stack = self.bell.wait_while(self.stack(), is_idle);
        let mut stack = stack.unwrap_or_else(PoisonError::into_inner);
        let next = stack.waiting.pop_front().filter(|_| !stack.over)?;
        stack.written = next.1.as_ref().map(|_| next.0);
        Some(next)
    }

    /// One that nobody waits for is there after a power cut too: on the disk before it has its name, and the
    /// name before anybody is told.
    fn write(
        &self,
        job: JobId,
        queued: &Queued,
        sync: impl Fn(&File) -> io::Result<()>,
    ) -> Result<(), String> {
        let (folder, for_good) = (&self.folder, queued.launch.detached);
        let write = || {
            let file = folder.begin(queued)?;
            if for_good {
                sync(&file)?;
            }
            let mut stack = self.stack();
            if stack.written.take() != Some(job) {
                folder.discard();
                return Ok(());
            }
            folder.name(job)?;
            drop(stack);
            if for_good { sync(&folder.open_folder()?) } else { Ok(()) }
        };
        write().map_err(|error: io::Error| {
            folder.discard();
            let text = format!("cannot write {}: {error}", folder.file(job).display());
            tracing::error!("{text}");
            text
        })
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
mod tests;
