//! IEEE 754 binary128, as Fortran's REAL(16) and C's `_Float128`: no processor of ours computes with it, and
//! Rust has no type for it that is stable. Results are rounded to nearest, ties to even, as the standard has
//! it.
//!
//! A number is its bits: sign, 15 bits of exponent (bias 16383), 112 bits of fraction. Between the operands
//! and the rounding a significand has 113 bits, and [`GUARD`] more below, of which the last says whether
//! anything was lost further down.

use core::cmp::Ordering;

use super::elementwise::{each, kernels};
use super::{Kernel, Operation};

/// A number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Quad(u128);

const FRACTION_BITS: u32 = 112;
const SIGN: u128 = 1 << 127;
const FRACTION: u128 = (1 << FRACTION_BITS) - 1;
/// The exponent of infinities and of what is not a number.
const EXPONENT_MAX: i32 = 0x7fff;
const BIAS: i32 = 0x3fff;
const INFINITY: u128 = (EXPONENT_MAX as u128) << FRACTION_BITS;
/// First bit of the fraction: set in what is not a number and raises nothing.
const QUIET: u128 = 1 << (FRACTION_BITS - 1);
const ONE: u128 = (BIAS as u128) << FRACTION_BITS;
/// Bits below a significand.
const GUARD: u32 = 3;

impl Quad {
    fn is_nan(self) -> bool {
        self.0 & !SIGN > INFINITY
    }

    fn is_zero(self) -> bool {
        self.0 & !SIGN == 0
    }

    fn is_infinite(self) -> bool {
        self.0 & !SIGN == INFINITY
    }

    fn negated(self) -> Quad {
        Quad(self.0 ^ SIGN)
    }

    fn truth(holds: bool) -> Quad {
        Quad(if holds { ONE } else { 0 })
    }

    /// Exponent and significand of a finite number. Subnormal ones have the smallest exponent and no leading
    /// bit.
    fn parts(self) -> (i32, u128) {
        let exponent = (self.0 >> FRACTION_BITS) as i32 & EXPONENT_MAX;
        let fraction = self.0 & FRACTION;
        if exponent == 0 { (1, fraction) } else { (exponent, fraction | 1 << FRACTION_BITS) }
    }

    /// The same with the leading bit in its place, of a number that is not zero.
    fn normal_parts(self) -> (i32, u128) {
        let (exponent, significand) = self.parts();
        let missing = significand.leading_zeros() - (127 - FRACTION_BITS);
        (exponent - missing as i32, significand << missing)
    }

    /// Result of an operation on a NaN: that NaN, made quiet.
    fn quiet(a: Quad, b: Quad) -> Quad {
        Quad(if a.is_nan() { a.0 } else { b.0 } | QUIET)
    }

    /// Not a number, from numbers.
    const INVALID: Quad = Quad(SIGN | INFINITY | QUIET);

    fn add(self, other: Quad) -> Quad {
        if self.is_nan() || other.is_nan() {
            return Quad::quiet(self, other);
        }
        if self.is_infinite() || other.is_infinite() {
            let opposed = self.is_infinite() && other.is_infinite() && self.0 != other.0;
            return if opposed { Quad::INVALID } else { Quad::either_infinite(self, other) };
        }
        // The larger one first; of equal ones the first.
        let (a, b) = if other.0 & !SIGN > self.0 & !SIGN { (other, self) } else { (self, other) };
        let ((exponent, large), (small_exponent, small)) = (a.parts(), b.parts());
        let large = large << GUARD;
        let small = shifted_down(small << GUARD, (exponent - small_exponent) as u32);
        let sign = a.0 & SIGN;
        if (a.0 ^ b.0) & SIGN == 0 {
            return rounded(sign, exponent, large + small);
        }
        match large - small {
            // Equal numbers of unlike signs, or zeros: -0 only from two of them.
            0 => Quad(0),
            difference => rounded(sign, exponent, difference),
        }
    }

    fn either_infinite(a: Quad, b: Quad) -> Quad {
        if a.is_infinite() { a } else { b }
    }

    fn subtract(self, other: Quad) -> Quad {
        if other.is_nan() { Quad::quiet(self, other) } else { self.add(other.negated()) }
    }

    fn multiply(self, other: Quad) -> Quad {
        if self.is_nan() || other.is_nan() {
            return Quad::quiet(self, other);
        }
        let sign = (self.0 ^ other.0) & SIGN;
        if self.is_infinite() || other.is_infinite() {
            let is_invalid = self.is_zero() || other.is_zero();
            return if is_invalid { Quad::INVALID } else { Quad(sign | INFINITY) };
        }
        if self.is_zero() || other.is_zero() {
            return Quad(sign);
        }
        let ((exponent_a, a), (exponent_b, b)) = (self.normal_parts(), other.normal_parts());
        // 226 bits at most, of which the leading one is number 224 or 225.
        let (high, low) = wide_product(a, b);
        let dropped = FRACTION_BITS - GUARD;
        let kept = high << (128 - dropped) | low >> dropped;
        let is_lost = low << (128 - dropped) != 0;
        rounded(sign, exponent_a + exponent_b - BIAS, kept | u128::from(is_lost))
    }

    /// None when one is not a number.
    fn compare(self, other: Quad) -> Option<Ordering> {
        if self.is_nan() || other.is_nan() {
            return None;
        }
        let ordered = |number: Quad| {
            let magnitude = (number.0 & !SIGN) as i128;
            if number.0 & SIGN == 0 { magnitude } else { -magnitude }
        };
        Some(ordered(self).cmp(&ordered(other)))
    }
}

/// Shifts to the right; what is lost is told by the last bit.
fn shifted_down(significand: u128, by: u32) -> u128 {
    match by {
        0 => significand,
        1..128 => significand >> by | u128::from(significand << (128 - by) != 0),
        _ => u128::from(significand != 0),
    }
}

/// The number with this significand, which is not 0 and has [`GUARD`] bits below the last one of a number.
fn rounded(sign: u128, mut exponent: i32, mut significand: u128) -> Quad {
    const LEADING: u32 = 127 - FRACTION_BITS - GUARD;
    let zeros = significand.leading_zeros();
    if zeros < LEADING {
        significand = shifted_down(significand, LEADING - zeros);
        exponent += (LEADING - zeros) as i32;
    } else {
        // Not below the smallest exponent: what is less is subnormal.
        let up = ((zeros - LEADING) as i32).min((exponent - 1).max(0));
        significand <<= up;
        exponent -= up;
    }
    if exponent < 1 {
        significand = shifted_down(significand, (1 - exponent).min(128) as u32);
        exponent = 1;
    }
    let below = significand & ((1 << GUARD) - 1);
    let mut fraction = significand >> GUARD;
    let half = 1 << (GUARD - 1);
    if below > half || below == half && fraction & 1 == 1 {
        fraction += 1;
        if fraction == 1 << (FRACTION_BITS + 1) {
            fraction >>= 1;
            exponent += 1;
        }
    }
    if exponent >= EXPONENT_MAX {
        return Quad(sign | INFINITY);
    }
    // A leading bit adds 1 to the exponent; without one the number is subnormal.
    Quad(sign | ((((exponent as u128) - 1) << FRACTION_BITS) + fraction))
}

/// High and low half of a product.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a_low * b_low;
    let (middle, carry) = (a_high * b_low).overflowing_add(a_low * b_high);
    let (low, more) = low.overflowing_add(middle << 64);
    let high = a_high * b_high + (middle >> 64) + (u128::from(carry) << 64) + u128::from(more);
    (high, low)
}

kernels! {
    Quad;
    sum 1 |a, b| [a[0].add(b[0])];
    product 1 |a, b| [a[0].multiply(b[0])];
    minimum 1 |a, b| if a[0].compare(b[0]) == Some(Ordering::Less) { a } else { b };
    maximum 1 |a, b| if a[0].compare(b[0]) == Some(Ordering::Greater) { a } else { b };
    logical_and 1 |a, b| [Quad::truth(!a[0].is_zero() && !b[0].is_zero())];
    logical_or 1 |a, b| [Quad::truth(!a[0].is_zero() || !b[0].is_zero())];
    logical_xor 1 |a, b| [Quad::truth(a[0].is_zero() != b[0].is_zero())];
    complex_sum 2 |a, b| [a[0].add(b[0]), a[1].add(b[1])];
    complex_product 2 |a, b| [
        a[0].multiply(b[0]).subtract(a[1].multiply(b[1])),
        a[0].multiply(b[1]).add(a[1].multiply(b[0])),
    ];
    minimum_location 2 |a, b| if goes_first(&a, &b, Ordering::Less) { a } else { b };
    maximum_location 2 |a, b| if goes_first(&a, &b, Ordering::Greater) { a } else { b };
}

/// Whether `a` wins: by its value, or at equal values by its smaller index, which is a number as well.
fn goes_first(a: &[Quad; 2], b: &[Quad; 2], winner: Ordering) -> bool {
    match a[0].compare(b[0]) {
        Some(Ordering::Equal) => a[1].compare(b[1]) == Some(Ordering::Less),
        other => other == Some(winner),
    }
}

/// Operations on numbers.
pub(super) fn real(op: Operation) -> Option<Kernel> {
    match op {
        Operation::SUM => Some(sum),
        Operation::PROD => Some(product),
        Operation::MIN => Some(minimum),
        Operation::MAX => Some(maximum),
        Operation::LAND => Some(logical_and),
        Operation::LOR => Some(logical_or),
        Operation::LXOR => Some(logical_xor),
        _ => None,
    }
}

/// Operations on complex numbers.
pub(super) fn complex(op: Operation) -> Option<Kernel> {
    match op {
        Operation::SUM => Some(complex_sum),
        Operation::PROD => Some(complex_product),
        _ => None,
    }
}

/// Operations on a number and its place, which is a number as well.
pub(super) fn pair(op: Operation) -> Option<Kernel> {
    match op {
        Operation::MINLOC => Some(minimum_location),
        Operation::MAXLOC => Some(maximum_location),
        _ => None,
    }
}
