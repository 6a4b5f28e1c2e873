//! Buffers of `mpi_f08`: array descriptors as the Fortran standard has them (18.5 of Fortran 2018).
//!
//! What lies side by side is handed over by its address. Any other section is handed over where it lies, as
//! one element of a datatype made for it, or copied to one place and back: by this library within a call, by
//! our C library for an operation that ends later ([`later`]).

use crate::abi::*;
use crate::handle::Handle;
use crate::{beside, c, sentinels};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// `CFI_cdesc_t`, as far as all compilers agree: what lies between `rank` and the dimensions differs.
#[repr(C)]
pub struct Descriptor {
    /// Of the first element.
    pub(crate) address: *mut c_void,
    /// Bytes of an element.
    pub(crate) element_bytes: usize,
    pub(crate) version: c_int,
    pub(crate) rank: i8,
    pub(crate) differing: [u8; 3],
    pub(crate) dimensions: [Dimension; 0],
}

/// `CFI_dim_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    pub(crate) lower_bound: isize,
    /// Elements; -1 for the last dimension of an array of assumed size.
    pub(crate) extent: isize,
    /// Bytes from one to the next.
    pub(crate) stride: isize,
}

const _: () = assert!(core::mem::offset_of!(Descriptor, dimensions) == 24 && size_of::<Dimension>() == 24);

impl Descriptor {
    unsafe fn dimensions(&self) -> &[Dimension] {
        // SAFETY: as many follow the head.
        unsafe {
            core::slice::from_raw_parts(self.dimensions.as_ptr(), usize::try_from(self.rank).unwrap_or(0))
        }
    }

    /// Whether its elements lie side by side.
    #[inline(always)]
    unsafe fn is_contiguous(&self) -> bool {
        let mut stride = self.element_bytes as isize;
        // SAFETY: our contract.
        for dimension in unsafe { self.dimensions() } {
            if dimension.stride != stride && dimension.extent != 1 {
                // SAFETY: as above.
                return unsafe { self.elements() } == Some(0);
            }
            stride *= dimension.extent;
        }
        true
    }

    /// Number of its elements; none for an array of assumed size.
    unsafe fn elements(&self) -> Option<usize> {
        // SAFETY: our contract.
        let dimensions = unsafe { self.dimensions() };
        let assumed = dimensions.last().is_some_and(|last| last.extent == -1);
        (!assumed).then(|| dimensions.iter().map(|d| usize::try_from(d.extent).unwrap_or(0)).product())
    }
}

/// A datatype made for a section, until C has it.
pub(crate) struct Mapped(Option<MPI_Datatype>);

impl Mapped {
    /// Count and datatype for C.
    #[inline(always)]
    pub(crate) fn instead<N: From<bool>>(&self, count: N, datatype: MPI_Datatype) -> (N, MPI_Datatype) {
        match self.0 {
            None => (count, datatype),
            Some(datatype) => (N::from(true), datatype),
        }
    }
}

impl Drop for Mapped {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(mut datatype) = self.0 {
            // SAFETY: it was made here; what C has started keeps it alive.
            unsafe { c::PMPI_Type_free(&mut datatype) };
        }
    }
}

/// A call of the user: its function, and the object on which its errors are raised. The C library has the
/// same structure.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    function: *const c_char,
    kind: Object,
    object: usize,
}

/// Kind of the object on which errors are raised.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    Comm,
    Win,
    File,
    Session,
}

impl Caller {
    pub(crate) fn on_comm(function: &'static CStr, comm: MPI_Comm) -> Caller {
        Caller { function: function.as_ptr(), kind: Object::Comm, object: comm.number() }
    }

    pub(crate) fn on_win(function: &'static CStr, win: MPI_Win) -> Caller {
        Caller { function: function.as_ptr(), kind: Object::Win, object: win.number() }
    }

    pub(crate) fn on_file(function: &'static CStr, file: MPI_File) -> Caller {
        Caller { function: function.as_ptr(), kind: Object::File, object: file.number() }
    }

    pub(crate) fn on_session(function: &'static CStr, session: MPI_Session) -> Caller {
        Caller { function: function.as_ptr(), kind: Object::Session, object: session.number() }
    }

    pub(crate) fn on_nothing(function: &'static CStr) -> Caller {
        Caller { function: function.as_ptr(), kind: Object::Comm, object: MPI_COMM_NULL.number() }
    }
}

/// A buffer where it lies: its address, and a datatype if it needs one.
#[inline(always)]
pub(crate) unsafe fn map(
    caller: Caller,
    descriptor: *const Descriptor,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<(*mut c_void, Mapped), c_int> {
    // SAFETY: the compiler hands over a descriptor.
    unsafe {
        if (*descriptor).is_contiguous() {
            return Ok((sentinels::buffer((*descriptor).address), Mapped(None)));
        }
        map_section(caller, descriptor, count, datatype)
    }
}

#[cold]
unsafe fn map_section(
    caller: Caller,
    descriptor: *const Descriptor,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<(*mut c_void, Mapped), c_int> {
    type Make = unsafe extern "C-unwind" fn(
        Caller,
        *const Descriptor,
        MPI_Count,
        MPI_Datatype,
        *mut MPI_Datatype,
    ) -> c_int;
    static MAKE: AtomicUsize = AtomicUsize::new(usize::MAX);
    let Some(function) = optional(&MAKE, beside::SECTION_TYPE_OF) else {
        return Err(refuse(caller, c"the buffer"));
    };
    let mut made = MPI_DATATYPE_NULL;
    // SAFETY: the C library's own function; the compiler hands over a descriptor.
    unsafe {
        let make = core::mem::transmute::<usize, Make>(function);
        let code = make(caller, descriptor, count, datatype, &mut made);
        if code == MPI_SUCCESS { Ok(((*descriptor).address, Mapped(Some(made)))) } else { Err(code) }
    }
}

/// A function of our C library, which another one has not.
pub(crate) fn optional(place: &AtomicUsize, name: &core::ffi::CStr) -> Option<usize> {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const core::ffi::c_char) -> *mut c_void;
    }
    let mut address = place.load(Ordering::Relaxed);
    if address == usize::MAX {
        // SAFETY: a null handle means all libraries of the program.
        address = unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) } as usize;
        place.store(address, Ordering::Relaxed);
    }
    (address != 0).then_some(address)
}

/// A copy of a section.
pub(crate) struct Stage {
    descriptor: *const Descriptor,
    copy: Vec<u8>,
    /// Contents of the place before the call; empty where it only reads.
    before: Vec<u8>,
}

/// The address of a buffer, or of a copy of it whose elements lie side by side.
#[inline(always)]
pub(crate) unsafe fn stage(descriptor: *const Descriptor, is_written: bool) -> (Option<Stage>, *mut c_void) {
    // SAFETY: the compiler hands over a descriptor.
    unsafe {
        if (*descriptor).is_contiguous() {
            return (None, sentinels::buffer((*descriptor).address));
        }
        let mut stage = Stage { descriptor, copy: Vec::new(), before: Vec::new() };
        stage.copy_in();
        if is_written {
            stage.before = stage.copy.clone();
        }
        let address = stage.copy.as_mut_ptr().cast();
        (Some(stage), address)
    }
}

/// Copies back what C has written.
pub(crate) unsafe fn unstage(stage: Option<Stage>) {
    if let Some(stage) = stage {
        // SAFETY: the section is still there while the call lasts.
        unsafe { stage.copy_out() };
    }
}

impl Stage {
    #[cold]
    unsafe fn copy_in(&mut self) {
        // SAFETY: the descriptor describes memory of the caller.
        unsafe {
            let bytes = (*self.descriptor).element_bytes;
            self.copy.reserve_exact((*self.descriptor).elements().unwrap_or(0) * bytes);
            let copy = &mut self.copy;
            for_each_element(&*self.descriptor, |address| {
                copy.extend_from_slice(core::slice::from_raw_parts(address, bytes));
            });
        }
    }

    /// Copies what has changed: other threads may use what the operation leaves alone.
    #[cold]
    unsafe fn copy_out(&self) {
        // SAFETY: as above.
        unsafe {
            let bytes = (*self.descriptor).element_bytes;
            let mut at = 0;
            for_each_element(&*self.descriptor, |address| {
                let new = &self.copy[at..at + bytes];
                if new != &self.before[at..at + bytes] {
                    core::ptr::copy_nonoverlapping(new.as_ptr(), address, bytes);
                }
                at += bytes;
            });
        }
    }
}

/// Calls `visit` with the address of each element, in the order of the array.
unsafe fn for_each_element(descriptor: &Descriptor, mut visit: impl FnMut(*mut u8)) {
    // SAFETY: our contract.
    let dimensions = unsafe { descriptor.dimensions() };
    let mut index = vec![0_isize; dimensions.len()];
    let mut address = descriptor.address.cast::<u8>();
    // SAFETY: as above.
    for _ in 0..unsafe { descriptor.elements() }.unwrap_or(0) {
        visit(address);
        for (at, dimension) in index.iter_mut().zip(dimensions) {
            *at += 1;
            address = address.wrapping_offset(dimension.stride);
            if *at < dimension.extent {
                break;
            }
            address = address.wrapping_offset(-dimension.stride * *at);
            *at = 0;
        }
    }
}

/// The address of a buffer that must be contiguous.
#[inline(always)]
pub(crate) unsafe fn contiguous(
    caller: Caller,
    descriptor: *const Descriptor,
    argument: &CStr,
) -> Result<*mut c_void, c_int> {
    // SAFETY: the compiler hands over a descriptor.
    unsafe {
        if (*descriptor).is_contiguous() {
            return Ok(sentinels::buffer((*descriptor).address));
        }
    }
    Err(refuse(caller, argument))
}

/// Raises that an argument must be contiguous. Another C library is told by the handler of its object.
#[cold]
pub(crate) fn refuse(caller: Caller, argument: &CStr) -> c_int {
    type Refuse = unsafe extern "C-unwind" fn(Caller, *const c_char) -> c_int;
    static REFUSE: AtomicUsize = AtomicUsize::new(usize::MAX);
    // SAFETY: the C library's own function; the names are texts, the handles those of the caller.
    unsafe {
        if let Some(function) = optional(&REFUSE, beside::SECTION_REFUSED) {
            return core::mem::transmute::<usize, Refuse>(function)(caller, argument.as_ptr());
        }
        let name = CStr::from_ptr(caller.function).to_string_lossy();
        let argument = argument.to_string_lossy();
        eprintln!(
            "tutti: {name}: {argument} is an array section that is not contiguous; give it a contiguous array"
        );
        match caller.kind {
            Object::Comm if caller.object == MPI_COMM_NULL.number() => {
                c::PMPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_BUFFER)
            }
            Object::Comm => c::PMPI_Comm_call_errhandler(MPI_Comm::of(caller.object), MPI_ERR_BUFFER),
            Object::Win => c::PMPI_Win_call_errhandler(MPI_Win::of(caller.object), MPI_ERR_BUFFER),
            Object::File => c::PMPI_File_call_errhandler(MPI_File::of(caller.object), MPI_ERR_BUFFER),
            Object::Session => {
                c::PMPI_Session_call_errhandler(MPI_Session::of(caller.object), MPI_ERR_BUFFER)
            }
        };
    }
    MPI_ERR_BUFFER
}

/// Copies of sections, kept by our C library until their operation is done.
pub(crate) struct Later(*mut c_void);

impl Later {
    /// Leaves them with the request of the operation, if it has begun: `code` is what the call gave.
    #[inline(always)]
    pub(crate) unsafe fn attach(self, caller: Caller, code: c_int, request: MPI_Request) -> c_int {
        if self.0.is_null() {
            return code;
        }
        // SAFETY: our contract.
        unsafe { self.attach_copies(caller, code, request) }
    }

    #[cold]
    unsafe fn attach_copies(self, caller: Caller, code: c_int, request: MPI_Request) -> c_int {
        type Attach = unsafe extern "C-unwind" fn(Caller, *mut c_void, *const MPI_Request) -> c_int;
        static ATTACH: AtomicUsize = AtomicUsize::new(usize::MAX);
        let function = optional(&ATTACH, beside::SECTIONS_ATTACH).expect("the library that made the copies");
        // SAFETY: the C library's own function.
        unsafe {
            let attach = core::mem::transmute::<usize, Attach>(function);
            if code != MPI_SUCCESS {
                attach(caller, self.0, core::ptr::null());
                return code;
            }
            attach(caller, self.0, &request)
        }
    }
}

/// The addresses of buffers, or of copies of them, for an operation that ends after its call.
#[inline(always)]
pub(crate) unsafe fn later<const N: usize>(
    caller: Caller,
    buffers: [(*const Descriptor, bool); N],
) -> Result<(Later, [*mut c_void; N]), c_int> {
    // SAFETY: the compiler hands over descriptors.
    unsafe {
        if buffers.iter().all(|(descriptor, _)| (**descriptor).is_contiguous()) {
            let addresses = buffers.map(|(descriptor, _)| sentinels::buffer((*descriptor).address));
            return Ok((Later(core::ptr::null_mut()), addresses));
        }
        copies(caller, buffers)
    }
}

#[cold]
unsafe fn copies<const N: usize>(
    caller: Caller,
    buffers: [(*const Descriptor, bool); N],
) -> Result<(Later, [*mut c_void; N]), c_int> {
    type Make = unsafe extern "C-unwind" fn(
        usize,
        *const *const Descriptor,
        *const u8,
        *mut *mut c_void,
    ) -> *mut c_void;
    static MAKE: AtomicUsize = AtomicUsize::new(usize::MAX);
    let Some(function) = optional(&MAKE, beside::SECTIONS_STAGE) else {
        return Err(refuse(caller, c"the buffer"));
    };
    // SAFETY: the compiler hands over descriptors; the C library's own function gets arrays of one length.
    unsafe {
        let is_copied = |descriptor: *const Descriptor| !(*descriptor).is_contiguous();
        let sections: Vec<_> = buffers.iter().filter(|(descriptor, _)| is_copied(*descriptor)).collect();
        let descriptors: Vec<*const Descriptor> = sections.iter().map(|section| section.0).collect();
        let are_written: Vec<u8> = sections.iter().map(|section| u8::from(section.1)).collect();
        let mut addresses = vec![core::ptr::null_mut(); sections.len()];
        let make = core::mem::transmute::<usize, Make>(function);
        let made = make(sections.len(), descriptors.as_ptr(), are_written.as_ptr(), addresses.as_mut_ptr());
        let mut copies = addresses.into_iter();
        let place = |(descriptor, _): (*const Descriptor, bool)| match is_copied(descriptor) {
            true => copies.next().expect("one for each section"),
            false => sentinels::buffer((*descriptor).address),
        };
        Ok((Later(made), buffers.map(place)))
    }
}

/// The data of a partitioned message, `partitions` times `count` elements, if they lie in a section; `code`
/// is what the call gave.
#[inline(always)]
pub(crate) unsafe fn partitions(
    caller: Caller,
    descriptor: *const Descriptor,
    (partitions, count): (c_int, MPI_Count),
    datatype: MPI_Datatype,
    code: c_int,
    request: MPI_Request,
) -> c_int {
    type Attach =
        unsafe extern "C-unwind" fn(Caller, *const Descriptor, MPI_Count, MPI_Datatype, MPI_Request) -> c_int;
    static ATTACH: AtomicUsize = AtomicUsize::new(usize::MAX);
    // SAFETY: the compiler hands over a descriptor; the C library's own function.
    unsafe {
        if code != MPI_SUCCESS || (*descriptor).is_contiguous() {
            return code;
        }
        match optional(&ATTACH, beside::SECTION_OF_PARTITIONS) {
            Some(function) => {
                let attach = core::mem::transmute::<usize, Attach>(function);
                attach(caller, descriptor, MPI_Count::from(partitions) * count, datatype, request)
            }
            None => refuse(caller, c"the buffer"),
        }
    }
}
