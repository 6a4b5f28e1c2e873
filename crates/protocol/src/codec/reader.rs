//! Bytes to values.

use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};

use super::DecodeError;

/// Bytes that are left.
pub(super) struct Reader<'de>(pub(super) &'de [u8]);

type Read<T> = Result<T, DecodeError>;

impl<'de> Reader<'de> {
    fn take(&mut self, bytes: usize) -> Read<&'de [u8]> {
        let (head, rest) = self.0.split_at_checked(bytes).ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(head)
    }

    fn varint(&mut self) -> Read<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(DecodeError::Invalid("a number of more than 64 bits".into()))
    }

    fn signed(&mut self) -> Read<i64> {
        let number = self.varint()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Read<T> {
        let number = self.varint()?;
        T::try_from(number).map_err(|_| DecodeError::Invalid(format!("the number {number} is too large")))
    }

    fn signed_number<T: TryFrom<i64>>(&mut self) -> Read<T> {
        let number = self.signed()?;
        T::try_from(number).map_err(|_| DecodeError::Invalid(format!("the number {number} is out of range")))
    }

    /// The bytes of a text, or of a struct.
    fn stretch(&mut self) -> Read<&'de [u8]> {
        let bytes = self.number()?;
        self.take(bytes)
    }

    /// Each value has a byte at least: no list is longer than what is left.
    fn count(&mut self) -> Read<usize> {
        let count = self.number()?;
        if count > self.0.len() { Err(DecodeError::Short) } else { Ok(count) }
    }
}

macro_rules! numbers {
    ($($name:ident $visit:ident $how:ident)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
            visitor.$visit(self.$how()?)
        })*
    };
}

macro_rules! untyped {
    ($($name:ident)*) => {
        $(fn $name<V: Visitor<'de>>(self, _: V) -> Read<V::Value> {
            Err(DecodeError::Invalid("values do not say of which type they are".into()))
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = DecodeError;

    numbers! {
        deserialize_u8 visit_u8 number
        deserialize_u16 visit_u16 number
        deserialize_u32 visit_u32 number
        deserialize_u64 visit_u64 number
        deserialize_i8 visit_i8 signed_number
        deserialize_i16 visit_i16 signed_number
        deserialize_i32 visit_i32 signed_number
        deserialize_i64 visit_i64 signed_number
    }

    untyped! { deserialize_any deserialize_ignored_any deserialize_identifier }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.varint()? {
            0 => visitor.visit_bool(false),
            1 => visitor.visit_bool(true),
            other => Err(DecodeError::Invalid(format!("{other} is neither true nor false"))),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let number: u32 = self.number()?;
        let char = char::from_u32(number);
        visitor.visit_char(char.ok_or_else(|| DecodeError::Invalid(format!("{number} is no character")))?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_f32(f32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_f64(f64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let text = std::str::from_utf8(self.stretch()?);
        visitor.visit_borrowed_str(text.map_err(|error| DecodeError::Invalid(error.to_string()))?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_borrowed_bytes(self.stretch()?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.varint()? {
            0 => visitor.visit_none(),
            1 => visitor.visit_some(self),
            other => Err(DecodeError::Invalid(format!("{other} is neither none nor some"))),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Read<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Read<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let left = self.count()?;
        visitor.visit_seq(Values { reader: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Read<V::Value> {
        visitor.visit_seq(Values { reader: self, left: length })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Read<V::Value> {
        visitor.visit_seq(Fields(Reader(self.stretch()?)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let left = self.count()?;
        visitor.visit_map(Values { reader: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        visitor.visit_seq(Fields(Reader(self.stretch()?)))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        let variant = self.number()?;
        let carried = Reader(self.stretch()?);
        visitor.visit_enum(Variant { name, variant, carried })
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The values of a list, a map or a tuple.
struct Values<'a, 'de> {
    reader: &'a mut Reader<'de>,
    left: usize,
}

impl<'de> de::SeqAccess<'de> for Values<'_, 'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> de::MapAccess<'de> for Values<'_, 'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Read<V::Value> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// The fields of a struct that there are: fewer than the reader knows, or more.
struct Fields<'de>(Reader<'de>);

impl<'de> de::SeqAccess<'de> for Fields<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        if self.0.0.is_empty() { Ok(None) } else { seed.deserialize(&mut self.0).map(Some) }
    }
}

struct Variant<'de> {
    name: &'static str,
    variant: u32,
    carried: Reader<'de>,
}

impl<'de> de::EnumAccess<'de> for Variant<'de> {
    type Error = DecodeError;
    type Variant = Reader<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Read<(V::Value, Reader<'de>)> {
        let Variant { name, variant, carried } = self;
        let index: de::value::U32Deserializer<DecodeError> = variant.into_deserializer();
        let known = seed.deserialize(index).map_err(|_| DecodeError::UnknownVariant { name, variant })?;
        Ok((known, carried))
    }
}

impl<'de> de::VariantAccess<'de> for Reader<'de> {
    type Error = DecodeError;

    fn unit_variant(self) -> Read<()> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Read<T::Value> {
        seed.deserialize(&mut self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Read<V::Value> {
        visitor.visit_seq(Fields(self))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Read<V::Value> {
        visitor.visit_seq(Fields(self))
    }
}
