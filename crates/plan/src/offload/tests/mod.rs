//! What holds of every schedule, and how near the best ones are.

mod check;
mod demand;
mod marks;
mod optimum;
mod properties;
mod sequences;
