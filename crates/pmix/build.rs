//! Export of `accept` from the program, so that libpmix, loaded at run time, calls this one
//! (src/library/accept.rs).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=accept");
}
