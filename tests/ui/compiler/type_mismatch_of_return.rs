use gpucache::prelude::*;

#[cache_scope(step)]
fn step(number: i32) -> Option<i32> {
    if number == 0 {
        return number;
    }
    Some(number)
}

fn main() {
    step(1);
}
