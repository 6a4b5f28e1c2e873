//! `target/lab/tutti-lab`: machines of namespaces on this machine (docs/internals/lab.md).

fn main() -> std::process::ExitCode {
    tutti_testkit::lab::command::main()
}
