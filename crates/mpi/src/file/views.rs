//! Views of files (MPI 14.3), and where pointers stand in them.

use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::{Datatype, Layout, Part, View};

use super::opened::{File, Shown};
use super::representation::Representation;
use crate::abi::*;
use crate::check::inspection::Inspect;
use crate::check_mode;
use crate::comm::HasComms;
use crate::datatype::HasTypes;
use crate::error::{Error, Result, check};
use crate::file::HasFiles;
use crate::file::open;
use crate::info::Info;
use crate::progress::Progress;

/// Sets the view (14.3). Both pointers go to its beginning.
///
/// # Errors
/// MPI_ERR_FILE, MPI_ERR_ARG, MPI_ERR_TYPE, MPI_ERR_IO, MPI_ERR_UNSUPPORTED_DATAREP; MPI_ERR_NOT_SAME
/// when the extents of the etypes differ.
pub fn set_view(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes + HasFiles),
    handle: MPI_File,
    displacement: MPI_Offset,
    etype: MPI_Datatype,
    filetype: MPI_Datatype,
    datarep: &[u8],
    given: Result<Info>,
) -> Result<()> {
    let comm = call.files().find(handle)?.comm;
    let is_here = displacement == MPI_DISPLACEMENT_CURRENT;
    // Where the file stands is not known before all have come: a late rank may move it until then.
    let first = if is_here { 0 } else { displacement };
    let made = check_displacement(call, handle, displacement);
    let made = made.and_then(|()| make_view(call, handle, first, etype, filetype, datarep));
    let made = made.and_then(|shown| Ok((shown, given?)));
    let class = made.as_ref().map_or_else(|error| error.class, |_| MPI_SUCCESS);
    let bytes = made.as_ref().map_or(0, |(shown, _)| shown.etype_bytes);
    let records = open::meet(call, comm, [class as u32, bytes as u32, (bytes >> 32) as u32])?;
    let (mut shown, given) = made?;
    super::open::refuse_if_any(records.iter().map(|record| record[0]))?;
    check(records.iter().all(|record| record[1..] == records[0][1..]), MPI_ERR_NOT_SAME, || {
        "the ranks give etypes of different sizes".into()
    })?;
    if is_here {
        let here = current_displacement(call, handle)?;
        let moved = make_view(call, handle, here, etype, filetype, datarep);
        let class = moved.as_ref().map_or_else(|error| error.class, |_| MPI_SUCCESS);
        let records = open::meet(call, comm, [class as u32])?;
        shown = moved?;
        super::open::refuse_if_any(records.iter().map(|record| record[0]))?;
    }
    open::set_file_hints(call, handle, Ok(given))?;
    let file = call.files_mut().find_mut(handle)?;
    file.shown = shown;
    file.position = 0;
    if file.opened.me == 0 {
        file.pointer.set(0);
    }
    open::meet(call, comm, [0]).map(drop)
}

/// Sequential files take MPI_DISPLACEMENT_CURRENT and nothing else, all others anything else.
fn check_displacement(call: &impl HasFiles, handle: MPI_File, displacement: MPI_Offset) -> Result<()> {
    let is_sequential = call.files().find(handle)?.amode & MPI_MODE_SEQUENTIAL != 0;
    let is_here = displacement == MPI_DISPLACEMENT_CURRENT;
    check(is_here == is_sequential && (is_here || displacement >= 0), MPI_ERR_ARG, || {
        let wanted = if is_sequential { "MPI_DISPLACEMENT_CURRENT" } else { "0 or more" };
        format!("disp is {displacement}, expected {wanted}")
    })
}

fn make_view(
    call: &mut (impl Progress + HasTypes + HasFiles),
    handle: MPI_File,
    displacement: MPI_Offset,
    etype: MPI_Datatype,
    filetype: MPI_Datatype,
    datarep: &[u8],
) -> Result<Shown> {
    let file = call.files().find(handle)?;
    file.check_no_split()?;
    let is_writable = file.amode & MPI_MODE_RDONLY == 0;
    for (name, datatype) in [("etype", etype), ("filetype", filetype)] {
        let is_committed = call.types().find(datatype)?.is_committed();
        check(is_committed, MPI_ERR_TYPE, || format!("the {name} is not committed"))?;
    }
    let (etype, filetype) = (call.types().layout(etype)?, call.types().layout(filetype)?);
    let representation = Representation::of_name(datarep)?;
    show(call, (displacement, etype, filetype), representation, is_writable)
}

/// The view that shows the places of a filetype from a byte on.
///
/// # Errors
/// MPI_ERR_TYPE, MPI_ERR_IO.
pub(super) fn show(
    call: &mut impl Progress,
    (displacement, etype, filetype): (i64, Rc<Layout>, Rc<Layout>),
    representation: Representation,
    is_writable: bool,
) -> Result<Shown> {
    let (of_etype, of_filetype) =
        (part_in(call, &representation, &etype)?, part_in(call, &representation, &filetype)?);
    let bytes = |part: &Part| u64::try_from(part.bounds.size).unwrap_or(u64::MAX);
    let (etype_bytes, filetype_bytes) = (bytes(&of_etype), bytes(&of_filetype));
    check(etype_bytes > 0, MPI_ERR_TYPE, || "the etype has no data".into())?;
    check(filetype_bytes.is_multiple_of(etype_bytes), MPI_ERR_TYPE, || {
        format!(
            "the filetype has {filetype_bytes} bytes of data, expected a multiple of the etype's {etype_bytes}"
        )
    })?;
    let view = View::new(displacement, of_filetype.node.as_ref(), of_filetype.bounds.extent())
        .map_err(|unfit| Error::new(MPI_ERR_IO, format_args!("the filetype does not fit a view: {unfit}")))?;
    let view = if is_writable { view.without_overlapping_elements() } else { view };
    check(!(view.overlaps() && is_writable), MPI_ERR_IO, || {
        "the filetype shows bytes twice, and the file is open for writing".into()
    })?;
    Ok(Shown {
        view: Rc::new(view),
        displacement,
        etype,
        etype_bytes,
        filetype,
        representation: Rc::new(representation),
    })
}

/// A type in a representation. Functions of the user run without the lock.
pub(super) fn part_in(
    call: &mut impl Progress,
    representation: &Representation,
    layout: &Layout,
) -> Result<Part> {
    let rank = std::cell::RefCell::new(call.rank());
    representation.part(layout, &|action| rank.borrow_mut().unlocked(action))
}

/// Where a sequential file stands, as rank 0 finds it now that all are here: collective.
fn current_displacement(call: &mut (impl Progress + HasComms + HasFiles), handle: MPI_File) -> Result<i64> {
    let file = call.files().find(handle)?;
    let (comm, me) = (file.comm, file.opened.me);
    let found = match me {
        0 => open::move_pointer(call, handle, 0)
            .and_then(|position| call.files().find(handle)?.offset_of(position)),
        _ => Ok(0),
    };
    let class = found.as_ref().map_or_else(|error| error.class, |_| MPI_SUCCESS);
    let here = *found.as_ref().unwrap_or(&0);
    let records = open::meet(call, comm, [class as u32, here as u32, (here >> 32) as u32])?;
    found?;
    super::open::refuse_if_any(records.iter().map(|record| record[0]))?;
    Ok(i64::from(records[0][1]) | i64::from(records[0][2]) << 32)
}

/// The view: displacement, etype, filetype, representation (14.3). Types that are not predefined get new
/// handles.
///
/// # Errors
/// MPI_ERR_FILE.
pub fn view_of(
    call: &mut (impl HasTypes + HasFiles),
    handle: MPI_File,
) -> Result<(i64, MPI_Datatype, MPI_Datatype, Vec<u8>)> {
    let shown = call.files().find(handle)?.shown.clone();
    let [etype, filetype] = [&shown.etype, &shown.filetype].map(|layout| match layout.handle {
        Some(handle) => MPI_Datatype(handle),
        None => {
            let mut copy = Datatype::new(layout.clone());
            copy.commit(check_mode::is_on());
            call.types_mut().add(copy)
        }
    });
    Ok((shown.displacement, etype, filetype, shown.representation.name().to_vec()))
}

/// Extent of a type in a file (14.5.1).
///
/// # Errors
/// MPI_ERR_FILE, MPI_ERR_TYPE; what the user's extent function returns.
pub fn extent_in_file(
    call: &mut (impl Progress + HasTypes + HasFiles),
    handle: MPI_File,
    datatype: MPI_Datatype,
) -> Result<i128> {
    let representation = call.files().find(handle)?.shown.representation.clone();
    let layout = call.types().layout(datatype)?;
    Ok(part_in(call, &representation, &layout)?.bounds.extent())
}

/// Moves the individual pointer (14.4.3).
///
/// # Errors
/// MPI_ERR_FILE, MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_ARG.
pub fn seek(call: &mut impl HasFiles, handle: MPI_File, offset: i64, whence: c_int) -> Result<()> {
    call.files().find(handle)?.check_not_sequential()?;
    let from = call.files().find(handle)?.position;
    let position = target(call, handle, offset, whence, from)?;
    call.files_mut().find_mut(handle)?.position = position;
    Ok(())
}

/// Moves the shared pointer (14.4.4).
///
/// # Errors
/// As [`seek`]; MPI_ERR_NOT_SAME.
pub fn seek_shared(
    call: &mut (impl Progress + HasComms + HasFiles),
    handle: MPI_File,
    offset: i64,
    whence: c_int,
) -> Result<()> {
    let file = call.files().find(handle)?;
    let (comm, me) = (file.comm, file.opened.me);
    let refused = file.check_not_sequential().and_then(|()| check_whence(whence));
    let class = refused.as_ref().map_or_else(|error| error.class, |()| MPI_SUCCESS);
    let words = [class as u32, whence as u32, offset as u32, (offset >> 32) as u32];
    let records = open::meet(call, comm, words)?;
    refused?;
    super::open::refuse_if_any(records.iter().map(|record| record[0]))?;
    check(records.iter().all(|record| record[1..] == words[1..]), MPI_ERR_NOT_SAME, || {
        "the ranks seek different places".into()
    })?;
    // All have come: none moves the pointer or changes the size of the file until rank 0 has looked.
    let moved = match me {
        0 => open::move_pointer(call, handle, 0).and_then(|from| {
            let target = target(call, handle, offset, whence, from)?;
            call.files().find(handle)?.pointer.set(target);
            Ok(())
        }),
        _ => Ok(()),
    };
    let class = moved.as_ref().map_or_else(|error| error.class, |()| MPI_SUCCESS);
    let class = open::meet(call, comm, [class as u32])?[0][0] as c_int;
    moved?;
    check(class == MPI_SUCCESS, class, || {
        format!(
            "rank 0 cannot move the pointer by {offset}: {}",
            crate::error::class_text(class).unwrap_or("")
        )
    })
}

/// Goal of a seek, in etypes.
fn target(call: &impl HasFiles, handle: MPI_File, offset: i64, whence: c_int, from: i64) -> Result<i64> {
    let file = call.files().find(handle)?;
    let base = match whence {
        MPI_SEEK_SET => 0,
        MPI_SEEK_CUR => from,
        MPI_SEEK_END => {
            let before = file.shown.view.position_of(open::file_size(call, handle)?);
            before.div_ceil(file.shown.etype_bytes) as i64
        }
        _ => return check_whence(whence).map(|()| from),
    };
    let position = base.checked_add(offset).filter(|position| *position >= 0);
    position.ok_or_else(|| {
        Error::new(MPI_ERR_ARG, format_args!("the place is {offset} from {base} on, expected 0 or more"))
    })
}

fn check_whence(whence: c_int) -> Result<()> {
    check(matches!(whence, MPI_SEEK_SET | MPI_SEEK_CUR | MPI_SEEK_END), MPI_ERR_ARG, || {
        format!("whence is {whence}, expected MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END")
    })
}

impl File {
    /// Offset in the file of a place in etypes (14.4.3).
    ///
    /// # Errors
    /// MPI_ERR_ARG when it is negative or beyond any file.
    pub fn offset_of(&self, place: i64) -> Result<i64> {
        let Shown { view, etype_bytes, .. } = &self.shown;
        let offset =
            u64::try_from(place).ok().and_then(|place| view.offset_of(place.checked_mul(*etype_bytes)?));
        offset.ok_or_else(|| {
            Error::new(
                MPI_ERR_ARG,
                format_args!("offset is {place}, expected one from 0 to the largest file"),
            )
        })
    }
}
