//! kornia-imgproc copies frames to the GPU, halves them several times, and reads them back. Prints one JSON object.

use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use client_common::{Bits, Common, Run, Session, print};
use cudarc::driver::{CudaContext, CudaStream};
use kornia_image::{Image, ImageSize};
use kornia_imgproc::{interpolation::InterpolationMode, resize::resize};
use serde::Serialize;

#[derive(Parser, Clone, Copy, Serialize)]
#[command(about)]
struct Pyramid {
    #[command(flatten)]
    #[serde(skip)]
    common: Common,
    #[arg(long, default_value_t = 400)]
    frames: usize,
    /// Width of a frame; every fourth frame is half as wide and half as high.
    #[arg(long, default_value_t = 1920)]
    width: usize,
    #[arg(long, default_value_t = 1080)]
    height: usize,
    /// How often a frame is halved.
    #[arg(long, default_value_t = 4)]
    levels: u32,
}

#[derive(Serialize)]
struct Report {
    client: &'static str,
    #[serde(flatten)]
    arguments: Pyramid,
    #[serde(flatten)]
    run: Run,
    /// Hash of each frame's smallest image.
    bits: Bits,
}

fn main() -> Result<()> {
    let pyramid = Pyramid::parse();
    let mut session = Session::new(pyramid.common, &["frame"])?;
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let full = ImageSize { width: pyramid.width, height: pyramid.height };
    let frames = [noise(&mut session, full)?, noise(&mut session, halved(full))?];
    let (mut bits, mut number) = (Bits::default(), 0);
    session.steps(pyramid.frames, |session| {
        // Every fourth frame is a small one, so that not all frames are alike.
        let frame = &frames[usize::from(number % 4 == 3)];
        number += 1;
        let small = session.scope("frame", || smallest(frame, pyramid.levels, &stream))?;
        bits.add(small.to_host_owned()?.as_slice());
        Ok(())
    })?;
    print(&Report { client: "kornia", arguments: pyramid, run: session.finish(&context)?, bits })
}

fn halved(size: ImageSize) -> ImageSize {
    ImageSize { width: (size.width / 2).max(1), height: (size.height / 2).max(1) }
}

fn noise(session: &mut Session, size: ImageSize) -> Result<Image<f32, 3>> {
    Ok(Image::new(size, (0..size.width * size.height * 3).map(|_| session.inputs.f32()).collect())?)
}

/// The last of the images that a frame is halved to. All images stay alive until it is computed.
fn smallest(frame: &Image<f32, 3>, levels: u32, stream: &Arc<CudaStream>) -> Result<Image<f32, 3>> {
    let mut images = vec![frame.to_cuda(stream)?];
    for level in 0..levels as usize {
        let mut half = Image::zeros_cuda(halved(images[level].size()), stream)?;
        resize(&images[level], &mut half, InterpolationMode::Bilinear)?;
        images.push(half);
    }
    Ok(images.swap_remove(levels as usize))
}
