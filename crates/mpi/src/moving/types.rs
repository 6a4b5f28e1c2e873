//! Datatypes, as they travel to a successor.

use super::words::{put_bytes, put_list, put_longs, take, take_all, take_bytes, take_list, take_longs};
use crate::abi::MPI_Datatype;
use crate::datatype::moved::{HeldLayout, HeldType, HeldTypes};

/// Appends the words of datatypes.
pub(super) fn put(words: &mut Vec<u32>, held: &HeldTypes) {
    words.extend([held.layouts.len() as u32, held.types.len() as u32]);
    for layout in &held.layouts {
        words.extend([layout.handle.unwrap_or(0) as u32, layout.combiner as u32]);
        put_list(words, layout.integers.iter().map(|number| *number as u32));
        put_longs(words, &layout.addresses);
        put_longs(words, &layout.counts);
        put_list(words, layout.types.iter().copied());
    }
    for held in &held.types {
        words.extend([held.handle.0 as u32, held.layout, u32::from(held.is_committed)]);
        put_bytes(words, &held.name);
    }
}

/// Takes datatypes.
pub(super) fn take_types(rest: &mut &[u32]) -> Option<HeldTypes> {
    let [layouts, types] = take(rest)?;
    let layouts = take_all(rest, layouts, take_layout)?;
    let types = take_all(rest, types, take_type)?;
    Some(HeldTypes { layouts, types })
}

fn take_layout(rest: &mut &[u32]) -> Option<HeldLayout> {
    let [handle, combiner] = take(rest)?;
    Some(HeldLayout {
        handle: (handle != 0).then_some(handle as usize),
        combiner: combiner as i32,
        integers: take_list(rest)?.into_iter().map(|number| number as i32).collect(),
        addresses: take_longs(rest)?,
        counts: take_longs(rest)?,
        types: take_list(rest)?,
    })
}

fn take_type(rest: &mut &[u32]) -> Option<HeldType> {
    let [handle, layout, is_committed] = take(rest)?;
    let (handle, is_committed) = (MPI_Datatype(handle as usize), is_committed != 0);
    Some(HeldType { handle, layout, is_committed, name: take_bytes(rest)? })
}
