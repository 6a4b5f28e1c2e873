//! Answers to upcalls: what waits for one, and how it is given.

use std::ffi::{CString, c_int, c_void};
use std::ptr;

use super::abi::{
    DataArray, Info, InfoCallback, LookupCallback, ModexCallback, OpCallback, PublishedData, RawProcess,
    SpawnCallback, array_value, c_string, free_object, info, key, object_to_take, process_array, raw_process,
    raw_value, size,
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
                let answer = GroupAnswer::new(&bytes, context, &members);
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

/// Answer to the members of a group, until libpmix gives it back. What the members have told each other, the
/// last info, libpmix takes and frees before (4.2 to 5.0: `_grpcbfunc` in pmix_server_ops.c).
struct GroupAnswer {
    infos: Vec<Info>,
    _members: Vec<RawProcess>,
    _array: Box<DataArray>,
    has_bytes: bool,
}

impl GroupAnswer {
    fn new(bytes: &[u8], context: Option<u64>, members: &[Process]) -> &'static mut Self {
        let mut members: Vec<RawProcess> = members.iter().map(raw_process).collect();
        let mut array = Box::new(process_array(&mut members));
        let mut infos = vec![info("pmix.grp.mbrs", array_value(&mut array))];
        infos.extend(context.map(|context| info("pmix.grp.ctxid", size(context))));
        let has_bytes = !bytes.is_empty();
        if has_bytes {
            infos.push(info("pmix.grp.endpt", object_to_take(bytes)));
        }
        Box::leak(Box::new(GroupAnswer { infos, _members: members, _array: array, has_bytes }))
    }
}

impl Drop for GroupAnswer {
    fn drop(&mut self) {
        if let Some(last) = self.infos.last_mut().filter(|_| self.has_bytes) {
            // SAFETY: `new` has made its value so; libpmix has given the answer back.
            unsafe { free_object(&mut last.value) }
        }
    }
}

unsafe extern "C" fn release<T>(value: *mut c_void) {
    // SAFETY: libpmix gives back, once, the pointer to a `T` that `Reply::give` has leaked.
    drop(unsafe { Box::from_raw(value.cast::<T>()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> &'static mut GroupAnswer {
        let members = [Process { space: "job".into(), rank: 0 }];
        GroupAnswer::new(b"where I am", Some(7), &members)
    }

    /// Ends an answer as libpmix does.
    fn give_back(answer: &'static mut GroupAnswer) {
        // SAFETY: the answer was leaked, and is not used any more.
        unsafe { release::<GroupAnswer>(ptr::from_mut(answer).cast()) }
    }

    #[test]
    fn group_answer_frees_what_libpmix_has_not_taken_and_nothing_else() {
        give_back(answer());
        give_back(GroupAnswer::new(&[], None, &[]));
        let answer = answer();
        let last = answer.infos.last_mut().expect("the bytes");
        // SAFETY: the answer has just been made.
        assert_eq!(unsafe { last.object() }, Some(&b"where I am"[..]));
        let mut taken = last.value;
        last.value.data[0] = 0;
        give_back(answer);
        let info = Info { key: key("taken"), flags: 0, value: taken };
        // SAFETY: the bytes are this test's since it took them.
        assert_eq!(unsafe { info.object() }, Some(&b"where I am"[..]));
        // SAFETY: as above; they are not used any more.
        unsafe { free_object(&mut taken) }
    }
}
