use gpucache::device::backend::Event;

#[derive(Debug)]
struct Mine;

impl Event for Mine {
    fn is_complete(&self) -> gpucache::Result<bool> {
        Ok(true)
    }
}

fn main() {}
