//! The reductions among collective calls: their arguments checked and translated.

use core::ffi::{c_int, c_void};

use tutti_datatype::Buffer;

use super::{Arguments, Integers, Root, Work, checked_root, in_place, not_in_place, one_memory};
use crate::abi::*;
use crate::collective::op::Reducer;
use crate::comm::Comm;
use crate::datatype::Data;
use crate::datatype::checked_count;
use crate::error::{Error, Result, check};

/// The arguments that all reductions have.
#[derive(Clone, Copy, Debug)]
pub struct ReductionArguments {
    /// sendbuf
    pub send: *const c_void,
    /// recvbuf
    pub receive: *mut c_void,
    /// count
    pub count: i64,
    /// datatype
    pub datatype: MPI_Datatype,
    /// op
    pub op: MPI_Op,
}

impl ReductionArguments {
    /// As the calls have them.
    #[inline(always)]
    pub fn new(
        send: *const c_void,
        receive: *mut c_void,
        count: impl Into<i64>,
        datatype: MPI_Datatype,
        op: MPI_Op,
    ) -> Self {
        ReductionArguments { send, receive, count: count.into(), datatype, op }
    }
}

/// The arguments of a reduction.
#[derive(Debug)]
pub struct Reduction {
    /// Operation and type.
    pub reducer: Reducer,
    /// Own contribution; the same address as `receive` when in place.
    pub send: *const u8,
    /// Where the result goes; nowhere when null.
    pub receive: *mut u8,
    /// Elements.
    pub count: usize,
    /// Bytes that travel.
    pub bytes: usize,
    /// The call said MPI_IN_PLACE.
    pub is_in_place: bool,
}

impl Reduction {
    /// Elements at an address, as they travel: as they lie in memory for a predefined operation, else packed.
    pub fn elements(&self, at: *const u8, count: usize) -> Buffer {
        let datatype = &self.reducer.datatype;
        if self.reducer.kernel().is_some() {
            Buffer::contiguous(at.cast_mut(), count * datatype.extent as usize)
        } else {
            datatype.buffer(at.cast_mut(), count).expect("the size of all elements was checked")
        }
    }

    /// Bytes of an element that travel.
    #[inline(always)]
    pub fn bytes_per_element(&self) -> usize {
        let datatype = &self.reducer.datatype;
        if self.reducer.kernel().is_some() { datatype.extent as usize } else { datatype.size }
    }

    /// All elements at an address.
    #[inline(always)]
    pub fn buffer_at(&self, at: *const u8) -> Buffer {
        self.elements(at, self.count)
    }

    /// Own contribution.
    #[inline(always)]
    pub fn contribution(&self) -> Buffer {
        self.buffer_at(self.send)
    }

    /// The address of element `index` behind `at`.
    pub fn element(&self, at: *const u8, index: usize) -> *mut u8 {
        at.wrapping_offset(index as isize * self.reducer.datatype.extent).cast_mut()
    }
}

impl Arguments<'_> {
    /// The arguments of a reduction whose result this process gets, or not.
    #[inline(always)]
    fn reduction(
        &self,
        comm: &Comm,
        arguments: ReductionArguments,
        gets: bool,
        gives: bool,
    ) -> Result<Reduction> {
        let ReductionArguments { send, receive, count, datatype, op } = arguments;
        let reducer = self.colls.reducer(self.types, op, datatype)?;
        let in_place = gets && in_place(comm, send, "sendbuf")?;
        if gives && !in_place {
            not_in_place(send, "sendbuf")?;
            self.types.buffer(Data::new(send, count, datatype))?;
        }
        let elements = checked_count(count)?;
        if gets {
            not_in_place(receive, "recvbuf")?;
            self.types.buffer(Data::new(receive, count, datatype))?;
        }
        let is_one = gets && gives && !in_place && send == receive.cast_const() && elements > 0;
        check(!is_one, MPI_ERR_BUFFER, one_memory)?;
        let receive = if gets { receive.cast::<u8>() } else { std::ptr::null_mut() };
        let send = if in_place { receive.cast_const() } else { send.cast::<u8>() };
        let mut reduction =
            Reduction { reducer, send, receive, count: elements, bytes: 0, is_in_place: in_place };
        reduction.bytes = reduction.bytes_per_element().saturating_mul(elements);
        Ok(reduction)
    }

    /// MPI_Reduce
    #[inline]
    pub fn work_reduce(&self, arguments: ReductionArguments, root: c_int) -> Result<Work> {
        let communicator = self.comm;
        let root = checked_root(communicator, root)?;
        let gets = root == Root::Myself || root == Root::Local(communicator.rank);
        let gives = !matches!(root, Root::Myself | Root::NoRank);
        // Beside the root of an intercommunicator no argument but the root counts (6.9.1).
        let nothing = || ReductionArguments::new(std::ptr::null(), std::ptr::null_mut(), 0, MPI_INT, MPI_SUM);
        let arguments = if root == Root::NoRank { nothing() } else { arguments };
        Ok(Work::Reduce(self.reduction(communicator, arguments, gets, gives)?, root))
    }

    /// MPI_Allreduce
    #[inline]
    pub fn work_allreduce(&self, arguments: ReductionArguments) -> Result<Work> {
        Ok(Work::Allreduce(self.reduction(self.comm, arguments, true, true)?))
    }

    /// MPI_Scan, MPI_Exscan
    pub fn work_scan(&self, arguments: ReductionArguments, exclusive: bool) -> Result<Work> {
        let communicator = self.comm;
        check(communicator.remote.is_none(), MPI_ERR_COMM, || {
            format!(
                "communicator {:#x} is an intercommunicator, which has no order for a scan",
                self.handle.0
            )
        })?;
        // Rank 0 gets nothing of an exclusive scan (6.11.2); in place it gives what stands in `recvbuf`.
        let gets = !exclusive || communicator.rank > 0 || arguments.send == MPI_IN_PLACE.cast_const();
        Ok(Work::Scan { reduction: self.reduction(communicator, arguments, gets, true)?, exclusive })
    }

    /// MPI_Reduce_scatter_block
    pub fn work_reduce_scatter_block(&self, arguments: ReductionArguments) -> Result<Work> {
        let communicator = self.comm;
        let each = checked_count(arguments.count)?;
        let counts = vec![each; communicator.size()];
        self.reduce_scatter(communicator, arguments, counts)
    }

    /// MPI_Reduce_scatter; the count of the arguments does not count.
    pub fn work_reduce_scatter(&self, arguments: ReductionArguments, counts: Integers) -> Result<Work> {
        let communicator = self.comm;
        // SAFETY: the array is as long as the standard says.
        let counts = unsafe { counts.read("recvcounts", communicator.size())? };
        let counts = counts.into_iter().map(checked_count).collect::<Result<Vec<_>>>()?;
        self.reduce_scatter(communicator, arguments, counts)
    }

    fn reduce_scatter(&self, comm: &Comm, arguments: ReductionArguments, counts: Vec<usize>) -> Result<Work> {
        let whole = counts.iter().try_fold(0_i64, |sum, &count| sum.checked_add(i64::try_from(count).ok()?));
        let count = whole.ok_or_else(|| Error::new(MPI_ERR_COUNT, "the sum of all counts is too large"))?;
        // A rank of whose elements there are none gets an empty vector; in place it gives what stands there.
        let gets = counts[comm.rank] > 0 || count == 0 || arguments.send == MPI_IN_PLACE.cast_const();
        let reduction = self.reduction(comm, ReductionArguments { count, ..arguments }, gets, true)?;
        Ok(Work::ReduceScatter { reduction, counts })
    }
}
