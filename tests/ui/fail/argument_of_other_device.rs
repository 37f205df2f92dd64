use gpucache::device::Virtual;
use gpucache::prelude::*;

fn main() -> gpucache::Result<()> {
    let (stream, other) = (Host::new_stream()?, Virtual::new(1 << 20));
    let x = Array::full(&other, 4, 1.0f32)?;
    stream.launch(&x, |_| ())
}
