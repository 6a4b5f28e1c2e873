//! IEEE 754 binary16, as Fortran's REAL(2) and C's `_Float16`. Operands become `f32`, which is wide enough
//! that one rounding of a sum or product after another gives what one alone would.

use super::{Combine, Maximum, Minimum, Product, Sum};
use super::{
    Complex, Kernel, LogicalAnd, LogicalOr, LogicalXor, Operation, complex as complex_kernel, floating,
    logical,
};

/// A number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Half(pub(super) u16);

impl Half {
    /// The same number with more bits.
    fn wide(self) -> f32 {
        let (sign, exponent, fraction) =
            (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 >> 10) & 0x1f, u32::from(self.0 & 0x3ff));
        match exponent {
            // Subnormal: as many times the smallest one, which f32 has exactly.
            0 => f32::from_bits(sign | (fraction as f32 * 2_f32.powi(-24)).to_bits()),
            0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
            _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
        }
    }

    /// The nearest one; ties to even.
    pub(super) fn nearest(number: f32) -> Half {
        let bits = number.to_bits();
        let (sign, magnitude) = ((bits >> 16) as u16 & 0x8000, bits & 0x7fff_ffff);
        if magnitude > 0x7f80_0000 {
            return Half(sign | 0x7e00 | (magnitude >> 13) as u16 & 0x3ff);
        }
        // 65520 and more are nearer to 65536, which is infinite.
        if magnitude >= 0x477f_f000 {
            return Half(sign | 0x7c00);
        }
        // Below the smallest normal one the last bit is worth 2^-24 whatever the exponent is: adding 0.5,
        // whose last bit in f32 is worth as much, rounds to it.
        if magnitude < 0x3880_0000 {
            let rounded = (f32::from_bits(magnitude) + 0.5).to_bits();
            return Half(sign | (rounded - 0.5_f32.to_bits()) as u16);
        }
        let even = (magnitude >> 13) & 1;
        Half(sign | ((magnitude - (112 << 23) + 0xfff + even) >> 13) as u16)
    }

    fn truth(holds: bool) -> Half {
        Half(if holds { 0x3c00 } else { 0 })
    }
}

macro_rules! combine {
    ($($operation:ident |$a:ident, $b:ident| $result:expr;)*) => {$(
        impl Combine<Half> for $operation {
            fn combine($a: Half, $b: Half) -> Half {
                $result
            }
        }
    )*};
}

combine! {
    Sum |a, b| Half::nearest(a.wide() + b.wide());
    Product |a, b| Half::nearest(a.wide() * b.wide());
    Minimum |a, b| if a.wide() < b.wide() { a } else { b };
    Maximum |a, b| if a.wide() > b.wide() { a } else { b };
    LogicalAnd |a, b| Half::truth(a.wide() != 0.0 && b.wide() != 0.0);
    LogicalOr |a, b| Half::truth(a.wide() != 0.0 || b.wide() != 0.0);
    LogicalXor |a, b| Half::truth((a.wide() != 0.0) != (b.wide() != 0.0));
}

impl Combine<Complex<Half>> for Sum {
    fn combine(a: Complex<Half>, b: Complex<Half>) -> Complex<Half> {
        Complex { re: Sum::combine(a.re, b.re), im: Sum::combine(a.im, b.im) }
    }
}

impl Combine<Complex<Half>> for Product {
    fn combine(a: Complex<Half>, b: Complex<Half>) -> Complex<Half> {
        let (a_re, a_im, b_re, b_im) = (a.re.wide(), a.im.wide(), b.re.wide(), b.im.wide());
        // The products are exact.
        Complex { re: Half::nearest(a_re * b_re - a_im * b_im), im: Half::nearest(a_re * b_im + a_im * b_re) }
    }
}

/// Operations on numbers.
pub(super) fn real(op: Operation) -> Option<Kernel> {
    floating::<Half>(op).or_else(|| logical::<Half>(op))
}

/// Operations on complex numbers.
pub(super) fn complex(op: Operation) -> Option<Kernel> {
    complex_kernel::<Half>(op)
}
