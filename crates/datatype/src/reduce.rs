//! The predefined reductions on elements (MPI 6.9.2): which operation goes with which element, and the loop
//! that does it.
//!
//! [`kernel`] gives the loop, or nothing where the operation has no meaning. Beyond the standard it takes
//! characters as integers of their size, and logical operations on floating point numbers, as other
//! implementations do. A loop computes `inout[i] = input[i] op inout[i]`; the input is the operand of the
//! lower rank. Integers wrap. The loops are plain, so that the compiler makes vector code of them.

mod elementwise;
mod half;
mod long_double;
mod quad;

use crate::element::{Element, PairValue};

/// A predefined operation, by the number that the MPI ABI gives it. Other numbers are operations without
/// loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation(pub usize);

impl Operation {
    /// MPI_SUM.
    pub const SUM: Operation = Operation(0x21);
    /// MPI_MIN.
    pub const MIN: Operation = Operation(0x22);
    /// MPI_MAX.
    pub const MAX: Operation = Operation(0x23);
    /// MPI_PROD.
    pub const PROD: Operation = Operation(0x24);
    /// MPI_BAND.
    pub const BAND: Operation = Operation(0x28);
    /// MPI_BOR.
    pub const BOR: Operation = Operation(0x29);
    /// MPI_BXOR.
    pub const BXOR: Operation = Operation(0x2a);
    /// MPI_LAND.
    pub const LAND: Operation = Operation(0x30);
    /// MPI_LOR.
    pub const LOR: Operation = Operation(0x31);
    /// MPI_LXOR.
    pub const LXOR: Operation = Operation(0x32);
    /// MPI_MINLOC.
    pub const MINLOC: Operation = Operation(0x38);
    /// MPI_MAXLOC.
    pub const MAXLOC: Operation = Operation(0x39);
}

/// A loop over `count` elements: `inout[i] = input[i] op inout[i]`.
///
/// # Safety
/// Both addresses lead to `count` elements of the kernel's type, in any alignment; they do not overlap.
pub type Kernel = unsafe fn(input: *const u8, inout: *mut u8, count: usize);

/// The loop for an operation on elements; none when it has no meaning for them.
pub fn kernel(op: Operation, element: Element) -> Option<Kernel> {
    match element {
        Element::Signed(1) => integer::<i8>(op),
        Element::Signed(2) => integer::<i16>(op),
        Element::Signed(4) => integer::<i32>(op),
        Element::Signed(8) => integer::<i64>(op),
        Element::Signed(16) => integer::<i128>(op),
        Element::Unsigned(1) => integer::<u8>(op),
        Element::Unsigned(2) => integer::<u16>(op),
        Element::Unsigned(4) => integer::<u32>(op),
        Element::Unsigned(8) => integer::<u64>(op),
        Element::Character(1) => integer::<core::ffi::c_char>(op),
        Element::Character(4) => integer::<i32>(op),
        Element::Float(2) => half::real(op),
        Element::Float(4) => floating::<f32>(op).or_else(|| logical::<f32>(op)),
        Element::Float(8) => floating::<f64>(op).or_else(|| logical::<f64>(op)),
        Element::Float(16) => long_double::real(op),
        Element::Complex(2) => half::complex(op),
        Element::Complex(4) => complex::<f32>(op),
        Element::Complex(8) => complex::<f64>(op),
        Element::Complex(16) => long_double::complex(op),
        Element::Quad { complex: false } => quad::real(op),
        Element::Quad { complex: true } => quad::complex(op),
        Element::Logical(1) => logical::<u8>(op),
        Element::Logical(2) => logical::<u16>(op),
        Element::Logical(4) => logical::<u32>(op),
        Element::Logical(8) => logical::<u64>(op),
        Element::Logical(16) => logical::<u128>(op),
        Element::Byte => bits::<u8>(op),
        Element::Pair(value) => pair(op, value),
        Element::Signed(_)
        | Element::Unsigned(_)
        | Element::Float(_)
        | Element::Complex(_)
        | Element::Logical(_)
        | Element::Character(_) => None,
    }
}

/// Applies `combine` to every pair of elements.
///
/// # Safety
/// As for [`Kernel`].
#[inline(always)]
unsafe fn each<T: Copy>(input: *const u8, inout: *mut u8, count: usize, combine: impl Fn(T, T) -> T) {
    let (input, inout) = (input.cast::<T>(), inout.cast::<T>());
    for i in 0..count {
        // SAFETY: i < count, our contract.
        unsafe {
            let (a, b) = (input.add(i).read_unaligned(), inout.add(i).read_unaligned());
            inout.add(i).write_unaligned(combine(a, b));
        }
    }
}

/// Result of two operands: either, or something new.
trait Combine<T> {
    fn combine(a: T, b: T) -> T;
}

/// The loop of an operation on a type.
unsafe fn fold<T: Copy, O: Combine<T>>(input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: our contract is that of a kernel.
    unsafe { each::<T>(input, inout, count, O::combine) }
}

/// The same with registers twice as wide.
///
/// # Safety
/// As for [`Kernel`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fold_wide<T: Copy, O: Combine<T>>(input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: our contract is that of a kernel.
    unsafe { each::<T>(input, inout, count, O::combine) }
}

/// The fastest loop that this processor has. Each gives the same results: an element has nothing to do with
/// its neighbours.
#[inline]
fn fastest<T: Copy, O: Combine<T>>() -> Kernel {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return fold_wide::<T, O>;
    }
    fold::<T, O>
}

struct Sum;
struct Product;
struct Minimum;
struct Maximum;
struct BitAnd;
struct BitOr;
struct BitXor;
struct LogicalAnd;
struct LogicalOr;
struct LogicalXor;

macro_rules! combine {
    ($($operation:ident $types:tt |$a:ident, $b:ident| $result:expr;)*) => {
        $(combine!(@each $operation $types |$a, $b| $result);)*
    };
    (@each $operation:ident [$($type:ty),*] |$a:ident, $b:ident| $result:expr) => {
        $(impl Combine<$type> for $operation {
            #[inline(always)]
            fn combine($a: $type, $b: $type) -> $type {
                $result
            }
        })*
    };
}

combine! {
    Sum [i8, i16, i32, i64, i128, u8, u16, u32, u64] |a, b| a.wrapping_add(b);
    Product [i8, i16, i32, i64, i128, u8, u16, u32, u64] |a, b| a.wrapping_mul(b);
    Sum [f32, f64] |a, b| a + b;
    Product [f32, f64] |a, b| a * b;
    Minimum [i8, i16, i32, i64, i128, u8, u16, u32, u64, f32, f64] |a, b| if a < b { a } else { b };
    Maximum [i8, i16, i32, i64, i128, u8, u16, u32, u64, f32, f64] |a, b| if a > b { a } else { b };
    BitAnd [i8, i16, i32, i64, i128, u8, u16, u32, u64] |a, b| a & b;
    BitOr [i8, i16, i32, i64, i128, u8, u16, u32, u64] |a, b| a | b;
    BitXor [i8, i16, i32, i64, i128, u8, u16, u32, u64] |a, b| a ^ b;
    LogicalAnd [i8, i16, i32, i64, i128, u8, u16, u32, u64, u128] |a, b| (a != 0 && b != 0).into();
    LogicalOr [i8, i16, i32, i64, i128, u8, u16, u32, u64, u128] |a, b| (a != 0 || b != 0).into();
    LogicalXor [i8, i16, i32, i64, i128, u8, u16, u32, u64, u128] |a, b| ((a != 0) != (b != 0)).into();
    LogicalAnd [f32, f64] |a, b| u8::from(a != 0.0 && b != 0.0).into();
    LogicalOr [f32, f64] |a, b| u8::from(a != 0.0 || b != 0.0).into();
    LogicalXor [f32, f64] |a, b| u8::from((a != 0.0) != (b != 0.0)).into();
}

fn bits<T: Copy>(op: Operation) -> Option<Kernel>
where
    BitAnd: Combine<T>,
    BitOr: Combine<T>,
    BitXor: Combine<T>,
{
    match op {
        Operation::BAND => Some(fold::<T, BitAnd>),
        Operation::BOR => Some(fold::<T, BitOr>),
        Operation::BXOR => Some(fold::<T, BitXor>),
        _ => None,
    }
}

fn logical<T: Copy>(op: Operation) -> Option<Kernel>
where
    LogicalAnd: Combine<T>,
    LogicalOr: Combine<T>,
    LogicalXor: Combine<T>,
{
    match op {
        Operation::LAND => Some(fold::<T, LogicalAnd>),
        Operation::LOR => Some(fold::<T, LogicalOr>),
        Operation::LXOR => Some(fold::<T, LogicalXor>),
        _ => None,
    }
}

fn floating<T: Copy>(op: Operation) -> Option<Kernel>
where
    Sum: Combine<T>,
    Product: Combine<T>,
    Minimum: Combine<T>,
    Maximum: Combine<T>,
{
    match op {
        Operation::SUM => Some(fastest::<T, Sum>()),
        Operation::PROD => Some(fastest::<T, Product>()),
        Operation::MIN => Some(fastest::<T, Minimum>()),
        Operation::MAX => Some(fastest::<T, Maximum>()),
        _ => None,
    }
}

fn integer<T: Copy>(op: Operation) -> Option<Kernel>
where
    Sum: Combine<T>,
    Product: Combine<T>,
    Minimum: Combine<T>,
    Maximum: Combine<T>,
    BitAnd: Combine<T>,
    BitOr: Combine<T>,
    BitXor: Combine<T>,
    LogicalAnd: Combine<T>,
    LogicalOr: Combine<T>,
    LogicalXor: Combine<T>,
{
    floating::<T>(op).or_else(|| bits::<T>(op)).or_else(|| logical::<T>(op))
}

/// A complex number as C and Fortran store it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Complex<F> {
    re: F,
    im: F,
}

macro_rules! combine_complex {
    ($($float:ty),*) => {$(
        impl Combine<Complex<$float>> for Sum {
            #[inline(always)]
            fn combine(a: Complex<$float>, b: Complex<$float>) -> Complex<$float> {
                Complex { re: a.re + b.re, im: a.im + b.im }
            }
        }
        impl Combine<Complex<$float>> for Product {
            #[inline(always)]
            fn combine(a: Complex<$float>, b: Complex<$float>) -> Complex<$float> {
                Complex { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
            }
        }
    )*};
}

combine_complex!(f32, f64);

fn complex<F: Copy>(op: Operation) -> Option<Kernel>
where
    Sum: Combine<Complex<F>>,
    Product: Combine<Complex<F>>,
{
    match op {
        Operation::SUM => Some(fold::<Complex<F>, Sum>),
        Operation::PROD => Some(fold::<Complex<F>, Product>),
        _ => None,
    }
}

/// A value and where it was found, as the pair types lie in memory.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<V, I> {
    value: V,
    index: I,
}

struct MinimumLocation;
struct MaximumLocation;

impl<V: PartialOrd, I: PartialOrd> Combine<Pair<V, I>> for MinimumLocation {
    #[inline(always)]
    fn combine(a: Pair<V, I>, b: Pair<V, I>) -> Pair<V, I> {
        let first = a.value < b.value || (a.value == b.value && a.index < b.index);
        if first { a } else { b }
    }
}

impl<V: PartialOrd, I: PartialOrd> Combine<Pair<V, I>> for MaximumLocation {
    #[inline(always)]
    fn combine(a: Pair<V, I>, b: Pair<V, I>) -> Pair<V, I> {
        let first = a.value > b.value || (a.value == b.value && a.index < b.index);
        if first { a } else { b }
    }
}

fn location<V: Copy + PartialOrd, I: Copy + PartialOrd>(op: Operation) -> Option<Kernel> {
    match op {
        Operation::MINLOC => Some(fold::<Pair<V, I>, MinimumLocation>),
        Operation::MAXLOC => Some(fold::<Pair<V, I>, MaximumLocation>),
        _ => None,
    }
}

fn pair(op: Operation, value: PairValue) -> Option<Kernel> {
    match value {
        PairValue::Float => location::<f32, i32>(op),
        PairValue::Double => location::<f64, i32>(op),
        PairValue::LongDouble => long_double::pair(op),
        PairValue::Quad => quad::pair(op),
        PairValue::Short => location::<i16, i32>(op),
        PairValue::Int => location::<i32, i32>(op),
        PairValue::Long => location::<i64, i32>(op),
        PairValue::Same { bytes: 4, integer: true } => location::<i32, i32>(op),
        PairValue::Same { bytes: 4, integer: false } => location::<f32, f32>(op),
        PairValue::Same { bytes: 8, integer: false } => location::<f64, f64>(op),
        PairValue::Same { bytes: 16, integer: false } => long_double::same_pair(op),
        PairValue::Same { .. } => None,
    }
}

#[cfg(test)]
mod tests;
