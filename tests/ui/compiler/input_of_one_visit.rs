use gpucache::graph::{Inputs, Visitor};
use gpucache::prelude::*;

struct Fleeting(Array<u32, Host>);

impl Inputs<Host> for Fleeting {
    type Lent<'a> = &'a mut Array<u32, Host>;

    fn lend(&mut self) -> &mut Array<u32, Host> {
        &mut self.0
    }

    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, Host>) {
        let Ok(mut short) = self.0.try_clone() else { return };
        visitor.write(&mut short);
    }
}

fn main() {}
