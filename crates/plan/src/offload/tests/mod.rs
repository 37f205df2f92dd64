//! Tests of the properties that every schedule has, and of how close schedules come to the optimum.

mod bound;
mod check;
mod demand;
mod lru;
mod marks;
mod optimum;
mod properties;
mod sequences;
