//! Datatypes without MPI: where the bytes of data lie in memory, what they are, and how they are copied,
//! converted and reduced.
//!
//! | module | what |
//! |---|---|
//! | [`element`], [`signature`] | basic elements, and the sequence of them that a type consists of |
//! | [`bounds`], [`node`], [`part`] | size and bounds, the flattened program of the bytes, all of it together |
//! | [`section`] | a type's data in a section of an array of Fortran |
//! | [`layout`], `datatype`, [`elements`] | a shared type, what a handle names, what a pending operation keeps |
//! | [`transfer`], `kernels` | the cursor: copies any range of the data to or from a stream of bytes |
//! | [`buffer`], [`note`] | the data of one operation, and what the checker knows of them |
//! | [`view`] | the places of a file that a type shows |
//! | [`external`], [`reduce`] | external32; the loops of the predefined reductions |
//!
//! A caller puts a [`Part`] together, wraps it in a [`Layout`] and a [`Datatype`], commits it, and asks it
//! for a [`Buffer`] per operation. Files that copy or compute by address have `unsafe`: these are `buffer`,
//! `external`, `kernels`, `reduce` and `transfer`. There is no state of a process here, no communicator and
//! no handle: whatever moves typed data may use it.

#![deny(unsafe_code)]

mod access;
pub mod bounds;
#[allow(unsafe_code)]
pub mod buffer;
mod datatype;
pub mod element;
pub mod elements;
#[allow(unsafe_code)]
pub mod external;
#[allow(unsafe_code)]
mod kernels;
pub mod layout;
pub mod node;
pub mod note;
pub mod part;
#[allow(unsafe_code)]
pub mod reduce;
pub mod section;
pub mod signature;
#[allow(unsafe_code)]
pub mod transfer;
pub mod view;

pub use access::Error;
pub use bounds::Bounds;
pub use buffer::Buffer;
pub use datatype::Datatype;
pub use element::{Basic, Element, PairValue, Wire};
pub use elements::Elements;
pub use layout::{Description, Layout};
pub use note::SignatureWord;
pub use part::{Part, TooLarge};
pub use section::{Misfit, Section};
pub use signature::Signature;
pub use view::View;
