//! Arguments of calls of the system that lead to memory: shared memory is made present before a call, the
//! kernel gets its address in the view where nothing is guarded, and what the call has stored is noted behind
//! it. Tables of such calls are in `dsm_files`, `dsm_sockets` and `dsm_waits`.

use core::ffi::{c_char, c_void};

use tutti_dsm::present;

/// How much of an argument a call that has succeeded has stored.
enum Extent {
    Nothing,
    All,
    /// As many pieces of so many bytes as the call says.
    Result(usize),
    /// As many bytes as the call has left there.
    Length(*const libc::socklen_t),
}

/// An argument as the kernel is to get it.
pub(crate) struct Placed<V> {
    value: V,
    address: usize,
    bytes: usize,
    extent: Extent,
}

impl<V: Copy> Placed<V> {
    /// The argument of the call.
    pub(crate) fn value(&self) -> V {
        self.value
    }

    /// The same, of another type.
    fn cast_by<W>(self, cast: impl FnOnce(V) -> W) -> Placed<W> {
        Placed { value: cast(self.value), address: self.address, bytes: self.bytes, extent: self.extent }
    }

    /// The call has succeeded, with this result.
    ///
    /// # Safety
    /// The argument's memory is there, as it was for the call.
    pub(crate) unsafe fn note_stored(&self, result: usize) {
        let bytes = match self.extent {
            Extent::Nothing => return,
            Extent::All => self.bytes,
            Extent::Result(piece) => result.saturating_mul(piece).min(self.bytes),
            // SAFETY: our contract.
            Extent::Length(length) => unsafe { (length.read() as usize).min(self.bytes) },
        };
        present::stored(self.address, bytes);
    }
}

impl<T> Placed<*const T> {
    /// The same, of another type.
    pub(crate) fn cast<U>(self) -> Placed<*const U> {
        self.cast_by(<*const T>::cast)
    }
}

impl<T> Placed<*const T> {
    /// The same for a call that takes a place it does not store to.
    pub(crate) fn cast_mut(self) -> Placed<*mut T> {
        self.cast_by(<*const T>::cast_mut)
    }
}

impl<T> Placed<*mut T> {
    /// The same, of another type.
    pub(crate) fn cast<U>(self) -> Placed<*mut U> {
        self.cast_by(<*mut T>::cast)
    }
}

const PAGE_BYTES: usize = 4096;

/// An argument that leads nowhere.
pub(crate) fn plain<V>(value: V) -> Placed<V> {
    Placed { value, address: 0, bytes: 0, extent: Extent::Nothing }
}

/// A call loads so many elements.
pub(crate) fn loaded<T>(place: *const T, count: usize) -> Placed<*const T> {
    let bytes = count.saturating_mul(size_of::<T>());
    if place.is_null() {
        return plain(place);
    }
    plain(core::ptr::with_exposed_provenance(present::load(place.expose_provenance(), bytes)))
}

/// A call loads a text.
///
/// # Safety
/// The text has an end, or there is none.
pub(crate) unsafe fn text(place: *const c_char) -> Placed<*const c_char> {
    if place.is_null() || !present::is_shared(place.addr()) {
        return plain(place);
    }
    let mut bytes = 0;
    loop {
        // To the end of its page: the pages behind the text may be nobody's.
        let part = PAGE_BYTES - place.addr().wrapping_add(bytes) % PAGE_BYTES;
        loaded(place.wrapping_add(bytes), part);
        // SAFETY: our contract; no letter before has ended it.
        let found = unsafe { libc::strnlen(place.add(bytes), part) };
        bytes += found;
        if found < part {
            return loaded(place, bytes + 1);
        }
    }
}

fn placed<T>(place: *mut T, bytes: usize, extent: Extent) -> Placed<*mut T> {
    if place.is_null() {
        return plain(place);
    }
    let value = present::store(place.expose_provenance(), bytes);
    Placed { value: core::ptr::with_exposed_provenance_mut(value), address: place.addr(), bytes, extent }
}

/// A call may load, and stores, so many elements.
pub(crate) fn stored<T>(place: *mut T, count: usize) -> Placed<*mut T> {
    placed(place, count.saturating_mul(size_of::<T>()), Extent::All)
}

/// A call stores as many elements as it says, these at most.
pub(crate) fn counted<T>(place: *mut T, count: usize) -> Placed<*mut T> {
    placed(place, count.saturating_mul(size_of::<T>()), Extent::Result(size_of::<T>()))
}

/// The same of bytes.
pub(crate) fn filled(place: *mut c_void, bytes: usize) -> Placed<*mut c_void> {
    placed(place, bytes, Extent::Result(1))
}

/// A call stores as many bytes as it leaves in a length, which says before how many there is room for.
///
/// # Safety
/// The length can be read, or there is none.
pub(crate) unsafe fn within<T>(place: *mut T, length: *const libc::socklen_t) -> Placed<*mut T> {
    if place.is_null() || length.is_null() {
        return plain(place);
    }
    loaded(length, 1);
    // SAFETY: our contract.
    placed(place, unsafe { length.read() } as usize, Extent::Length(length))
}

/// Functions of the C library whose arguments are placed; the others go as they are. Behind `if` is when a
/// call has succeeded.
macro_rules! placing {
    (if $is_done:expr; $($name:ident => $real:path,
        ($($argument:ident: $kind:ty $(= $placed:expr)?),* $(,)?) -> $result:ty;)*
    ) => {
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            #[allow(unused_unsafe, reason = "some arguments are texts and lengths, which are looked at")]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
                // SAFETY: the program's arguments.
                let placed = unsafe { ($($crate::dsm_arguments::place_of!($argument $(, $placed)?),)*) };
                let ($($argument,)*) = &placed;
                // SAFETY: the program's call, by other addresses of the same memory.
                let result = unsafe { $real($($argument.value()),*) };
                tutti_dsm::present::end_call();
                let is_done: fn($result) -> bool = $is_done;
                if is_done(result) {
                    // SAFETY: the program's arguments.
                    unsafe { $($argument.note_stored(result as usize);)* }
                }
                result
            }
        )*
    };
}
pub(crate) use placing;

/// An argument as its table says, or as it is.
macro_rules! place_of {
    ($argument:ident) => {
        $crate::dsm_arguments::plain($argument)
    };
    ($argument:ident, $placed:expr) => {
        $placed
    };
}
pub(crate) use place_of;
