//! Keys of attributes, and the attributes that objects carry (MPI 7.7). What calls do with them:
//! [`crate::attribute_calls`].

use core::cell::Cell;
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
    /// Kind of object that the key is for.
    pub object: Object,
    /// Address of the copy callback, or 0 (do not copy), or 1 (copy the value).
    pub copy: usize,
    /// Address of the delete callback, or 0.
    pub delete: usize,
    /// State that the callbacks are given.
    pub extra_state: usize,
    /// The language of the callbacks.
    pub language: Language,
    /// Attributes that use it.
    pub uses: u32,
    /// The user has freed it.
    pub is_freed: bool,
}

/// The attributes of an object, in the order in which they were set.
#[derive(Debug, Default)]
pub struct Set(pub(crate) Vec<(c_int, Value)>);

/// The value of an attribute. One that Fortran has set lies at a place of its own, whose address C is given
/// (MPI 19.3.7).
#[derive(Clone, Debug)]
pub enum Value {
    /// Set by C.
    C(usize),
    /// Set by Fortran as INTEGER(KIND=MPI_ADDRESS_KIND).
    Address(Box<isize>),
    /// Set by Fortran as INTEGER.
    Integer(Box<c_int>),
}

/// From which language a call about attributes comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Values are addresses.
    C,
    /// Values are INTEGER(KIND=MPI_ADDRESS_KIND).
    Address,
    /// Values are INTEGER: the functions of MPI-1.
    Integer,
}

thread_local! {
    static LANGUAGE: Cell<Language> = const { Cell::new(Language::C) };
}

/// The Fortran bindings say in front of a call, and behind it, from which language this thread calls.
pub fn set_language(number: c_int) {
    put_language(match number {
        1 => Language::Address,
        2 => Language::Integer,
        _ => Language::C,
    });
}

/// The same by name.
pub(crate) fn put_language(language: Language) {
    LANGUAGE.set(language);
}

/// From which language this thread calls.
pub(crate) fn language() -> Language {
    LANGUAGE.get()
}

impl Value {
    /// A value as it was set.
    pub(crate) fn new(value: usize, language: Language) -> Self {
        match language {
            Language::C => Value::C(value),
            Language::Address => Value::Address(Box::new(value as isize)),
            Language::Integer => Value::Integer(Box::new(value as c_int)),
        }
    }

    /// As the language reads it.
    pub(crate) fn read(&self, language: Language) -> usize {
        match (self, language) {
            (Value::C(value), _) => *value,
            (Value::Address(place), Language::C) => std::ptr::from_ref(place.as_ref()) as usize,
            (Value::Integer(place), Language::C) => std::ptr::from_ref(place.as_ref()) as usize,
            (Value::Address(place), _) => **place as usize,
            (Value::Integer(place), _) => **place as isize as usize,
        }
    }
}

/// All keys, and the attributes of objects that have no room for them themselves.
#[derive(Debug)]
pub struct Table {
    /// Keys.
    pub(crate) keys: Slab<Key>,
    /// Attributes of objects that have no room for them themselves.
    pub(crate) others: HashMap<Owner, Set>,
}

/// A call that reaches keys and attributes.
pub trait HasAttributes {
    /// Keys, and attributes of datatypes and windows.
    fn attributes(&self) -> &Table;

    /// Keys, and attributes of datatypes and windows, to be changed.
    fn attributes_mut(&mut self) -> &mut Table;
}

impl Set {
    /// Where a key's attribute stands.
    pub(crate) fn position(&self, key: c_int) -> Option<usize> {
        self.0.iter().position(|(other, _)| *other == key)
    }

    /// A key's attribute.
    pub(crate) fn get(&self, key: c_int) -> Option<&Value> {
        self.position(key).map(|i| &self.0[i].1)
    }
}

impl Default for Table {
    fn default() -> Self {
        Table { keys: Slab::new(Kind::Keyval), others: HashMap::new() }
    }
}

impl Owner {
    /// Handle of the object, as callbacks take it.
    pub(crate) fn number(self) -> usize {
        match self {
            Owner::Comm(handle) => handle.0,
            Owner::Datatype(handle) => handle.0,
            Owner::Win(handle) => handle.0,
        }
    }

    /// Kind of object that a key for this one is for.
    pub(crate) fn object(self) -> Object {
        match self {
            Owner::Comm(_) => Object::Comm,
            Owner::Datatype(_) => Object::Datatype,
            Owner::Win(_) => Object::Win,
        }
    }
}
