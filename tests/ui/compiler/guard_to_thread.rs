use gpucache::Scope;

fn main() {
    let _: Box<dyn Send> = Box::new(Scope::new("step").enter());
}
