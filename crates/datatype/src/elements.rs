//! Elements that a pending operation keeps of a type, so that the handle may be freed meanwhile.

use std::rc::Rc;

use crate::access::{Access, Error, too_many};
use crate::buffer::Buffer;
use crate::element::Element;
use crate::layout::Layout;

/// Elements of a type, without its handle, name and attributes.
#[derive(Clone, Debug)]
pub struct Elements {
    /// Bytes of data in one element.
    pub size: usize,
    /// Distance from one element to the next.
    pub extent: isize,
    /// Element of the type, when predefined.
    pub element: Option<Element>,
    pub(crate) access: Access,
    pub(crate) layout: Rc<Layout>,
}

impl Elements {
    /// `count` elements at `address` as a stream of bytes.
    ///
    /// # Errors
    /// As [`crate::Datatype::buffer`].
    #[inline]
    pub fn buffer(&self, address: *mut u8, count: usize) -> Result<Buffer, Error> {
        let buffer = self.access.buffer(self.size, address, count);
        buffer.unwrap_or_else(|| Err(too_many(&self.layout, count)))
    }

    /// Where the data of `count` elements begin relative to their address, and how many bytes there are from
    /// first to last. The padding of predefined types counts, because reductions touch it.
    pub fn span(&self, count: usize) -> (isize, usize) {
        let bounds = &self.layout.part.bounds;
        let narrow = |number: i128| number.clamp(isize::MIN as i128, isize::MAX as i128) as isize;
        let low = narrow(bounds.true_lower());
        let mut high = narrow(bounds.true_lower() + bounds.true_extent());
        if self.element.is_some() {
            high = high.max(self.extent);
        }
        self.stretched(low, high, count)
    }

    /// The same of memory that a function of the program gets as an array of such elements: it may touch
    /// what lies between the bounds of each, data or not.
    pub fn room(&self, count: usize) -> (isize, usize) {
        if count == 0 {
            return (0, 0);
        }
        let bounds = &self.layout.part.bounds;
        let narrow = |number: i128| number.clamp(isize::MIN as i128, isize::MAX as i128) as isize;
        let true_upper = bounds.true_lower() + bounds.true_extent();
        // Bounds that the data lie outside of, as with addresses on MPI_BOTTOM, are no memory beside them.
        if bounds.upper() <= bounds.true_lower() || true_upper <= bounds.lower() {
            return self.span(count);
        }
        let low = bounds.true_lower().min(bounds.lower());
        // An array of C begins at its address.
        let high = true_upper.max(bounds.upper()).max(bounds.extent());
        self.stretched(narrow(low), narrow(high), count)
    }

    /// From one place to another one in the elements, of so many of them.
    fn stretched(&self, mut low: isize, mut high: isize, count: usize) -> (isize, usize) {
        let stretch = self.extent.saturating_mul(count.max(1) as isize - 1);
        if stretch >= 0 {
            high += stretch
        } else {
            low += stretch
        }
        (low, (high - low) as usize)
    }
}
