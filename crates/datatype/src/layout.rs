//! Layouts of types: where their data lie ([`Part`]) and how the user made them ([`Description`]).
//!
//! A layout never changes and is shared: by the handles that name it, by the types made of it, by their
//! contents. It lives as long as any of them, whatever the user frees first.

use std::collections::BTreeSet;
use std::rc::Rc;

use core::ffi::c_int;

use crate::part::Part;

/// How a type was made: what its constructor keeps, for MPI_Type_get_envelope and MPI_Type_get_contents.
/// Nothing here reads it.
#[derive(Debug, Default)]
pub struct Description {
    /// Which constructor.
    pub combiner: c_int,
    /// Integer arguments of the constructor.
    pub integers: Vec<c_int>,
    /// Address arguments of the constructor.
    pub addresses: Vec<isize>,
    /// Large counts of the constructor.
    pub counts: Vec<i64>,
    /// The types it is made of.
    pub types: Vec<Rc<Layout>>,
}

/// A type without its handle.
#[derive(Debug)]
pub struct Layout {
    /// Where its data lie.
    pub part: Part,
    /// How it was made.
    pub description: Description,
    /// The number of its only handle, when it is predefined.
    pub handle: Option<usize>,
}

impl Layout {
    /// The handle of the predefined type that all of it is made of, if it is one.
    pub fn single_leaf(&self) -> Option<usize> {
        let mut found = None;
        let mut seen = BTreeSet::new();
        let mut left = vec![self];
        while let Some(layout) = left.pop() {
            match layout.handle {
                Some(handle) if found.is_none_or(|other| other == handle) => found = Some(handle),
                Some(_) => return None,
                None => {
                    let types = layout.description.types.iter();
                    // One that many are made of is looked at once.
                    left.extend(types.map(Rc::as_ref).filter(|part| seen.insert(std::ptr::from_ref(*part))));
                }
            }
        }
        found
    }
}

impl Drop for Layout {
    /// Without recursion: a program may have made a chain of types as long as it likes.
    fn drop(&mut self) {
        let mut last_references = std::mem::take(&mut self.description.types);
        while let Some(layout) = last_references.pop() {
            if let Some(mut layout) = Rc::into_inner(layout) {
                last_references.append(&mut layout.description.types);
            }
        }
    }
}
