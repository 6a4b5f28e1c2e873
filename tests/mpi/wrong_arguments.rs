//! Wrong values: each written function is called with each of its handles null, each of its counts negative
//! and each of its ranks and tags out of range, in turn. Whatever error it raises is on its manual page.

use std::collections::BTreeMap;

use tutti_table::ctype::Param;
use tutti_table::nulls::is_address;
use tutti_table::{Table, exports};
use tutti_tests::{Scratch, dist, program, root, run};

use crate::LIMIT;
use crate::nulls::{argument, compile};

/// The wrong value of an argument, if there is one for it.
fn wrong_value(table: &Table, param: &Param) -> Option<&'static str> {
    if is_address(table, param) {
        return None;
    }
    match param.base.as_str() {
        "MPI_Comm" => Some("MPI_COMM_NULL"),
        "MPI_Group" => Some("MPI_GROUP_NULL"),
        "MPI_Datatype" => Some("MPI_DATATYPE_NULL"),
        "MPI_Op" => Some("MPI_OP_NULL"),
        "MPI_Info" => Some("MPI_INFO_NULL"),
        "MPI_Errhandler" => Some("MPI_ERRHANDLER_NULL"),
        "MPI_Session" => Some("MPI_SESSION_NULL"),
        "MPI_Win" => Some("MPI_WIN_NULL"),
        "MPI_File" => Some("MPI_FILE_NULL"),
        _ => match param.name.as_str() {
            "count" | "sendcount" | "recvcount" | "incount" | "blocklength" | "origin_count" | "ndims"
            | "size" | "n" | "nnodes" => Some("-1"),
            "dest" | "source" | "rank" | "root" | "target_rank" | "local_leader" => Some("1000"),
            "tag" | "sendtag" | "recvtag" => Some("-77"),
            name if name.ends_with("keyval") => Some("MPI_KEYVAL_INVALID"),
            _ => None,
        },
    }
}

/// The codes by their numbers.
fn error_codes() -> BTreeMap<i64, String> {
    let text =
        std::fs::read_to_string(root().join("bindings/mpi/constants.txt")).expect("the table is there");
    let lines = text.lines().filter(|line| line.starts_with("MPI_ERR_"));
    let codes = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[2].parse().expect("a number"), words[0].to_owned())
    });
    codes.collect()
}

#[test]
fn manual_pages_name_the_errors_that_wrong_arguments_raise() {
    let facts = root().join("bindings/mpi");
    let table = Table::load(&facts).expect("the table is right");
    let written = exports::written_bodies(&table, &facts.join("../../crates/mpi/src/api")).expect("bodies");
    let mut cases = Vec::new();
    for function in table.functions.iter().filter(|f| written.contains(&f.prototype.name)) {
        let prototype = &function.prototype;
        // The first ends the job, whatever its arguments are; a session that it makes would stay open.
        let is_left_out = ["MPI_Abort", "MPI_Session_init"].contains(&prototype.name.as_str());
        if is_left_out || prototype.name.starts_with("MPI_T_") || !exports::returns_error_code(function) {
            continue;
        }
        for (place, param) in prototype.params.iter().enumerate() {
            let Some(wrong) = wrong_value(&table, param) else { continue };
            let of = |(i, param)| if i == place { wrong.into() } else { argument(&table, prototype, param) };
            let arguments: Vec<String> = prototype.params.iter().enumerate().map(of).collect();
            let call = format!("{}({})", prototype.name, arguments.join(", "));
            cases.push((prototype.name.clone(), param.name.clone(), call));
        }
    }
    assert!(cases.len() > 800, "only {} arguments can be wrong", cases.len());

    let frame = std::fs::read_to_string(root().join("tests/mpi/programs/nulls.c")).expect("the frame");
    let calls: String = cases
        .iter()
        .enumerate()
        .map(|(number, (function, argument, call))| {
            format!("    case {number}: name = \"{function}: {argument}\"; expected = 'E'; return {call};\n")
        })
        .collect();
    let text = frame.replace("/* CALLS */", &calls).replace("CASES", &cases.len().to_string());
    let text = text.replace("CODES", &format!("\"{}\"", "E".repeat(cases.len())));
    let scratch = Scratch::new("mpi-wrong-arguments");
    let file = scratch.path().join("wrong.c");
    std::fs::write(&file, text).expect("a scratch file");
    let compiled = compile(&file, scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-initial-errhandler", "mpi_errors_return", "-n", "1"]).arg(&compiled).arg("all");
    let ran = run(&mut mpiexec, LIMIT).expect_success();

    let codes = error_codes();
    let mut missing = Vec::new();
    let mut raised = 0;
    for line in ran.stdout.lines().filter_map(|line| line.strip_prefix("class ")) {
        let (class, call) = line.split_once(' ').expect("a class and a call");
        let class: i64 = class.parse().expect("a number");
        let (function, argument) = call.split_once(": ").expect("a function and an argument");
        let Some(code) = codes.get(&class) else {
            assert_eq!(class, 0, "{line} is no class of errors");
            continue;
        };
        raised += 1;
        let page = page_of(function);
        let errors = page.split(".SH ERRORS\n").nth(1).and_then(|text| text.split("\n.SH").next());
        if !errors.unwrap_or_default().contains(&format!(".B {code}\n")) {
            missing.push(format!("{function}: {argument}: {code}"));
        }
    }
    assert!(raised > 600, "only {raised} of {} calls have raised an error: {ran}", cases.len());
    assert!(missing.is_empty(), "not on the pages:\n{}", missing.join("\n"));
}

/// The page of a function, or of the function whose large-count form it is.
fn page_of(function: &str) -> String {
    let folder = dist().join("share/man");
    let read = |place: &str| std::fs::read_to_string(folder.join(place)).expect("each function has a page");
    let page = read(&format!("man3/{function}.3"));
    match page.strip_prefix(".so ") {
        Some(other) => read(other.trim()),
        None => page,
    }
}
