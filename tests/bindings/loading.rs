//! How a program finds the library at run time, and how a profiling tool comes between.

use super::{LIMIT, library, output, source, wrapper};
use std::path::Path;
use std::process::Command;
use tutti_tests::{Scratch, run};

/// Builds `output` from C files of these tests, with more options of mpicc.
#[track_caller]
fn build(folder: &Path, name: &str, files: &[&str], options: &[&str]) -> std::path::PathBuf {
    let files: Vec<String> = files.iter().map(|file| source(file).display().to_string()).collect();
    let mut arguments = vec!["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o", name];
    arguments.extend(files.iter().map(String::as_str));
    arguments.extend(options);
    wrapper("mpicc", folder, &arguments).expect_success();
    folder.join(name)
}

#[test]
fn loading_needs_only_the_abi_library() {
    let scratch = Scratch::new("needed");
    let program = build(scratch.path(), "version", &["version.c"], &[]);
    let dynamic = output(Command::new("readelf").arg("-dW").arg(&program));
    let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert_eq!(needed.len(), 2, "{dynamic}");
    assert!(needed[0].contains("[libmpi_abi.so.1]") && needed[1].contains("[libc.so.6]"), "{dynamic}");
    let mut version = Command::new(program);
    let said = output(version.env_remove("LD_LIBRARY_PATH"));
    assert_eq!(said, "ABI 1.0, world is 0x101, time goes on\n");
}

#[test]
fn loading_by_dlopen_local_works() {
    let scratch = Scratch::new("local");
    let plugin = build(scratch.path(), "libplugin.so", &["plugin.c"], &["-shared", "-fPIC"]);
    let opener = scratch.path().join("opener");
    output(Command::new("cc").arg(source("opener.c")).arg("-o").arg(&opener));
    for second in ["libmpi_abi.so.1", "libtutti.so.1"] {
        assert_eq!(output(Command::new(&opener).arg(&plugin).arg(library(second))), "fine\n");
    }
}

#[test]
fn profiling_tool_sees_calls_linked_and_preloaded() {
    let scratch = Scratch::new("tool");
    let folder = scratch.path();
    let wanted = "size 1\ntool: 3 calls\n";

    let linked_in = build(folder, "linked_in", &["profiled.c", "tool.c"], &[]);
    assert_eq!(output(&mut Command::new(linked_in)), wanted);

    let tool = build(folder, "libtool.so", &["tool.c"], &["-shared", "-fPIC"]);
    let place = folder.display();
    let options = ["-profile=tool", &format!("-L{place}"), &format!("-Wl,-rpath,{place}")];
    let linked = build(folder, "linked", &["profiled.c"], &options);
    assert_eq!(output(&mut Command::new(linked)), wanted);

    let alone = build(folder, "alone", &["profiled.c"], &[]);
    assert_eq!(output(&mut Command::new(&alone)), "size 1\n");
    assert_eq!(output(Command::new(&alone).env("LD_PRELOAD", &tool)), wanted);
}

#[test]
fn wrong_launcher_gets_one_line() {
    let scratch = Scratch::new("foreign-launcher");
    let hello = tutti_tests::compile("examples/hello.c", scratch.path());
    let started = |rank: &str| {
        let mut command = Command::new(&hello);
        command
            .env_remove("TUTTI_TICKET")
            .env_remove("TUTTI_SINGLETON")
            .env("PMI_SIZE", "4")
            .env("PMI_RANK", rank);
        command
    };
    let first = run(&mut started("0"), LIMIT);
    assert_ne!(first.code(), 0, "{first}");
    assert_eq!(first.stderr.lines().count(), 1, "{first}");
    assert!(
        first.stderr.contains("PMI_SIZE=4") && first.stderr.contains("`mpiexec -n 4 PROGRAM`"),
        "{first}"
    );
    let other = run(&mut started("3"), LIMIT);
    assert!(other.code() != 0 && other.stderr.is_empty(), "only the first says the line: {other}");
    let wanted = run(started("0").env("TUTTI_SINGLETON", "1"), LIMIT).expect_success();
    assert!(wanted.stdout.contains("rank 0 of 1"), "{wanted}");
}
