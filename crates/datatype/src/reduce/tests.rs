use super::*;

fn apply<T: Copy>(op: Operation, element: Element, a: &[T], b: &[T]) -> Vec<T> {
    let mut result = b.to_vec();
    let kernel = kernel(op, element).expect("the operation is defined");
    // SAFETY: both slices hold as many elements.
    unsafe { kernel(a.as_ptr().cast(), result.as_mut_ptr().cast(), a.len()) };
    result
}

#[test]
fn reduce_integers_wrap_and_logicals_are_0_or_1() {
    assert_eq!(apply(Operation::SUM, Element::Signed(1), &[127_i8, -128], &[1, -1]), [-128, 127]);
    assert_eq!(apply(Operation::PROD, Element::Unsigned(4), &[1_u32 << 31], &[2]), [0]);
    assert_eq!(apply(Operation::LAND, Element::Signed(4), &[5, 5, 0], &[7, 0, 0]), [1, 0, 0]);
    assert_eq!(apply(Operation::LXOR, Element::Logical(4), &[5, 5, 0_u32], &[7, 0, 9]), [0, 1, 1]);
    assert_eq!(apply(Operation::BXOR, Element::Byte, &[0xf0_u8], &[0xff]), [0x0f]);
    assert_eq!(apply(Operation::MAX, Element::Unsigned(8), &[u64::MAX], &[1]), [u64::MAX]);
}

#[test]
fn reduce_complex_multiplication() {
    let (a, b) = ([[1.0_f64, 2.0], [0.0, 1.0]], [[3.0, -1.0], [0.0, 1.0]]);
    assert_eq!(apply(Operation::PROD, Element::Complex(8), &a, &b), [[5.0, 5.0], [-1.0, 0.0]]);
    assert_eq!(apply(Operation::SUM, Element::Complex(8), &a, &b), [[4.0, 1.0], [0.0, 2.0]]);
}

#[test]
fn reduce_minloc_ties_take_the_smaller_index() {
    let pair = |value, index| Pair { value, index };
    let a: [Pair<f64, i32>; 3] = [pair(1.0, 4), pair(2.0, 1), pair(3.0, 9)];
    let b = [pair(1.0, 3), pair(1.0, 2), pair(4.0, 0)];
    let found = apply(Operation::MAXLOC, Element::Pair(PairValue::Double), &a, &b);
    assert_eq!(found.iter().map(|p| (p.value, p.index)).collect::<Vec<_>>(), [(1.0, 3), (2.0, 1), (4.0, 0)]);
    let found = apply(Operation::MINLOC, Element::Pair(PairValue::Double), &a, &b);
    assert_eq!(found.iter().map(|p| (p.value, p.index)).collect::<Vec<_>>(), [(1.0, 3), (1.0, 2), (3.0, 9)]);
}

#[test]
fn reduce_characters_as_integers_and_floats_as_truth_values() {
    let character = Element::Character(1);
    assert_eq!(apply(Operation::SUM, character, b"ab", &[1, 2]), *b"bd");
    assert_eq!(apply(Operation::MAX, character, b"a", b"b"), *b"b");
    assert_eq!(apply(Operation::BXOR, character, &[0xf0_u8], &[0xff]), [0x0f]);
    assert_eq!(apply(Operation::LAND, character, b"ab", &[0, 7]), [0, 1]);
    assert_eq!(apply(Operation::PROD, Element::Character(4), &[-3_i32], &[1 << 20]), [-3 << 20]);
    assert_eq!(
        apply(Operation::LAND, Element::Float(8), &[0.5, -0.0, 2.0], &[2.0, 1.0, 0.0]),
        [1.0, 0.0, 0.0]
    );
    assert_eq!(apply(Operation::LOR, Element::Float(4), &[0.0_f32, -0.0], &[2.0, 0.0]), [1.0, 0.0]);
    assert_eq!(apply(Operation::LXOR, Element::Float(4), &[1.0_f32, 3.0], &[2.0, 0.0]), [0.0, 1.0]);
    assert_eq!(apply(Operation::SUM, Element::Signed(16), &[i128::MAX], &[1]), [i128::MIN]);
    assert_eq!(apply(Operation::LOR, Element::Logical(16), &[0_u128, 0], &[7, 0]), [1, 0]);
}

#[test]
fn reduce_undefined_combinations_have_no_kernel() {
    for (op, element) in [
        (Operation::BAND, Element::Float(8)),
        (Operation::LAND, Element::Complex(4)),
        (Operation::MAX, Element::Complex(8)),
        (Operation::SUM, Element::Byte),
        (Operation::SUM, Element::Logical(4)),
        (Operation::SUM, Element::Pair(PairValue::Int)),
        (Operation::MINLOC, Element::Signed(4)),
        (Operation(0x20), Element::Signed(4)),
    ] {
        assert!(kernel(op, element).is_none(), "{op:?} on {element:?}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn reduce_long_double_keeps_its_mantissa() {
    // 80-bit format: mantissa with explicit first bit, then sign and exponent (bias 16383).
    fn number(mantissa: u64, exponent: u16) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&mantissa.to_le_bytes());
        bytes[8..10].copy_from_slice(&exponent.to_le_bytes());
        bytes
    }
    let one = number(1 << 63, 16383);
    let small = number(1 << 63, 16383 - 63);
    let sum = apply(Operation::SUM, Element::Float(16), &[one], &[small]);
    assert_eq!(sum, [number(1 << 63 | 1, 16383)], "a double would have lost the last bit");
    assert_eq!(apply(Operation::MAX, Element::Float(16), &[one], &[small]), [one]);
    assert_eq!(apply(Operation::MIN, Element::Float(16), &[one], &[small]), [small]);
    let two = number(1 << 63, 16384);
    assert_eq!(apply(Operation::PROD, Element::Float(16), &[two], &[small]), [number(1 << 63, 16383 - 62)]);
    let (zero, less_than_zero) = (number(0, 0), number(0, 0x8000));
    let logical = |op, a, b| apply(op, Element::Float(16), &[a], &[b])[0];
    assert_eq!(
        (logical(Operation::LAND, two, small), logical(Operation::LAND, two, less_than_zero)),
        (one, zero)
    );
    assert_eq!(
        (logical(Operation::LOR, zero, small), logical(Operation::LOR, zero, less_than_zero)),
        (one, zero)
    );
    assert_eq!((logical(Operation::LXOR, zero, small), logical(Operation::LXOR, two, small)), (one, zero));
    let i = [number(0, 0), one];
    let product = apply(Operation::PROD, Element::Complex(16), &[i], &[i]);
    assert_eq!(product, [[number(1 << 63, 16383 | 0x8000), number(0, 0)]]);
    let at = |index: i32| {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&index.to_le_bytes());
        bytes
    };
    let pair = Element::Pair(PairValue::LongDouble);
    assert_eq!(apply(Operation::MAXLOC, pair, &[[one, at(7)]], &[[one, at(3)]]), [[one, at(3)]]);
    assert_eq!(apply(Operation::MINLOC, pair, &[[one, at(1)]], &[[small, at(3)]]), [[small, at(3)]]);
}

#[test]
fn reduce_quad_rounds_to_nearest_even() {
    // Sign and exponent (bias 16383) above 112 bits of fraction.
    let number = |exponent: u128, fraction: u128| exponent << 112 | fraction;
    let (quad, one) = (Element::Quad { complex: false }, number(16383, 0));
    let sum = |a: u128, b: u128| apply(Operation::SUM, quad, &[a], &[b])[0];
    let product = |a: u128, b: u128| apply(Operation::PROD, quad, &[a], &[b])[0];
    assert_eq!(sum(one, number(16383 - 112, 0)), number(16383, 1), "the last bit");
    assert_eq!(sum(one, number(16383 - 113, 0)), one, "a tie goes to even");
    assert_eq!(sum(number(16383, 1), number(16383 - 113, 0)), number(16383, 2));
    assert_eq!(sum(one, one | 1 << 127), 0);
    assert_eq!(sum(1, 1), 2, "subnormal numbers");
    assert_eq!(sum(number(0, (1 << 112) - 1), 1), number(1, 0), "the smallest normal one");
    assert_eq!(product(number(16384, 0), number(16385, 0)), number(16386, 0));
    assert_eq!(product(number(1, 0), number(16382, 0)), 1 << 111, "half of it is subnormal");
    assert_eq!(product(number(32766, 0), number(16384, 0)), number(32767, 0), "infinite");
    assert_eq!(apply(Operation::MAX, quad, &[one | 1 << 127], &[1]), [1]);
    assert_eq!(apply(Operation::LAND, quad, &[one, 1 << 127], &[5, one]), [one, 0]);
    let i = [[0, one]];
    let square = apply(Operation::PROD, Element::Quad { complex: true }, &i, &i);
    assert_eq!(square, [[one | 1 << 127, 0]]);
    let pair = Element::Pair(PairValue::Quad);
    assert_eq!(apply(Operation::MINLOC, pair, &[[one, one]], &[[one, 0]]), [[one, 0]]);
    assert_eq!(apply(Operation::MAXLOC, pair, &[[one, one]], &[[0, 0]]), [[one, one]]);
}

#[test]
fn reduce_half_rounds_to_nearest_even() {
    let half = Element::Float(2);
    let sum = |a: u16, b: u16| apply(Operation::SUM, half, &[a], &[b])[0];
    assert_eq!((sum(0x3c00, 0x3c00), sum(0x3c00, 0x1000), sum(0x3c01, 0x1000)), (0x4000, 0x3c00, 0x3c02));
    assert_eq!((sum(0x0001, 0x0001), sum(0x03ff, 0x0001), sum(0x7bff, 0x7bff)), (0x0002, 0x0400, 0x7c00));
    assert_eq!(apply(Operation::PROD, half, &[0x0400_u16], &[0x3800]), [0x0200]);
    assert_eq!(apply(Operation::MIN, half, &[0xbc00_u16], &[0x0001]), [0xbc00]);
    assert_eq!(
        apply(Operation::PROD, Element::Complex(2), &[[0, 0x3c00_u16]], &[[0, 0x3c00]]),
        [[0xbc00, 0]]
    );
    assert_eq!(apply(Operation::LXOR, half, &[0x8000_u16, 0x3c00], &[0x3c00, 0x4000]), [0x3c00, 0]);
}

#[test]
fn reduce_long_double_pairs_take_the_smaller_number_behind() {
    let number = |exponent: u16| {
        let mut bytes = [0_u8; 16];
        bytes[7] = 0x80;
        bytes[8..10].copy_from_slice(&exponent.to_le_bytes());
        bytes
    };
    let (one, two, pair) =
        (number(16383), number(16384), Element::Pair(PairValue::Same { bytes: 16, integer: false }));
    assert_eq!(apply(Operation::MAXLOC, pair, &[[two, one]], &[[two, two]]), [[two, one]]);
    assert_eq!(apply(Operation::MINLOC, pair, &[[two, one]], &[[one, two]]), [[one, two]]);
}
