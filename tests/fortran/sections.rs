//! Array sections whose elements do not lie side by side, in every procedure of `mpi_f08` that takes a
//! buffer: each does the same with a section as with an array, and leaves alone what lies between.
//!
//! The program is written here from a table, so that none can be left out: [`every_procedure`] looks at the
//! table of functions.

use super::{LIMIT, compile_and_run, has_compiler, mpifort, source};
use std::fmt::Write;
use tutti_table::Table;
use tutti_table::fortran::Fortran;
use tutti_tests::{Scratch, program, root, run};

/// Collective operations on 16 integers of two ranks. `{S}` is sent, `{R}` received; numbers in braces are
/// counts.
const COLLECTIVES: [(&str, &str); 25] = [
    ("Bcast", "{R}, {16}, MPI_INTEGER, 1, comm"),
    ("Gather", "{S}, {8}, MPI_INTEGER, {R}, {8}, MPI_INTEGER, 0, comm"),
    ("Gatherv", "{S}, {8}, MPI_INTEGER, {R}, {counts}, {places}, MPI_INTEGER, 1, comm"),
    ("Scatter", "{S}, {8}, MPI_INTEGER, {R}, {8}, MPI_INTEGER, 1, comm"),
    ("Scatterv", "{S}, {counts}, {places}, MPI_INTEGER, {R}, {8}, MPI_INTEGER, 0, comm"),
    ("Allgather", "{S}, {8}, MPI_INTEGER, {R}, {8}, MPI_INTEGER, comm"),
    ("Allgather", "MPI_IN_PLACE, {0}, MPI_DATATYPE_NULL, {R}, {8}, MPI_INTEGER, comm"),
    ("Allgatherv", "{S}, {8}, MPI_INTEGER, {R}, {counts}, {places}, MPI_INTEGER, comm"),
    ("Alltoall", "{S}, {8}, MPI_INTEGER, {R}, {8}, MPI_INTEGER, comm"),
    ("Alltoallv", "{S}, {counts}, {places}, MPI_INTEGER, {R}, {counts}, {places}, MPI_INTEGER, comm"),
    ("Alltoallw", "{S}, {counts}, {bytes}, types, {R}, {counts}, {bytes}, types, comm"),
    ("Reduce", "{S}, {R}, {16}, MPI_INTEGER, MPI_SUM, 0, comm"),
    ("Allreduce", "{S}, {R}, {16}, MPI_INTEGER, MPI_SUM, comm"),
    ("Allreduce", "MPI_IN_PLACE, {R}, {16}, MPI_INTEGER, MPI_SUM, comm"),
    ("Allreduce", "{S}, {R}, {16}, MPI_INTEGER, own, comm"),
    ("Reduce_scatter", "{S}, {R}, {counts}, MPI_INTEGER, MPI_SUM, comm"),
    ("Reduce_scatter", "MPI_IN_PLACE, {R}, {counts}, MPI_INTEGER, MPI_SUM, comm"),
    ("Reduce_scatter_block", "{S}, {R}, {8}, MPI_INTEGER, MPI_SUM, comm"),
    ("Scan", "{S}, {R}, {16}, MPI_INTEGER, MPI_SUM, comm"),
    ("Exscan", "{S}, {R}, {16}, MPI_INTEGER, MPI_SUM, comm"),
    ("Neighbor_allgather", "{S}, {8}, MPI_INTEGER, {R}, {8}, MPI_INTEGER, ring"),
    ("Neighbor_allgatherv", "{S}, {8}, MPI_INTEGER, {R}, {counts}, {places}, MPI_INTEGER, ring"),
    ("Neighbor_alltoall", "{S}, {8}, MPI_INTEGER, {R}, {8}, MPI_INTEGER, ring"),
    (
        "Neighbor_alltoallv",
        "{S}, {counts}, {places}, MPI_INTEGER, {R}, {counts}, {places}, MPI_INTEGER, ring",
    ),
    ("Neighbor_alltoallw", "{S}, {counts}, {addresses}, types, {R}, {counts}, {addresses}, types, ring"),
];

/// Statements of other procedures; `{Q}` is an array of the program in both ways. `@` stands for each of the
/// names.
const OTHERS: [(&[&str], &str); 24] = [
    (
        &["Send", "Bsend", "Ssend", "Rsend"],
        "call MPI_Irecv({Q}, 16, MPI_INTEGER, other, 1, comm, rq(1))\ncall MPI_Barrier(comm)\n\
         call MPI_@({S}, {16}, MPI_INTEGER, other, 1, comm)\ncall MPI_Wait(rq(1), MPI_STATUS_IGNORE)",
    ),
    (
        &["Isend", "Ibsend", "Issend", "Irsend"],
        "call MPI_Irecv({Q}, 16, MPI_INTEGER, other, 1, comm, rq(1))\ncall MPI_Barrier(comm)\n\
         call MPI_@({S}, {16}, MPI_INTEGER, other, 1, comm, rq(2))\ncall MPI_Waitall(2, rq, MPI_STATUSES_IGNORE)",
    ),
    (
        &["Send_init", "Bsend_init", "Ssend_init", "Rsend_init"],
        "call MPI_@({S}, {16}, MPI_INTEGER, other, 1, comm, rq(2))\n\
         call MPI_Irecv({Q}, 16, MPI_INTEGER, other, 1, comm, rq(1))\ncall MPI_Barrier(comm)\ncall MPI_Start(rq(2))\n\
         call MPI_Waitall(2, rq, MPI_STATUSES_IGNORE)\ncall MPI_Request_free(rq(2))",
    ),
    (
        &["Recv"],
        "call MPI_Isend(cs, 16, MPI_INTEGER, other, 1, comm, rq(1))\n\
         call MPI_@({R}, {16}, MPI_INTEGER, other, 1, comm, MPI_STATUS_IGNORE)\ncall MPI_Wait(rq(1), MPI_STATUS_IGNORE)",
    ),
    (
        &["Irecv"],
        "call MPI_@({R}, {16}, MPI_INTEGER, other, 1, comm, rq(1))\n\
         call MPI_Send(cs, 16, MPI_INTEGER, other, 1, comm)\ncall MPI_Wait(rq(1), MPI_STATUS_IGNORE)",
    ),
    (
        &["Recv_init"],
        "call MPI_@({R}, {16}, MPI_INTEGER, other, 1, comm, rq(1))\ncall MPI_Start(rq(1))\n\
         call MPI_Send(cs, 16, MPI_INTEGER, other, 1, comm)\ncall MPI_Wait(rq(1), MPI_STATUS_IGNORE)\n\
         call MPI_Request_free(rq(1))",
    ),
    (
        &["Mrecv"],
        "call MPI_Isend(cs, 16, MPI_INTEGER, other, 1, comm, rq(1))\n\
         call MPI_Mprobe(other, 1, comm, message, MPI_STATUS_IGNORE)\n\
         call MPI_@({R}, {16}, MPI_INTEGER, message, MPI_STATUS_IGNORE)\ncall MPI_Wait(rq(1), MPI_STATUS_IGNORE)",
    ),
    (
        &["Imrecv"],
        "call MPI_Isend(cs, 16, MPI_INTEGER, other, 1, comm, rq(1))\n\
         call MPI_Mprobe(other, 1, comm, message, MPI_STATUS_IGNORE)\n\
         call MPI_@({R}, {16}, MPI_INTEGER, message, rq(2))\ncall MPI_Waitall(2, rq, MPI_STATUSES_IGNORE)",
    ),
    (
        &["Sendrecv"],
        "call MPI_@({S}, {16}, MPI_INTEGER, other, 1, {R}, {16}, MPI_INTEGER, other, 1, comm, MPI_STATUS_IGNORE)",
    ),
    (
        &["Isendrecv"],
        "call MPI_@({S}, {16}, MPI_INTEGER, other, 1, {R}, {16}, MPI_INTEGER, other, 1, comm, rq(1))\n\
         call MPI_Wait(rq(1), MPI_STATUS_IGNORE)",
    ),
    (
        &["Sendrecv_replace"],
        "{R} = cs\ncall MPI_@({R}, {16}, MPI_INTEGER, other, 1, other, 1, comm, MPI_STATUS_IGNORE)",
    ),
    (
        &["Isendrecv_replace"],
        "{R} = cs\ncall MPI_@({R}, {16}, MPI_INTEGER, other, 1, other, 1, comm, rq(1))\n\
         call MPI_Wait(rq(1), MPI_STATUS_IGNORE)",
    ),
    (
        &["Psend_init"],
        "call MPI_Psend_init({S}, 4, {4}, MPI_INTEGER, other, 1, comm, MPI_INFO_NULL, rq(1))\n\
         call MPI_Precv_init({R}, 2, {8}, MPI_INTEGER, other, 1, comm, MPI_INFO_NULL, rq(2))\n\
         do i = 1, 2\n{S} = {S} + 1000\ncall MPI_Startall(2, rq)\ncall MPI_Pready(3, rq(1))\n\
         call MPI_Pready_range(0, 2, rq(1))\ncall MPI_Waitall(2, rq, MPI_STATUSES_IGNORE)\nend do\n\
         call MPI_Request_free(rq(1))\ncall MPI_Request_free(rq(2))",
    ),
    (
        &["Put", "Accumulate"],
        "shown = 1\ncall MPI_Win_fence(0, win)\n\
         call MPI_@({S}, {16}, MPI_INTEGER, other, 0_MPI_ADDRESS_KIND, {16}, MPI_INTEGER{op}, win)\n\
         call MPI_Win_fence(0, win)\n{Q} = reshape(shown, shape({Q}))\ncall MPI_Barrier(comm)",
    ),
    (
        &["Get"],
        "shown = [(i + me, i = 1, 16)]\ncall MPI_Win_fence(0, win)\n\
         call MPI_@({R}, {16}, MPI_INTEGER, other, 0_MPI_ADDRESS_KIND, {16}, MPI_INTEGER, win)\n\
         call MPI_Win_fence(0, win)",
    ),
    (
        &["Get_accumulate"],
        "shown = [(i + me, i = 1, 16)]\ncall MPI_Win_fence(0, win)\n\
         call MPI_@({S}, {16}, MPI_INTEGER, {R}, {16}, MPI_INTEGER, other, 0_MPI_ADDRESS_KIND, {16}, MPI_INTEGER, MPI_SUM, win)\n\
         call MPI_Win_fence(0, win)\n{Q} = reshape(shown, shape({Q}))",
    ),
    (
        &["Rput", "Raccumulate"],
        "shown = 1\ncall MPI_Barrier(comm)\ncall MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win)\n\
         call MPI_@({S}, {16}, MPI_INTEGER, other, 0_MPI_ADDRESS_KIND, {16}, MPI_INTEGER{op}, win, rq(1))\n\
         call MPI_Wait(rq(1), MPI_STATUS_IGNORE)\ncall MPI_Win_unlock(other, win)\ncall MPI_Barrier(comm)\n\
         call MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win)\n{Q} = reshape(shown, shape({Q}))\ncall MPI_Win_unlock(me, win)\n\
         call MPI_Barrier(comm)",
    ),
    (
        &["Rget", "Rget_accumulate"],
        "shown = [(i + me, i = 1, 16)]\ncall MPI_Barrier(comm)\ncall MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win)\n\
         call MPI_@({from}{R}, {16}, MPI_INTEGER, other, 0_MPI_ADDRESS_KIND, {16}, MPI_INTEGER{op}, win, rq(1))\n\
         call MPI_Wait(rq(1), MPI_STATUS_IGNORE)\ncall MPI_Win_unlock(other, win)\ncall MPI_Barrier(comm)",
    ),
    (
        &["Fetch_and_op", "Compare_and_swap"],
        "shown = 100 * other + 1\ncall MPI_Win_fence(0, win)\n\
         call MPI_@({S}, {compare}{R}, MPI_INTEGER, other, 0_MPI_ADDRESS_KIND{op}, win)\n\
         call MPI_Win_fence(0, win)\n{Q} = reshape(shown, shape({Q}))",
    ),
    (&["Reduce_local"], "{R} = 5\ncall MPI_@({S}, {R}, {16}, MPI_INTEGER, MPI_SUM)"),
    (&["Pack"], "{at} = 0\ncall MPI_@({S}, {16}, MPI_INTEGER, {R}, {64}, {at}, comm)"),
    (&["Unpack"], "{at} = 0\ncall MPI_@({S}, {64}, {at}, {R}, {16}, MPI_INTEGER, comm)"),
    (
        &["Pack_external"],
        "{ext} = 0\ncall MPI_@(\"external32\", {S}, {16}, MPI_INTEGER, {R}, {64ext}, {ext})",
    ),
    (
        &["Unpack_external"],
        "{ext} = 0\ncall MPI_@(\"external32\", {S}, {64ext}, {ext}, {R}, {16}, MPI_INTEGER)",
    ),
];

/// Procedures that must have a contiguous buffer, or want its address only: programs beside this one try
/// them.
const ELSEWHERE: [&str; 11] = [
    "Buffer_attach",
    "Comm_attach_buffer",
    "Session_attach_buffer",
    "Free_mem",
    "Win_create",
    "Win_attach",
    "Win_detach",
    "Get_address",
    "Precv_init",
    // What MPI-2.0 deprecated is no part of `mpi_f08`.
    "Attr_get",
    "Attr_put",
];

/// Accesses to files, each with the statements before and behind it.
fn files(out: &mut Vec<(String, String)>) {
    let at_first = "call MPI_File_seek(fh, place, MPI_SEEK_SET)\n";
    let shared = "call MPI_Barrier(comm)\ncall MPI_File_seek_shared(fh, 0_MPI_OFFSET_KIND, MPI_SEEK_SET)\n";
    let turns = |call: &str| {
        format!(
            "{shared}do turn = 0, 1\nif (me == turn) then\n{call}\nend if\ncall MPI_Barrier(comm)\nend do"
        )
    };
    for direction in ["read", "write"] {
        let buffer = if direction == "read" { "{R}" } else { "{S}" };
        let (before, behind) = match direction {
            "read" => ("call MPI_File_write_at(fh, place, cs, 16, MPI_INTEGER, MPI_STATUS_IGNORE)\n", ""),
            _ => ("", "\ncall MPI_File_read_at(fh, place, {Q}, 16, MPI_INTEGER, MPI_STATUS_IGNORE)"),
        };
        let data = format!("{buffer}, {{16}}, MPI_INTEGER");
        let mut add = |name: &str, text: String| {
            out.push((format!("File_{name}"), format!("{before}call MPI_Barrier(comm)\n{text}{behind}")));
        };
        let wait = "\ncall MPI_Wait(rq(1), MPI_STATUS_IGNORE)";
        for (form, first) in [("_at", ""), ("_at_all", ""), ("", at_first), ("_all", at_first)] {
            let offset = if form.starts_with("_at") { "place, " } else { "" };
            let name = format!("{direction}{form}");
            add(&name, format!("{first}call MPI_File_{name}(fh, {offset}{data}, MPI_STATUS_IGNORE)"));
            add(
                &format!("i{name}"),
                format!("{first}call MPI_File_i{name}(fh, {offset}{data}, rq(1)){wait}"),
            );
            if form.ends_with("all") {
                let text = format!(
                    "{first}call MPI_File_{name}_begin(fh, {offset}{data})\ncall MPI_File_{name}_end(fh, {buffer}, MPI_STATUS_IGNORE)"
                );
                add(&format!("{name}_begin"), text.clone());
                add(&format!("{name}_end"), text);
            }
        }
        let name = format!("{direction}_shared");
        add(&name, turns(&format!("call MPI_File_{name}(fh, {data}, MPI_STATUS_IGNORE)")));
        add(&format!("i{name}"), turns(&format!("call MPI_File_i{name}(fh, {data}, rq(1)){wait}")));
        let name = format!("{direction}_ordered");
        add(&name, format!("{shared}call MPI_File_{name}(fh, {data}, MPI_STATUS_IGNORE)"));
        let text = format!(
            "{shared}call MPI_File_{name}_begin(fh, {data})\ncall MPI_File_{name}_end(fh, {buffer}, MPI_STATUS_IGNORE)"
        );
        add(&format!("{name}_begin"), text.clone());
        add(&format!("{name}_end"), text);
    }
}

/// All: the name of the procedure of C, and the statements.
fn rows() -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for (name, arguments) in COLLECTIVES {
        let first = if name == "Bcast" || arguments.starts_with("MPI_IN_PLACE") { "{R} = cs\n" } else { "" };
        let wait = "call MPI_Wait(rq(1), MPI_STATUS_IGNORE)";
        let small = name.to_lowercase();
        rows.push((name.to_owned(), format!("{first}call MPI_{name}({arguments})")));
        rows.push((format!("I{small}"), format!("{first}call MPI_I{small}({arguments}, rq(1))\n{wait}")));
        // The second start must see what the section holds then.
        let again = if first.is_empty() { "{S} = {S} + 1000\n" } else { "{R} = {R} + 1000\n" };
        let start = format!("call MPI_Start(rq(1))\n{wait}\n");
        rows.push((
            format!("{name}_init"),
            format!(
                "call MPI_{name}_init({arguments}, MPI_INFO_NULL, rq(1))\n{first}{start}{again}{start}call MPI_Request_free(rq(1))"
            ),
        ));
    }
    for (names, text) in OTHERS {
        for name in names {
            let op = if name.contains("ccumulate") || *name == "Fetch_and_op" { ", MPI_SUM" } else { "" };
            let from = if *name == "Rget_accumulate" { "{S}, {16}, MPI_INTEGER, " } else { "" };
            let compare = if *name == "Compare_and_swap" { "{S}, " } else { "" };
            let text = text.replace("{op}", op).replace("{from}", from).replace("{compare}", compare);
            rows.push(((*name).to_owned(), text.replace('@', name)));
        }
    }
    files(&mut rows);
    rows
}

/// Statements for a section or for an array beside it, with small or large counts.
fn filled(text: &str, is_section: bool, is_large: bool) -> String {
    let buffers = if is_section { ["s", "r", "q2"] } else { ["cs", "cr", "q1"] };
    let mut text = text.to_owned();
    for (name, with) in ["{S}", "{R}", "{Q}"].into_iter().zip(buffers) {
        text = text.replace(name, with);
    }
    for count in ["0", "4", "8", "16", "64"] {
        let kind = if is_large { "_MPI_COUNT_KIND" } else { "" };
        text = text.replace(&format!("{{{count}}}"), &format!("{count}{kind}"));
    }
    let names = if is_large {
        ["counts_c", "addresses_of", "bytes_c", "bytes_c", "at_c", "at_c", "64_MPI_COUNT_KIND"]
    } else {
        ["counts", "places", "bytes", "bytes_c", "at", "ext", "64_MPI_ADDRESS_KIND"]
    };
    let keys = ["{counts}", "{places}", "{bytes}", "{addresses}", "{at}", "{ext}", "{64ext}"];
    keys.into_iter().zip(names).fold(text, |text, (key, name)| text.replace(key, name))
}

const HEAD: &str = "
module surroundings
use mpi_f08
implicit none
integer, asynchronous :: around_s(64), around_r(64), flat_s(8, 8), flat_r(8, 8)
integer, asynchronous :: shown(16)
integer :: me, other, wrong = 0
integer :: counts(2) = 8, places(2) = [8, 0], bytes(2) = [32, 0]
integer(MPI_COUNT_KIND) :: counts_c(2) = 8, at_c
integer(MPI_ADDRESS_KIND) :: addresses_of(2) = [8, 0], bytes_c(2) = [32, 0], ext
type(MPI_Comm) :: comm = MPI_COMM_WORLD, ring
type(MPI_Win) :: win
type(MPI_File) :: fh
type(MPI_Op) :: own
type(MPI_Datatype) :: types(2) = MPI_INTEGER
integer(MPI_OFFSET_KIND) :: place_in_file
contains
subroutine add(invec, inoutvec, len, datatype)
use, intrinsic :: iso_c_binding
type(c_ptr), value :: invec, inoutvec
integer :: len
type(MPI_Datatype) :: datatype
integer, pointer :: a(:), b(:)
call c_f_pointer(invec, a, [len])
call c_f_pointer(inoutvec, b, [len])
b = a + 3 * b
end subroutine
subroutine report(name, is_same, is_changed)
character(len=*) :: name
logical :: is_same, is_changed
integer :: gaps
gaps = count(around_s == -7) + count(around_r == -7) + count(flat_s == -7) + count(flat_r == -7)
call MPI_Allreduce(MPI_IN_PLACE, is_changed, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD)
if (is_same .and. is_changed .and. gaps == 2 * 32 + 2 * 48) return
wrong = wrong + 1
print '(A,A,A,L2,A,L2,A,I4)', 'MPI_', name, ': same', is_same, ' changed', is_changed, ' between', gaps
end subroutine
";

const MAIN: &str = "
program sections_everywhere
use surroundings
implicit none
character(len=200) :: path
integer :: i
integer, asynchronous :: room(4000)
call MPI_Init()
call MPI_Comm_rank(comm, me)
other = 1 - me
place_in_file = 64 * me
call get_command_argument(1, path)
call MPI_Buffer_attach(room, 16000)
call MPI_Cart_create(comm, 1, [2], [.true.], .false., ring)
call MPI_Op_create(add, .false., own)
call MPI_Win_create(shown, 64_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, comm, win)
call MPI_File_open(comm, trim(path), MPI_MODE_RDWR + MPI_MODE_CREATE + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, fh)
around_s = -7; around_r = -7; flat_s = -7; flat_r = -7
around_s(1:32:2) = 0; around_s(64:34:-2) = 0; around_r(1:32:2) = 0; around_r(64:34:-2) = 0
flat_s(1:7:2, 2:8:2) = 0; flat_r(8:2:-2, 1:7:2) = 0
call line(around_s(1:32:2), around_r(64:34:-2))
call line(around_s(64:34:-2), around_r(1:32:2))
call square(flat_s(1:7:2, 2:8:2), flat_r(8:2:-2, 1:7:2))
call MPI_File_close(fh)
call MPI_Win_free(win)
call MPI_Op_free(own)
call MPI_Comm_free(ring)
call MPI_Buffer_detach_all()
call MPI_Finalize()
if (wrong == 0 .and. me == 0) print '(A)', 'ok'
contains
subroutine MPI_Buffer_detach_all()
use, intrinsic :: iso_c_binding
type(c_ptr) :: address
integer :: size
call MPI_Buffer_detach(address, size)
end subroutine
end program
";

/// The program.
fn text() -> String {
    let rows = rows();
    let mut out = HEAD.to_owned();
    for (name, shape, shape_of) in [("line", ":", "16"), ("square", ":, :", "4, 4")] {
        let mut each = String::new();
        for (at, (function, text)) in rows.iter().enumerate() {
            for is_large in [false, true] {
                if is_large && filled(text, true, true) == filled(text, true, false) {
                    continue;
                }
                let (large, at) =
                    (if is_large { " of large counts" } else { "" }, 2 * at + usize::from(is_large));
                writeln!(
                    each,
                    "subroutine {name}_{at}()\ncall fill()\n{}\n{}\ncall compare('{function}{large}')\nend subroutine",
                    filled(text, false, is_large),
                    filled(text, true, is_large)
                )
                .expect("a String takes everything");
            }
        }
        let calls: String = each
            .lines()
            .filter_map(|line| line.strip_prefix("subroutine "))
            .map(|name| format!("call {name}\n"))
            .collect();
        write!(
            out,
            "subroutine {name}(s, r)\ninteger, asynchronous :: s({shape}), r({shape})\n\
             integer, asynchronous, dimension({shape_of}) :: cs, cr, q1, q2\n\
             integer :: i, at, turn\ninteger(MPI_OFFSET_KIND) :: place\ntype(MPI_Request) :: rq(2)\ntype(MPI_Message) :: message\n\
             place = place_in_file\n{calls}contains\n\
             subroutine fill()\ncs = reshape([(100 * me + i, i = 1, 16)], shape(cs))\ns = cs\ncr = -1\nr = -1\nq1 = -1\nq2 = -1\nend subroutine\n\
             subroutine compare(name)\ncharacter(len=*) :: name\n\
             call report(name, all(s == cs) .and. all(r == cr) .and. all(q1 == q2), any(cr /= -1) .or. any(q1 /= -1))\n\
             end subroutine\n{each}end subroutine\n"
        )
        .expect("as above");
    }
    out + "end module\n" + MAIN
}

/// Every procedure with a buffer of any type is among the rows, or tried elsewhere.
fn every_procedure(rows: &[(String, String)]) {
    let facts = root().join("bindings/mpi");
    let table = Table::load(&facts).expect("the table of functions");
    let fortran = Fortran::load(&facts).expect("the facts of Fortran");
    let bindings = fortran.bindings(&table).expect("all is understood");
    let all: Vec<&str> =
        bindings.iter().filter(|b| b.has_choice() && !b.is_large).map(|binding| binding.short()).collect();
    assert!(all.len() > 140, "{} procedures with buffers", all.len());
    let is_missing = |name: &&&str| !ELSEWHERE.contains(name) && !rows.iter().any(|row| row.0 == ***name);
    let missing: Vec<_> = all.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no section is tried in {missing:?}");
}

#[test]
fn fortran_sections_do_in_every_procedure_what_arrays_do() {
    every_procedure(&rows());
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("sections-everywhere");
    std::fs::write(scratch.path().join("everywhere.f90"), text()).expect("a source");
    let mut compile = mpifort(&scratch);
    compile.args(["-O0", "-ffree-line-length-none", "everywhere.f90", "-o", "program"]);
    run(&mut compile, LIMIT).expect_success();
    for nodes in ["1", "2"] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["--virtual-nodes", nodes, "-n", "2", "./program", "data"]).current_dir(scratch.path());
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert_eq!((ran.stdout.trim(), &*ran.stderr), ("ok", ""), "{nodes} nodes: {ran}");
    }
}

#[test]
fn fortran_section_that_cannot_be_is_an_error_on_its_own_object() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("sections-refused");
    let ran = compile_and_run(&scratch, "sections_refused.f90", &["-Wall"], "1").expect_success();
    assert_eq!((ran.stdout.trim(), &*ran.stderr), ("ok", ""), "{ran}");
}

#[test]
fn fortran_section_of_a_pending_operation_changes_where_it_is_written() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("sections-pending");
    let ran = compile_and_run(&scratch, "sections_pending.f90", &["-Wall"], "2").expect_success();
    assert_eq!(ran.stdout.trim(), "ok", "{ran}");
    let _ = source;
}

#[test]
fn fortran_section_of_which_a_message_has_a_part_is_taken_column_by_column() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("sections-in-part");
    for ranks in ["1", "3"] {
        let ran = compile_and_run(&scratch, "sections_in_part.f90", &["-Wall"], ranks).expect_success();
        assert_eq!((ran.stdout.trim(), &*ran.stderr), ("ok", ""), "{ranks} ranks: {ran}");
    }
}
