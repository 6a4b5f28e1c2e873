//! Attributes (MPI 7.7): what users cache on communicators, datatypes and windows, under keys that they make.
//!
//! A key lives until it is freed *and* no attribute uses it. Its callbacks run with no lock held and nothing
//! borrowed, so a callback may call MPI, change the very set that is being copied or emptied, and free the
//! key. Therefore every loop here looks at the set anew after each callback.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::attributes::HasAttributes;
use crate::attributes::{Key, Language, Object, Owner, Set, Value, language};
use crate::comm::HasComms;
use crate::datatype::HasTypes;
use crate::error::{Error, Result, check};
use crate::progress::Progress;
use crate::win::HasWindows;

type Copy =
    unsafe extern "C-unwind" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
type Delete = unsafe extern "C-unwind" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// While a callback runs: what it calls comes from C unless it says so itself.
struct FromC(Language);

impl FromC {
    fn new() -> Self {
        let before = language();
        crate::attributes::put_language(Language::C);
        FromC(before)
    }
}

impl Drop for FromC {
    fn drop(&mut self) {
        crate::attributes::put_language(self.0);
    }
}

/// Makes a key.
pub(crate) fn create_key(
    call: &mut impl HasAttributes,
    object: Object,
    copy: usize,
    delete: usize,
    extra_state: usize,
) -> c_int {
    let keys = &mut call.attributes_mut().keys;
    let index = keys.insert(Key {
        object,
        copy,
        delete,
        extra_state,
        language: language(),
        uses: 0,
        is_freed: false,
    });
    keys.handle(index) as c_int
}

/// Frees a key; attributes that use it keep it alive.
///
/// # Errors
/// MPI_ERR_KEYVAL.
pub(crate) fn free_key(call: &mut impl HasAttributes, object: Object, key: c_int) -> Result<()> {
    let index = find_key(call, object, key)?;
    call.attributes_mut().keys.get_mut(index).is_freed = true;
    forget_if_unused(call, index);
    Ok(())
}

/// Sets an attribute; one that is there already is deleted first (7.7.2).
///
/// # Errors
/// MPI_ERR_KEYVAL; whatever the delete callback of the old value returned.
pub(crate) fn set(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    owner: Owner,
    key: c_int,
    value: usize,
) -> Result<()> {
    let value = Value::new(value, language());
    find_set(call, owner)?;
    find_key(call, owner.object(), key)?;
    if find_set(call, owner)?.is_some_and(|set| set.get(key).is_some()) {
        delete(call, owner, key)?;
    }
    let index = find_key(call, owner.object(), key)?;
    call.attributes_mut().keys.get_mut(index).uses += 1;
    make_set(call, owner)?.0.push((key, value));
    Ok(())
}

/// The value of an attribute, if it is set.
///
/// # Errors
/// MPI_ERR_KEYVAL.
pub(crate) fn get(
    call: &(impl HasComms + HasTypes + HasAttributes + HasWindows),
    owner: Owner,
    key: c_int,
) -> Result<Option<usize>> {
    find_key(call, owner.object(), key)?;
    Ok(find_set(call, owner)?.and_then(|set| set.get(key)).map(|value| match value {
        Value::C(value) => *value,
        of_fortran => of_fortran.read(language()),
    }))
}

/// Deletes an attribute.
///
/// # Errors
/// MPI_ERR_KEYVAL; whatever the delete callback returned, and then the attribute stays.
pub(crate) fn delete(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    owner: Owner,
    key: c_int,
) -> Result<()> {
    let index = find_key(call, owner.object(), key)?;
    let Key { delete, extra_state, language, .. } = *call.attributes().keys.get(index);
    let value = find_set(call, owner)?.and_then(|set| set.get(key)).ok_or_else(|| {
        Error::new(MPI_ERR_KEYVAL, format_args!("attribute {key:#x} is not set on this object"))
    })?;
    let value = value.read(language);
    if delete != 0 {
        let code = call.unlocked(|| {
            let _called = FromC::new();
            // SAFETY: the user gave this address as that of a delete callback; no lock is held.
            unsafe {
                let function = std::mem::transmute::<usize, Delete>(delete);
                function(owner.number(), key, value as *mut c_void, extra_state as *mut c_void)
            }
        });
        check_callback("delete", key, code)?;
    }
    // The callback may have deleted it itself.
    let set = make_set(call, owner)?;
    if let Some(position) = set.position(key) {
        set.0.remove(position);
        release_key(call, index);
    }
    Ok(())
}

/// Deletes all attributes, the youngest first.
///
/// # Errors
/// Whatever a delete callback returned; that attribute and the older ones stay.
pub(crate) fn delete_all(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    owner: Owner,
) -> Result<()> {
    while let Some(key) = find_set(call, owner)?.and_then(|set| set.0.last().map(|(key, _)| *key)) {
        delete(call, owner, key)?;
    }
    call.attributes_mut().others.remove(&owner);
    Ok(())
}

/// The attributes that a duplicate of the object gets.
///
/// # Errors
/// Whatever a copy callback returned.
pub(crate) fn copy(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    owner: Owner,
) -> Result<Set> {
    let mut copies = Set::default();
    let keys: Vec<c_int> = match find_set(call, owner)? {
        Some(set) => set.0.iter().map(|(key, _)| *key).collect(),
        None => return Ok(copies),
    };
    for key in keys {
        let copied = copy_one(call, owner, key);
        match copied {
            Ok(Some(value)) => copies.0.push((key, value)),
            Ok(None) => {}
            Err(error) => {
                for (key, _) in copies.0 {
                    if let Ok(index) = find_key(call, owner.object(), key) {
                        release_key(call, index);
                    }
                }
                return Err(error);
            }
        }
    }
    Ok(copies)
}

/// Gives a new object of the kinds that have no room for them its attributes.
pub(crate) fn adopt(call: &mut impl HasAttributes, owner: Owner, copies: Set) {
    if !copies.0.is_empty() {
        call.attributes_mut().others.insert(owner, copies);
    }
}

/// The copy of one attribute; none when it is not copied, or gone since.
fn copy_one(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    owner: Owner,
    key: c_int,
) -> Result<Option<Value>> {
    let Some(original) = find_set(call, owner)?.and_then(|set| set.get(key)).cloned() else {
        return Ok(None);
    };
    let index = find_key(call, owner.object(), key)?;
    let Key { copy, extra_state, language, .. } = *call.attributes().keys.get(index);
    // A value of Fortran is read by C at its own place, which the copy above is not.
    let place = find_set(call, owner)?.and_then(|set| set.get(key));
    let value = place.map_or(0, |place| place.read(language));
    // The use is counted first, so that the key outlives its callback.
    call.attributes_mut().keys.get_mut(index).uses += 1;
    let mut new_value = value;
    let mut flag = c_int::from(copy != 0);
    let (mut code, mut copied_from) = (MPI_SUCCESS, Language::C);
    if copy > MPI_COMM_DUP_FN {
        let place: *mut usize = &mut new_value;
        let flag: *mut c_int = &mut flag;
        (code, copied_from) = call.unlocked(|| {
            let _called = FromC::new();
            // SAFETY: the user gave this address as that of a copy callback; no lock is held; both places
            // live here.
            unsafe {
                let function = std::mem::transmute::<usize, Copy>(copy);
                let (extra_state, value) = (extra_state as *mut c_void, value as *mut c_void);
                let code = function(owner.number(), key, extra_state, value, place.cast(), flag);
                (code, crate::attributes::language())
            }
        });
    }
    if code == MPI_SUCCESS && flag != 0 {
        let is_same = copy <= MPI_COMM_DUP_FN;
        // A callback may leave another language than its key's for the new value.
        let language = if copied_from == Language::C { language } else { copied_from };
        return Ok(Some(if is_same { original } else { Value::new(new_value, language) }));
    }
    release_key(call, index);
    check_callback("copy", key, code)?;
    Ok(None)
}

/// The attributes of an object, if it ever had one.
fn find_set(
    call: &(impl HasComms + HasTypes + HasAttributes + HasWindows),
    owner: Owner,
) -> Result<Option<&Set>> {
    match owner {
        Owner::Comm(handle) => call.comms().find(handle).map(|comm| Some(&comm.attributes)),
        Owner::Datatype(handle) => call.types().find(handle).map(|_| call.attributes().others.get(&owner)),
        Owner::Win(handle) => call.wins().find(handle).map(|_| call.attributes().others.get(&owner)),
    }
}

fn make_set(call: &mut (impl HasComms + HasAttributes), owner: Owner) -> Result<&mut Set> {
    match owner {
        Owner::Comm(handle) => call.comms_mut().find_mut(handle).map(|comm| &mut comm.attributes),
        _ => Ok(call.attributes_mut().others.entry(owner).or_default()),
    }
}

/// A key that is alive: one that is freed too while attributes use it, for those are still read and deleted.
fn find_key(call: &impl HasAttributes, object: Object, key: c_int) -> Result<u32> {
    let keys = &call.attributes().keys;
    let index = usize::try_from(key).ok().and_then(|handle| keys.index(handle));
    match index {
        Some(index) if keys.get(index).object == object => Ok(index),
        Some(index) => Err(Error::new(
            MPI_ERR_KEYVAL,
            format_args!("key {key:#x} is for a {:?}, expected one for a {object:?}", keys.get(index).object),
        )),
        None if key == MPI_KEYVAL_INVALID => Err(Error::new(MPI_ERR_KEYVAL, "key is MPI_KEYVAL_INVALID")),
        None => Err(Error::new(
            MPI_ERR_KEYVAL,
            format_args!("key {key:#x} is freed, predefined or was never one"),
        )),
    }
}

fn release_key(call: &mut impl HasAttributes, index: u32) {
    call.attributes_mut().keys.get_mut(index).uses -= 1;
    forget_if_unused(call, index);
}

fn forget_if_unused(call: &mut impl HasAttributes, index: u32) {
    let key = call.attributes().keys.get(index);
    if key.is_freed && key.uses == 0 {
        call.attributes_mut().keys.remove(index);
    }
}

fn check_callback(which: &str, key: c_int, code: c_int) -> Result<()> {
    check(code == MPI_SUCCESS, code, || format!("the {which} callback of attribute {key:#x} returned {code}"))
}
