//! Statuses: five integers there, eight here.

use crate::abi::*;
use crate::roles;
use core::ffi::c_int;

/// MPICH's status.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Status {
    count_low: c_int,
    /// The high part of the count; the lowest bit says that the operation was cancelled.
    count_high_and_cancelled: c_int,
    MPI_SOURCE: c_int,
    MPI_TAG: c_int,
    MPI_ERROR: c_int,
}

const _: () = assert!(size_of::<Status>() == 20);

/// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE.
const IGNORE: usize = 1;
/// A number that ours does not write into a source or an error.
const UNWRITTEN: c_int = c_int::MIN + 77;

impl Status {
    /// MPICH's of ours.
    pub(crate) fn of(ours: &MPI_Status) -> Status {
        let mut theirs =
            Status { count_low: 0, count_high_and_cancelled: 0, MPI_SOURCE: 0, MPI_TAG: 0, MPI_ERROR: 0 };
        // SAFETY: it is here.
        unsafe { Status::put(&mut theirs, ours) };
        theirs
    }

    /// Ours of it.
    pub(crate) fn to_ours(self) -> MPI_Status {
        let high = self.count_high_and_cancelled as u32;
        MPI_Status {
            MPI_SOURCE: roles::in_rank(self.MPI_SOURCE),
            MPI_TAG: roles::in_tag(self.MPI_TAG),
            MPI_ERROR: roles::in_error(self.MPI_ERROR),
            MPI_internal: [self.count_low, (high >> 1) as c_int, (high & 1) as c_int, 0, 0],
        }
    }

    /// Writes what ours has written.
    unsafe fn put(place: *mut Status, ours: &MPI_Status) {
        let [low, high, cancelled, ..] = ours.MPI_internal;
        // SAFETY: the caller gives the place of a status.
        unsafe {
            if ours.MPI_SOURCE != UNWRITTEN {
                (*place).count_low = low;
                (*place).count_high_and_cancelled = high << 1 | c_int::from(cancelled != 0);
                (*place).MPI_SOURCE = roles::out_rank(ours.MPI_SOURCE);
                (*place).MPI_TAG = roles::out_tag(ours.MPI_TAG);
            }
            if ours.MPI_ERROR != UNWRITTEN {
                (*place).MPI_ERROR = roles::out_error(ours.MPI_ERROR);
            }
        }
    }
}

const fn unwritten() -> MPI_Status {
    MPI_Status { MPI_SOURCE: UNWRITTEN, MPI_TAG: 0, MPI_ERROR: UNWRITTEN, MPI_internal: [0; 5] }
}

/// A status that a call reads.
pub(crate) struct Given {
    is_null: bool,
    ours: MPI_Status,
}

impl Given {
    #[inline]
    pub(crate) unsafe fn new(theirs: *const Status) -> Self {
        let is_null = theirs.addr() <= IGNORE;
        // SAFETY: the caller gives a status, or an address that is none.
        let ours = if is_null { MPI_Status::default() } else { unsafe { (*theirs).to_ours() } };
        Given { is_null, ours }
    }

    #[inline]
    pub(crate) fn address(&self) -> *const MPI_Status {
        if self.is_null { core::ptr::null() } else { &self.ours }
    }
}

/// A status that a call writes.
pub(crate) struct Place {
    place: *mut Status,
    ours: MPI_Status,
}

impl Place {
    /// With `changes` the call keeps what it does not set.
    #[inline]
    pub(crate) unsafe fn new(place: *mut Status, changes: bool) -> Self {
        let ours = match changes && place.addr() > IGNORE {
            // SAFETY: the caller gives a status.
            true => unsafe { (*place).to_ours() },
            false => unwritten(),
        };
        Place { place, ours }
    }

    /// The pointer that our function gets: a null pointer ignores the status.
    #[inline]
    pub(crate) fn address(&mut self) -> *mut MPI_Status {
        if self.place.addr() <= IGNORE { MPI_STATUS_IGNORE } else { &mut self.ours }
    }

    #[inline]
    pub(crate) unsafe fn put(self) {
        if self.place.addr() > IGNORE {
            // SAFETY: as in `new`.
            unsafe { Status::put(self.place, &self.ours) }
        }
    }
}

/// As many need no memory of their own.
const FEW: usize = 32;

/// Statuses that a call writes.
pub(crate) struct Statuses {
    place: *mut Status,
    few: [MPI_Status; FEW],
    many: Vec<MPI_Status>,
    room: usize,
}

impl Statuses {
    #[inline]
    pub(crate) fn new(place: *mut Status, room: c_int) -> Self {
        let room = if place.addr() <= IGNORE { 0 } else { usize::try_from(room).unwrap_or(0) };
        let many = if room > FEW { vec![unwritten(); room] } else { Vec::new() };
        Statuses { place, few: [const { unwritten() }; FEW], many, room }
    }

    #[inline]
    fn slice(&mut self) -> &mut [MPI_Status] {
        if self.room > FEW { &mut self.many } else { &mut self.few }
    }

    #[inline]
    pub(crate) fn address(&mut self) -> *mut MPI_Status {
        if self.place.addr() <= IGNORE { MPI_STATUSES_IGNORE } else { self.slice().as_mut_ptr() }
    }

    /// Gives the first `count`, if ours has written them.
    #[inline]
    pub(crate) unsafe fn put(mut self, count: c_int) {
        let (place, count) = (self.place, usize::try_from(count).unwrap_or(0).min(self.room));
        for (at, ours) in self.slice().iter().enumerate().take(count) {
            // SAFETY: the caller's array has so many elements.
            unsafe { Status::put(place.add(at), ours) };
        }
    }
}
