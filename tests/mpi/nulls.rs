//! Null pointers: each written function is called with each of its addresses null in turn, the other
//! arguments sensible.
//!
//! The program is generated from the table of functions, and what it expects from `bindings/mpi/nulls.txt`.

use std::path::Path;

use tutti_table::ctype::Param;
use tutti_table::nulls::{Null, is_address};
use tutti_table::{Function, Prototype, Table, exports};
use tutti_tests::{Scratch, program, root, run};

use crate::LIMIT;

/// The calls of the program: function, argument, what is expected (R: refused, B: an error, A: no crash), the
/// C call.
fn cases() -> Vec<(String, String, char, String)> {
    let facts = root().join("bindings/mpi");
    let table = Table::load(&facts).expect("the table is right");
    let written = exports::written_bodies(&table, &facts.join("../../crates/mpi/src/api"))
        .expect("the bodies are there");
    assert!(written.len() >= 580, "only {} functions are written", written.len());
    let is_written = |function: &&Function| written.contains(&function.prototype.name);
    let mut cases = Vec::new();
    for Function { prototype, .. } in table.functions.iter().filter(is_written) {
        for (place, param) in prototype.params.iter().enumerate() {
            let expected = match table.null(&prototype.name, param) {
                None => continue,
                Some(Null::Refused | Null::Length(_)) => 'R',
                Some(Null::Body) => 'B',
                Some(Null::Allowed) => 'A',
            };
            let arguments: Vec<String> = prototype
                .params
                .iter()
                .enumerate()
                .map(|(i, param)| if i == place { "NULL".into() } else { argument(&table, prototype, param) })
                .collect();
            let call = format!("{}({})", prototype.name, arguments.join(", "));
            cases.push((prototype.name.clone(), param.name.clone(), expected, call));
        }
    }
    cases
}

/// A sensible argument.
pub(crate) fn argument(table: &Table, prototype: &Prototype, param: &Param) -> String {
    let (function, name, base) = (prototype.name.as_str(), param.name.as_str(), param.base.as_str());
    if table.is_callback(base) {
        return format!("({base} *)function");
    }
    if is_address(table, param) {
        return match (base, name) {
            ("void" | "char", "extra_state" | "argv") => "NULL".into(),
            ("char", _) if param.constant => "\"text\"".into(),
            // Null is MPI_BOTTOM there: the other arguments must name no data.
            (_, "sendcounts" | "recvcounts") if function.contains("lltoallw") => "none".into(),
            ("int", "ranges") => "ranges".into(),
            ("int", "ranks" | "ranks1" | "edges" | "destinations" | "sources" | "coords") => "zeros".into(),
            _ => format!("(void *)of_{}", base.to_lowercase().trim_start_matches("mpi_")),
        };
    }
    let value = match base {
        "MPI_Comm" if function.contains("eighbor_") || function.contains("Cart") => "cart",
        "MPI_Comm" if function.contains("Dist_graph_n") => "dist",
        "MPI_Comm" if function.contains("Graph") && !function.ends_with("create") => "graph",
        "MPI_Comm" => "comm",
        "MPI_Group" => "group",
        "MPI_Info" => "info",
        "MPI_Session" => "session",
        "MPI_Op" => "MPI_SUM",
        "MPI_Errhandler" => "MPI_ERRORS_RETURN",
        "MPI_Datatype" => "MPI_INT",
        "MPI_Request" => "MPI_REQUEST_NULL",
        _ if base.starts_with("MPI_T_") => "0",
        "MPI_Win" => "MPI_WIN_NULL",
        "MPI_File" => "MPI_FILE_NULL",
        _ => match name {
            "source" | "dest" => "MPI_PROC_NULL",
            "root" | "rank" | "color" | "direction" | "cat_index" | "cvar_index" | "event_index"
            | "pvar_index" | "source_index" | "flag" => "0",
            _ if name.ends_with("keyval") => "keyval",
            "order" => "MPI_ORDER_C",
            "split_type" => "MPI_COMM_TYPE_SHARED",
            "typeclass" => "MPI_TYPECLASS_INTEGER",
            "logical_size" => "4",
            _ => "1",
        },
    };
    value.into()
}

/// The C program that makes the calls.
fn source() -> (String, usize) {
    let cases = cases();
    let mut calls = String::new();
    for (number, (function, argument, expected, call)) in cases.iter().enumerate() {
        calls += &format!(
            "    case {number}: name = \"{function}: {argument}\"; expected = '{expected}'; return {call};\n"
        );
    }
    let frame =
        std::fs::read_to_string(root().join("tests/mpi/programs/nulls.c")).expect("the frame is there");
    let codes: String = cases.iter().map(|case| case.2).collect();
    let text = frame.replace("/* CALLS */", &calls).replace("CASES", &cases.len().to_string());
    (text.replace("CODES", &format!("\"{codes}\"")), cases.len())
}

#[test]
fn null_arguments_of_every_function_are_errors_or_allowed() {
    let (text, count) = source();
    assert!(count > 900, "only {count} arguments are addresses");
    let scratch = Scratch::new("mpi-nulls");
    let file = scratch.path().join("nulls.c");
    std::fs::write(&file, text).expect("a scratch file");
    let compiled = compile(&file, scratch.path());
    for (arguments, handler) in [(&["all"][..], "mpi_errors_are_fatal"), (&["before"], "mpi_errors_return")] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-initial-errhandler", handler, "-n", "1"]).arg(&compiled).args(arguments);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains(&format!("{count} calls\n")), "{ran}");
    }
}

#[test]
fn null_request_is_one_line_and_ends_the_job_when_errors_are_fatal() {
    let scratch = Scratch::new("mpi-nulls-fatal");
    let compiled = tutti_tests::compile("tests/mpi/programs/fatal.c", scratch.path());
    for (case, line) in [
        ("null", "tutti: rank 1: MPI_Wait: request is a null pointer (MPI_ERR_ARG)"),
        ("null_before", "tutti: MPI_Info_create: info is a null pointer (MPI_ERR_ARG)"),
    ] {
        let ran = crate::mpiexec(2, &compiled, &[case]);
        assert_ne!(ran.code(), 0, "{case}: {ran}");
        assert!(ran.stderr.lines().any(|found| found == line), "{case}: {ran}");
    }
}

/// Compiles a program that makes wrong calls.
pub(crate) fn compile(file: &Path, to: &Path) -> std::path::PathBuf {
    let output = to.join("nulls");
    let mut mpicc = program("mpicc");
    // The compiler sees the null pointers, too.
    mpicc.args(["-O0", "-w", "-o"]).arg(&output).arg(file);
    run(&mut mpicc, LIMIT).expect_success();
    output
}
