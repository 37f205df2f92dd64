//! Draws the README's figure from measured data: `cargo run --example figure`.
//!
//! Reads `gpucache/docs/traces.csv`, which has a line for each trace, and writes `gpucache/docs/traces.svg`. Its left side shows reserved
//! memory ÷ live memory for each allocator. Its right side shows the time of an operation, on a logarithmic scale.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

/// The colours of the allocators; gpucache's comes first.
const COLOURS: [&str; 4] = ["#0a7d4f", "#c9504a", "#e0a03c", "#7d8ca3"];
const WIDTH: usize = 880;
const ROW: usize = 44;
const TOP: usize = 70;

struct Trace {
    name: String,
    of_live: Vec<f64>,
    nanoseconds: Vec<f64>,
}

fn read(text: &str) -> Result<Vec<Trace>> {
    text.lines().skip(1).map(trace).collect()
}

fn trace(line: &str) -> Result<Trace> {
    let (name, numbers) = line.split_once(',').context("a line without numbers")?;
    let numbers = numbers.split(',').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let (of_live, nanoseconds) = numbers.split_at_checked(4).context("fewer than four shares of live memory")?;
    Ok(Trace { name: name.into(), of_live: of_live.into(), nanoseconds: nanoseconds.into() })
}

/// Draws one bar for each value, beginning at `left`. `length` returns a bar's length.
fn bars(svg: &mut String, left: usize, top: usize, values: &[f64], length: impl Fn(f64) -> f64) -> Result<()> {
    for (place, (&value, colour)) in values.iter().zip(COLOURS).enumerate() {
        let (y, length) = (top + place * 9, length(value).max(1.0));
        writeln!(svg, r#"<rect x="{left}" y="{y}" width="{length:.1}" height="8" fill="{colour}"/>"#)?;
        let x = left as f64 + length + 4.0;
        writeln!(svg, r##"<text x="{x:.1}" y="{}" font-size="8" fill="#666">{value}</text>"##, y + 7)?;
    }
    Ok(())
}

fn legend(svg: &mut String, left: usize, title: &str, names: [&str; 4]) -> Result<()> {
    writeln!(svg, r##"<text x="{left}" y="24" font-size="14" fill="#222">{title}</text>"##)?;
    for (place, (name, colour)) in names.iter().zip(COLOURS).enumerate() {
        let x = left + place * 92;
        writeln!(svg, r#"<rect x="{x}" y="38" width="9" height="9" fill="{colour}"/>"#)?;
        writeln!(svg, r##"<text x="{}" y="46" font-size="9.5" fill="#444">{name}</text>"##, x + 13)?;
    }
    Ok(())
}

fn draw(traces: &[Trace]) -> Result<String> {
    let height = TOP + traces.len() * ROW + 6;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let memory = ["gpucache", "PyTorch", "expandable", "cudaMallocAsync"];
    legend(&mut svg, 100, "reserved over live; bars begin at 1", memory)?;
    legend(&mut svg, 500, "ns an operation, logarithmic", ["gpucache", "PyTorch", "RMM pool", "cudaMallocAsync"])?;
    for (place, trace) in traces.iter().enumerate() {
        let top = TOP + place * ROW;
        writeln!(svg, r##"<text x="6" y="{}" font-size="12" fill="#222">{}</text>"##, top + 22, trace.name)?;
        bars(&mut svg, 100, top, &trace.of_live, |of_live| (of_live - 1.0) * 330.0)?;
        bars(&mut svg, 500, top, &trace.nanoseconds, |nanoseconds| nanoseconds.log10() * 100.0)?;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../gpucache/docs");
    let traces = read(&std::fs::read_to_string(folder.join("traces.csv"))?)?;
    let file = folder.join("traces.svg");
    std::fs::write(&file, draw(&traces)?)?;
    println!("{} traces are drawn in {}", traces.len(), file.display());
    Ok(())
}
