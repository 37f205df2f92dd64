use gpucache::prelude::*;

fn main() -> gpucache::Result<()> {
    let host = Host::new();
    let array = Array::full(&host, 4, 1.0f32)?;
    gpucache::cache_scope!(step, { drop(array) });
    assert_eq!(array.len(), 4);
    Ok(())
}
