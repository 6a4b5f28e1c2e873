//! `tutti services` and `tutti call`: what other processes offer, and calls of it by hand.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tutti_client::table::aligned;
use tutti_client::users;
use tutti_os::stderr::{escape_control, print_line};
use tutti_service::client::Client;
use tutti_service::listing;
use tutti_service::signature::{Signature, Value};
use tutti_service::status::{self, OK, THREW};
use tutti_shm::published::far::ask_services;
use tutti_shm::published::{Status, name};

use crate::stdout;

/// A service is asked for its functions for so long.
const LOOK: Duration = Duration::from_secs(2);
/// Time for which all of them together are asked.
const LOOKS_MAX: Duration = Duration::from_secs(8);
/// Services of a user that are asked, and services that are asked at a time.
const LOOKS_OF_USER: usize = 64;
/// Services that are all asked, whoever has them.
const LOOKS: usize = 256;
const LOOKS_AT_ONCE: usize = 16;

/// Arguments of `tutti call`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CallOptions {
    /// NAME, USER/NAME, NAME@NODE; @* is any node that has it
    service: String,
    /// A function of it; without one: which it has
    function: Option<String>,
    /// In JSON; text need not stand in quotes
    #[arg(allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// Wait so long at most, also for its turn
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    timeout: f64,
}

/// A service as it is shown.
struct Row {
    node: Option<String>,
    uid: u32,
    name: String,
    /// Functions, or why they are not known; none: it has not been asked.
    functions: Option<Result<Vec<String>, i32>>,
}

/// Lists the services of the cluster, or of this node alone.
pub(super) fn list(in_json: bool) -> Result<ExitCode, String> {
    let (listed, silent) = listed()?;
    let rows = look_at_all(listed);
    let text = if in_json {
        let services: Vec<Json> = rows.iter().map(as_json).collect();
        format!("{:#}\n", json!({ "services": services, "silent_nodes": silent }))
    } else {
        as_table(&rows)
    };
    for node in silent {
        print_line(format_args!("tutti services: {} does not answer", escape_control(&node)));
    }
    Ok(stdout::print(Some(text), ""))
}

type Place = (Option<String>, u32, String);

/// All services, and nodes that do not answer.
fn listed() -> Result<(Vec<Place>, Vec<String>), String> {
    match ask_services() {
        Ok(text) => {
            let (mut services, mut silent) = (Vec::new(), Vec::new());
            for line in text.lines() {
                match line.split_whitespace().collect::<Vec<_>>().as_slice() {
                    [node, uid, name] => {
                        let uid = uid.parse().map_err(|_| "the daemon is of another version".to_owned())?;
                        services.push((Some((*node).to_owned()), uid, (*name).to_owned()));
                    }
                    [node] => silent.push((*node).to_owned()),
                    _ => {}
                }
            }
            services.sort_by(|a, b| (&a.2, a.1, &a.0).cmp(&(&b.2, b.1, &b.0)));
            Ok((services, silent))
        }
        // No daemon, or none that knows of others: what the kernel of this node says.
        Err(Status::Daemon | Status::Node) => {
            let here = listing::here().map_err(|error| format!("cannot list sockets: {error}"))?;
            Ok((here.into_iter().map(|one| (None, one.uid, one.name)).collect(), Vec::new()))
        }
        Err(_) => Err("the daemon has too many such questions: try again".into()),
    }
}

/// Asks services for their functions, some at a time: first one of each user, then the next one of each,
/// since whoever has thousands that do not answer would keep others' waiting. What is left at the end of the
/// time is not asked.
fn look_at_all(places: Vec<Place>) -> Vec<Row> {
    let mut counts = BTreeMap::<u32, usize>::new();
    let row = |(node, uid, name): Place| {
        let count = counts.entry(uid).or_default();
        *count += 1;
        (*count, Row { node, uid, name, functions: None })
    };
    let mut rows: Vec<(usize, Row)> = places.into_iter().map(row).collect();
    let most = if rows.len() <= LOOKS { LOOKS } else { LOOKS_OF_USER };
    let mut asked: Vec<&mut (usize, Row)> = rows.iter_mut().filter(|(number, _)| *number <= most).collect();
    asked.sort_by_key(|(number, _)| *number);
    let (rest, deadline) = (Mutex::new(asked.into_iter()), Instant::now() + LOOKS_MAX);
    let work = || {
        let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some((_, row)) = next() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            row.functions = Some(look(row, LOOK.min(left)));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..LOOKS_AT_ONCE {
            // Where the machine has no more threads the others do all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

fn look(row: &Row, at_most: Duration) -> Result<Vec<String>, i32> {
    let wanted = name::Name { uid: row.uid, name: &row.name, node: row.node.as_deref() };
    Client::open(&wanted, at_most).map(|client| client.signatures().to_vec())
}

fn state(row: &Row) -> String {
    match &row.functions {
        None => "not asked".into(),
        Some(Ok(functions)) => match functions.len() {
            1 => "1 function".into(),
            count => format!("{count} functions"),
        },
        Some(Err(status::RIGHT)) => "not for you".into(),
        Some(Err(status::DEADLINE)) => "no answer yet".into(),
        Some(Err(other)) => status::text(*other).into(),
    }
}

fn as_table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no services\n".into();
    }
    let mut table = vec![["SERVICE", "USER", "NODE", "STATE"].map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|row| {
        let node = row.node.as_deref().unwrap_or("-");
        vec![row.name.clone(), users::name(row.uid), escape_control(node).to_string(), state(row)]
    }));
    aligned(&table, &[false; 4])
}

fn as_json(row: &Row) -> Json {
    json!({
        "name": row.name,
        "user": users::name(row.uid),
        "uid": row.uid,
        "node": row.node,
        "state": match row.functions {
            None => "not_asked",
            Some(Ok(_)) => "open",
            Some(Err(status::RIGHT)) => "not_allowed",
            Some(Err(status::DEADLINE)) => "no_answer",
            Some(Err(_)) => "gone",
        },
        "functions": row.functions.as_ref().and_then(|found| found.as_deref().ok()).unwrap_or_default(),
    })
}

/// Calls a function, and prints its result as JSON.
pub(super) fn call(options: &CallOptions) -> Result<ExitCode, String> {
    let at_most = Duration::try_from_secs_f64(options.timeout)
        .map_err(|_| format!("--timeout {} is not a number of seconds", options.timeout))?;
    let of = |status| format!("service {}: {}", options.service, status::text(status));
    let wanted = name::parse(options.service.as_bytes()).ok_or_else(|| of(status::INVALID))?;
    let mut client = Client::open(&wanted, at_most).map_err(of)?;
    let Some(function) = &options.function else {
        let text: String = client.signatures().iter().map(|one| format!("{one}\n")).collect();
        return Ok(stdout::print(Some(text), ""));
    };
    let found = client.signatures().iter().find(|one| one.split('(').next() == Some(function)).cloned();
    let text = found.ok_or_else(|| {
        format!("service {} has no function {function}: tutti call {0} lists them", options.service)
    })?;
    let signature = Signature::parse(&text)
        .ok_or_else(|| format!("{text}: types that can only be called by the program's own client"))?;
    let values: Vec<Value> = options.arguments.iter().map(|text| value(text, &signature)).collect();
    let bytes = signature.encode(&values).map_err(|why| format!("{why}: {text}"))?;
    match client.call(&text, &bytes, at_most).map_err(of)? {
        (OK, data) => {
            let value = signature.decode(&data).ok_or("its result is no value of its type")?;
            // What gives nothing prints nothing.
            let is_void = value == Value::Null && !text.contains("->opt(");
            let printed = if is_void { String::new() } else { format!("{}\n", json_of(&value)) };
            Ok(stdout::print(Some(printed), ""))
        }
        (THREW, data) => {
            let thrown = String::from_utf8_lossy(&data).replace('\0', ": ");
            Err(format!("{function} has thrown {}", escape_control(&thrown)))
        }
        (other, _) => Err(of(other)),
    }
}

/// An argument: JSON, else text.
fn value(text: &str, signature: &Signature) -> Value {
    // A number for a function that takes text alone is text.
    let is_all_text = signature.takes.iter().all(|one| one.text() == "str");
    match serde_json::from_str::<Json>(text) {
        Ok(Json::String(text)) => Value::Str(text.into_bytes()),
        Ok(_) | Err(_) if is_all_text => Value::Str(text.as_bytes().to_vec()),
        Ok(json) => of_json(&json),
        Err(_) => Value::Str(text.as_bytes().to_vec()),
    }
}

fn of_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::Int(value.into()),
            (_, Some(value)) => Value::Int(value.into()),
            _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Str(text.clone().into_bytes()),
        Json::Array(values) => Value::List(values.iter().map(of_json).collect()),
        Json::Object(parts) => Value::List(parts.values().map(of_json).collect()),
    }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        // All whole numbers of 64 bits are one of both.
        Value::Int(value) => match i64::try_from(*value) {
            Ok(value) => json!(value),
            Err(_) => json!(u64::try_from(*value).unwrap_or(u64::MAX)),
        },
        Value::Float(value) => json!(value),
        Value::Str(bytes) => json!(String::from_utf8_lossy(bytes)),
        Value::List(values) => Json::Array(values.iter().map(json_of).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_arguments_are_json_or_text_and_results_json() {
        let of = |text: &str| Signature::parse(text).expect("a signature");
        let mixed = of("f(i64,str,vec(opt(f64)))->u64");
        let values: Vec<Value> =
            ["-3", "plain text", "[1,null,2.5]"].map(|text| value(text, &mixed)).to_vec();
        let list = Value::List(vec![Value::Int(1), Value::Null, Value::Float(2.5)]);
        assert_eq!(values, [Value::Int(-3), Value::Str(b"plain text".to_vec()), list]);
        assert!(mixed.encode(&values).is_ok());
        assert_eq!(value("17", &of("f(str)->void")), Value::Str(b"17".to_vec()));
        let result = mixed.decode(&u64::MAX.to_le_bytes()).expect("a number");
        assert_eq!(json_of(&result).to_string(), "18446744073709551615");
    }
}
