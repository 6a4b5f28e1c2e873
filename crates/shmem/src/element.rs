//! Elements, and which of them can be compared, changed atomically, reduced.

use std::sync::atomic::{AtomicI16, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};

use tutti_mpi::abi::*;

/// A value that is copied by its bytes.
pub trait Element: Copy {}
impl<T: Copy> Element for T {}

/// The C type, which Rust does not have: only its address is ever used.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct LongDouble([u8; 16]);

/// Bytes of so many elements; more than any memory has if they overflow.
#[inline(always)]
pub fn bytes_of<T>(nelems: usize) -> usize {
    nelems.saturating_mul(size_of::<T>())
}

/// Element that a thread can wait for.
pub trait Awaited: Element + PartialOrd {
    /// Reads it whole, before what stands behind.
    ///
    /// # Safety
    /// The address is valid and aligned.
    unsafe fn load(at: *const Self) -> Self;
}

/// Element that can be read, stored and swapped atomically.
pub trait Swapped: Element {
    /// Kind of the element on the way to another node.
    const ELEMENT: tutti_datatype::Element;
    /// # Safety
    /// The address is valid and aligned.
    unsafe fn fetch(at: *mut Self) -> Self;
    /// # Safety
    /// As above.
    unsafe fn set(at: *mut Self, value: Self);
    /// # Safety
    /// As above.
    unsafe fn swap(at: *mut Self, value: Self) -> Self;
}

/// Integers.
pub trait Integer: Swapped {
    /// 1.
    const ONE: Self;
    /// # Safety
    /// The address is valid and aligned.
    unsafe fn compare_swap(at: *mut Self, cond: Self, value: Self) -> Self;
    /// # Safety
    /// As above.
    unsafe fn add(at: *mut Self, value: Self) -> Self;
    /// # Safety
    /// As above.
    unsafe fn and(at: *mut Self, value: Self) -> Self;
    /// # Safety
    /// As above.
    unsafe fn or(at: *mut Self, value: Self) -> Self;
    /// # Safety
    /// As above.
    unsafe fn xor(at: *mut Self, value: Self) -> Self;
}

/// Element that collective operations combine.
pub trait Reduced: Element {
    /// Name of its type in MPI.
    const DATATYPE: MPI_Datatype;
}

macro_rules! awaited {
    ($($name:ty, $atomic:ty;)*) => { $(
        impl Awaited for $name {
            #[inline(always)]
            unsafe fn load(at: *const Self) -> Self {
                // SAFETY: our contract; others change the value by atomics and whole stores only.
                unsafe { <$atomic>::from_ptr(at.cast_mut()) }.load(SeqCst)
            }
        }
    )* };
}

macro_rules! integer {
    ($($name:ty, $atomic:ty;)*) => { $(
        impl Swapped for $name {
            const ELEMENT: tutti_datatype::Element = tutti_datatype::Element::Unsigned(size_of::<$name>() as u8);
            #[inline(always)]
            unsafe fn fetch(at: *mut Self) -> Self {
                // SAFETY: our contract.
                unsafe { <$atomic>::from_ptr(at) }.load(SeqCst)
            }
            #[inline(always)]
            unsafe fn set(at: *mut Self, value: Self) {
                // SAFETY: our contract.
                unsafe { <$atomic>::from_ptr(at) }.store(value, std::sync::atomic::Ordering::Release)
            }
            #[inline(always)]
            unsafe fn swap(at: *mut Self, value: Self) -> Self {
                // SAFETY: our contract.
                unsafe { <$atomic>::from_ptr(at) }.swap(value, SeqCst)
            }
        }
        impl Integer for $name {
            const ONE: Self = 1;
            #[inline(always)]
            unsafe fn compare_swap(at: *mut Self, cond: Self, value: Self) -> Self {
                // SAFETY: our contract.
                let atomic = unsafe { <$atomic>::from_ptr(at) };
                atomic.compare_exchange(cond, value, SeqCst, SeqCst).unwrap_or_else(|found| found)
            }
            #[inline(always)]
            unsafe fn add(at: *mut Self, value: Self) -> Self {
                // SAFETY: our contract.
                unsafe { <$atomic>::from_ptr(at) }.fetch_add(value, SeqCst)
            }
            #[inline(always)]
            unsafe fn and(at: *mut Self, value: Self) -> Self {
                // SAFETY: our contract.
                unsafe { <$atomic>::from_ptr(at) }.fetch_and(value, SeqCst)
            }
            #[inline(always)]
            unsafe fn or(at: *mut Self, value: Self) -> Self {
                // SAFETY: our contract.
                unsafe { <$atomic>::from_ptr(at) }.fetch_or(value, SeqCst)
            }
            #[inline(always)]
            unsafe fn xor(at: *mut Self, value: Self) -> Self {
                // SAFETY: our contract.
                unsafe { <$atomic>::from_ptr(at) }.fetch_xor(value, SeqCst)
            }
        }
    )* };
}

macro_rules! float {
    ($($name:ty, $bits:ty;)*) => { $(
        impl Swapped for $name {
            const ELEMENT: tutti_datatype::Element = tutti_datatype::Element::Unsigned(size_of::<$bits>() as u8);
            #[inline(always)]
            unsafe fn fetch(at: *mut Self) -> Self {
                // SAFETY: our contract: the bits have the same size and alignment.
                <$name>::from_bits(unsafe { <$bits as Swapped>::fetch(at.cast()) })
            }
            #[inline(always)]
            unsafe fn set(at: *mut Self, value: Self) {
                // SAFETY: as above.
                unsafe { <$bits as Swapped>::set(at.cast(), value.to_bits()) }
            }
            #[inline(always)]
            unsafe fn swap(at: *mut Self, value: Self) -> Self {
                // SAFETY: as above.
                <$name>::from_bits(unsafe { <$bits as Swapped>::swap(at.cast(), value.to_bits()) })
            }
        }
    )* };
}

macro_rules! reduced {
    ($($name:ty, $datatype:ident;)*) => { $(
        impl Reduced for $name {
            const DATATYPE: MPI_Datatype = $datatype;
        }
    )* };
}

awaited! { i16, AtomicI16; u16, AtomicU16; i32, AtomicI32; u32, AtomicU32; i64, AtomicI64; u64, AtomicU64; }
integer! { i32, AtomicI32; u32, AtomicU32; i64, AtomicI64; u64, AtomicU64; }
float! { f32, u32; f64, u64; }
reduced! {
    i8, MPI_INT8_T; i16, MPI_INT16_T; i32, MPI_INT32_T; i64, MPI_INT64_T;
    u8, MPI_UINT8_T; u16, MPI_UINT16_T; u32, MPI_UINT32_T; u64, MPI_UINT64_T;
    f32, MPI_FLOAT; f64, MPI_DOUBLE; LongDouble, MPI_LONG_DOUBLE;
    [f32; 2], MPI_C_FLOAT_COMPLEX; [f64; 2], MPI_C_DOUBLE_COMPLEX;
}
