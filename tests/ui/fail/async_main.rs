use gpucache::prelude::*;

/// As a runtime has it.
mod runtime {
    pub(crate) use gpucache::prelude::cache_scope as main;
}

#[cache_scope(train)]
#[runtime::main(once)]
async fn start() {
    println!("once");
}

pub(crate) fn main() {
    drop(start());
}
