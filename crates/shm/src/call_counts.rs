//! How many calls the ranks of a job have made, and messages they have sent, for the daemon of their node: it
//! sees by the calls what a filler costs them, and shows the messages.
//!
//! ```text
//! rank:   Endpoint::calls += 1, Endpoint::messages, in its own segment
//! daemon: opens the starter's segment for reading, CallCounts::of -> sum, now and then
//! ```
//!
//! The file is read, not mapped, and only words are taken from it: the job may write there what it likes, and
//! changes by that who fills beside it, and what is shown of it, nothing else.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::endpoint::Endpoint;
use crate::layout::{LOCAL_RANKS_MAX, Layout};
use crate::segment;

/// Name of the file.
pub const NAME: &str = "tutti-segment";

/// Sums over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Calls of MPI.
    pub calls: u64,
    /// Messages sent.
    pub messages: u64,
}

/// The segment of a job's ranks on this node.
#[derive(Debug)]
pub struct CallCounts {
    segment: OwnedFd,
    /// Ranks that the job began with here.
    ranks: u32,
    layout: Layout,
}

impl CallCounts {
    /// Of a segment that is open for reading. The caller has seen to whose it is, and that it is memory of
    /// the kernel's.
    ///
    /// # Errors
    /// When it is no segment of this version.
    pub fn of(segment: OwnedFd) -> io::Result<Self> {
        let (geometry, layout) = segment::read_layout(segment.as_fd())?;
        let ranks = geometry.local_ranks;
        assert!(ranks <= LOCAL_RANKS_MAX, "a geometry that was checked");
        Ok(CallCounts { segment, ranks, layout })
    }

    /// Of all of them together; 0 where it cannot be read.
    pub fn sum(&self) -> Sums {
        let bytes = self.ranks as usize * size_of::<Endpoint>();
        let mut endpoints = vec![0; bytes];
        if read_at(self.segment.as_fd(), self.layout.endpoint_at(0), &mut endpoints).is_err() {
            return Sums::default();
        }
        let sum = |offset: usize| {
            let word = |endpoint: &[u8]| {
                u64::from_ne_bytes(endpoint[offset..][..8].try_into().expect("eight bytes"))
            };
            endpoints.chunks_exact(size_of::<Endpoint>()).map(word).fold(0, u64::wrapping_add)
        };
        let (calls, messages) =
            (std::mem::offset_of!(Endpoint, calls), std::mem::offset_of!(Endpoint, messages));
        Sums { calls: sum(calls), messages: sum(messages) }
    }
}

/// Reads so many bytes of a file of ours.
pub(crate) fn read_at(file: BorrowedFd<'_>, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
    // SAFETY: the kernel writes no more than the slice has.
    let read = unsafe {
        let at = bytes.as_mut_ptr().cast();
        libc::pread(file.as_raw_fd(), at, bytes.len(), offset as libc::off_t)
    };
    match read {
        read if read < 0 => Err(io::Error::last_os_error()),
        read if read as usize == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::layout::Geometry;
    use crate::segment::Segment;

    #[test]
    fn call_counts_are_those_of_all_local_ranks() {
        let geometry = Geometry { world_ranks: 5, local_ranks: 3, first_rank: 1, ..Geometry::default() };
        let segment = Segment::create(geometry).unwrap();
        let counts = CallCounts::of(segment.descriptor().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(counts.sum(), Sums::default());
        for rank in 0..3 {
            let endpoint = segment.at::<Endpoint>(segment.layout().endpoint_at(rank));
            // SAFETY: an endpoint of a segment that is mapped.
            let endpoint = unsafe { endpoint.as_ref() };
            endpoint.calls.store(10_u64.pow(rank as u32), Ordering::Relaxed);
            endpoint.messages.store(2 * 10_u64.pow(rank as u32), Ordering::Relaxed);
        }
        assert_eq!(counts.sum(), Sums { calls: 111, messages: 222 });
        let other = crate::daemon_page::create_file("tutti-other").unwrap();
        assert!(CallCounts::of(other).is_err(), "zeros are no segment");
    }
}
