use gpucache::prelude::*;

fn main() -> gpucache::Result<()> {
    let host = Host::new();
    let array = Array::full(&host, 4, 1.0f32)?;
    array[0] = 2.0;
    Ok(())
}
