use gpucache::device::{Device, backend::Stream};

#[derive(Clone, Debug)]
struct Mine(Stream);

impl Device for Mine {
    fn stream_handle(&self) -> &Stream {
        &self.0
    }

    unsafe fn from_stream_handle(_: &Stream) -> &Mine {
        unimplemented!()
    }
}

fn main() {}
