//! Ranks that other ranks have asked for (MPI_Comm_spawn), between their fork and the moment when all of them
//! have become their programs, or one could not.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tutti_os::Failure;
use tutti_shm::spawn::Spawned;

/// Such ranks.
#[derive(Debug)]
pub struct Spawning {
    /// Where they are.
    pub place: Spawned,
    /// Those that could not become their programs.
    pub failed: Vec<Failure>,
    /// Its other ends are closed when all have become their programs, or are dead.
    failures: OwnedFd,
}

impl Spawning {
    /// Just forked.
    pub fn new(place: Spawned, failures: OwnedFd) -> Self {
        Spawning { place, failed: Vec::new(), failures }
    }

    /// To be polled, then given to [`Spawning::is_over`].
    pub fn failures(&self) -> BorrowedFd<'_> {
        self.failures.as_fd()
    }

    /// Whether it is known of all how they began.
    pub fn is_over(&mut self) -> bool {
        loop {
            let mut bytes = [0_u8; Failure::BYTES];
            match rustix::io::read(&self.failures, &mut bytes) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return false,
                Ok(Failure::BYTES) => self.failed.extend(Failure::decode(&bytes)),
                _ => return true,
            }
        }
    }
}
