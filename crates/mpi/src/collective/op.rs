//! Reduction operations as objects: the predefined ones and those made by the user (MPI 6.9.5).
//!
//! [`super::reducers`] brings an operation and a datatype together; [`Reducer::combine`] applies it. A
//! function of the user runs with no lock held and nothing borrowed.

use core::ffi::{c_int, c_void};

use tutti_datatype::{
    Datatype, Element, Elements,
    reduce::{self, Kernel, Operation},
};

use crate::abi::*;
use crate::datatype::Reference;
use crate::error::Error;

/// An operation made by the user.
#[derive(Clone, Copy, Debug)]
pub struct UserOperation {
    /// Address of its C function.
    pub function: usize,
    /// State that the function gets behind its arguments; 0 for none ([`crate::callback_state`]).
    pub state: usize,
    /// Whether the function takes a large count.
    pub large: bool,
    /// Whether its operands may change places.
    pub commutative: bool,
}

/// A function that was given with a state.
type WithState<N> = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut N, *mut MPI_Datatype, usize);

/// An operation on elements of a certain type.
#[derive(Clone, Debug)]
pub struct Reducer {
    pub(super) apply: Apply,
    /// Whether operands may change places.
    pub commutative: bool,
    /// The elements.
    pub datatype: Elements,
    pub(super) handle: MPI_Datatype,
    /// Keeps the handle for a function of the user.
    pub(super) _reference: Option<Reference>,
}

/// How an operation is applied.
#[derive(Clone, Copy, Debug)]
pub(super) enum Apply {
    Kernel(Kernel),
    User(UserOperation),
}

/// All predefined operations.
const PREDEFINED: [(MPI_Op, &str); 14] = [
    (MPI_SUM, "MPI_SUM"),
    (MPI_MIN, "MPI_MIN"),
    (MPI_MAX, "MPI_MAX"),
    (MPI_PROD, "MPI_PROD"),
    (MPI_BAND, "MPI_BAND"),
    (MPI_BOR, "MPI_BOR"),
    (MPI_BXOR, "MPI_BXOR"),
    (MPI_LAND, "MPI_LAND"),
    (MPI_LOR, "MPI_LOR"),
    (MPI_LXOR, "MPI_LXOR"),
    (MPI_MINLOC, "MPI_MINLOC"),
    (MPI_MAXLOC, "MPI_MAXLOC"),
    (MPI_REPLACE, "MPI_REPLACE"),
    (MPI_NO_OP, "MPI_NO_OP"),
];

/// Integers of Fortran.
const OF_FORTRAN: [MPI_Datatype; 6] =
    [MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_INTEGER16];
/// Integers of all languages.
const MULTI: [MPI_Datatype; 3] = [MPI_AINT, MPI_COUNT, MPI_OFFSET];

/// Name of a predefined operation.
pub(super) fn predefined_name(op: MPI_Op) -> Option<&'static str> {
    PREDEFINED.iter().find(|entry| entry.0 == op).map(|entry| entry.1)
}

/// An operation that is no operation.
#[cold]
pub fn bad_op(op: MPI_Op) -> Error {
    let what = if op == MPI_OP_NULL { "is MPI_OP_NULL" } else { "is freed or was never one" };
    Error::new(MPI_ERR_OP, format_args!("operation {:#x} {what}", op.0))
}

#[cold]
pub(super) fn undefined(op: MPI_Op, handle: MPI_Datatype, datatype: &Datatype) -> Error {
    let name = predefined_name(op).unwrap_or("operation");
    match datatype.element {
        Some(element) => Error::new(
            MPI_ERR_OP,
            format_args!("{name} is not defined for elements of datatype {:#x} ({element:?})", handle.0),
        ),
        None => Error::new(
            MPI_ERR_OP,
            format_args!(
                "{name} is defined for predefined datatypes only, datatype {:#x} is derived",
                handle.0
            ),
        ),
    }
}

/// The loop for an operation on elements; none when it has no meaning for them, or is no predefined one.
#[inline(always)]
pub(super) fn kernel(op: MPI_Op, element: Element) -> Option<Kernel> {
    reduce::kernel(Operation(op.0), element)
}

// The numbers of operations are those of the ABI.
const _: () = {
    let pairs = [
        (MPI_SUM, Operation::SUM),
        (MPI_MIN, Operation::MIN),
        (MPI_MAX, Operation::MAX),
        (MPI_PROD, Operation::PROD),
        (MPI_BAND, Operation::BAND),
        (MPI_BOR, Operation::BOR),
        (MPI_BXOR, Operation::BXOR),
        (MPI_LAND, Operation::LAND),
        (MPI_LOR, Operation::LOR),
        (MPI_LXOR, Operation::LXOR),
        (MPI_MINLOC, Operation::MINLOC),
        (MPI_MAXLOC, Operation::MAXLOC),
    ];
    let mut i = 0;
    while i < pairs.len() {
        assert!(pairs[i].0.0 == pairs[i].1.0);
        i += 1;
    }
};

impl Reducer {
    /// A predefined operation on elements of a predefined type, for tests of algorithms.
    #[cfg(test)]
    pub fn predefined(op: MPI_Op, datatype: &Datatype, commutative: bool) -> Self {
        let kernel = kernel(op, datatype.element.expect("predefined")).expect("the operation is defined");
        Reducer {
            apply: Apply::Kernel(kernel),
            commutative,
            datatype: datatype.elements(),
            handle: MPI_INT,
            _reference: None,
        }
    }

    /// Name of the operation; of several that do the same with these elements the first.
    pub fn operation_name(&self) -> &'static str {
        let Apply::Kernel(mine) = self.apply else { return "an operation of the program" };
        let is_mine = |op: MPI_Op| {
            let found = self.datatype.element.and_then(|element| kernel(op, element));
            found.is_some_and(|kernel| kernel as usize == mine as usize)
        };
        PREDEFINED.iter().find(|entry| is_mine(entry.0)).map_or("an operation", |entry| entry.1)
    }

    /// Whether the result is the same however operands are grouped: a predefined operation on numbers that
    /// are not rounded.
    pub fn is_exact(&self) -> bool {
        let is_whole = |element: Element| {
            use Element::{Byte, Character, Logical, Signed, Unsigned};
            matches!(element, Signed(_) | Unsigned(_) | Logical(_) | Byte | Character(_))
        };
        matches!(self.apply, Apply::Kernel(_)) && self.datatype.element.is_some_and(is_whole)
    }

    /// Extension of the standard (6.9.2) that a program of this operation relies on: operation and datatype.
    /// None for most.
    pub fn beyond_standard(&self) -> Option<(&'static str, MPI_Datatype)> {
        let name = self.operation_name();
        let is_logical = matches!(name, "MPI_LAND" | "MPI_LOR" | "MPI_LXOR");
        let beyond = match self.datatype.element? {
            Element::Character(_) => true,
            Element::Float(_) => is_logical,
            // Logical operations are for integers of C; those of Fortran and of addresses have others only.
            Element::Signed(_) => {
                is_logical && (OF_FORTRAN.contains(&self.handle) || MULTI.contains(&self.handle))
            }
            _ => false,
        };
        beyond.then_some((name, self.handle))
    }

    /// The loop of a predefined operation.
    #[inline(always)]
    pub fn kernel(&self) -> Option<Kernel> {
        match self.apply {
            Apply::Kernel(kernel) => Some(kernel),
            Apply::User(_) => None,
        }
    }

    /// Computes `inout = input op inout` on `count` elements. `unlocked` runs a function of the user without
    /// the process lock.
    ///
    /// # Safety
    /// Both addresses lead to `count` elements of the type and do not overlap.
    #[inline]
    pub unsafe fn combine(
        &self,
        unlocked: impl FnOnce(&mut dyn FnMut()),
        input: *const u8,
        inout: *mut u8,
        count: usize,
    ) {
        if count == 0 {
            return;
        }
        match self.apply {
            // SAFETY: our contract.
            Apply::Kernel(kernel) => unsafe { kernel(input, inout, count) },
            // SAFETY: our contract.
            Apply::User(user) => unlocked(&mut || unsafe { self.call(user, input, inout, count) }),
        }
    }

    /// # Safety
    /// As for [`Self::combine`]; no lock is held and nothing of the process is borrowed.
    unsafe fn call(&self, user: UserOperation, input: *const u8, inout: *mut u8, count: usize) {
        let (mut handle, extent) = (self.handle, self.datatype.extent);
        if user.large {
            let mut length = count as MPI_Count;
            let (input, inout) = (input.cast_mut().cast(), inout.cast());
            // SAFETY: the user gave this address as that of such a function; the data are there by our
            // contract.
            return unsafe {
                if user.state == 0 {
                    let function = std::mem::transmute::<usize, MPI_User_function_c_fn>(user.function);
                    function(input, inout, &mut length, &mut handle);
                } else {
                    let function = std::mem::transmute::<usize, WithState<MPI_Count>>(user.function);
                    function(input, inout, &mut length, &mut handle, user.state);
                }
            };
        }
        let mut done = 0;
        while done < count {
            let part = (count - done).min(c_int::MAX as usize);
            let (mut length, skip) = (part as c_int, done as isize * extent);
            let input = input.wrapping_offset(skip).cast_mut().cast();
            let inout = inout.wrapping_offset(skip).cast();
            // SAFETY: as above; a count beyond an int is handed over in pieces.
            unsafe {
                if user.state == 0 {
                    let function = std::mem::transmute::<usize, MPI_User_function_fn>(user.function);
                    function(input, inout, &mut length, &mut handle);
                } else {
                    let function = std::mem::transmute::<usize, WithState<c_int>>(user.function);
                    function(input, inout, &mut length, &mut handle, user.state);
                }
            }
            done += part;
        }
    }
}
