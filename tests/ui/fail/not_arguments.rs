use gpucache::prelude::*;

fn main() -> gpucache::Result<()> {
    let stream = Host::new_stream()?;
    let values = vec![1.0f32];
    stream.launch(vec![&values], |_| ())?;
    stream.launch(&values, |_| ())
}
