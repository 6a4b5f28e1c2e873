//! The table of the native interface, `bindings/native/bodies.txt`: writes the exported functions whose body
//! is one expression, with the prototypes of the headers. The head of the file says how rows are written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use crate::TableError;
use crate::ctype::Param;
use crate::native_manual::prototypes;
use crate::parse::read_lines;

/// The file in its folder.
pub const FILE: &str = "bodies.txt";

/// The Rust text for each module of the library, of the table in folder `dir`.
///
/// # Errors
/// A line that is none of the file's kinds, a function that is twice in it or not in its header, a type that
/// is not above it.
pub fn generate(dir: &Path) -> Result<BTreeMap<String, String>, TableError> {
    let mut modules: BTreeMap<String, String> = BTreeMap::new();
    let (mut types, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let (mut header, mut module) = (Vec::new(), String::new());
    read_lines(&dir.join(FILE), |line| {
        let bad = || format!("`{line}` is no row");
        if let Some(section) = line.strip_prefix('[') {
            let (file, of) = section.trim_end_matches(']').split_once(' ').ok_or_else(bad)?;
            let text = std::fs::read_to_string(dir.join(file)).map_err(|e| format!("{file}: {e}"))?;
            (header, module) = (prototypes(&text), of.to_owned());
            return Ok(());
        }
        let (name, rest) = line.split_once(' ').ok_or_else(bad)?;
        let (word, rest) = rest.split_once(' ').ok_or_else(bad)?;
        let abi = match (name, word) {
            ("type", c) => {
                types.insert(c.to_owned(), rest.to_owned());
                return Ok(());
            }
            (_, "=") => "C",
            (_, "~") => "C-unwind",
            _ => return Err(bad()),
        };
        if !seen.insert(name.to_owned()) {
            return Err(format!("`{name}` is here twice"));
        }
        let is_its = |text: &&String| text.split('(').next().is_some_and(|head| head.ends_with(name));
        let prototype = header.iter().find(is_its).ok_or_else(|| format!("the header has no `{name}`"))?;
        let signature = signature(prototype, name, &types)?;
        writeln!(
            modules.entry(module.clone()).or_default(),
            "// SAFETY: no other library may define the name.\n#[unsafe(no_mangle)]\n\
             #[allow(unused_unsafe, reason = \"some bodies are safe\")]\n\
             pub unsafe extern \"{abi}\" fn {signature} {{\n    // SAFETY: as the user's.\n    unsafe {{ {rest} }}\n}}\n"
        )
        .expect("a String takes everything");
        Ok(())
    })?;
    Ok(modules)
}

/// A function's name, parameters and result in Rust.
fn signature(prototype: &str, name: &str, types: &BTreeMap<String, String>) -> Result<String, String> {
    let rust = |text: &str| {
        let mut param = Param::parse(&text.replace("volatile ", ""))?;
        let base = types.get(&param.base).ok_or_else(|| format!("`{}` is no type above", param.base))?;
        param.base = base.clone();
        Ok::<_, String>((param.rust_name(), param.to_rust(false)))
    };
    let (head, params) = prototype.split_once('(').ok_or_else(|| format!("`{prototype}`"))?;
    let params = params.trim_end_matches([';', ')']).split(',').map(str::trim).filter(|p| *p != "void");
    let params = params.map(|param| rust(param).map(|(name, of_type)| format!("{name}: {of_type}")));
    let params = params.collect::<Result<Vec<_>, _>>()?.join(", ");
    let returns = match rust(&format!("{} result", head.trim_end_matches(name).trim_end()))?.1 {
        nothing if nothing == "c_void" => String::new(),
        other => format!(" -> {other}"),
    };
    Ok(format!("{name}({params}){returns}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../native")
    }

    #[test]
    fn native_bodies_have_the_prototypes_of_the_headers() {
        let modules = generate(&folder()).unwrap();
        assert_eq!(modules.keys().collect::<Vec<_>>(), ["call", "dse", "native", "service"]);
        let expected = [
            ("native", "pub unsafe extern \"C\" fn tutti_alloc(bytes: usize) -> *mut c_void {"),
            ("native", "pub unsafe extern \"C\" fn tutti_parallel_end() {"),
            ("native", "fn tutti_fence_test(fence: *const Barrier) -> c_int {"),
            ("dse", "pub unsafe extern \"C-unwind\" fn tutti_dse_lock(lock: c_int) -> c_int {"),
            ("dse", "fn tutti_dse_text() -> *const c_char {"),
        ];
        for (module, line) in expected {
            assert!(modules[module].contains(line), "{line}: {}", modules[module]);
        }
    }

    #[test]
    fn native_signature_of_an_unknown_type_is_refused() {
        let types = BTreeMap::from([("int".to_owned(), "c_int".to_owned())]);
        assert_eq!(
            signature("int f(const volatile int *a);", "f", &types).unwrap(),
            "f(a: *const c_int) -> c_int"
        );
        assert!(signature("int f(odd a);", "f", &types).is_err());
    }
}
