use gpucache::prelude::*;

fn main() -> gpucache::Result<()> {
    let stream = Host::new_stream()?;
    let values = vec![1.0f32];
    stream.launch(&values, |_| ())
}
