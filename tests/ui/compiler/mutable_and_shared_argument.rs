use gpucache::prelude::*;

fn main() -> gpucache::Result<()> {
    let stream = Host::new_stream()?;
    let mut y = Array::full(&stream, 4, 1.0f32)?;
    stream.launch((&y, &mut y), |(x, y)| y.copy_from_slice(x))
}
