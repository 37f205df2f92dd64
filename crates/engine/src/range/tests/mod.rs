//! Tests of the range as a whole; `device` is the machine they run on, `model` what they compare with.

mod bins;
mod cases;
mod choice;
mod clearing;
mod cut;
mod device;
mod failure;
mod gather;
mod model;
mod properties;
mod room;
mod shared;
mod soak;
mod split;
mod tags;
