use gpucache::prelude::*;

fn main() -> gpucache::Result<()> {
    let stream = Host::new_stream()?;
    let x = Array::full(&stream, 4, 1.0f32)?;
    stream.launch((&x, &x, &x, &x, &x, &x, &x, &x, &x, &x, &x, &x, &x), |_| ())
}
