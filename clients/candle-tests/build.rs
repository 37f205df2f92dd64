//! Lists the test files of candle-core and candle-nn as modules, from the folders in which Cargo keeps the published packages.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result};
use cargo_metadata::{MetadataCommand, Package};

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../Cargo.lock");
    let metadata = MetadataCommand::new().other_options(["--offline".to_string()]).exec()?;
    let mut modules = String::new();
    for name in ["candle-core", "candle-nn"] {
        let package =
            metadata.packages.iter().find(|package| package.name == name).context("candle is a dependency")?;
        modules += &module(package);
    }
    Ok(fs::write(Path::new(&env::var("OUT_DIR")?).join("modules.rs"), modules)?)
}

/// One module for the package, and in it one for each file. Files of other backends leave themselves out.
fn module(package: &Package) -> String {
    let tests = package.targets.iter().filter(|target| target.is_test());
    let files: String =
        tests.map(|test| format!("    #[path = {:?}]\n    mod {};\n", test.src_path, test.name)).collect();
    format!("mod {}_tests {{\n{files}}}\n", package.name.trim_start_matches("candle-"))
}
