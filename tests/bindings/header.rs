//! `mpi.h` has the values of the ABI, the names of older programs, and compiles without a warning.

use super::{output, source, wrapper};
use std::process::Command;
use tutti_testkit::{Need, has_command_for_part};
use tutti_tests::Scratch;

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

#[test]
fn header_matches_the_standard_abi() {
    let scratch = Scratch::new("abi-values");
    let file = source("abi_values.c");
    // Not pedantic: a pointer in a static assertion is an extension of the compilers.
    let arguments =
        ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", file.to_str().expect("UTF-8")];
    wrapper("mpicc", scratch.path(), &arguments).expect_success();
}

#[test]
fn header_compiles_in_every_dialect() {
    let scratch = Scratch::new("dialects");
    let file = scratch.path().join("only.c");
    std::fs::write(&file, "#include <mpi.h>\n#include <mpi.h>\nextern int nothing;\n")
        .expect("a scratch file");
    for (compiler, language, dialects) in [
        ("mpicc", "c", &["c89", "c99", "c11", "c17"][..]),
        ("mpicxx", "c++", &["c++98", "c++11", "c++17", "c++20"]),
    ] {
        if language == "c++" && !has_command_for_part(Need::Cxx, "c++") {
            continue;
        }
        for dialect in dialects {
            for define in ["-DNOTHING", "-DTUTTI_ABI_ONLY"] {
                let standard = format!("-std={dialect}");
                let mut arguments = vec!["-x", language, &standard, define, "-fsyntax-only", "only.c"];
                arguments.extend(STRICT);
                wrapper(compiler, scratch.path(), &arguments).expect_success();
            }
        }
    }
}

#[test]
fn header_has_removed_mpi1_names() {
    let scratch = Scratch::new("older-names");
    let file = source("older_names.c");
    for (compiler, options) in [("mpicc", &["-std=c99"][..]), ("mpicxx", &["-std=c++17", "-x", "c++"])] {
        if compiler == "mpicxx" && !has_command_for_part(Need::Cxx, "c++") {
            continue;
        }
        let mut arguments = options.to_vec();
        arguments.extend(STRICT);
        arguments.extend([file.to_str().expect("UTF-8"), "-o", "older_names"]);
        wrapper(compiler, scratch.path(), &arguments).expect_success();
        assert_eq!(output(&mut Command::new(scratch.path().join("older_names"))), "fine\n");
    }
}
