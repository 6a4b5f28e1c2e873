//! The comparisons that waits and tests name.

use core::ffi::c_int;

use crate::fault;

/// How a word is compared.
#[derive(Clone, Copy, Debug)]
pub enum Comparison {
    /// `SHMEM_CMP_EQ`.
    Equal,
    /// `SHMEM_CMP_NE`.
    NotEqual,
    /// `SHMEM_CMP_GT`.
    Greater,
    /// `SHMEM_CMP_GE`.
    GreaterOrEqual,
    /// `SHMEM_CMP_LT`.
    Less,
    /// `SHMEM_CMP_LE`.
    LessOrEqual,
}

impl Comparison {
    /// The comparison of a number; ends the job if there is none.
    #[inline(always)]
    pub fn new(function: &str, cmp: c_int) -> Self {
        match cmp {
            1 => Comparison::Equal,
            2 => Comparison::NotEqual,
            3 => Comparison::Greater,
            4 => Comparison::GreaterOrEqual,
            5 => Comparison::Less,
            6 => Comparison::LessOrEqual,
            other => {
                fault::end(function, format_args!("cmp {other} is no comparison (SHMEM_CMP_EQ and so on)"))
            }
        }
    }

    /// Whether `found` compares with `value` as wanted.
    #[inline(always)]
    pub fn holds<T: PartialOrd>(self, found: T, value: T) -> bool {
        match self {
            Comparison::Equal => found == value,
            Comparison::NotEqual => found != value,
            Comparison::Greater => found > value,
            Comparison::GreaterOrEqual => found >= value,
            Comparison::Less => found < value,
            Comparison::LessOrEqual => found <= value,
        }
    }
}
