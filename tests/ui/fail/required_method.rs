use gpucache::prelude::*;

trait Step {
    #[cache_scope(step)]
    fn step(&self) -> usize;
}

impl Step for usize {
    fn step(&self) -> usize {
        *self
    }
}

fn main() {
    assert_eq!(1.step(), 1);
}
