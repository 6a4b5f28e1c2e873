//! Names of the arguments through which a function accesses private memory, for the line about bad memory
//! ([`tutti_runtime::bad_memory`]): the standard gives them the same names everywhere.

use std::fmt::Write;

use tutti_rma::device::Access;

/// Writes the names; true: they are the buffers of the call.
pub(crate) fn write(call: &str, access: Option<Access>, to: &mut dyn Write) -> bool {
    let written = if call.contains("_atomic_") { "fetch" } else { "dest" };
    let names: &[&str] = match access {
        Some(Access::Read) => &["source"],
        Some(Access::Write) => &[written],
        None => &["source or ", written],
    };
    let _ = names.iter().try_for_each(|name| to.write_str(name));
    true
}
