fn main() {
    let _ = gpucache::Scope::new("step").recycle("keyed");
}
