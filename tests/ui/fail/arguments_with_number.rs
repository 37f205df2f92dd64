use gpucache::prelude::*;

fn main() -> gpucache::Result<()> {
    let stream = Host::new_stream()?;
    let mut x = Array::full(&stream, 4, 1.0f32)?;
    stream.launch((&mut x, 2.0f32), |(x, by)| x.iter_mut().for_each(|x| *x *= by))
}
