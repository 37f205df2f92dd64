use gpucache::prelude::*;

#[cache_scope(step)]
use std::mem::drop as finish;

fn main() {
    finish(1);
}
