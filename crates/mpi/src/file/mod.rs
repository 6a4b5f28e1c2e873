//! Files (MPI chapter 14): what ranks read and write together.
//!
//! | module | what |
//! |---|---|
//! | [`opened`] | an open file as this process sees it: descriptor, view, pointers, hints |
//! | [`open`] | opens, closes and deletes files; sizes, info, atomic mode |
//! | [`views`], [`representation`] | what is shown of a file, and how data look in it |
//! | [`access`] | from the arguments of a call to an access: independent, collective, split, shared |
//! | [`independent`] | one rank's access |
//! | [`domains`], [`two_phase`] | collective access: who accesses what (pure), and the messages for it |
//! | [`moved`] | files of ranks that move |
//! | [`mod@pointer`] | the shared file pointer |
//! | [`hints`], [`system`] | info keys; all system calls |
//!
//! Nonblocking accesses of one rank are done when they are started. Collective ones are a task
//! ([`crate::collective::task`]), which a blocking call runs to its end, and progress otherwise.

pub mod access;
pub mod domains;
pub mod hints;
pub mod independent;
pub(crate) mod moved;
pub mod open;
pub mod opened;
pub mod pointer;
pub mod representation;
pub mod system;
pub mod two_phase;
pub mod views;

use std::collections::HashMap;

use crate::abi::*;
use crate::error::{Error, Result};
use crate::handle::{Kind, Slab};
use opened::File;

/// The files of a process.
#[derive(Debug)]
pub struct Files {
    open: Slab<File>,
    /// The requests of the tasks that keep shared pointers, by the communicators of their files.
    servers: HashMap<usize, u32>,
}

/// A call that reaches files.
pub trait HasFiles {
    /// Files.
    fn files(&self) -> &Files;

    /// Files, to be changed.
    fn files_mut(&mut self) -> &mut Files;
}

impl Default for Files {
    fn default() -> Self {
        Files { open: Slab::new(Kind::File), servers: HashMap::new() }
    }
}

impl Files {
    /// A file by handle.
    ///
    /// # Errors
    /// MPI_ERR_FILE when it names none.
    pub fn find(&self, handle: MPI_File) -> Result<&File> {
        self.open.find(handle.0).ok_or_else(|| bad_file(handle))
    }

    /// A file by handle, to be changed.
    ///
    /// # Errors
    /// MPI_ERR_FILE when it names none.
    pub fn find_mut(&mut self, handle: MPI_File) -> Result<&mut File> {
        self.open.find_mut(handle.0).ok_or_else(|| bad_file(handle))
    }

    /// The file whose ranks meet over a communicator, with its error handler.
    pub fn of_comm(&self, comm: MPI_Comm) -> Option<(MPI_File, MPI_Errhandler)> {
        let (index, file) = self.open.iter().find(|(_, file)| file.comm == comm)?;
        Some((MPI_File(self.open.handle(index)), file.errhandler))
    }

    /// How many tasks keep shared pointers.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Keeps a new file; gives its handle.
    fn keep(&mut self, file: File) -> MPI_File {
        let index = self.open.insert(file);
        MPI_File(self.open.handle(index))
    }

    /// Takes a file away, if it is there.
    fn take(&mut self, handle: MPI_File) -> Option<File> {
        self.open.index(handle.0).map(|index| self.open.remove(index))
    }
}

#[cold]
fn bad_file(handle: MPI_File) -> Error {
    let what = if handle == MPI_FILE_NULL { "is MPI_FILE_NULL" } else { "is closed or was never one" };
    Error::new(MPI_ERR_FILE, format_args!("file {:#x} {what}", handle.0))
}
