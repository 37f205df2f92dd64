use gpucache::prelude::*;

fn main() -> gpucache::Result<()> {
    let stream = Host::new_stream()?;
    stream.launch(2.0f32, |_| ())
}
