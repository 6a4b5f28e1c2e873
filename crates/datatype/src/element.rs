//! The basic elements that data are made of: integers, floating point numbers, pairs of them, and how
//! external32 has them.

/// Kind of the elements of a predefined type, for reductions and conversions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Signed integer of so many bytes.
    Signed(u8),
    /// Unsigned integer of so many bytes.
    Unsigned(u8),
    /// Binary floating point number of so many bytes; 16 is the platform's long double.
    Float(u8),
    /// IEEE 754 binary128, as Fortran's REAL(16), or a complex number of two of them.
    Quad {
        /// Whether it is two.
        complex: bool,
    },
    /// Complex number of two floating point numbers of so many bytes each.
    Complex(u8),
    /// C bool or Fortran LOGICAL of so many bytes.
    Logical(u8),
    /// Bytes without meaning.
    Byte,
    /// Characters.
    Character(u8),
    /// A value of the first kind and an int: MPI_MINLOC and MPI_MAXLOC.
    Pair(PairValue),
}

/// First member of a pair type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairValue {
    /// float
    Float,
    /// double
    Double,
    /// long double
    LongDouble,
    /// short
    Short,
    /// int
    Int,
    /// long
    Long,
    /// Two IEEE 754 binary128: a Fortran REAL(16) and its index.
    Quad,
    /// Two Fortran REALs, DOUBLE PRECISIONs or INTEGERs: index of the same type, so many bytes each, integer
    /// or not.
    Same {
        /// Bytes of each.
        bytes: u8,
        /// Whether they are integers.
        integer: bool,
    },
}

impl Element {
    /// Bytes of one, without gaps.
    pub const fn bytes(self) -> usize {
        match self {
            Element::Signed(n)
            | Element::Unsigned(n)
            | Element::Float(n)
            | Element::Logical(n)
            | Element::Character(n) => n as usize,
            Element::Complex(n) => 2 * n as usize,
            Element::Quad { complex } => 16 << complex as usize,
            Element::Byte => 1,
            Element::Pair(pair) => {
                let (first, second) = pair.members();
                first.bytes() + second.bytes()
            }
        }
    }

    /// Bytes from one to the next in an array: a pair may have a gap between its members, or behind them.
    pub const fn stride(self) -> usize {
        match self {
            Element::Pair(_) => self.bytes().next_multiple_of(self.align()),
            _ => self.bytes(),
        }
    }

    /// Alignment of one in a C structure.
    pub const fn align(self) -> usize {
        match self {
            Element::Complex(n) => n as usize,
            Element::Quad { .. } => 16,
            Element::Pair(pair) => {
                let (first, second) = pair.members();
                if first.align() > second.align() { first.align() } else { second.align() }
            }
            _ => self.bytes(),
        }
    }
}

impl PairValue {
    /// The two basic elements of a pair.
    pub const fn members(self) -> (Element, Element) {
        use Element::{Float, Signed};
        let int = Signed(4);
        match self {
            PairValue::Float => (Float(4), int),
            PairValue::Double => (Float(8), int),
            PairValue::LongDouble => (Float(16), int),
            PairValue::Quad => (Element::Quad { complex: false }, Element::Quad { complex: false }),
            PairValue::Short => (Signed(2), int),
            PairValue::Int => (int, int),
            PairValue::Long => (Signed(8), int),
            PairValue::Same { bytes, integer: true } => (Signed(bytes), Signed(bytes)),
            PairValue::Same { bytes, integer: false } => (Float(bytes), Float(bytes)),
        }
    }
}

/// An element that is no pair, and how external32 (14.5.2) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basic {
    /// Element on this machine.
    pub element: Element,
    /// Form of it in external32.
    pub wire: Wire,
}

/// How a number looks in external32, in big endian always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// As long as here.
    Same,
    /// An integer of fewer bytes.
    Narrow(u8),
    /// The 80 bits of an x86 long double, as the 128 bits of IEEE 754 binary128.
    Extended,
}
