//! Kernels that combine numbers in software, element by element.

/// Applies `combine` to `count` elements of `N` numbers each, of an alignment that the user has chosen.
///
/// # Safety
/// The contract of a [`Kernel`](super::Kernel).
#[inline(always)]
pub(super) unsafe fn each<T: Copy, const N: usize>(
    input: *const u8,
    inout: *mut u8,
    count: usize,
    combine: impl Fn([T; N], [T; N]) -> [T; N],
) {
    let (input, inout) = (input.cast::<[T; N]>(), inout.cast::<[T; N]>());
    for i in 0..count {
        // SAFETY: the contract of a kernel.
        unsafe {
            let (a, b) = (input.add(i).read_unaligned(), inout.add(i).read_unaligned());
            inout.add(i).write_unaligned(combine(a, b));
        }
    }
}

/// Defines kernels over elements of so many numbers of one type each.
macro_rules! kernels {
    ($number:ty; $($name:ident $numbers:literal |$a:ident, $b:ident| $result:expr;)*) => {$(
        unsafe fn $name(input: *const u8, inout: *mut u8, count: usize) {
            // SAFETY: the contract of a kernel.
            unsafe { each::<$number, $numbers>(input, inout, count, |$a, $b| $result) }
        }
    )*};
}

pub(super) use kernels;
