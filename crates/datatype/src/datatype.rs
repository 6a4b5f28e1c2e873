//! A type under a handle of the user, or under none.

use std::rc::Rc;

use crate::access::{Access, Error, too_many};
use crate::buffer::Buffer;
use crate::element::Element;
use crate::elements::Elements;
use crate::layout::Layout;
use crate::node::Shape;
use crate::note::Note;
use crate::transfer::Program;

/// Datatype that a handle names.
#[derive(Debug)]
#[repr(C)]
pub struct Datatype {
    /// Bytes of data in one element; of a type too large for this machine, the largest number.
    pub size: usize,
    /// Distance from one element to the next.
    pub extent: isize,
    /// How its data are reached.
    access: Access,
    /// Element of the type, when predefined.
    pub element: Option<Element>,
    /// Lower bound.
    pub lower: isize,
    /// Bounds, program, contents.
    pub layout: Rc<Layout>,
    /// Name: the constant's, the user's, or none.
    pub name: Vec<u8>,
}

impl Datatype {
    /// Whether its elements fill memory from their address on.
    pub fn is_plain(&self) -> bool {
        matches!(self.access, Access::Run(0)) && self.extent == self.size as isize
    }
}

impl Datatype {
    /// A predefined type.
    pub fn predefined(layout: Rc<Layout>, element: Element, name: &str, is_checked: bool) -> Self {
        let mut datatype = Datatype::new(layout);
        datatype.element = Some(element);
        datatype.name = name.into();
        datatype.commit(is_checked);
        datatype
    }

    /// A type just made by the user.
    pub fn new(layout: Rc<Layout>) -> Self {
        let bounds = &layout.part.bounds;
        let narrow = |number: i128| number.clamp(isize::MIN as i128, isize::MAX as i128) as isize;
        Datatype {
            size: narrow(bounds.size) as usize,
            extent: narrow(bounds.extent()),
            access: Access::Uncommitted,
            element: None,
            lower: narrow(bounds.lower()),
            layout,
            name: Vec::new(),
        }
    }

    /// Makes the type ready for communication. If the program is checked, every buffer knows what its data
    /// are.
    pub fn commit(&mut self, is_checked: bool) {
        if !matches!(self.access, Access::Uncommitted) {
            return;
        }
        if is_checked && let Some(node) = &self.layout.part.node {
            let note = Note::new(&self.layout.part, &self.name, self.size);
            self.access = Access::Gaps(Rc::new(Program::noted(node, self.extent, note)));
            return;
        }
        self.access = match &self.layout.part.node {
            None if self.layout.part.bounds.size > 0 => Access::TooLarge,
            None => Access::Run(0),
            Some(node) if matches!(node.shape, Shape::Run) && self.extent == self.size as isize => {
                Access::Run(node.at)
            }
            Some(node) => Access::Gaps(Rc::new(Program::new(node, self.extent))),
        };
    }

    /// The same type as another one, for a handle of its own: committed if that one is.
    pub fn duplicate(&self, layout: Rc<Layout>) -> Self {
        Datatype { access: self.access.clone(), element: None, ..Datatype::new(layout) }
    }

    /// Gives what an operation keeps of the type.
    #[inline]
    pub fn elements(&self) -> Elements {
        Elements {
            size: self.size,
            extent: self.extent,
            element: self.element,
            access: self.access.clone(),
            layout: self.layout.clone(),
        }
    }

    /// Whether any number of elements fill memory from their address on without gaps.
    pub fn is_contiguous(&self) -> bool {
        matches!(self.access, Access::Run(0))
    }

    /// Whether the type may be used in communication.
    pub fn is_committed(&self) -> bool {
        !matches!(self.access, Access::Uncommitted)
    }

    /// Whether the user must not free or change it.
    pub fn is_predefined(&self) -> bool {
        self.layout.handle.is_some()
    }

    /// `count` elements at `address` as a stream of bytes.
    ///
    /// # Errors
    /// When the type is not committed, or the bytes cannot be counted.
    #[inline]
    pub fn buffer(&self, address: *mut u8, count: usize) -> Result<Buffer, Error> {
        match self.access.buffer(self.size, address, count) {
            Some(buffer) => buffer,
            None => Err(too_many(&self.layout, count)),
        }
    }
}
