//! Collective operations: every rule of `collectives.txt` gives a blocking, a nonblocking and a persistent
//! function, each for int and for large counts.

use std::fmt::Write;

use super::expression::Expression;
use super::parameters;
use crate::{Function, Table};

/// How a function does the work that its arguments describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Blocking,
    Nonblocking,
    Persistent,
}

const FORMS: [Form; 3] = [Form::Blocking, Form::Nonblocking, Form::Persistent];

/// Parameters that belong to the form of a call, not to the operation.
const OF_THE_FORM: [&str; 3] = ["comm", "info", "request"];

/// A collective operation.
#[derive(Debug)]
pub struct Operation {
    /// Name of the operation without `MPI_`.
    name: String,
    /// Text that says what the blocking function does, for its manual page.
    comment: String,
    /// Expression that gives the work; without it there are no arguments.
    work: Option<Expression>,
    /// The method that does all of the blocking function, if there is one.
    blocking: Option<Expression>,
}

/// Reads a line of `collectives.txt`; `comment` is what stands above the next rule.
pub fn line(
    operations: &mut Vec<Operation>,
    comment: &mut String,
    functions: &[Function],
    line: &str,
) -> Result<(), String> {
    if let Some(text) = line.strip_prefix("///") {
        *comment = text.trim().to_owned();
        return Ok(());
    }
    let (subject, work) = match line.split_once('=') {
        Some((subject, expression)) => (subject.trim(), Some(Expression::parse(expression)?)),
        None => (line, None),
    };
    if let Some(name) = subject.strip_suffix(" blocking") {
        let operation = operations.last_mut().filter(|operation| operation.name == name);
        let operation =
            operation.ok_or_else(|| format!("`{name} blocking` stands behind no rule of `{name}`"))?;
        operation.blocking = work;
        return operation.check(functions);
    }
    let comment = std::mem::take(comment);
    if comment.is_empty() {
        return Err(format!("no `///` above `{subject}` says what it does"));
    }
    let operation = Operation { name: subject.to_owned(), comment, work, blocking: None };
    operation.check(functions)?;
    operations.push(operation);
    Ok(())
}

/// How a call begins that translates its arguments first.
const TRANSLATED: &str = "arguments.METHOD(";
/// How one begins that may be done at once.
const AT_ONCE: &str = "crate::collective::METHOD(guard, comm, ";

impl Expression {
    /// An argument in Rust.
    fn to_rust(&self) -> Result<String, String> {
        let Some(arguments) = &self.arguments else { return Ok(self.name.clone()) };
        let (constructor, count) = match self.name.as_str() {
            "data" => ("Data::new", 3),
            "pieces" => ("Scattered::new", 4),
            "typed" => ("Scattered::typed", 4),
            "reduction" => ("ReductionArguments::new", 5),
            "integers" => ("Integers::from", 1),
            other => return Err(format!("`{other}` is no group of arguments")),
        };
        if arguments.len() != count {
            return Err(format!("`{}` has {} arguments, expected {count}", self.name, arguments.len()));
        }
        Ok(format!("{constructor}({})", list(arguments)?))
    }

    /// The call of a method.
    fn to_call(&self, of: &str) -> Result<String, String> {
        let arguments =
            self.arguments.as_deref().ok_or_else(|| format!("`{}` has no arguments", self.name))?;
        Ok(format!("{}{})", of.replace("METHOD", &self.name), list(arguments)?))
    }
}

fn list(arguments: &[Expression]) -> Result<String, String> {
    Ok(arguments.iter().map(Expression::to_rust).collect::<Result<Vec<_>, _>>()?.join(", "))
}

impl Operation {
    fn function_name(&self, form: Form, is_large: bool) -> String {
        let name = match form {
            Form::Blocking => format!("MPI_{}", self.name),
            Form::Nonblocking => format!("MPI_I{}", self.name.to_lowercase()),
            Form::Persistent => format!("MPI_{}_init", self.name),
        };
        if is_large { name + "_c" } else { name }
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.work.iter().chain(&self.blocking)
    }

    /// The table has all functions, and each expression uses exactly their parameters.
    fn check(&self, functions: &[Function]) -> Result<(), String> {
        for expression in self.expressions() {
            expression.to_call(TRANSLATED)?;
        }
        for (form, is_large) in FORMS.into_iter().flat_map(|form| [(form, false), (form, true)]) {
            let name = self.function_name(form, is_large);
            let Some(function) = functions.iter().find(|function| function.prototype.name == name) else {
                if is_large {
                    continue;
                }
                return Err(format!("functions.txt has no `{name}`"));
            };
            let known: Vec<&str> =
                function.prototype.params.iter().map(|param| param.name.as_str()).collect();
            for expression in self.expressions() {
                let used = expression.parameters();
                if let Some(unknown) = used.iter().find(|parameter| !known.contains(parameter)) {
                    return Err(format!("`{name}` has no parameter `{unknown}`"));
                }
                let is_unused = |param: &&&str| !used.contains(param) && !OF_THE_FORM.contains(param);
                if let Some(unused) = known.iter().find(is_unused) {
                    return Err(format!("the parameter `{unused}` of `{name}` is not used"));
                }
            }
        }
        Ok(())
    }

    fn comment(&self, form: Form, is_large: bool) -> String {
        let name = &self.name;
        let mut comment = match form {
            Form::Blocking => self.comment.clone(),
            Form::Nonblocking => format!("Starts `MPI_{name}`. Nonblocking (6.12)."),
            Form::Persistent => {
                format!("Makes a request that does `MPI_{name}` each time it is started (6.13).")
            }
        };
        if is_large {
            comment += " Large count.";
        }
        comment
    }

    fn body(&self, form: Form) -> Result<String, String> {
        if let (Form::Blocking, Some(all)) = (form, &self.blocking) {
            return Ok(format!("        {}\n", all.to_call(AT_ONCE)?));
        }
        let work = match &self.work {
            Some(work) => work.to_call(TRANSLATED)? + "?",
            None => format!("Work::{}", self.name),
        };
        let rest = match form {
            Form::Blocking => "        crate::collective::collect(guard, comm, &work)\n",
            Form::Nonblocking => {
                "        // SAFETY: the user gives a place for the request.\n        \
                 unsafe { crate::collective::start_collecting(guard, comm, &work, request) }\n"
            }
            Form::Persistent => {
                "        // SAFETY: the user gives a place for the request.\n        \
                 unsafe { crate::collective::prepare_collecting(guard, comm, work, request) }\n"
            }
        };
        let translated = match &self.work {
            Some(_) => {
                "        let arguments = Arguments::new(&guard.comms, &guard.types, &guard.colls, comm)?;\n"
            }
            None => "",
        };
        Ok(format!("{translated}        let work = {work};\n{rest}"))
    }
}

/// The bodies of all collective operations.
pub fn generate(table: &Table) -> String {
    let mut out = String::new();
    for operation in &table.collectives {
        for (form, is_large) in FORMS.into_iter().flat_map(|form| [(form, false), (form, true)]) {
            let name = operation.function_name(form, is_large);
            let Some(function) = table.functions.iter().find(|function| function.prototype.name == name)
            else {
                continue;
            };
            let comment = operation.comment(form, is_large);
            let params = parameters(table, &function.prototype, &["info"]);
            let body = operation.body(form).expect("the rule was checked when it was read");
            writeln!(
                out,
                "/// {comment}\n#[inline]\npub unsafe fn {name}(\n{params}) -> c_int {{\n    \
                 call(c\"{name}\", comm, |guard| {{\n{body}    }})\n}}\n"
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
        Table::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi")).unwrap()
    }

    /// Error that a rule with its comment gives.
    fn refusal(rule: &str) -> String {
        let (mut operations, mut comment) = (Vec::new(), "What it does.".to_owned());
        rule.lines()
            .try_for_each(|text| line(&mut operations, &mut comment, &table().functions, text))
            .unwrap_err()
    }

    #[test]
    fn collectives_have_a_body_for_each_form_that_the_table_knows() {
        let text = generate(&table());
        let bodies = text.lines().filter(|line| line.starts_with("pub unsafe fn MPI_")).count();
        // 22 operations in three forms, all but the barrier with large counts.
        assert_eq!(bodies, 22 * 3 + 21 * 3);
        assert!(text.contains(
            "/// Starts `MPI_Bcast`. Nonblocking (6.12). Large count.\n#[inline]\npub unsafe fn MPI_Ibcast_c(\n    \
             buffer: *mut c_void,\n    count: MPI_Count,\n    datatype: MPI_Datatype,\n    root: c_int,\n    \
             comm: MPI_Comm,\n    request: *mut MPI_Request,\n) -> c_int {\n    \
             call(c\"MPI_Ibcast_c\", comm, |guard| {\n        \
             let arguments = Arguments::new(&guard.comms, &guard.types, &guard.colls, comm)?;\n        \
             let work = arguments.work_broadcast(Data::new(buffer, count, datatype), root)?;\n"
        ));
    }

    #[test]
    fn collectives_rule_that_does_not_fit_its_functions_is_refused() {
        let cases = [
            ("Bcost = work(data(buffer, count, datatype), root)", "functions.txt has no `MPI_Bcost`"),
            ("Bcast = work(data(bufer, count, datatype), root)", "`MPI_Bcast` has no parameter `bufer`"),
            (
                "Bcast = work(data(buffer, count, datatype))",
                "the parameter `root` of `MPI_Bcast` is not used",
            ),
            ("Bcast = work(data(buffer, count), root)", "`data` has 2 arguments, expected 3"),
            ("Bcast = work(date(buffer, count, datatype), root)", "`date` is no group of arguments"),
            (
                "Bcast = work(data(buffer, count, datatype, root",
                "is no parameter, literal or name(arguments)",
            ),
            ("Bcast blocking = all(root)", "`Bcast blocking` stands behind no rule of `Bcast`"),
            ("Barrier\nBarrier", "no `///` above `Barrier` says what it does"),
        ];
        for (rule, expected) in cases {
            let refused = refusal(rule);
            assert!(refused.contains(expected), "{rule}: {refused}");
        }
    }
}
