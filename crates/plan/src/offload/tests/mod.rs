//! What holds of every schedule, and how near the best ones are.

mod bound;
mod check;
mod demand;
mod lru;
mod marks;
mod optimum;
mod properties;
mod sequences;
