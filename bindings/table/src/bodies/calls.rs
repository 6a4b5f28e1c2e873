//! Calls: every rule of `calls.txt` gives the body of a function, and that of its large-count forms, which
//! turns the arguments into values of Rust, calls a function of the library, and writes its results.

use std::fmt::Write;

use super::expression::Expression;
use super::parameters;
use crate::nulls::{Null, is_address};
use crate::{Function, Prototype, Table};

/// How a body enters the library, and how errors leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// Enters the library; errors are those of the communicator, session, file or window among the
    /// arguments.
    Call,
    /// Needs nothing of the process: allowed before Init and after Finalize.
    Anytime,
    /// A call of the tool information interface, whose errors are codes.
    Tool,
    /// The function enters by itself and gives the code.
    Itself,
    /// Enters the library; errors are those of MPI_FILE_NULL.
    File,
}

/// The body of a function and of its large-count forms.
#[derive(Debug)]
pub struct Rule {
    /// The name of the function without `MPI_`.
    name: String,
    /// Text that says what the function does, for its manual page.
    comment: String,
    entry: Entry,
    /// Function that it calls, with the arguments.
    callee: Expression,
    /// Where the results go, in the order in which the callee gives them.
    results: Vec<Output>,
    /// Parameters that mean nothing here.
    unused: Vec<String>,
}

/// The place of a result.
#[derive(Debug)]
struct Output {
    /// Only written if there is a value.
    is_optional: bool,
    place: Expression,
}

/// Reads a line of `calls.txt`; `comment` is what stands above the next rule.
pub fn line(table: &mut Table, comment: &mut String, line: &str) -> Result<(), String> {
    if let Some(text) = line.strip_prefix("///") {
        if !comment.is_empty() {
            comment.push(' ');
        }
        comment.push_str(text.trim());
        return Ok(());
    }
    let rule = Rule::parse(line, std::mem::take(comment))?;
    if table.calls.iter().any(|other| other.name == rule.name) {
        return Err(format!("`{}` has a rule already", rule.name));
    }
    rule.check(table)?;
    table.calls.push(rule);
    Ok(())
}

impl Rule {
    fn parse(line: &str, comment: String) -> Result<Rule, String> {
        let (name, rest) =
            line.split_once('=').ok_or_else(|| format!("expected NAME = FUNCTION(...): `{line}`"))?;
        let name = name.trim().to_owned();
        if comment.is_empty() {
            return Err(format!("no `///` above `{name}` says what it does"));
        }
        let (rest, unused) = rest.split_once(" without ").unwrap_or((rest, ""));
        let (callee, results) = rest.split_once("->").unwrap_or((rest, ""));
        let entries = [
            ("anytime ", Entry::Anytime),
            ("tool ", Entry::Tool),
            ("itself ", Entry::Itself),
            ("file ", Entry::File),
        ]
        .into_iter();
        let (entry, callee) = entries
            .filter_map(|(word, entry)| Some((entry, callee.trim().strip_prefix(word)?)))
            .next()
            .unwrap_or((Entry::Call, callee));
        let callee = Expression::parse(callee)?;
        if callee.arguments.is_none() {
            return Err(format!("`{}` has no arguments", callee.name));
        }
        let unused = unused.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned);
        let results = split_outside(results).map(Output::parse).collect::<Result<_, _>>()?;
        Ok(Rule { name, comment, entry, callee, results, unused: unused.collect() })
    }

    /// The functions that get their bodies from this rule, and whether counts are large.
    fn functions<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = (&'a Function, bool)> {
        [("", false), ("_c", true), ("_x", true)].into_iter().filter_map(|(suffix, is_large)| {
            let name = format!("{}{suffix}", self.name);
            let has_rule = !suffix.is_empty() && table.calls.iter().any(|rule| rule.name == name);
            let function = table.functions.iter().find(|f| f.prototype.name == format!("MPI_{name}"))?;
            (!has_rule).then_some((function, is_large))
        })
    }

    /// The table has the functions, and the rule uses exactly their parameters.
    fn check(&self, table: &Table) -> Result<(), String> {
        if !table.functions.iter().any(|f| f.prototype.name == format!("MPI_{}", self.name)) {
            return Err(format!("functions.txt has no `MPI_{}`", self.name));
        }
        for (function, is_large) in self.functions(table) {
            let Prototype { name, params, .. } = &function.prototype;
            let mut used: Vec<&str> = self.callee.parameters();
            used.extend(self.results.iter().flat_map(|result| result.place.parameters()));
            used.extend(self.unused.iter().map(String::as_str));
            used.retain(|&word| word != "form");
            let object = self.object(table, &function.prototype).map(|(_, name)| name);
            used.extend(object.as_deref());
            if let Some(unknown) = used.iter().find(|word| !params.iter().any(|param| param.name == **word)) {
                return Err(format!("`{name}` has no parameter `{unknown}`"));
            }
            if let Some(param) = params.iter().find(|param| !used.contains(&param.name.as_str())) {
                return Err(format!("the parameter `{}` of `{name}` is not used", param.name));
            }
            for result in self.results.iter().flat_map(|result| result.place.parameters()) {
                let param = params.iter().find(|param| param.name == result).expect("looked up above");
                // A length in front of an array may stand here too.
                let fits = !is_address(table, param)
                    || param.base == "MPI_Status"
                    || !param.constant && table.null(name, param) != Some(Null::Allowed);
                if !fits {
                    return Err(format!("`{result}` of `{name}` is no place for a result"));
                }
            }
            self.body(table, &function.prototype, is_large)?;
        }
        Ok(())
    }

    /// Type and name of the argument whose error handler gets the errors, if there is one.
    fn object(&self, table: &Table, prototype: &Prototype) -> Option<(&'static str, String)> {
        let by_value = |base: &'static str| {
            let found = prototype.params.iter().find(|p| p.base == base && !is_address(table, p));
            found.map(|param| (base, param.rust_name()))
        };
        let found = ["MPI_Comm", "MPI_Session", "MPI_File", "MPI_Win"].into_iter().find_map(by_value);
        found.filter(|_| self.entry == Entry::Call)
    }

    /// Where a new communicator, datatype, file or window goes, and the null handle that is there after an
    /// error: programs ask for that.
    fn handles_made<'a>(&'a self, prototype: &'a Prototype) -> impl Iterator<Item = (&'a str, &'static str)> {
        let places = self.results.iter().map(|result| &result.place);
        let plain = places.filter(|place| place.arguments.is_none()).map(|place| place.name.as_str());
        let changed = self.callee.parameters();
        plain.filter(move |place| !changed.contains(place)).filter_map(|place| {
            let param = prototype.params.iter().find(|param| param.name == place)?;
            match param.base.as_str() {
                "MPI_Comm" => Some((place, "MPI_COMM_NULL")),
                "MPI_Datatype" => Some((place, "MPI_DATATYPE_NULL")),
                "MPI_File" => Some((place, "MPI_FILE_NULL")),
                "MPI_Win" => Some((place, "MPI_WIN_NULL")),
                _ => None,
            }
        })
    }

    /// The owners of a process that the function gets, as places, and the function.
    fn owners(&self) -> (Vec<String>, &str) {
        let name = self.callee.name.as_str();
        match name.rsplit_once('.') {
            Some((owners, function)) if !name.starts_with("guard.") => {
                let owners = owners.split('.').filter(|owner| *owner != "nothing");
                (owners.map(|owner| format!("process.{owner}")).collect(), function)
            }
            _ => (Vec::new(), name),
        }
    }

    /// The text between the braces of a body.
    fn body(&self, table: &Table, prototype: &Prototype, is_large: bool) -> Result<String, String> {
        let name = &prototype.name;
        let has_addresses = prototype.params.iter().any(|param| {
            is_address(table, param) && !self.unused.contains(&param.name) && !table.is_callback(&param.base)
        });
        let (safety, block) = if has_addresses { (SAFETY, "unsafe ") } else { ("", "") };
        let arguments = self.callee.arguments.as_deref().unwrap_or_default();
        let (owners, function) = self.owners();
        let name_of = self.callee.name.as_str();
        let mut given: Vec<String> = match self.entry {
            Entry::Itself => vec![format!("c\"{name}\"")],
            Entry::Call if !owners.is_empty() => owners.iter().map(|owner| format!("&mut {owner}")).collect(),
            Entry::Call if function == name_of && !function.starts_with("guard.") => vec!["guard".to_owned()],
            Entry::File if name_of.starts_with("files::") => vec!["guard".to_owned()],
            _ => Vec::new(),
        };
        for argument in arguments {
            given.push(to_rust(argument, is_large)?);
        }
        let is_path = ["guard.", "crate::"].iter().any(|start| function.starts_with(start));
        let path = if is_path { "" } else { "super::" };
        let mut callee = format!("{path}{function}({})", given.join(", "));
        if self.entry == Entry::Itself {
            return Ok(match has_addresses {
                true => format!("    {SAFETY}    unsafe {{ {callee} }}\n"),
                false => format!("    {callee}\n"),
            });
        }
        for (place, null) in self.handles_made(prototype) {
            callee += &format!(".inspect_err(|_| argument::write({place}, {null}))");
        }
        let mut inside = String::new();
        match self.results.len() {
            0 => writeln!(inside, "        {callee}"),
            1 => writeln!(inside, "        let value = {callee}?;"),
            count => {
                let values: Vec<String> = (0..count).map(|i| format!("value{i}")).collect();
                writeln!(inside, "        let ({}) = {callee}?;", values.join(", "))
            }
        }
        .expect("a String takes everything");
        for (i, result) in self.results.iter().enumerate() {
            let value = if self.results.len() == 1 { "value".to_owned() } else { format!("value{i}") };
            inside += &result.write(&value)?;
        }
        if !self.results.is_empty() {
            inside += "        Ok(())\n";
        }
        if !owners.is_empty() {
            inside = format!("        let process = &mut **guard;\n{inside}");
        }
        let entry = match self.entry {
            Entry::Call => match self.object(table, prototype) {
                Some(("MPI_Session", session)) => format!("on_session(c\"{name}\", {session}, |guard| "),
                Some(("MPI_File", file)) => format!("call_file(c\"{name}\", {file}, |guard| "),
                Some(("MPI_Win", win)) => format!("call_window(c\"{name}\", {win}, |guard| "),
                Some((_, comm)) => format!("call(c\"{name}\", {comm}, |guard| "),
                None => format!("call(c\"{name}\", MPI_COMM_NULL, |guard| "),
            },
            Entry::File => format!("call_file(c\"{name}\", MPI_FILE_NULL, |guard| "),
            Entry::Anytime => format!("call_anytime(c\"{name}\", || "),
            _ => "tool_call(|| ".to_owned(),
        };
        let entry = if inside.contains("guard") { entry } else { entry.replace("|guard|", "|_|") };
        let safety = if safety.is_empty() { String::new() } else { format!("    {safety}") };
        Ok(format!("{safety}    {entry}{block}{{\n{inside}    }})\n"))
    }
}

const SAFETY: &str = "// SAFETY: addresses are the user's, who keeps the standard's rules for them; the exported \
                      function has refused null.\n";

/// The parts between the commas that stand in no parentheses.
fn split_outside(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let is_border = move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    text.split(is_border).map(str::trim).filter(|part| !part.is_empty())
}

impl Output {
    fn parse(text: &str) -> Result<Output, String> {
        let (place, is_optional) = match text.strip_suffix('?') {
            Some(place) => (place, true),
            None => (text, false),
        };
        Ok(Output { is_optional, place: Expression::parse(place)? })
    }

    /// The statement that writes `value`.
    fn write(&self, value: &str) -> Result<String, String> {
        let inner = if self.is_optional { "value" } else { value };
        let names = self.place.arguments.as_deref().unwrap_or_default();
        let name = |at: usize| names.get(at).map_or("", |name| name.name.as_str());
        let statement = match (self.place.name.as_str(), names.len()) {
            (place, 0) => format!("argument::write({place}, {inner});"),
            ("pointer", 1) => format!("argument::write({}.cast::<*mut c_void>(), {inner});", name(0)),
            ("fill", 2) => format!("argument::fill({0}, {1}, {inner}, \"{0}\")?;", name(0), name(1)),
            ("text", 3) => {
                let (to, length, room) = (name(0), name(1), name(2));
                format!("put_text({inner}, {to}, {room} as usize, {length}, \"{to}\")?;")
            }
            (other, count) => {
                return Err(format!("`{other}` with {count} arguments is no place for a result"));
            }
        };
        Ok(match self.is_optional {
            true => format!("        if let Some(value) = {value} {{\n            {statement}\n        }}\n"),
            false => format!("        {statement}\n"),
        })
    }
}

/// An argument in Rust.
fn to_rust(argument: &Expression, is_large: bool) -> Result<String, String> {
    let Some(inside) = &argument.arguments else {
        return Ok(match argument.name.as_str() {
            "form" => (if is_large { "Form::Large" } else { "Form::Int" }).to_owned(),
            "type" => "r#type".to_owned(),
            name => name.to_owned(),
        });
    };
    let inside = inside.iter().map(|inner| to_rust(inner, is_large)).collect::<Result<Vec<_>, _>>()?;
    let inside: Vec<&str> = inside.iter().map(String::as_str).collect();
    match (argument.name.as_str(), inside.as_slice()) {
        ("data", [address, count, datatype]) => Ok(format!("Data::new({address}, {count}, {datatype})")),
        ("target", [rank, disp, count, datatype]) => {
            Ok(format!("Target::new({rank}, {disp}, {count}, {datatype})"))
        }
        ("Some", [value]) => Ok(format!("Some({value})")),
        ("array", [array, count]) => Ok(format!("argument::array({array}, {count}, \"{array}\")?")),
        ("slice", [array, count]) => Ok(format!("slice({array}, {count})?")),
        ("numbers", [array, count]) => Ok(format!("&numbers({array}, {count})?")),
        ("dimensions", [array, count]) => Ok(format!("&dimensions({array}, {count})?")),
        ("text", [text]) => Ok(format!("argument::text({text}, \"{text}\")?")),
        ("packed", [memory, size, position]) => Ok(format!("Packed::new({memory}, {size}, {position})?")),
        ("cstr", [text]) => Ok(format!("CStr::from_ptr({text})")),
        ("wide", [number]) => Ok(format!("{number}.wide()")),
        ("truth", [number]) => Ok(format!("{number} != 0")),
        ("at", [place]) => Ok(format!("*{place}")),
        ("in", [place]) => Ok(format!("&*{place}")),
        ("inout", [place]) => Ok(format!("&mut *{place}")),
        (name, inside) => Err(format!("`{name}` with {} arguments is no group of arguments", inside.len())),
    }
}

/// The bodies of all rules.
pub fn generate(table: &Table) -> String {
    let mut out = String::new();
    for rule in &table.calls {
        for (function, is_large) in rule.functions(table) {
            let name = &function.prototype.name;
            let large = if is_large { " Large count." } else { "" };
            let unused: Vec<&str> = rule.unused.iter().map(String::as_str).collect();
            let params = parameters(table, &function.prototype, &unused);
            let body = rule.body(table, &function.prototype, is_large);
            let body = body.expect("the rule was checked when it was read");
            writeln!(
                out,
                "/// {}{large}\n#[inline]\npub unsafe fn {name}(\n{params}) -> c_int {{\n{body}}}\n",
                rule.comment
            )
            .expect("a String takes everything");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn table() -> Table {
        let mut table = Table::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi")).unwrap();
        table.calls.clear();
        table
    }

    /// The text that a rule gives, or what is said of it.
    fn generated(rule: &str) -> Result<String, String> {
        let (mut table, mut comment) = (table(), "What it does.".to_owned());
        rule.lines().try_for_each(|text| line(&mut table, &mut comment, text))?;
        Ok(generate(&table))
    }

    #[test]
    fn calls_rule_gives_a_body_for_each_width_of_counts() {
        let text =
            generated("Send_init = persistent::send(data(buf, count, datatype), dest, tag, comm) -> request");
        let expected = "/// What it does.\n#[inline]\npub unsafe fn MPI_Send_init(\n    buf: *const c_void,\n    \
                        count: c_int,\n    datatype: MPI_Datatype,\n    dest: c_int,\n    tag: c_int,\n    \
                        comm: MPI_Comm,\n    request: *mut MPI_Request,\n) -> c_int {\n    // SAFETY: addresses are \
                        the user's, who keeps the standard's rules for them; the exported function has refused \
                        null.\n    call(c\"MPI_Send_init\", comm, |guard| unsafe {\n        let value = \
                        super::persistent::send(guard, Data::new(buf, count, datatype), dest, tag, comm)?;\n        \
                        argument::write(request, value);\n        Ok(())\n    })\n}\n";
        let text = text.unwrap();
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("/// What it does. Large count.\n#[inline]\npub unsafe fn MPI_Send_init_c("));
    }

    #[test]
    fn calls_leave_a_null_handle_after_an_error() {
        let made = generated("Comm_dup = crate::comm::calls::dup_comm(comm, None) -> newcomm").unwrap();
        assert!(made.contains(".inspect_err(|_| argument::write(newcomm, MPI_COMM_NULL))?;"), "{made}");
        let opened =
            generated("File_open = file files::open(comm, text(filename), amode, info) -> fh").unwrap();
        assert!(opened.contains(".inspect_err(|_| argument::write(fh, MPI_FILE_NULL))?;"), "{opened}");
        let freed = generated("Type_free = types::free(at(datatype)) -> datatype").unwrap();
        assert!(!freed.contains("inspect_err"), "{freed}");
    }

    #[test]
    fn calls_enter_by_their_objects_and_words() {
        let cases = [
            ("Comm_size = comms::size(comm) -> size", "call(c\"MPI_Comm_size\", comm, |guard| unsafe {"),
            ("Group_size = groups::size(group) -> size", "call(c\"MPI_Group_size\", MPI_COMM_NULL, "),
            (
                "Session_flush_buffer = buffered::flush(session)",
                "on_session(c\"MPI_Session_flush_buffer\", session,",
            ),
            ("Win_sync = guard.sync(win)", "call_window(c\"MPI_Win_sync\", win, |guard| {"),
            ("Info_dup = anytime info::copy(info) -> newinfo", "call_anytime(c\"MPI_Info_dup\", || unsafe {"),
            ("T_finalize = tool tools::end()", "tool_call(|| {\n        super::tools::end()\n"),
            (
                "Buffer_flush = itself buffered::flush()",
                "    super::buffered::flush(c\"MPI_Buffer_flush\")\n",
            ),
        ];
        for (rule, expected) in cases {
            let text = generated(rule).unwrap();
            assert!(text.contains(expected), "{rule}: {text}");
        }
    }

    #[test]
    fn calls_rule_that_does_not_fit_its_function_is_refused() {
        let cases = [
            ("Comm_sise = comms::size(comm) -> size", "functions.txt has no `MPI_Comm_sise`"),
            ("Comm_size = comms::size(com) -> size", "`MPI_Comm_size` has no parameter `com`"),
            ("Group_size = groups::size() -> size", "the parameter `group` of `MPI_Group_size` is not used"),
            ("Comm_size = comms::size", "`comms::size` has no arguments"),
            ("Comm_size = comms::size(comm", "is no parameter, literal or name(arguments)"),
            ("Comm_size = comms::size(wide(comm, 1)) -> size", "`wide` with 2 arguments is no group"),
            ("Comm_size = comms::size(comm) -> fill(size)", "`fill` with 1 arguments is no place"),
            (
                "Comm_set_name = comms::name(comm) -> comm_name",
                "`comm_name` of `MPI_Comm_set_name` is no place",
            ),
            ("Comm_size comms::size(comm)", "expected NAME = FUNCTION(...)"),
            ("Barrier = a::b(comm)\nBarrier = a::b(comm)", "no `///` above `Barrier` says what it does"),
        ];
        for (rule, expected) in cases {
            let refused = generated(rule).unwrap_err();
            assert!(refused.contains(expected), "{rule}: {refused}");
        }
    }
}
