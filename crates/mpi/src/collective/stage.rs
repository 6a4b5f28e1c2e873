//! Array sections of an operation that ends later: the operation works on a copy whose elements lie side by
//! side. Who makes and attaches them: [`crate::sections`].

use super::memory::Memory;

/// The sections of one operation.
#[derive(Debug, Default)]
pub struct Stage {
    copies: Vec<Copy>,
}

/// One section.
#[derive(Debug)]
struct Copy {
    section: Elements,
    /// Address of the copy that the operation reads and writes.
    at: *mut u8,
    /// Content of the section when the operation began; none where it only reads.
    before: Option<*mut u8>,
    _memory: [Memory; 2],
}

/// Where the elements of a section lie. The first dimension varies fastest.
#[derive(Clone, Debug)]
pub struct Elements {
    /// The first one.
    pub address: *mut u8,
    /// Bytes of each.
    pub bytes: usize,
    /// For each dimension the number of elements, and the bytes from one to the next.
    pub dimensions: Vec<(usize, isize)>,
}

impl Elements {
    fn count(&self) -> usize {
        self.dimensions.iter().map(|dimension| dimension.0).product()
    }

    /// Calls `visit` with the address of each, and its place among them in bytes.
    fn for_each(&self, mut visit: impl FnMut(*mut u8, usize)) {
        let mut index = vec![0_usize; self.dimensions.len()];
        let mut address = self.address;
        for place in 0..self.count() {
            visit(address, place * self.bytes);
            for (at, &(extent, stride)) in index.iter_mut().zip(&self.dimensions) {
                *at += 1;
                address = address.wrapping_offset(stride);
                if *at < extent {
                    break;
                }
                address = address.wrapping_offset(-stride * *at as isize);
                *at = 0;
            }
        }
    }
}

impl Stage {
    /// Adds a section; gives the address for the operation.
    ///
    /// # Safety
    /// The section stays as long as the operation may use it.
    pub unsafe fn add(&mut self, section: Elements, is_written: bool) -> *mut u8 {
        let bytes = section.count() * section.bytes;
        let mut memory = [Memory::new(bytes), Memory::new(if is_written { bytes } else { 0 })];
        let at = memory[0].address();
        let before = is_written.then(|| memory[1].address());
        self.copies.push(Copy { section, at, before, _memory: memory });
        at
    }

    /// Copies what stands in the sections: the operation begins.
    ///
    /// # Safety
    /// No operation uses the copies.
    pub unsafe fn begin(&self) {
        for Copy { section, at, before, .. } in &self.copies {
            section.for_each(|element, place| {
                for copy in std::iter::once(*at).chain(*before) {
                    // SAFETY: both have as many bytes as the section's elements together.
                    unsafe { std::ptr::copy_nonoverlapping(element, copy.add(place), section.bytes) };
                }
            });
        }
    }

    /// Copies back what the operation has written: it is done.
    ///
    /// # Safety
    /// As [`Stage::begin`].
    pub unsafe fn finish(&self) {
        for Copy { section, at, before, .. } in &self.copies {
            let Some(before) = *before else { continue };
            section.for_each(|element, place| {
                // SAFETY: as above; the program leaves alone what an operation writes.
                unsafe {
                    let (new, old) = (at.add(place), before.add(place));
                    let [new_bytes, old_bytes] =
                        [new, old].map(|part| std::slice::from_raw_parts(part, section.bytes));
                    if new_bytes != old_bytes {
                        std::ptr::copy_nonoverlapping(new, element, section.bytes);
                    }
                }
            });
        }
    }
}
