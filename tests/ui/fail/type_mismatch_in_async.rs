use gpucache::prelude::*;

#[cache_scope(step)]
async fn tail(number: i32) -> u64 {
    number * 2
}

#[cache_scope(step)]
async fn early(number: i32) -> Option<i32> {
    if number == 0 {
        return number;
    }
    Some(number)
}

fn main() {
    drop((tail(1), early(1)));
}
