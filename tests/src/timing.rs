//! Shared by the benchmarks: their options, and the median of their figures.

/// The options of a benchmark.
#[derive(clap::Args)]
pub struct Options {
    /// Prints one JSON object.
    #[arg(long)]
    pub json: bool,
    /// `cargo bench` passes this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The options of a benchmark that has no others.
#[derive(clap::Parser)]
struct Alone {
    #[command(flatten)]
    options: Options,
}

impl Options {
    /// Whether to print JSON, for a benchmark that has no other options.
    #[must_use]
    pub fn wants_json() -> bool {
        <Alone as clap::Parser>::parse().options.json
    }
}

/// The median of figures, which are sorted. Few disturbed rounds hardly change it.
pub fn median(mut figures: impl AsMut<[f64]>) -> f64 {
    let figures = figures.as_mut();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
