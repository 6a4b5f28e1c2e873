//! A collective call with its arguments checked and translated: [`Work`]. Which algorithm does it is decided
//! later.

use core::ffi::{c_int, c_void};

use tutti_datatype::{Buffer, Elements};

use super::edges::Edges;
use super::state::Collectives;
use crate::abi::*;
use crate::comm::{Comm, Comms};
use crate::datatype::Data;
use crate::datatype::checked_count;
use crate::error::{Error, Result, check};

pub use reductions::{Reduction, ReductionArguments};

mod reductions;

/// Work of one process. The fields are the arguments of the call, named in the variant.
#[allow(missing_docs)]
#[derive(Debug)]
pub enum Work {
    /// MPI_Barrier
    Barrier,
    /// MPI_Bcast
    Broadcast { buffer: Buffer, root: Root },
    /// MPI_Gather, MPI_Gatherv; `all` at the root only, `own` not at a root in place. `each`: bytes from
    /// every rank, when all ranks know that they are equal.
    Gather { own: Option<Buffer>, all: Option<Pieces>, root: Root, each: Option<usize> },
    /// MPI_Scatter, MPI_Scatterv; as for gather.
    Scatter { all: Option<Pieces>, own: Option<Buffer>, root: Root, each: Option<usize> },
    /// MPI_Allgather, MPI_Allgatherv; `own` not in place.
    Allgather { own: Option<Buffer>, all: Pieces, each: Option<usize> },
    /// MPI_Alltoall, MPI_Alltoallv, MPI_Alltoallw; `send` not in place.
    Alltoall { send: Option<Pieces>, receive: Pieces, each: Option<usize> },
    /// MPI_Reduce
    Reduce(Reduction, Root),
    /// MPI_Allreduce
    Allreduce(Reduction),
    /// MPI_Reduce_scatter, MPI_Reduce_scatter_block: elements for each rank. The reduction's count is their
    /// sum.
    ReduceScatter { reduction: Reduction, counts: Vec<usize> },
    /// MPI_Scan, MPI_Exscan
    Scan { reduction: Reduction, exclusive: bool },
    /// MPI_Neighbor_allgather and its kin.
    Neighbours(Edges),
}

/// The root of a rooted operation, as this process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// Rank of an intracommunicator.
    Local(usize),
    /// The process itself, in an intercommunicator (MPI_ROOT).
    Myself,
    /// Another process of this process's group (MPI_PROC_NULL): nothing to do.
    NoRank,
    /// Rank of the remote group.
    Remote(usize),
}

/// One piece of data for or from each rank.
#[derive(Debug)]
pub enum Pieces {
    /// Pieces of equal size, one behind the other.
    Uniform {
        /// Address of the first.
        at: *mut u8,
        /// Elements in each.
        count: usize,
        /// Type of the elements.
        datatype: Elements,
    },
    /// Any pieces.
    Each(Vec<Buffer>),
}

impl Pieces {
    /// The piece of a rank.
    #[inline]
    pub fn piece(&self, rank: usize) -> Buffer {
        match self {
            Pieces::Uniform { at, count, datatype } => {
                let skip = (rank * count) as isize * datatype.extent;
                datatype.buffer(at.wrapping_offset(skip), *count).expect("the size of all pieces was checked")
            }
            Pieces::Each(pieces) => pieces[rank].clone(),
        }
    }

    /// All of them, in as few buffers as there can be.
    pub fn buffers(&self, ranks: usize) -> Vec<Buffer> {
        match self {
            Pieces::Uniform { at, count, datatype } => {
                let whole = datatype.buffer(*at, count * ranks);
                vec![whole.expect("the size of all pieces was checked")]
            }
            Pieces::Each(pieces) => pieces.clone(),
        }
    }
}

/// An array argument of ints, or of large counts or addresses.
#[derive(Clone, Copy, Debug)]
pub enum Integers {
    /// int
    Ints(*const c_int),
    /// MPI_Count or MPI_Aint
    Longs(*const i64),
}

impl From<*const c_int> for Integers {
    fn from(array: *const c_int) -> Self {
        Integers::Ints(array)
    }
}

impl From<*const i64> for Integers {
    fn from(array: *const i64) -> Self {
        Integers::Longs(array)
    }
}

impl From<*const isize> for Integers {
    fn from(array: *const isize) -> Self {
        Integers::Longs(array.cast())
    }
}

impl Integers {
    /// The first `length` numbers.
    ///
    /// # Errors
    /// MPI_ERR_ARG when the array is a null pointer.
    ///
    /// # Safety
    /// The array holds so many.
    unsafe fn read(self, name: &str, length: usize) -> Result<Vec<i64>> {
        let null = match self {
            Integers::Ints(array) => array.is_null(),
            Integers::Longs(array) => array.is_null(),
        };
        check(!null || length == 0, MPI_ERR_ARG, || format!("{name} is a null pointer"))?;
        // SAFETY: our contract.
        Ok((0..length)
            .map(|i| unsafe {
                match self {
                    Integers::Ints(array) => i64::from(array.add(i).read()),
                    Integers::Longs(array) => array.add(i).read(),
                }
            })
            .collect())
    }
}

/// The data arguments of a call with counts and displacements.
#[derive(Clone, Copy, Debug)]
pub struct Scattered {
    /// Address.
    pub address: *mut c_void,
    /// Elements of each piece.
    pub counts: Integers,
    /// Displacements: in elements, or in bytes when each piece has its own type.
    pub displacements: Integers,
    /// Types.
    pub types: Types,
}

/// The types of scattered data.
#[derive(Clone, Copy, Debug)]
pub enum Types {
    /// One for all.
    One(MPI_Datatype),
    /// One for each.
    Each(*const MPI_Datatype),
}

impl Scattered {
    /// Data with one type.
    pub fn new(
        address: *const c_void,
        counts: impl Into<Integers>,
        displacements: impl Into<Integers>,
        datatype: MPI_Datatype,
    ) -> Self {
        Scattered {
            address: address.cast_mut(),
            counts: counts.into(),
            displacements: displacements.into(),
            types: Types::One(datatype),
        }
    }

    /// Data with a type for each piece.
    pub fn typed(
        address: *const c_void,
        counts: impl Into<Integers>,
        displacements: impl Into<Integers>,
        types: *const MPI_Datatype,
    ) -> Self {
        Scattered {
            address: address.cast_mut(),
            counts: counts.into(),
            displacements: displacements.into(),
            types: Types::Each(types),
        }
    }
}

/// A buffer argument that may not be MPI_IN_PLACE here.
fn not_in_place(address: *const c_void, name: &str) -> Result<()> {
    check(address != MPI_IN_PLACE, MPI_ERR_BUFFER, || {
        format!("{name} is MPI_IN_PLACE, which is not allowed here")
    })
}

/// Refuses one address for what is read and what is written, of two contiguous buffers. What else they may
/// share only the checker sees.
#[inline(always)]
fn apart(send: &Buffer, receive: &Buffer) -> Result<()> {
    let are_contiguous = send.map.is_none() && receive.map.is_none();
    let is_one = send.at == receive.at && are_contiguous && send.bytes > 0 && receive.bytes > 0;
    check(!is_one, MPI_ERR_BUFFER, one_memory)
}

/// MPI 6.2, 2.3.
fn one_memory() -> String {
    "sendbuf and recvbuf are the same memory, which is said by MPI_IN_PLACE".into()
}

/// Whether a buffer argument is MPI_IN_PLACE, which only intracommunicators know.
#[inline(always)]
fn in_place(comm: &Comm, address: *const c_void, name: &str) -> Result<bool> {
    if address != MPI_IN_PLACE {
        return Ok(false);
    }
    check(comm.remote.is_none(), MPI_ERR_BUFFER, || {
        format!("{name} is MPI_IN_PLACE, which is not allowed on an intercommunicator")
    })?;
    Ok(true)
}

/// A root argument.
#[inline(always)]
fn checked_root(comm: &Comm, root: c_int) -> Result<Root> {
    let Some(remote) = &comm.remote else { return comm.checked_root(root).map(Root::Local) };
    match root {
        MPI_ROOT => Ok(Root::Myself),
        MPI_PROC_NULL => Ok(Root::NoRank),
        _ if root >= 0 && (root as usize) < remote.size() => Ok(Root::Remote(root as usize)),
        _ => Err(Error::new(
            MPI_ERR_ROOT,
            format_args!(
                "root is {root}, expected MPI_ROOT, MPI_PROC_NULL, or 0 to {} of the remote group",
                remote.size() - 1
            ),
        )),
    }
}

/// Meaning of the arguments of a collective call: its communicator, and where types and operations are found.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    pub(super) comm: &'a Comm,
    pub(super) handle: MPI_Comm,
    types: &'a crate::datatype::Types,
    colls: &'a Collectives,
}

impl<'a> Arguments<'a> {
    /// Arguments of a call on a communicator.
    ///
    /// # Errors
    /// MPI_ERR_COMM.
    #[inline(always)]
    pub fn new(
        comms: &'a Comms,
        types: &'a crate::datatype::Types,
        colls: &'a Collectives,
        handle: MPI_Comm,
    ) -> Result<Self> {
        Ok(Arguments { comm: comms.find(handle)?, handle, types, colls })
    }
}

/// The calls, as work of this process.
///
/// Array arguments of the user are as long as the standard says; that is the contract of every function here.
impl Arguments<'_> {
    /// Equal pieces, one behind the other.
    pub(super) fn pieces(&self, data: Data, ranks: usize, name: &str) -> Result<Pieces> {
        not_in_place(data.address, name)?;
        let count = checked_count(data.count)?;
        let whole = data.count.checked_mul(ranks as i64).unwrap_or(i64::MAX);
        self.types.buffer(Data { count: whole, ..data })?;
        let datatype = self.types.find(data.datatype)?.elements();
        Ok(Pieces::Uniform { at: data.address.cast(), count, datatype })
    }

    /// Pieces with counts and displacements.
    pub(super) fn scattered(&self, data: Scattered, ranks: usize, name: &str) -> Result<Pieces> {
        not_in_place(data.address, name)?;
        // SAFETY: the arrays are as long as the standard says.
        let (counts, displacements) = unsafe {
            (
                data.counts.read("the array of counts", ranks)?,
                data.displacements.read("the array of displacements", ranks)?,
            )
        };
        let pieces = counts.iter().zip(&displacements).enumerate().map(|(i, (&count, &displacement))| {
            let (handle, unit) = match data.types {
                Types::One(handle) => (handle, self.types.find(handle)?.extent),
                Types::Each(types) => {
                    check(!types.is_null(), MPI_ERR_TYPE, || "the array of types is a null pointer".into())?;
                    // SAFETY: as above.
                    (unsafe { types.add(i).read() }, 1)
                }
            };
            check(count >= 0, MPI_ERR_COUNT, || {
                format!("the count for rank {i} is {count}, expected 0 or more")
            })?;
            let skip = displacement as isize * unit;
            let piece = data.address.cast::<u8>().wrapping_offset(skip);
            // With a type for each rank, displacements are bytes: from MPI_BOTTOM, which is a null pointer,
            // they are addresses.
            let base = if let Types::One(_) = data.types { data.address } else { piece.cast() };
            if base.is_null() && self.types.find(handle)?.element.is_some() {
                return self.types.buffer(Data { address: base, count, datatype: handle });
            }
            Ok(self.types.find(handle)?.buffer(piece, count as usize)?)
        });
        Ok(Pieces::Each(pieces.collect::<Result<_>>()?))
    }

    /// Data that may not be MPI_IN_PLACE.
    pub(super) fn own(&self, data: Data, name: &str) -> Result<Buffer> {
        not_in_place(data.address, name)?;
        self.types.buffer(data)
    }

    /// MPI_Bcast
    #[inline]
    pub fn work_broadcast(&self, data: Data, root: c_int) -> Result<Work> {
        let root = checked_root(self.comm, root)?;
        if root == Root::NoRank {
            return Ok(Work::Broadcast { buffer: Buffer::empty(), root });
        }
        Ok(Work::Broadcast { buffer: self.own(data, "buffer")?, root })
    }

    /// MPI_Gather, MPI_Gatherv
    pub fn work_gather<A: OfAllRanks>(&self, send: Data, receive: A, root: c_int) -> Result<Work> {
        let root = checked_root(self.comm, root)?;
        let all = self.of_all_at(root, receive, "recvbuf")?;
        let own = self.of_one_at(root, send, "sendbuf", all.is_some())?;
        if let (Some(own), Some(all)) = (&own, &all) {
            apart(own, &all.piece(self.comm.rank))?;
        }
        let each = each_bytes::<A>(own.as_ref(), all.as_ref());
        Ok(Work::Gather { own, all, root, each })
    }

    /// MPI_Scatter, MPI_Scatterv
    pub fn work_scatter<A: OfAllRanks>(&self, send: A, receive: Data, root: c_int) -> Result<Work> {
        let root = checked_root(self.comm, root)?;
        let all = self.of_all_at(root, send, "sendbuf")?;
        let own = self.of_one_at(root, receive, "recvbuf", all.is_some())?;
        if let (Some(own), Some(all)) = (&own, &all) {
            apart(&all.piece(self.comm.rank), own)?;
        }
        let each = each_bytes::<A>(own.as_ref(), all.as_ref());
        Ok(Work::Scatter { all, own, root, each })
    }

    /// The pieces of all ranks, at the root; none elsewhere.
    fn of_all_at(&self, root: Root, data: impl OfAllRanks, name: &str) -> Result<Option<Pieces>> {
        let ranks = match root {
            Root::Local(root) if root == self.comm.rank => self.comm.size(),
            Root::Myself => self.comm.peers().size(),
            _ => return Ok(None),
        };
        data.read(self, ranks, name).map(Some)
    }

    /// The piece of this process; none where it has none of its own.
    fn of_one_at(&self, root: Root, data: Data, name: &str, is_root: bool) -> Result<Option<Buffer>> {
        match root {
            Root::Myself | Root::NoRank => Ok(None),
            _ if is_root && in_place(self.comm, data.address, name)? => Ok(None),
            _ => self.own(data, name).map(Some),
        }
    }

    /// MPI_Allgather, MPI_Allgatherv
    pub fn work_allgather<A: OfAllRanks>(&self, send: Data, receive: A) -> Result<Work> {
        let communicator = self.comm;
        let all = receive.read(self, communicator.peers().size(), "recvbuf")?;
        let own = if in_place(communicator, send.address, "sendbuf")? {
            None
        } else {
            let own = self.own(send, "sendbuf")?;
            if communicator.remote.is_none() {
                apart(&own, &all.piece(communicator.rank))?;
            }
            Some(own)
        };
        let each = each_bytes::<A>(None, Some(&all));
        Ok(Work::Allgather { own, all, each })
    }

    /// MPI_Alltoall, MPI_Alltoallv, MPI_Alltoallw
    pub fn work_alltoall<A: OfAllRanks>(&self, send: A, receive: A) -> Result<Work> {
        let communicator = self.comm;
        let ranks = communicator.peers().size();
        let receive = receive.read(self, ranks, "recvbuf")?;
        let send = if in_place(communicator, send.address(), "sendbuf")? {
            None
        } else {
            let send = send.read(self, ranks, "sendbuf")?;
            if communicator.remote.is_none() {
                apart(&send.piece(communicator.rank), &receive.piece(communicator.rank))?;
            }
            Some(send)
        };
        let each = each_bytes::<A>(None, Some(&receive)).filter(|_| communicator.remote.is_none());
        Ok(Work::Alltoall { send, receive, each })
    }
}

/// Data with one piece for each rank, as an argument names them.
pub trait OfAllRanks {
    /// Whether all pieces have as many bytes, at each rank.
    const EQUAL: bool;

    /// Where the data begin.
    fn address(&self) -> *const c_void;

    /// The pieces of so many ranks.
    ///
    /// # Errors
    /// Errors of the argument, which has this name.
    fn read(self, arguments: &Arguments<'_>, ranks: usize, name: &str) -> Result<Pieces>;
}

impl OfAllRanks for Data {
    const EQUAL: bool = true;

    fn address(&self) -> *const c_void {
        self.address
    }

    fn read(self, arguments: &Arguments<'_>, ranks: usize, name: &str) -> Result<Pieces> {
        arguments.pieces(self, ranks, name)
    }
}

impl OfAllRanks for Scattered {
    const EQUAL: bool = false;

    fn address(&self) -> *const c_void {
        self.address
    }

    fn read(self, arguments: &Arguments<'_>, ranks: usize, name: &str) -> Result<Pieces> {
        arguments.scattered(self, ranks, name)
    }
}

/// Bytes of each piece, where all have as many and this process has one.
fn each_bytes<A: OfAllRanks>(own: Option<&Buffer>, all: Option<&Pieces>) -> Option<usize> {
    let bytes = all.map(|all| all.piece(0).bytes).or(own.map(|own| own.bytes));
    bytes.filter(|_| A::EQUAL)
}
