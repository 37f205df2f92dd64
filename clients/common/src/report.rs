//! The report of a client: one JSON object, with results that can be compared bit by bit.

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Result;
use serde::{Serialize, Serializer};

/// A hash of the bits of all results: equal in two modes if every bit is equal.
#[derive(Default)]
pub struct Bits(DefaultHasher);

impl PartialEq for Bits {
    fn eq(&self, other: &Self) -> bool {
        self.0.finish() == other.0.finish()
    }
}

impl Bits {
    pub fn add(&mut self, values: &[f32]) {
        values.iter().for_each(|value| value.to_bits().hash(&mut self.0));
    }
}

impl Serialize for Bits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:016x}", self.0.finish()))
    }
}

pub fn print(report: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
