//! Names of functions: a descriptor is a constant of the program, and its name is the module that it lies in
//! and its place there. So ranks need no registration, and addresses may differ.
//!
//! Before an address out of a message is used it is checked: it is aligned and lies in memory of a module
//! that cannot be written, begins with the magic word and has the signature of the call.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use std::collections::HashMap;
use std::ffi::{CStr, CString};

/// First word of a descriptor; the last byte is the version.
pub const MAGIC: u64 = 0x5455_5454_4943_4c01;
/// A build-id in the notes of a module.
const NT_GNU_BUILD_ID: u32 = 3;

/// Receiver of a function's answer: `tutti_reply` of `tutti_call.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Reply {
    /// Place of the caller; -1: nobody waits.
    pub to: i32,
    /// Index of the call, and its check.
    pub number: u32,
    /// Bytes that the answer has at most.
    pub room: u32,
    /// Bytes of it that have room in one message; longer ones come in parts.
    pub direct: u32,
}

/// Code that runs at the target: arguments, their length, whom to answer.
pub type Run = unsafe extern "C" fn(*const c_void, usize, Reply);

/// A function that ranks start on each other: `tutti_descriptor` of `tutti_call.h`.
#[derive(Debug)]
#[repr(C)]
pub struct Descriptor {
    magic: u64,
    signature: u64,
    run: Option<Run>,
    symbol: *const c_char,
}

/// A descriptor that was found and checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) run: Run,
    pub(crate) signature: u64,
}

/// Name of a function in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) module: u32,
    pub(crate) offset: u32,
}

#[derive(Debug)]
struct Module {
    key: u32,
    base: usize,
    path: CString,
    /// Memory that cannot be written: beginnings and ends.
    constant: Vec<(usize, usize)>,
}

/// The modules of this process, and the functions that have been named so far.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    modules: Vec<Module>,
    by_address: HashMap<usize, (Name, u64)>,
    by_name: HashMap<Name, Function>,
}

impl Functions {
    /// The name of a descriptor of this process, and its signature; none where it is no constant.
    pub(crate) fn name(&mut self, descriptor: *const Descriptor) -> Option<(Name, u64)> {
        let address = descriptor.addr();
        if let Some(found) = self.by_address.get(&address) {
            return Some(*found);
        }
        let module = self.module_by(|module| module.has(address))?;
        let name =
            Name { module: module.key, offset: u32::try_from(address.wrapping_sub(module.base)).ok()? };
        module.keep();
        let function = checked(address)?;
        self.by_address.insert(address, (name, function.signature));
        Some((name, function.signature))
    }

    /// The function of a name that has come, with this signature.
    pub(crate) fn find(&mut self, name: Name, signature: u64) -> Option<Function> {
        if let Some(found) = self.by_name.get(&name) {
            return (found.signature == signature).then_some(*found);
        }
        let module = self.module_by(|module| module.key == name.module)?;
        let address = module.base.wrapping_add(name.offset as usize);
        if !module.has(address) {
            return None;
        }
        module.keep();
        let function = checked(address).filter(|function| function.signature == signature)?;
        self.by_name.insert(name, function);
        Some(function)
    }

    /// Libraries loaded later are found by a second look.
    fn module_by(&mut self, is_it: impl Fn(&Module) -> bool) -> Option<&Module> {
        if !self.modules.iter().any(&is_it) {
            self.modules = loaded();
        }
        self.modules.iter().find(|module| is_it(module))
    }
}

/// Contents at an address of constant memory.
fn checked(address: usize) -> Option<Function> {
    let descriptor = std::ptr::with_exposed_provenance::<Descriptor>(address);
    // SAFETY: the callers have found the whole descriptor, aligned, in memory of a module that stays loaded.
    let Descriptor { magic, signature, run, .. } = unsafe { descriptor.read() };
    // The option of a function is a number that may be anything else, too.
    (magic == MAGIC).then_some(Function { run: run?, signature })
}

impl Module {
    fn has(&self, address: usize) -> bool {
        let end = address.saturating_add(size_of::<Descriptor>());
        address.is_multiple_of(align_of::<Descriptor>())
            && self.constant.iter().any(|(begin, behind)| *begin <= address && end <= *behind)
    }

    /// The module stays loaded from now on, whoever closes it. The program itself has no path.
    fn keep(&self) {
        if !self.path.is_empty() {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            // SAFETY: a string; nothing is loaded that is not there.
            unsafe { libc::dlopen(self.path.as_ptr(), flags) };
        }
    }
}

/// FNV-1a.
fn hashed(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The modules that are loaded now.
fn loaded() -> Vec<Module> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, modules: *mut c_void) -> c_int {
        // SAFETY: the loader gives a module that is there, and what `loaded` has given.
        let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Vec<Module>>()) };
        modules.push(module(info));
        0
    }
    let mut modules: Vec<Module> = Vec::new();
    // SAFETY: the function is called before this one returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut modules).cast()) };
    modules
}

fn module(info: &libc::dl_phdr_info) -> Module {
    let base = info.dlpi_addr as usize;
    let path = match info.dlpi_name.is_null() {
        true => CString::default(),
        // SAFETY: the loader gives a string.
        false => unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned(),
    };
    // SAFETY: the loader gives so many headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let range = |header: &libc::Elf64_Phdr| {
        let begin = base.wrapping_add(header.p_vaddr as usize);
        (begin, begin.wrapping_add(header.p_memsz as usize))
    };
    let is_constant = |header: &&libc::Elf64_Phdr| {
        let is_read = header.p_flags & libc::PF_R != 0 && header.p_flags & libc::PF_W == 0;
        header.p_type == libc::PT_GNU_RELRO || header.p_type == libc::PT_LOAD && is_read
    };
    let constant = headers.iter().filter(is_constant).map(range).collect();
    let notes = headers.iter().filter(|header| header.p_type == libc::PT_NOTE).map(range);
    // SAFETY: notes lie in what is loaded.
    let build = notes.into_iter().find_map(|(begin, end)| unsafe { build_id(begin, end) });
    // Without one: what differs between files that are not the same.
    let sizes = || {
        let numbers = headers.iter().flat_map(|header| [header.p_vaddr, header.p_filesz]);
        numbers.flat_map(u64::to_ne_bytes).collect()
    };
    Module { key: hashed(&build.unwrap_or_else(sizes)), base, path, constant }
}

/// The build-id among notes.
///
/// # Safety
/// The range is readable.
unsafe fn build_id(begin: usize, end: usize) -> Option<Vec<u8>> {
    // SAFETY: our contract.
    let bytes = unsafe {
        std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(begin), end.checked_sub(begin)?)
    };
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let mut at = 0;
    loop {
        let (name_bytes, data_bytes) = (word(at)? as usize, word(at + 4)? as usize);
        let data = at + 12 + name_bytes.next_multiple_of(4);
        if word(at + 8)? == NT_GNU_BUILD_ID && bytes.get(at + 12..at + 16) == Some(b"GNU\0") {
            return bytes.get(data..data + data_bytes).map(<[u8]>::to_vec);
        }
        at = data + data_bytes.next_multiple_of(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn nothing(_: *const c_void, _: usize, _: Reply) {}

    // SAFETY: nobody writes it.
    unsafe impl Sync for Descriptor {}

    static CONSTANT: Descriptor =
        Descriptor { magic: MAGIC, signature: 5, run: Some(nothing), symbol: std::ptr::null() };
    static WITHOUT_MAGIC: Descriptor =
        Descriptor { magic: 0, signature: 5, run: Some(nothing), symbol: std::ptr::null() };

    #[test]
    fn functions_are_found_by_their_name_and_signature() {
        let mut functions = Functions::default();
        let (name, signature) = functions.name(&raw const CONSTANT).expect("a constant");
        assert_eq!(signature, 5);
        let found = functions.find(name, 5).expect("the same");
        assert_eq!(found.run as usize, nothing as Run as usize);
        assert!(functions.find(name, 6).is_none(), "another signature, from the cache");
        assert!(Functions::default().find(name, 6).is_none(), "another signature");
        assert!(Functions::default().find(Name { module: name.module ^ 1, ..name }, 5).is_none());
    }

    #[test]
    fn functions_in_memory_that_can_be_written_have_no_name() {
        let mut functions = Functions::default();
        let boxed =
            Box::new(Descriptor { magic: MAGIC, signature: 5, run: Some(nothing), symbol: std::ptr::null() });
        assert!(functions.name(&raw const *boxed).is_none());
        assert!(functions.name(&raw const WITHOUT_MAGIC).is_none());
    }

    /// No offset but that of a descriptor is taken, whatever stands there.
    #[test]
    fn functions_of_forged_names_are_none() {
        let (name, _) = Functions::default().name(&raw const CONSTANT).expect("a constant");
        let mut functions = Functions::default();
        for offset in (0..4 << 20).filter(|offset| *offset != name.offset) {
            assert!(functions.find(Name { offset, ..name }, 5).is_none(), "{offset:#x}");
        }
        assert!(functions.find(Name { offset: u32::MAX, ..name }, 5).is_none());
    }
}
