fn main() {
    let _ = gpucache::Scope::new(format!("layer{}", 1));
}
