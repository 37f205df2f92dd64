use gpucache::prelude::*;

fn main() -> gpucache::Result<()> {
    let host = Host::new();
    let sum: &[f32] = gpucache::cache_scope!(step, {
        let array = Array::full(&host, 4, 1.0f32)?;
        &array[..2]
    });
    assert_eq!(sum.len(), 2);
    Ok(())
}
