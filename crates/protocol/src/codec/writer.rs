//! Values to bytes.

use std::fmt;

use serde::ser::{self, Serialize};

/// Bytes so far.
pub(super) struct Writer(pub(super) Vec<u8>);

/// A type does not travel.
#[derive(Debug)]
pub(super) struct Unsupported(String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

impl ser::Error for Unsupported {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Unsupported(text.to_string())
    }
}

type Done = Result<(), Unsupported>;

/// A number of 7 bits a byte, and how many bytes that are.
fn varint(mut number: u64) -> ([u8; 10], usize) {
    let (mut bytes, mut used) = ([0; 10], 0);
    while number >= 0x80 {
        bytes[used] = number as u8 | 0x80;
        number >>= 7;
        used += 1;
    }
    bytes[used] = number as u8;
    (bytes, used + 1)
}

impl Writer {
    fn varint(&mut self, number: u64) -> Done {
        let (bytes, used) = varint(number);
        self.0.extend_from_slice(&bytes[..used]);
        Ok(())
    }

    fn signed(&mut self, number: i64) -> Done {
        self.varint((number << 1 ^ number >> 63).cast_unsigned())
    }

    fn length(&mut self, length: Option<usize>) -> Done {
        let length = length.ok_or_else(|| Unsupported("a list of unknown length".into()))?;
        self.varint(length as u64)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Done {
        self.varint(bytes.len() as u64)?;
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    /// Begins a stretch whose length stands before it; most are below 128 bytes.
    fn begin(&mut self) -> Stretch<'_> {
        self.0.push(0);
        Stretch { begin: self.0.len(), writer: self }
    }
}

/// Bytes being written of a struct, or of what a variant carries.
pub(super) struct Stretch<'a> {
    writer: &'a mut Writer,
    begin: usize,
}

impl Stretch<'_> {
    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        value.serialize(&mut *self.writer)
    }

    fn close(self) -> Done {
        let out = &mut self.writer.0;
        let end = out.len();
        let (length, used) = varint((end - self.begin) as u64);
        // No memory is taken but in `out`: a switch thread has that already.
        out.resize(end + used - 1, 0);
        out.copy_within(self.begin..end, self.begin + used - 1);
        out[self.begin - 1..][..used].copy_from_slice(&length[..used]);
        Ok(())
    }
}

macro_rules! numbers {
    ($($name:ident: $type:ty => $how:ident,)*) => {
        $(fn $name(self, number: $type) -> Done {
            self.$how(number.into())
        })*
    };
}

impl<'a> ser::Serializer for &'a mut Writer {
    type Ok = ();
    type Error = Unsupported;
    type SerializeSeq = &'a mut Writer;
    type SerializeTuple = &'a mut Writer;
    type SerializeTupleStruct = Stretch<'a>;
    type SerializeTupleVariant = Stretch<'a>;
    type SerializeMap = &'a mut Writer;
    type SerializeStruct = Stretch<'a>;
    type SerializeStructVariant = Stretch<'a>;

    numbers! {
        serialize_bool: bool => varint,
        serialize_u8: u8 => varint,
        serialize_u16: u16 => varint,
        serialize_u32: u32 => varint,
        serialize_u64: u64 => varint,
        serialize_i8: i8 => signed,
        serialize_i16: i16 => signed,
        serialize_i32: i32 => signed,
        serialize_i64: i64 => signed,
        serialize_char: char => varint,
    }

    fn serialize_f32(self, number: f32) -> Done {
        self.0.extend_from_slice(&number.to_le_bytes());
        Ok(())
    }

    fn serialize_f64(self, number: f64) -> Done {
        self.0.extend_from_slice(&number.to_le_bytes());
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Done {
        self.bytes(text.as_bytes())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Done {
        self.bytes(bytes)
    }

    fn serialize_none(self) -> Done {
        self.varint(0)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        self.varint(1)?;
        value.serialize(self)
    }

    fn serialize_unit(self) -> Done {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Done {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, variant: u32, _: &'static str) -> Done {
        self.varint(variant.into())?;
        self.varint(0)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        value: &T,
    ) -> Done {
        self.varint(variant.into())?;
        let mut stretch = self.begin();
        stretch.put(value)?;
        stretch.close()
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self, Unsupported> {
        self.length(length)?;
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Unsupported> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Stretch<'a>, Unsupported> {
        Ok(self.begin())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Stretch<'a>, Unsupported> {
        self.varint(variant.into())?;
        Ok(self.begin())
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self, Unsupported> {
        self.length(length)?;
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Stretch<'a>, Unsupported> {
        Ok(self.begin())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Stretch<'a>, Unsupported> {
        self.varint(variant.into())?;
        Ok(self.begin())
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

impl ser::SerializeSeq for &mut Writer {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        value.serialize(&mut **self)
    }

    fn end(self) -> Done {
        Ok(())
    }
}

impl ser::SerializeTuple for &mut Writer {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        value.serialize(&mut **self)
    }

    fn end(self) -> Done {
        Ok(())
    }
}

impl ser::SerializeMap for &mut Writer {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        value.serialize(&mut **self)
    }

    fn end(self) -> Done {
        Ok(())
    }
}

impl ser::SerializeTupleStruct for Stretch<'_> {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.put(value)
    }

    fn end(self) -> Done {
        self.close()
    }
}

impl ser::SerializeTupleVariant for Stretch<'_> {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.put(value)
    }

    fn end(self) -> Done {
        self.close()
    }
}

impl ser::SerializeStruct for Stretch<'_> {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Done {
        self.put(value)
    }

    fn skip_field(&mut self, name: &'static str) -> Done {
        Err(Unsupported(format!("field {name} is left out now and then, and has no name among bytes")))
    }

    fn end(self) -> Done {
        self.close()
    }
}

impl ser::SerializeStructVariant for Stretch<'_> {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Done {
        self.put(value)
    }

    fn skip_field(&mut self, name: &'static str) -> Done {
        Err(Unsupported(format!("field {name} is left out now and then, and has no name among bytes")))
    }

    fn end(self) -> Done {
        self.close()
    }
}
