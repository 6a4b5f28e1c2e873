//! Names of the arguments that a function reads or writes through, for the line about bad memory
//! ([`tutti_runtime::bad_memory`]): looked up in the table of functions when a call has had a fault.

use std::fmt::Write;

use tutti_rma::device::Access;

/// Every function of the standard, a line each.
const FUNCTIONS: &str = include_str!("../../../bindings/mpi/functions.txt");

/// Writes the names; false: there is no buffer among them.
pub(crate) fn write(call: &str, access: Option<Access>, to: &mut dyn Write) -> bool {
    let pointers = || pointers(call.strip_suffix("_c").unwrap_or(call));
    let reads_constants = access == Some(Access::Read) && pointers().any(|one| one.is_read && one.is_buffer);
    let is_meant = |one: &Pointer<'_>| match access {
        Some(Access::Read) => one.is_read || !reads_constants,
        Some(Access::Write) => !one.is_read,
        None => true,
    };
    let count = pointers().filter(is_meant).count();
    let (mut has_buffer, mut sends) = (false, false);
    for (at, one) in pointers().filter(is_meant).enumerate() {
        has_buffer |= one.is_buffer;
        sends |= one.name == "sendbuf";
        let between = match count - at {
            1 => "",
            2 => " or ",
            _ => ", ",
        };
        let _ = write!(to, "{}{between}", one.name);
    }
    // A collective operation reads where it writes, beside MPI_IN_PLACE.
    let receives = || pointers().any(|one| one.name == "recvbuf");
    if reads_constants && sends && receives() && !call.contains("Sendrecv") {
        let _ = to.write_str(" (recvbuf beside MPI_IN_PLACE)");
    }
    if count > 0 && !has_buffer {
        let _ = to.write_str(" ");
    }
    if count == 0 {
        let _ = to.write_str("a pending operation's buffer");
    }
    has_buffer || count == 0
}

/// Argument that is an address.
struct Pointer<'a> {
    name: &'a str,
    /// The function only reads there.
    is_read: bool,
    /// Data of the program's are there, of any type.
    is_buffer: bool,
}

/// Arguments of a function that are addresses.
fn pointers<'a>(call: &'a str) -> impl Iterator<Item = Pointer<'static>> + use<'a> {
    let arguments = FUNCTIONS.lines().find_map(|line| {
        let (head, rest) = line.split_once('(')?;
        (head.rsplit([' ', '*']).next() == Some(call)).then(|| rest.split_once(')').map(|found| found.0))?
    });
    arguments.into_iter().flat_map(|text| text.split(", ")).filter(|text| text.contains(['*', '['])).map(
        |text| {
            let name = text.rsplit([' ', '*']).next().unwrap_or(text);
            Pointer {
                name: name.split('[').next().unwrap_or(name),
                is_read: text.starts_with("const "),
                is_buffer: text.contains("void *"),
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(call: &str, access: Option<Access>) -> (String, bool) {
        let mut text = String::new();
        let has_buffer = write(call, access, &mut text);
        (text, has_buffer)
    }

    #[test]
    fn arguments_that_an_access_may_have_been_to_are_named() {
        let (read, written) = (Some(Access::Read), Some(Access::Write));
        for (call, access, expected) in [
            ("MPI_Put", read, "origin_addr"),
            ("MPI_Put_c", read, "origin_addr"),
            ("MPI_Get", written, "origin_addr"),
            ("MPI_Compare_and_swap", read, "origin_addr or compare_addr"),
            ("MPI_Compare_and_swap", written, "result_addr"),
            ("MPI_Recv", written, "buf or status"),
            ("MPI_Bcast", read, "buffer"),
            ("MPI_Allreduce", read, "sendbuf (recvbuf beside MPI_IN_PLACE)"),
            ("MPI_Sendrecv", read, "sendbuf"),
            ("MPI_Sendrecv_replace", written, "buf or status"),
            ("MPI_Barrier", read, "a pending operation's buffer"),
            ("MPI_Send", None, "buf"),
        ] {
            assert_eq!(text(call, access), (expected.into(), true), "{call}");
        }
        assert_eq!(text("MPI_Wait", written), ("request or status ".into(), false));
    }
}
