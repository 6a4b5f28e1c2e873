//! Operations on the memory of a window (MPI 12.3). On this node they are done when the call returns; what is
//! for another one goes on in [`super::other_nodes`].

use core::ffi::c_int;

use tutti_datatype::reduce::Operation;
use tutti_datatype::{Buffer, Datatype, Element};
use tutti_rma::accumulate::{Change, Update};
use tutti_rma::device::Access;
use tutti_rma::done::DoneAt;
use tutti_rma::own;
use tutti_rma::part::{Fault, Part, copy_elements};
use tutti_rma::wire::Code;

use crate::abi::*;
use crate::collective::state::HasCollectives;
use crate::comm::HasComms;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::datatype::checked_count;
use crate::error::{Error, Result, check};
use crate::progress::Progress;
use crate::win::HasWindows;
use crate::win::other_nodes;
use crate::win::window::Window;

/// The target of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Rank in the window's group, or MPI_PROC_NULL.
    pub rank: c_int,
    /// Displacement, in the target's units; of a dynamic window an address.
    pub disp: MPI_Aint,
    /// Number of elements.
    pub count: i64,
    /// Type of the elements.
    pub datatype: MPI_Datatype,
}

impl Target {
    /// Target of so many elements of a type.
    #[inline(always)]
    pub fn new(rank: c_int, disp: MPI_Aint, count: impl Into<i64>, datatype: MPI_Datatype) -> Self {
        Target { rank, disp, count: count.into(), datatype }
    }
}

/// The memory of a target, and where in it the data lie.
struct Place {
    part: Part,
    offset: usize,
}

/// Elements as they follow one another in memory.
enum Elements {
    At(*mut u8),
    Packed(Vec<u8>),
}

impl Elements {
    fn address(&mut self) -> *mut u8 {
        match self {
            Elements::At(address) => *address,
            Elements::Packed(bytes) => bytes.as_mut_ptr(),
        }
    }
}

fn fault(fault: Fault) -> Error {
    match fault {
        Fault::OtherNode => Error::new(MPI_ERR_INTERN, "an operation on another node was taken for one here"),
        Fault::OutOfRange => Error::new(MPI_ERR_RMA_RANGE, "the target's window has no such range"),
        Fault::Kernel(error) => {
            tutti_rma::await_job_end_if_dead(&error);
            Error::new(
                MPI_ERR_RMA_RANGE,
                format_args!(
                    "the kernel does not reach the target's memory: {error}; memory that MPI_Win_allocate gives needs no help of the kernel"
                ),
            )
        }
    }
}

/// Memory of the origin's: the name of its arguments, without their ending, its data, and the access.
type OwnData<'a> = (&'a str, &'a Buffer, Access);

/// The same of an operation that also accesses memory of the origin's, which may be what is wrong.
#[cold]
fn own_fault(found: Fault, own: &[OwnData<'_>]) -> Error {
    let is_bad = matches!(&found, Fault::Kernel(error) if error.raw_os_error() == Some(libc::EFAULT));
    let mut own = own.iter().filter(|_| is_bad);
    match own.find_map(|data| check_own(*data).err()) {
        Some(error) => error,
        None => fault(found),
    }
}

/// Looks at memory of the origin's that the processor is to access.
///
/// # Errors
/// MPI_ERR_BUFFER for memory that it may not.
fn check_own((name, data, access): OwnData<'_>) -> Result<()> {
    own::check(data, access).map_err(|_| {
        let Buffer { at, bytes, .. } = data;
        let right = if access == Access::Read { "read" } else { "written" };
        let text = format_args!(
            "of the {bytes} bytes at {name}_addr, {at:p}, some are no memory that may be {right}: is the address or \
             the count wrong?"
        );
        Error::new(MPI_ERR_BUFFER, text)
    })
}

/// Writes data to the target (12.3.1).
///
/// # Errors
/// Those of the arguments; MPI_ERR_RMA_SYNC outside an epoch; MPI_ERR_RMA_RANGE.
///
/// # Safety
/// The user's buffer is valid.
pub unsafe fn put(
    call: &mut (impl Progress + HasComms + HasTypes + HasWindows),
    origin: Data,
    target: Target,
    win: MPI_Win,
) -> Result<()> {
    // SAFETY: our contract.
    unsafe { put_noted(call, origin, target, win, None) }.map(drop)
}

/// The same; whether it is under way and its end will be noted.
///
/// # Errors
/// As [`put`].
///
/// # Safety
/// The user's buffer is valid until the end is noted.
pub unsafe fn put_noted(
    call: &mut (impl Progress + HasComms + HasTypes + HasWindows),
    origin: Data,
    target: Target,
    win: MPI_Win,
    note: Option<DoneAt>,
) -> Result<bool> {
    let Some((place, data, origin)) = transfer(call, origin, target, win)? else { return Ok(false) };
    // SAFETY: our contract; the range was checked.
    unsafe {
        match place.part.put(&data, &origin) {
            Err(Fault::OtherNode) => other_nodes::put_to_node(call, win, target.rank, &data, origin, note),
            done => {
                done.map(|()| false).map_err(|found| own_fault(found, &[("origin", &origin, Access::Read)]))
            }
        }
    }
}

/// Reads data of the target (12.3.2).
///
/// # Errors
/// As [`put`].
///
/// # Safety
/// As [`put`].
pub unsafe fn get(
    call: &mut (impl Progress + HasComms + HasTypes + HasWindows),
    origin: Data,
    target: Target,
    win: MPI_Win,
) -> Result<()> {
    // SAFETY: our contract.
    unsafe { get_noted(call, origin, target, win, None) }.map(drop)
}

/// The same; whether it is under way and its end will be noted.
///
/// # Errors
/// As [`get`].
///
/// # Safety
/// The user's buffer is valid until the end is noted.
pub unsafe fn get_noted(
    call: &mut (impl Progress + HasComms + HasTypes + HasWindows),
    origin: Data,
    target: Target,
    win: MPI_Win,
    note: Option<DoneAt>,
) -> Result<bool> {
    let Some((place, data, origin)) = transfer(call, origin, target, win)? else { return Ok(false) };
    // SAFETY: our contract; the range was checked.
    unsafe {
        match place.part.get(&data, &origin) {
            Err(Fault::OtherNode) => other_nodes::get_from_node(call, win, target.rank, &data, origin, note),
            done => {
                done.map(|()| false).map_err(|found| own_fault(found, &[("origin", &origin, Access::Write)]))
            }
        }
    }
}

/// The two sides of a put or get; none when there is nothing to do.
#[inline(always)]
fn transfer(
    call: &(impl HasTypes + HasWindows),
    origin: Data,
    target: Target,
    win: MPI_Win,
) -> Result<Option<(Place, Buffer, Buffer)>> {
    let origin = call.types().buffer(origin)?;
    let datatype = call.types().find(target.datatype)?;
    let Some(place) = place(call, target, datatype, win)? else { return Ok(None) };
    let data = datatype.buffer(std::ptr::without_provenance_mut(place.offset), target.count as usize)?;
    check_lengths(origin.bytes, data.bytes)?;
    Ok((data.bytes > 0).then_some((place, data, origin)))
}

/// Where the target's data lie, after all checks of the target; none for MPI_PROC_NULL.
#[inline(always)]
fn place(call: &impl HasWindows, target: Target, datatype: &Datatype, win: MPI_Win) -> Result<Option<Place>> {
    let window = call.wins().find(win)?;
    let count = checked_count(target.count)?;
    let Some(rank) = window.target(target.rank)? else { return Ok(None) };
    window.epochs.check_access(rank)?;
    let peer = &window.peers[rank];
    check(target.disp >= 0 || peer.attached.is_some(), MPI_ERR_DISP, || {
        format!("target_disp is {}, expected 0 or more", target.disp)
    })?;
    let offset = target.disp.wrapping_mul(peer.disp_unit as isize);
    if count == 0 {
        return Ok(None);
    }
    window.fence.note_stores();
    let plain_bytes = if datatype.is_plain() { datatype.size.checked_mul(count) } else { None };
    let (low, bytes) = plain_bytes.map_or_else(|| datatype.elements().span(count), |bytes| (0, bytes));
    let is_large = target.disp.checked_mul(peer.disp_unit as MPI_Aint).is_none();
    let begin = if is_large { isize::MAX } else { offset.saturating_add(low) };
    let (part, shift) = peer.part(window.mate, begin, bytes)?;
    Ok(Some(Place { part, offset: offset.wrapping_add(shift) as usize }))
}

/// Writes data of one predefined type, alike on both sides, to memory that is mapped here. `None` for
/// anything else, wrong arguments included: nothing is done, and the general way must be gone.
///
/// # Safety
/// As [`put`].
#[inline(always)]
pub unsafe fn try_put_plain(
    call: &(impl HasTypes + HasWindows),
    origin: Data,
    target: Target,
    win: MPI_Win,
) -> Option<()> {
    let bytes = plain_bytes(call, origin, target)?;
    let window = call.wins().try_find(win)?;
    let (memory, offset) = window.place_of(target.rank, target.disp)?;
    // SAFETY: our contract: as many bytes on both sides.
    unsafe { memory.store_mapped(offset, origin.address.cast(), bytes)? };
    window.fence.note_stores();
    Some(())
}

/// Reads such data; else `None`, as [`try_put_plain`].
///
/// # Safety
/// As [`get`].
#[inline(always)]
pub unsafe fn try_get_plain(
    call: &(impl HasTypes + HasWindows),
    origin: Data,
    target: Target,
    win: MPI_Win,
) -> Option<()> {
    let bytes = plain_bytes(call, origin, target)?;
    let (memory, offset) = call.wins().try_find(win)?.place_of(target.rank, target.disp)?;
    // SAFETY: our contract: as many bytes on both sides.
    unsafe { memory.load_mapped(offset, origin.address.cast(), bytes) }
}

/// Bytes of data that are of one predefined type and alike on both sides.
#[inline(always)]
fn plain_bytes(call: &impl HasTypes, origin: Data, target: Target) -> Option<usize> {
    let size = call.types().plain_size(target.datatype)?;
    let is_alike = origin.datatype == target.datatype && origin.count == target.count;
    let count = usize::try_from(target.count).ok().filter(|&count| is_alike && count > 0)?;
    if origin.address.is_null() { None } else { count.checked_mul(size) }
}

/// Changes elements of one predefined type, alike on all sides, in memory that is mapped here; else
/// `None`, as [`try_put_plain`].
///
/// # Safety
/// As [`accumulate_noted`].
#[inline(always)]
pub unsafe fn try_accumulate_plain(
    call: &(impl HasTypes + HasWindows),
    origin: Data,
    result: Option<Data>,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> Option<()> {
    let is_alike = |data: &Data| {
        data.datatype == target.datatype && data.count == target.count && !data.address.is_null()
    };
    let is_plain = is_alike(&origin) && result.as_ref().is_none_or(is_alike);
    let count = usize::try_from(target.count).ok().filter(|&count| is_plain && count > 0)?;
    let window = call.wins().try_find(win)?;
    let (memory, offset) = window.place_of(target.rank, target.disp)?;
    let change = match window.last_change.get() {
        Some((last, datatype, change)) if last == op && datatype == target.datatype => change,
        _ => plain_change(call, window, op, target.datatype)?,
    };
    let result = result.map(|result| result.address.cast());
    // SAFETY: our contract: as many elements on all sides.
    unsafe { memory.accumulate_mapped(offset, count, change, origin.address.cast(), result)? };
    window.fence.note_exchange();
    Some(())
}

/// Change that an operation makes to elements of a plain predefined type, if it is defined for them.
#[inline(never)]
fn plain_change(call: &impl HasTypes, window: &Window, op: MPI_Op, datatype: MPI_Datatype) -> Option<Change> {
    let element = call.types().plain_element(datatype)?;
    let change = Change::new(update(op), element)?;
    window.last_change.set(Some((op, datatype, change)));
    Some(change)
}

/// Swaps an element of a predefined type of integers in memory that is mapped here; else `None`, as
/// [`try_put_plain`].
///
/// # Safety
/// As [`compare_and_swap`].
#[inline(always)]
pub unsafe fn try_compare_and_swap_plain(
    call: &(impl HasTypes + HasWindows),
    [origin, compare, result]: [*mut u8; 3],
    target: Target,
    win: MPI_Win,
) -> Option<()> {
    let element = call.types().plain_element(target.datatype)?;
    if !is_comparable(element) || origin.is_null() || compare.is_null() || result.is_null() {
        return None;
    }
    let window = call.wins().try_find(win)?;
    let (memory, offset) = window.place_of(target.rank, target.disp)?;
    // SAFETY: our contract.
    unsafe { memory.compare_and_swap_mapped(offset, element.bytes(), compare, origin, result)? };
    window.fence.note_exchange();
    Some(())
}

/// Changes elements of the target (12.3.4). With `result`, what they were is stored there. Whether it is
/// under way, fetches, and its end will be noted.
///
/// # Errors
/// Those of [`put`]; MPI_ERR_OP; MPI_ERR_TYPE when the types are not of one predefined type.
///
/// # Safety
/// The user's buffers are valid, the result until the end is noted.
pub unsafe fn accumulate_noted(
    call: &mut (impl Progress + HasCollectives + HasComms + HasTypes + HasWindows),
    origin: Data,
    result: Option<Data>,
    target: Target,
    (op, note): (MPI_Op, Option<DoneAt>),
    win: MPI_Win,
) -> Result<bool> {
    let datatype = call.types().find(target.datatype)?;
    let Some(place) = place(call, target, datatype, win)? else {
        return check_op(call, op).map(|()| false);
    };
    let element = call.types().element_of(datatype).ok_or_else(|| mixed("target_datatype"))?;
    let change = change(call, op, element)?;
    let at = std::ptr::without_provenance_mut(place.offset);
    // A pair may have a gap between its value and its index, which is no part of its data.
    let (data, data_bytes) = match datatype.element {
        Some(_) => {
            let bytes = target.count as usize * element.stride();
            (Buffer::contiguous(at, bytes), element.stride())
        }
        None => (datatype.buffer(at, target.count as usize)?, element.bytes()),
    };
    let elements = data.bytes / data_bytes;
    // SAFETY: our contract.
    unsafe {
        let mut operand = match op {
            MPI_NO_OP => Elements::At(std::ptr::null_mut()),
            _ => elements_at(call, origin, element, elements, ("origin", Access::Read))?,
        };
        let bytes = elements * element.stride();
        let Some(result) = result else {
            let origin = operand.address();
            return match place.part.accumulate(&data, data_bytes, change, origin, None) {
                Err(Fault::OtherNode) => {
                    let code = code(op, element);
                    let data = (&data, data_bytes);
                    other_nodes::change_on_node(call, win, target.rank, data, code, origin, (None, None))
                        .map(|()| false)
                }
                done => done.map(|()| false).map_err(|found| {
                    own_fault(found, &[("origin", &Buffer::contiguous(origin, bytes), Access::Read)])
                }),
            };
        };
        let mut found = elements_at(call, result, element, elements, ("result", Access::Write))?;
        let (origin, place_of_result) = (operand.address(), Some(found.address()));
        match place.part.accumulate(&data, data_bytes, change, origin, place_of_result) {
            Err(Fault::OtherNode) => {
                let change = code(op, element);
                let note = note.filter(|_| matches!(found, Elements::At(_)));
                let data = (&data, data_bytes);
                let to = (place_of_result, note);
                other_nodes::change_on_node(call, win, target.rank, data, change, origin, to)?;
                match found {
                    Elements::At(_) => return Ok(note.is_some()),
                    Elements::Packed(_) => other_nodes::await_answers(call, win, target.rank)?,
                }
            }
            done => done.map_err(|fault| {
                let [from, to] = [origin, found.address()].map(|at| Buffer::contiguous(at, bytes));
                let own = [("result", &to, Access::Write), ("origin", &from, Access::Read)];
                // The origin of MPI_NO_OP is not read.
                own_fault(fault, if op == MPI_NO_OP { &own[..1] } else { &own[..] })
            })?,
        }
        if let Elements::Packed(mut bytes) = found {
            let result = call.types().buffer(result)?;
            copy_elements(&result, element.bytes(), element.stride(), bytes.as_mut_ptr(), false);
        }
    }
    Ok(false)
}

/// If the target's element equals `compare` it becomes `origin`; what it was is stored at `result`
/// (12.3.4).
///
/// # Errors
/// As [`put`]; MPI_ERR_TYPE for elements that are no integers.
///
/// # Safety
/// The three addresses are null or valid for an element.
pub unsafe fn compare_and_swap(
    call: &mut (impl Progress + HasComms + HasTypes + HasWindows),
    [origin, compare, result]: [*mut u8; 3],
    target: Target,
    win: MPI_Win,
) -> Result<()> {
    for (address, name) in [(origin, "origin_addr"), (compare, "compare_addr"), (result, "result_addr")] {
        check(!address.is_null(), MPI_ERR_BUFFER, || format!("{name} is a null pointer"))?;
    }
    let datatype = call.types().find(target.datatype)?;
    let element = datatype.element.filter(|&element| is_comparable(element));
    let element = element.ok_or_else(|| {
        let text = format_args!(
            "datatype {:#x} is no predefined type of integers, truth values or bytes",
            target.datatype.0
        );
        Error::new(MPI_ERR_TYPE, text)
    })?;
    let Some(place) = place(call, target, datatype, win)? else { return Ok(()) };
    // SAFETY: our contract.
    let swapped =
        unsafe { place.part.compare_and_swap(place.offset, element.bytes(), compare, origin, result) };
    match swapped {
        // SAFETY: as above.
        Err(Fault::OtherNode) => unsafe {
            let at = (place.offset as u64, element.bytes());
            other_nodes::swap_on_node(call, win, target.rank, at, [compare, origin, result])
        },
        done => done.map_err(|found| {
            let [origin, compare, result] =
                [origin, compare, result].map(|at| Buffer::contiguous(at, element.bytes()));
            let read = [("origin", &origin, Access::Read), ("compare", &compare, Access::Read)];
            own_fault(found, &[read[0], read[1], ("result", &result, Access::Write)])
        }),
    }
}

/// Changes one element of a predefined type and gives what it was (12.3.4).
///
/// # Errors
/// As [`accumulate_noted`]; MPI_ERR_BUFFER.
///
/// # Safety
/// Both addresses are null or valid for an element.
pub unsafe fn fetch_and_op(
    call: &mut (impl Progress + HasCollectives + HasComms + HasTypes + HasWindows),
    origin: Data,
    result: Data,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let datatype = call.types().find(target.datatype)?;
    check(datatype.element.is_some(), MPI_ERR_TYPE, || {
        format!("datatype {:#x} is derived, expected a predefined one", target.datatype.0)
    })?;
    check(!origin.address.is_null() || op == MPI_NO_OP, MPI_ERR_BUFFER, || {
        "origin_addr is a null pointer".into()
    })?;
    check(!result.address.is_null(), MPI_ERR_BUFFER, || "result_addr is a null pointer".into())?;
    // SAFETY: our contract.
    unsafe { accumulate_noted(call, origin, Some(result), target, (op, None), win) }.map(drop)
}

/// Whether an operation is one, where there is nothing that it could be applied to.
fn check_op(call: &impl HasCollectives, op: MPI_Op) -> Result<()> {
    call.colls().is_commutative(op).map(drop)
}

/// Effect of an operation on elements.
#[inline]
fn change(call: &impl HasCollectives, op: MPI_Op, element: Element) -> Result<Change> {
    if let Some(change) = Change::new(update(op), element) {
        return Ok(change);
    }
    let is_user = call.colls().ops.find(op.0).is_some();
    check_op(call, op)?;
    let text = if is_user {
        "is made by the program, expected a predefined one"
    } else {
        "is not defined for such elements"
    };
    Err(Error::new(MPI_ERR_OP, format_args!("operation {:#x} {text} ({element:?})", op.0)))
}

/// The user's elements as they follow one another: where they lie, or packed, and then also their memory has
/// been looked at.
///
/// # Safety
/// The user's buffer is valid for reading, if that is its access.
unsafe fn elements_at(
    call: &impl HasTypes,
    data: Data,
    element: Element,
    count: usize,
    (name, access): (&str, Access),
) -> Result<Elements> {
    let datatype = call.types().find(data.datatype)?;
    let buffer = call.types().buffer(data)?;
    if count == 0 && buffer.bytes == 0 {
        return Ok(Elements::At(buffer.at));
    }
    check(call.types().element_of(datatype) == Some(element), MPI_ERR_TYPE, || {
        format!("{name}_datatype has other elements than target_datatype, which has {element:?}")
    })?;
    check_lengths(buffer.bytes, count * element.bytes())?;
    if datatype.element.is_some() {
        return Ok(Elements::At(data.address.cast()));
    }
    if buffer.map.is_none() && element.bytes() == element.stride() {
        return Ok(Elements::At(buffer.at));
    }
    check_own((name, &buffer, access))?;
    let mut packed = vec![0; count * element.stride()];
    if access == Access::Read {
        buffer.at.expose_provenance();
        // SAFETY: our contract.
        unsafe { copy_elements(&buffer, element.bytes(), element.stride(), packed.as_mut_ptr(), true) };
    }
    Ok(Elements::Packed(packed))
}

/// Whether elements may be compared and swapped (12.3.4).
#[inline(always)]
fn is_comparable(element: Element) -> bool {
    use Element::{Byte, Character, Logical, Signed, Unsigned};
    matches!(element, Signed(_) | Unsigned(_) | Logical(_) | Byte | Character(_))
}

#[inline(always)]
fn update(op: MPI_Op) -> Update {
    match op {
        MPI_REPLACE => Update::Replace,
        MPI_NO_OP => Update::Keep,
        _ => Update::Reduce(Operation(op.0)),
    }
}

/// The same as it travels.
#[cold]
fn code(op: MPI_Op, element: Element) -> Code {
    Code { element, update: update(op) }
}

#[cold]
fn mixed(name: &str) -> Error {
    Error::new(MPI_ERR_TYPE, format_args!("{name} is not made of one predefined datatype"))
}

#[inline(always)]
fn check_lengths(origin: usize, target: usize) -> Result<()> {
    check(origin == target, MPI_ERR_TYPE, || {
        format!("the origin has {origin} bytes of data, the target {target}")
    })
}
