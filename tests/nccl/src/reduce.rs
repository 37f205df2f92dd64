//! Reductions over the inputs of all ranks.

use std::sync::Arc;

/// The bytes of an element of NCCL's type, if it can be reduced here.
pub(crate) fn width(dtype: i32) -> Option<usize> {
    match dtype {
        1 => Some(1),
        3 | 7 => Some(4),
        _ => None,
    }
}

/// Reduces element by element. `None` for a type that is not known here.
pub(crate) fn reduce(inputs: &[Arc<Vec<u8>>], dtype: i32, by: i32) -> Option<Vec<u8>> {
    let ranks = inputs.len();
    match dtype {
        3 => elements(inputs, u32::from_ne_bytes, |one, other| of_u32(one, other, by), |sum| mean_u32(sum, ranks, by)),
        7 => elements(inputs, f32::from_ne_bytes, |one, other| of_f32(one, other, by), |sum| mean_f32(sum, ranks, by)),
        _ => None,
    }
}

fn elements<T: Copy + Into<Word>>(
    inputs: &[Arc<Vec<u8>>],
    read: fn([u8; 4]) -> T,
    merge: impl Fn(T, T) -> T,
    end: impl Fn(T) -> T,
) -> Option<Vec<u8>> {
    let at = |input: &Arc<Vec<u8>>, place: usize| {
        let bytes: Option<[u8; 4]> = input.get(place..place + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(read)
    };
    let mut reduced = Vec::new();
    for place in (0..inputs.first()?.len()).step_by(4) {
        let mut all = inputs.iter().map(|input| at(input, place));
        let first = all.next()??;
        let whole = all.try_fold(first, |sum, next| Some(merge(sum, next?)))?;
        let Word(bytes) = end(whole).into();
        reduced.extend(bytes);
    }
    Some(reduced)
}

/// Four bytes of an element.
struct Word([u8; 4]);

impl From<u32> for Word {
    fn from(value: u32) -> Word {
        Word(value.to_ne_bytes())
    }
}

impl From<f32> for Word {
    fn from(value: f32) -> Word {
        Word(value.to_ne_bytes())
    }
}

fn of_u32(one: u32, other: u32, by: i32) -> u32 {
    match by {
        1 => one.wrapping_mul(other),
        2 => one.max(other),
        3 => one.min(other),
        _ => one.wrapping_add(other),
    }
}

fn of_f32(one: f32, other: f32, by: i32) -> f32 {
    match by {
        1 => one * other,
        2 => one.max(other),
        3 => one.min(other),
        _ => one + other,
    }
}

fn mean_u32(sum: u32, ranks: usize, by: i32) -> u32 {
    if by == 4 { sum / ranks as u32 } else { sum }
}

fn mean_f32(sum: f32, ranks: usize, by: i32) -> f32 {
    if by == 4 { sum / ranks as f32 } else { sum }
}
