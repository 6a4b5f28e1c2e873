//! Signatures, `get(i64,str)->opt(str)`, and values of their types as they travel: numbers as their bytes,
//! counts of 8 bytes before elements, a byte before what may be missing. What comes may be anything.

/// A type of arguments and results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// No value; of results alone.
    Void,
    /// `bool`.
    Bool,
    /// `i8` to `i64`: bytes.
    Signed(usize),
    /// `u8` to `u64`: bytes.
    Unsigned(usize),
    /// `f32`, `f64`: bytes.
    Float(usize),
    /// `str`.
    Str,
    /// `vec(T)`.
    Vec(Box<Type>),
    /// `opt(T)`.
    Opt(Box<Type>),
    /// `tuple(T,...)`, pairs too.
    Tuple(Vec<Type>),
}

/// A value of one of these types.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Absence of a value.
    Null,
    /// A truth value.
    Bool(bool),
    /// Any whole number of up to 64 bits.
    Int(i128),
    /// A number with a point.
    Float(f64),
    /// Text, or bytes that C++ has in a string.
    Str(Vec<u8>),
    /// Elements of a vector, parts of a tuple.
    List(Vec<Value>),
}

/// A function as its text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Name of the function.
    pub name: String,
    /// Types of its arguments.
    pub takes: Vec<Type>,
    /// Type of its result.
    pub gives: Type,
}

/// Types inside types, at most.
const DEPTH_MAX: usize = 16;

struct Text<'a>(&'a str);

impl Text<'_> {
    fn eat(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(token)?;
        Some(())
    }

    /// Types up to a bracket, which is taken.
    fn list(&mut self, depth: usize) -> Option<Vec<Type>> {
        let mut all = Vec::new();
        if self.eat(")").is_some() {
            return Some(all);
        }
        loop {
            all.push(self.one(depth)?);
            if self.eat(")").is_some() {
                return Some(all);
            }
            self.eat(",")?;
        }
    }

    fn one(&mut self, depth: usize) -> Option<Type> {
        if depth == 0 {
            return None;
        }
        let end = self.0.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        let bytes = |bits: &str| match bits {
            "8" => Some(1),
            "16" => Some(2),
            "32" => Some(4),
            "64" => Some(8),
            _ => None,
        };
        Some(match word {
            "bool" => Type::Bool,
            "str" => Type::Str,
            "vec" | "opt" => {
                self.eat("(")?;
                let inner = Box::new(self.one(depth - 1)?);
                self.eat(")")?;
                if word == "vec" { Type::Vec(inner) } else { Type::Opt(inner) }
            }
            "tuple" => {
                self.eat("(")?;
                Type::Tuple(self.list(depth - 1)?)
            }
            _ => match word.split_at_checked(1)? {
                ("i", bits) => Type::Signed(bytes(bits)?),
                ("u", bits) => Type::Unsigned(bytes(bits)?),
                ("f", bits) => Type::Float(bytes(bits).filter(|bytes| *bytes >= 4)?),
                _ => return None,
            },
        })
    }
}

impl Signature {
    /// Reads one.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let mut rest = Text(rest);
        let takes = rest.list(DEPTH_MAX)?;
        rest.eat("->")?;
        let gives = if rest.0 == "void" { Type::Void } else { rest.one(DEPTH_MAX)? };
        let is_whole = !name.is_empty() && (rest.0.is_empty() || gives == Type::Void);
        is_whole.then(|| Signature { name: name.to_owned(), takes, gives })
    }

    /// Arguments as they travel.
    ///
    /// # Errors
    /// A line that says which one is none of its type.
    pub fn encode(&self, values: &[Value]) -> Result<Vec<u8>, String> {
        if values.len() != self.takes.len() {
            return Err(format!("{} takes {} arguments, not {}", self.name, self.takes.len(), values.len()));
        }
        let mut out = Vec::new();
        for (number, (value, one)) in values.iter().zip(&self.takes).enumerate() {
            one.put(value, &mut out)
                .ok_or_else(|| format!("argument {} of {} is no {}", number + 1, self.name, one.text()))?;
        }
        Ok(out)
    }

    /// A result that has come; none where it is no value of the type.
    pub fn decode(&self, bytes: &[u8]) -> Option<Value> {
        let mut left = bytes;
        let value = self.gives.get(&mut left)?;
        left.is_empty().then_some(value)
    }
}

fn take<'a>(left: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, rest) = left.split_at_checked(bytes)?;
    *left = rest;
    Some(taken)
}

/// Number of elements; none where fewer bytes are left. Elements without bytes could be any number, in each
/// of many lists: there are none of them.
fn count(left: &mut &[u8], bytes_min: usize) -> Option<usize> {
    let count = usize::try_from(u64::from_le_bytes(take(left, 8)?.try_into().ok()?)).ok()?;
    let most = left.len().checked_div(bytes_min).unwrap_or(0);
    (count <= most).then_some(count)
}

impl Type {
    /// As in signatures.
    pub fn text(&self) -> String {
        match self {
            Type::Void => "void".into(),
            Type::Bool => "bool".into(),
            Type::Signed(bytes) => format!("i{}", 8 * bytes),
            Type::Unsigned(bytes) => format!("u{}", 8 * bytes),
            Type::Float(bytes) => format!("f{}", 8 * bytes),
            Type::Str => "str".into(),
            Type::Vec(inner) => format!("vec({})", inner.text()),
            Type::Opt(inner) => format!("opt({})", inner.text()),
            Type::Tuple(parts) => {
                format!("tuple({})", parts.iter().map(Type::text).collect::<Vec<_>>().join(","))
            }
        }
    }

    /// Bytes of a value, at least.
    fn bytes_min(&self) -> usize {
        match self {
            Type::Void => 0,
            Type::Bool | Type::Opt(_) => 1,
            Type::Signed(bytes) | Type::Unsigned(bytes) | Type::Float(bytes) => *bytes,
            Type::Str | Type::Vec(_) => 8,
            Type::Tuple(parts) => parts.iter().map(Type::bytes_min).sum(),
        }
    }

    fn put(&self, value: &Value, out: &mut Vec<u8>) -> Option<()> {
        match (self, value) {
            (Type::Void, Value::Null) => {}
            (Type::Bool, Value::Bool(value)) => out.push(u8::from(*value)),
            (Type::Signed(bytes), Value::Int(value)) => {
                let bits = 8 * *bytes as u32 - 1;
                if !(-(1_i128 << bits)..1_i128 << bits).contains(value) {
                    return None;
                }
                out.extend(&value.to_le_bytes()[..*bytes]);
            }
            (Type::Unsigned(bytes), Value::Int(value)) => {
                if !(0..1_i128 << (8 * bytes)).contains(value) {
                    return None;
                }
                out.extend(&value.to_le_bytes()[..*bytes]);
            }
            (Type::Float(_), Value::Int(value)) => return self.put(&Value::Float(*value as f64), out),
            (Type::Float(4), Value::Float(value)) => out.extend((*value as f32).to_le_bytes()),
            (Type::Float(_), Value::Float(value)) => out.extend(value.to_le_bytes()),
            (Type::Str, Value::Str(text)) => {
                out.extend((text.len() as u64).to_le_bytes());
                out.extend(text);
            }
            (Type::Vec(inner), Value::List(values)) => {
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().try_for_each(|value| inner.put(value, out))?;
            }
            (Type::Opt(_), Value::Null) => out.push(0),
            (Type::Opt(inner), value) => {
                out.push(1);
                inner.put(value, out)?;
            }
            (Type::Tuple(parts), Value::List(values)) if parts.len() == values.len() => {
                parts.iter().zip(values).try_for_each(|(part, value)| part.put(value, out))?;
            }
            _ => return None,
        }
        Some(())
    }

    fn get(&self, left: &mut &[u8]) -> Option<Value> {
        Some(match self {
            Type::Void => Value::Null,
            Type::Bool => match take(left, 1)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                _ => return None,
            },
            Type::Signed(bytes) => {
                let taken = take(left, *bytes)?;
                let mut all = [if taken[bytes - 1] & 0x80 == 0 { 0 } else { 0xff }; 16];
                all[..*bytes].copy_from_slice(taken);
                Value::Int(i128::from_le_bytes(all))
            }
            Type::Unsigned(bytes) => {
                let mut all = [0; 16];
                all[..*bytes].copy_from_slice(take(left, *bytes)?);
                Value::Int(i128::from_le_bytes(all))
            }
            Type::Float(4) => Value::Float(f32::from_le_bytes(take(left, 4)?.try_into().ok()?).into()),
            Type::Float(_) => Value::Float(f64::from_le_bytes(take(left, 8)?.try_into().ok()?)),
            Type::Str => {
                let bytes = count(left, 1)?;
                Value::Str(take(left, bytes)?.to_vec())
            }
            Type::Vec(inner) => {
                let count = count(left, inner.bytes_min())?;
                Value::List((0..count).map(|_| inner.get(left)).collect::<Option<_>>()?)
            }
            Type::Opt(inner) => match take(left, 1)? {
                [0] => Value::Null,
                [1] => inner.get(left)?,
                _ => return None,
            },
            Type::Tuple(parts) => {
                Value::List(parts.iter().map(|part| part.get(left)).collect::<Option<_>>()?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_texts_are_read_as_they_are_written() {
        let text = "mirror(vec(tuple(i32,str,opt(f64),bool)),u8)->vec(tuple(i32,str,opt(f64),bool))";
        let one = Signature::parse(text).expect("a signature");
        let list = |all: &[Type]| all.iter().map(Type::text).collect::<Vec<_>>().join(",");
        assert_eq!(format!("{}({})->{}", one.name, list(&one.takes), one.gives.text()), text);
        assert_eq!(Signature::parse("stop()->void").expect("one").gives, Type::Void);
        let deep = format!("f({}i8{})->void", "vec(".repeat(20), ")".repeat(20));
        for wrong in
            ["", "f", "f()", "(i8)->void", "f(i7)->void", "f(i8)->void2", "f(f16)->i8", "f(void)->i8", &deep]
        {
            assert_eq!(Signature::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn values_come_back_and_what_is_none_is_refused() {
        let of = |text: &str| Signature::parse(&format!("f({text})->{text}")).expect("a signature");
        let int = Value::Int;
        let text = |text: &str| Value::Str(text.into());
        let row = Value::List(vec![int(-5), text("x"), Value::Null, Value::Bool(true)]);
        let right = [
            ("i8", int(-128)),
            ("u64", int(u64::MAX.into())),
            ("i64", int(i64::MIN.into())),
            ("f64", Value::Float(1.5)),
            ("f32", Value::Float(-0.25)),
            ("opt(str)", Value::Null),
            ("opt(str)", text("y")),
            ("vec(tuple(i32,str,opt(f64),bool))", Value::List(vec![row.clone(), row])),
        ];
        for (types, value) in right {
            let signature = of(types);
            let bytes = signature.encode(std::slice::from_ref(&value)).expect("a value of it");
            assert_eq!(signature.decode(&bytes), Some(value), "{types}");
            assert_eq!(signature.decode(&[&bytes[..], &[0]].concat()), None, "{types}: a byte too many");
            assert!((0..bytes.len()).all(|some| signature.decode(&bytes[..some]).is_none()), "{types}");
        }
        for (types, value) in [("i8", int(128)), ("u8", int(-1)), ("str", int(1)), ("bool", int(1))] {
            let why = of(types).encode(&[value]).expect_err("none of it");
            assert_eq!(why, format!("argument 1 of f is no {types}"));
        }
        assert_eq!(of("bool").decode(&[2]), None);
        assert_eq!(of("vec(tuple())").decode(&u64::MAX.to_le_bytes()), None);
    }

    /// Values in a value, and the bytes of its texts.
    fn weight(value: &Value) -> usize {
        match value {
            Value::List(values) => 1 + values.iter().map(weight).sum::<usize>(),
            Value::Str(text) => 1 + text.len(),
            _ => 1,
        }
    }

    #[test]
    fn values_of_types_that_are_nearly_right_take_no_more_memory_than_their_bytes_explain() {
        let lists = format!("f()->vec({})", "vec(tuple())");
        let signature = Signature::parse(&lists).expect("a signature");
        let mut bytes = 1000_u64.to_le_bytes().to_vec();
        (0..1000_u64).for_each(|at| bytes.extend((8 * (999 - at)).to_le_bytes()));
        assert_eq!(signature.decode(&bytes), None, "a thousand lists of thousands of nothing");
        let samples =
            ["f(vec(i8),str)->vec(tuple(str,opt(vec(i64))))", "g()->vec(vec(tuple()))", "h(bool)->void"]
                .map(|text| [text.as_bytes(), b"\n", &3_u64.to_le_bytes(), &[1; 60]].concat());
        tutti_testkit::nearly::read_frames(&samples, |bytes| {
            let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
            let (text, data) = bytes.split_at(at);
            let Some(signature) = std::str::from_utf8(text).ok().and_then(Signature::parse) else { return };
            if let Some(value) = signature.decode(&data[data.len().min(1)..]) {
                assert!(weight(&value) <= 1 + text.len() * (1 + data.len()), "{value:?}");
            }
        });
    }
}
