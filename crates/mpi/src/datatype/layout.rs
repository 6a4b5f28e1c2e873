//! What a type is: where its data lie ([`Part`]) and how the user made it ([`Description`]).
//!
//! A layout never changes and is shared: by the handles that name it, by the types made of it, by their contents. It lives as long as
//! any of them, whatever the user frees first.

use std::rc::Rc;

use core::ffi::c_int;

use super::bounds::Bounds;
use super::node::Node;
use super::signature::Signature;
use crate::abi::*;
use crate::error::{Error, Result};

/// Where the data of one element lie, and what they are.
#[derive(Clone, Debug)]
pub struct Part {
    /// Size and bounds.
    pub bounds: Bounds,
    /// The bytes; none when there are no data or they do not fit memory.
    pub node: Option<Node>,
    /// Whether all numbers of the type fit this machine; otherwise it can be described but not communicated.
    pub fits: bool,
    /// The basic types.
    pub signature: Signature,
}

/// How a type was made, as MPI_Type_get_envelope and MPI_Type_get_contents tell it.
#[derive(Debug)]
pub struct Description {
    /// Which constructor.
    pub combiner: c_int,
    /// Its integer arguments.
    pub integers: Vec<c_int>,
    /// Its address arguments.
    pub addresses: Vec<MPI_Aint>,
    /// Its large counts.
    pub counts: Vec<MPI_Count>,
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
    /// Its only handle, when it is predefined.
    pub handle: Option<MPI_Datatype>,
}

impl Layout {
    /// A predefined type.
    pub fn named(handle: MPI_Datatype, part: Part) -> Self {
        let description = Description {
            combiner: MPI_COMBINER_NAMED,
            integers: Vec::new(),
            addresses: Vec::new(),
            counts: Vec::new(),
            types: Vec::new(),
        };
        Layout { part, description, handle: Some(handle) }
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

impl Part {
    /// No data.
    pub fn empty() -> Self {
        Part { bounds: Bounds::EMPTY, node: None, fits: true, signature: Signature::empty() }
    }

    /// `count` copies, `stride` bytes apart.
    ///
    /// # Errors
    /// MPI_ERR_COUNT when its numbers leave 128 bits.
    pub fn repeat(&self, count: i64, stride: i128) -> Result<Part> {
        let bounds = self.bounds.repeat(count, stride).ok_or_else(too_large)?;
        let signature = self.signature.repeat(count.into()).ok_or_else(too_large)?;
        Ok(Part::new(bounds, signature, self.fits, || {
            self.node.as_ref().and_then(|node| node.repeat(count as usize, stride as isize))
        }))
    }

    /// `count` copies, one after the other.
    ///
    /// # Errors
    /// As [`Part::repeat`].
    pub fn contiguous(&self, count: i64) -> Result<Part> {
        self.repeat(count, self.bounds.extent())
    }

    /// The same, `by` bytes further.
    ///
    /// # Errors
    /// As [`Part::repeat`].
    pub fn shift(&self, by: i128) -> Result<Part> {
        let bounds = self.bounds.shift(by).ok_or_else(too_large)?;
        Ok(Part::new(bounds, self.signature.clone(), self.fits, || {
            self.node.clone().map(|node| node.shifted(by as isize))
        }))
    }

    /// All parts, one after the other in the data.
    ///
    /// # Errors
    /// As [`Part::repeat`].
    pub fn concat(parts: Vec<Part>) -> Result<Part> {
        let mut bounds = Bounds::EMPTY;
        for part in &parts {
            bounds = bounds.and(&part.bounds).ok_or_else(too_large)?;
        }
        let fits = parts.iter().all(|part| part.fits);
        let (nodes, signatures): (Vec<_>, Vec<_>) =
            parts.into_iter().map(|part| (part.node, part.signature)).unzip();
        let signature = Signature::sequence(signatures).ok_or_else(too_large)?;
        Ok(Part::new(bounds, signature, fits, || Node::concat(nodes.into_iter().flatten())))
    }

    /// Blocks of `lengths` contiguous elements at `displacements` bytes.
    ///
    /// # Errors
    /// As [`Part::repeat`].
    pub fn blocks(
        &self,
        lengths: impl Iterator<Item = i64> + Clone,
        displacements: impl Iterator<Item = i128> + Clone,
    ) -> Result<Part> {
        let extent = self.bounds.extent();
        let blocks = || lengths.clone().zip(displacements.clone()).filter(|(length, _)| *length > 0);
        let mut bounds = Bounds::EMPTY;
        let mut elements = 0_i128;
        for (length, displacement) in blocks() {
            let block = self.bounds.repeat(length, extent).and_then(|block| block.shift(displacement));
            bounds = block.and_then(|block| bounds.and(&block)).ok_or_else(too_large)?;
            elements = elements.checked_add(length.into()).ok_or_else(too_large)?;
        }
        let signature = self.signature.repeat(elements).ok_or_else(too_large)?;
        Ok(Part::new(bounds, signature, self.fits, || {
            let node = self.node.as_ref()?;
            // Blocks of one length share their program.
            let mut known: Option<(i64, Node)> = None;
            Node::concat(blocks().filter_map(|(length, displacement)| {
                if known.as_ref().is_none_or(|(last, _)| *last != length) {
                    known = Some((length, node.repeat(length as usize, extent as isize)?));
                }
                known.as_ref().map(|(_, block)| block.clone().shifted(displacement as isize))
            }))
        }))
    }

    /// With bounds set by the user.
    ///
    /// # Errors
    /// As [`Part::repeat`].
    pub fn resized(&self, lower: i128, extent: i128) -> Result<Part> {
        let bounds = self.bounds.resized(lower, extent).ok_or_else(too_large)?;
        Ok(Part::new(bounds, self.signature.clone(), self.fits, || self.node.clone()))
    }

    fn new(
        bounds: Bounds,
        signature: Signature,
        parts_fit: bool,
        node: impl FnOnce() -> Option<Node>,
    ) -> Part {
        let fits = bounds.fit_memory() && (parts_fit || bounds.size == 0);
        let node = if fits && bounds.size > 0 { node() } else { None };
        Part { bounds, node, fits, signature }
    }
}

#[cold]
fn too_large() -> Error {
    Error::new(MPI_ERR_COUNT, "the type would be larger than can be described")
}
