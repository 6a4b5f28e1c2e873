//! The platform's `long double`, for which Rust has no type: on x86-64 the 80-bit numbers of the x87 unit in
//! 16 bytes. On other machines the operations do not exist.

use super::{Kernel, Operation};

/// Operations on numbers.
pub(super) fn real(op: Operation) -> Option<Kernel> {
    #[cfg(target_arch = "x86_64")]
    {
        x87::real(op)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = op;
        None
    }
}

/// Operations on complex numbers.
pub(super) fn complex(op: Operation) -> Option<Kernel> {
    #[cfg(target_arch = "x86_64")]
    {
        x87::complex(op)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = op;
        None
    }
}

/// Operations on a number and an int.
pub(super) fn pair(op: Operation) -> Option<Kernel> {
    #[cfg(target_arch = "x86_64")]
    {
        x87::pair(op)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = op;
        None
    }
}

/// Operations on a number and its place, which is a number as well.
pub(super) fn same_pair(op: Operation) -> Option<Kernel> {
    #[cfg(target_arch = "x86_64")]
    {
        x87::same_pair(op)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = op;
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod x87 {
    use core::arch::asm;
    use core::cmp::Ordering;

    use super::super::elementwise::{each, kernels};
    use super::{Kernel, Operation};

    const BYTES: usize = 16;

    /// A number in registers' format, with the padding of C.
    #[derive(Clone, Copy)]
    #[repr(C, align(16))]
    struct Number([u8; BYTES]);

    /// Loads two numbers, combines them with one instruction, and stores the result.
    macro_rules! arithmetic {
        ($name:ident, $instruction:literal) => {
            #[inline(always)]
            fn $name(a: Number, b: Number) -> Number {
                let mut result = Number([0; BYTES]);
                // SAFETY: the three addresses are those of 16 bytes each; two numbers are pushed, one is
                // popped by the operation and one by the store, so the register stack is as empty as it was.
                unsafe {
                    asm!(
                        "fld tbyte ptr [{a}]",
                        "fld tbyte ptr [{b}]",
                        $instruction,
                        "fstp tbyte ptr [{result}]",
                        a = in(reg) &a,
                        b = in(reg) &b,
                        result = in(reg) &mut result,
                        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                        options(nostack),
                    );
                }
                result
            }
        };
    }

    arithmetic!(add, "faddp st(1), st");
    arithmetic!(multiply, "fmulp st(1), st");
    arithmetic!(subtract, "fsubp st(1), st");

    /// Compares two numbers; none when one is not a number.
    fn compare(a: Number, b: Number) -> Option<Ordering> {
        let (below, equal, unordered): (u8, u8, u8);
        // SAFETY: two numbers are pushed; the comparison pops one, the store to itself the other.
        unsafe {
            asm!(
                "fld tbyte ptr [{b}]",
                "fld tbyte ptr [{a}]",
                "fucomip st, st(1)",
                "setb {below}",
                "sete {equal}",
                "setp {unordered}",
                "fstp st(0)",
                a = in(reg) &a,
                b = in(reg) &b,
                below = out(reg_byte) below,
                equal = out(reg_byte) equal,
                unordered = out(reg_byte) unordered,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        match (unordered, equal, below) {
            (1, ..) => None,
            (_, 1, _) => Some(Ordering::Equal),
            (_, _, 1) => Some(Ordering::Less),
            _ => Some(Ordering::Greater),
        }
    }

    /// Whether a number is 0 or -0: its mantissa, whose first bit is explicit, and its exponent are 0.
    fn is_zero(number: Number) -> bool {
        number.0[..8] == [0; 8] && number.0[8] == 0 && number.0[9] & 0x7f == 0
    }

    /// 1 or 0.
    fn truth(holds: bool) -> Number {
        let mut number = Number([0; BYTES]);
        if holds {
            number.0[7] = 0x80;
            number.0[8..10].copy_from_slice(&16383_u16.to_le_bytes());
        }
        number
    }

    kernels! {
        Number;
        sum 1 |a, b| [add(a[0], b[0])];
        product 1 |a, b| [multiply(a[0], b[0])];
        minimum 1 |a, b| if compare(a[0], b[0]) == Some(Ordering::Less) { a } else { b };
        maximum 1 |a, b| if compare(a[0], b[0]) == Some(Ordering::Greater) { a } else { b };
        logical_and 1 |a, b| [truth(!is_zero(a[0]) && !is_zero(b[0]))];
        logical_or 1 |a, b| [truth(!is_zero(a[0]) || !is_zero(b[0]))];
        logical_xor 1 |a, b| [truth(is_zero(a[0]) != is_zero(b[0]))];
        complex_sum 2 |a, b| [add(a[0], b[0]), add(a[1], b[1])];
        complex_product 2 |a, b| [
            subtract(multiply(a[0], b[0]), multiply(a[1], b[1])),
            add(multiply(a[0], b[1]), multiply(a[1], b[0])),
        ];
        minimum_location 2 |a, b| if goes_first(&a, &b, Ordering::Less) { a } else { b };
        maximum_location 2 |a, b| if goes_first(&a, &b, Ordering::Greater) { a } else { b };
        minimum_same 2 |a, b| if wins(&a, &b, Ordering::Less) { a } else { b };
        maximum_same 2 |a, b| if wins(&a, &b, Ordering::Greater) { a } else { b };
    }

    /// Whether `a` wins: by its value, or at equal values by its smaller index (the int behind the number).
    fn goes_first(a: &[Number; 2], b: &[Number; 2], winner: Ordering) -> bool {
        let index = |pair: &[Number; 2]| {
            i32::from_ne_bytes(pair[1].0[..4].try_into().expect("four bytes of sixteen"))
        };
        match compare(a[0], b[0]) {
            Some(Ordering::Equal) => index(a) < index(b),
            other => other == Some(winner),
        }
    }

    /// The same where the index is a number, too.
    fn wins(a: &[Number; 2], b: &[Number; 2], winner: Ordering) -> bool {
        match compare(a[0], b[0]) {
            Some(Ordering::Equal) => compare(a[1], b[1]) == Some(Ordering::Less),
            other => other == Some(winner),
        }
    }

    pub(super) fn same_pair(op: Operation) -> Option<Kernel> {
        match op {
            Operation::MINLOC => Some(minimum_same),
            Operation::MAXLOC => Some(maximum_same),
            _ => None,
        }
    }

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

    pub(super) fn complex(op: Operation) -> Option<Kernel> {
        match op {
            Operation::SUM => Some(complex_sum),
            Operation::PROD => Some(complex_product),
            _ => None,
        }
    }

    pub(super) fn pair(op: Operation) -> Option<Kernel> {
        match op {
            Operation::MINLOC => Some(minimum_location),
            Operation::MAXLOC => Some(maximum_location),
            _ => None,
        }
    }
}
