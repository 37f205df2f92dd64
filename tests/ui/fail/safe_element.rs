use gpucache::Element;

#[derive(Clone, Copy)]
#[repr(C)]
struct Point {
    x: f32,
    y: f32,
}

impl Element for Point {}

fn main() {}
