//! Answers to upcalls: what waits for one, and how it is given.

use std::ffi::{CString, c_int, c_void};
use std::ptr;

use super::abi::{
    DataArray, Info, InfoCallback, LookupCallback, ModexCallback, OpCallback, PublishedData, RawProcess,
    SpawnCallback, array_value, c_string, info, key, object, process_array, raw_process, raw_value, size,
};
use crate::machine::Answer;
use crate::names::Found;
use crate::spaces::Process;
use crate::status;

/// An upcall that waits for its answer.
#[derive(Debug)]
pub struct Pending {
    pub(super) callback: Callback,
    pub(super) data: *mut c_void,
}

/// Callback of libpmix that takes an answer.
#[derive(Debug)]
pub(super) enum Callback {
    Operation(OpCallback),
    Modex(ModexCallback),
    Lookup(LookupCallback),
    Spawn(SpawnCallback),
    Group(InfoCallback),
}

// SAFETY: libpmix takes the answer to an upcall from any thread; the pointer is its own.
unsafe impl Send for Pending {}

/// An answer that is to be given.
#[derive(Debug)]
pub struct Reply(pub Pending, pub Answer);

impl Reply {
    /// Gives it to libpmix. Never from an upcall itself.
    pub fn give(self) {
        let Reply(Pending { callback, data }, answer) = self;
        let status = match &answer {
            Answer::Status(status) => *status,
            _ => status::SUCCESS,
        };
        match (callback, answer) {
            (Callback::Operation(Some(callback)), _) => {
                // SAFETY: both are those that the upcall was given, and are used once: `self` is consumed.
                unsafe { callback(status, data) }
            }
            (Callback::Modex(Some(callback)), Answer::Gathered(bytes, ..)) => {
                let bytes = Box::leak(Box::new(bytes));
                let (start, length) = (bytes.as_ptr().cast(), bytes.len());
                // SAFETY: as above; the bytes stay until libpmix gives the pointer back.
                unsafe {
                    callback(
                        status,
                        start,
                        length,
                        data,
                        Some(release::<Vec<u8>>),
                        ptr::from_mut(bytes).cast(),
                    )
                }
            }
            (Callback::Modex(Some(callback)), _) => {
                // SAFETY: as above; there are no bytes.
                unsafe { callback(status, ptr::null(), 0, data, None, ptr::null_mut()) }
            }
            (Callback::Lookup(Some(callback)), Answer::Found(found)) => give_found(callback, data, &found),
            (Callback::Lookup(Some(callback)), _) => {
                // SAFETY: as above; there are no entries.
                unsafe { callback(status, ptr::null_mut(), 0, data) }
            }
            (Callback::Spawn(Some(callback)), Answer::Space(name)) => {
                let name = c_string(name.as_bytes());
                // SAFETY: as above; libpmix copies the name in the call.
                unsafe { callback(status, name.as_ptr(), data) }
            }
            (Callback::Spawn(Some(callback)), _) => {
                // SAFETY: as above; libpmix takes no name for a failure.
                unsafe { callback(status, ptr::null(), data) }
            }
            (Callback::Group(Some(callback)), Answer::Gathered(bytes, context, members)) => {
                let answer = GroupAnswer::new(bytes, context, &members);
                let (infos, count) = (answer.infos.as_mut_ptr(), answer.infos.len());
                // SAFETY: as above; the answer stays until libpmix gives the pointer back.
                unsafe {
                    callback(
                        status,
                        infos,
                        count,
                        data,
                        Some(release::<GroupAnswer>),
                        ptr::from_mut(answer).cast(),
                    );
                }
            }
            (Callback::Group(Some(callback)), _) => {
                // SAFETY: as above; there is nothing with it.
                unsafe { callback(status, ptr::null_mut(), 0, data, None, ptr::null_mut()) }
            }
            // libpmix wants no answer.
            _ => {}
        }
    }
}

fn give_found(
    callback: unsafe extern "C" fn(c_int, *mut PublishedData, usize, *mut c_void),
    data: *mut c_void,
    found: &[Found],
) {
    let texts: Vec<CString> = found.iter().map(|one| c_string(&one.value.bytes)).collect();
    let entry = |(one, text): (&Found, &CString)| PublishedData {
        process: raw_process(&one.owner),
        key: key(&one.key),
        value: raw_value(&one.value, text),
    };
    let mut list: Vec<PublishedData> = found.iter().zip(&texts).map(entry).collect();
    // SAFETY: the callback is the upcall's, and used once; libpmix packs the entries in the call.
    unsafe { callback(status::SUCCESS, list.as_mut_ptr(), list.len(), data) }
}

/// Answer to the members of a group, until libpmix gives it back.
struct GroupAnswer {
    infos: Vec<Info>,
    _members: Vec<RawProcess>,
    _array: Box<DataArray>,
    _bytes: Vec<u8>,
}

impl GroupAnswer {
    fn new(bytes: Vec<u8>, context: Option<u64>, members: &[Process]) -> &'static mut Self {
        let mut members: Vec<RawProcess> = members.iter().map(raw_process).collect();
        let mut array = Box::new(process_array(&mut members));
        let mut infos = vec![info("pmix.grp.mbrs", array_value(&mut array))];
        infos.extend(context.map(|context| info("pmix.grp.ctxid", size(context))));
        if !bytes.is_empty() {
            infos.push(info("pmix.grp.endpt", object(&bytes)));
        }
        Box::leak(Box::new(GroupAnswer { infos, _members: members, _array: array, _bytes: bytes }))
    }
}

unsafe extern "C" fn release<T>(value: *mut c_void) {
    // SAFETY: libpmix gives back, once, the pointer to a `T` that `Reply::give` has leaked.
    drop(unsafe { Box::from_raw(value.cast::<T>()) });
}
