//! Writes a JSON value as a pickle of protocol 2, with only the opcodes that PyTorch's viewer of memory snapshots reads.

use std::io;

use serde_json::{Number, Value};

/// The value as a pickle.
///
/// # Errors
/// For a number that is not an `i64`.
pub(super) fn pickle(value: &Value) -> io::Result<Vec<u8>> {
    let mut to = b"\x80\x02".to_vec();
    put(value, &mut to)?;
    to.push(b'.');
    Ok(to)
}

/// Neither opcode for integers holds an integer outside `i64`, or a float, which no snapshot has.
fn no_integer(number: &Number) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{number} is not an integer of 64 bits"))
}

fn put(value: &Value, to: &mut Vec<u8>) -> io::Result<()> {
    match value {
        Value::Null => to.push(b'N'),
        Value::Bool(true) => to.push(b'\x88'),
        Value::Bool(false) => to.push(b'\x89'),
        Value::Number(number) => put_integer(number.as_i64().ok_or_else(|| no_integer(number))?, to),
        Value::String(text) => put_text(text, to),
        Value::Array(values) => {
            to.extend(b"](");
            values.iter().try_for_each(|value| put(value, to))?;
            to.push(b'e');
        }
        Value::Object(fields) => {
            to.extend(b"}(");
            for (name, value) in fields {
                put_text(name, to);
                put(value, to)?;
            }
            to.push(b'u');
        }
    }
    Ok(())
}

/// In 32 bits where that suffices, else as a long integer of eight bytes.
fn put_integer(number: i64, to: &mut Vec<u8>) {
    match i32::try_from(number) {
        Ok(number) => {
            to.push(b'J');
            to.extend(number.to_le_bytes());
        }
        Err(_) => {
            to.extend(b"\x8a\x08");
            to.extend(number.to_le_bytes());
        }
    }
}

fn put_text(text: &str, to: &mut Vec<u8>) {
    to.push(b'X');
    to.extend((text.len() as u32).to_le_bytes());
    to.extend(text.as_bytes());
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_value_has_its_opcodes() {
        let bytes = |value| pickle(&value).unwrap();
        assert_eq!(bytes(json!(null)), b"\x80\x02N.");
        assert_eq!(bytes(json!([true, false])), b"\x80\x02](\x88\x89e.");
        assert_eq!(bytes(json!({ "a": -2 })), b"\x80\x02}(X\x01\0\0\0aJ\xfe\xff\xff\xffu.");
        assert_eq!(bytes(json!(1u64 << 40)), b"\x80\x02\x8a\x08\0\0\0\0\0\x01\0\0.");
        assert_eq!(pickle(&json!(1.5)).unwrap_err().to_string(), "1.5 is not an integer of 64 bits");
    }
}
