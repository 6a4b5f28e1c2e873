//! Keys of attributes, and the attributes that objects carry (MPI 7.7). What calls do with them:
//! [`crate::attribute_calls`].

use core::ffi::c_int;
use std::collections::HashMap;

use crate::abi::*;
use crate::handle::{Kind, Slab};

/// Which objects a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Communicators.
    Comm,
    /// Datatypes.
    Datatype,
    /// Windows.
    Win,
}

/// An object that carries attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A communicator.
    Comm(MPI_Comm),
    /// A datatype.
    Datatype(MPI_Datatype),
    /// A window.
    Win(MPI_Win),
}

/// A key made by a user.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// What it is for.
    pub object: Object,
    /// Address of the copy callback, or 0 (do not copy), or 1 (copy the value).
    pub copy: usize,
    /// Address of the delete callback, or 0.
    pub delete: usize,
    /// What the callbacks are given.
    pub extra_state: usize,
    /// Attributes that use it.
    pub uses: u32,
    /// The user has freed it.
    pub is_freed: bool,
}

/// The attributes of an object, in the order in which they were set.
#[derive(Debug, Default)]
pub struct Set(pub(crate) Vec<(c_int, usize)>);

/// All keys, and the attributes of objects that have no room for them themselves.
#[derive(Debug)]
pub struct Table {
    /// Keys.
    pub(crate) keys: Slab<Key>,
    /// Attributes of objects that have no room for them themselves.
    pub(crate) others: HashMap<Owner, Set>,
}

impl Set {
    /// Where a key's attribute stands.
    pub(crate) fn position(&self, key: c_int) -> Option<usize> {
        self.0.iter().position(|(other, _)| *other == key)
    }

    /// A key's attribute.
    pub(crate) fn get(&self, key: c_int) -> Option<usize> {
        self.position(key).map(|i| self.0[i].1)
    }
}

impl Default for Table {
    fn default() -> Self {
        Table { keys: Slab::new(Kind::Keyval), others: HashMap::new() }
    }
}

impl Owner {
    /// Its handle as callbacks take it.
    pub(crate) fn number(self) -> usize {
        match self {
            Owner::Comm(handle) => handle.0,
            Owner::Datatype(handle) => handle.0,
            Owner::Win(handle) => handle.0,
        }
    }

    /// What a key for it is for.
    pub(crate) fn object(self) -> Object {
        match self {
            Owner::Comm(_) => Object::Comm,
            Owner::Datatype(_) => Object::Datatype,
            Owner::Win(_) => Object::Win,
        }
    }
}
