//! Lists the test files of the candle packages as modules. The files are in the folders in which Cargo keeps published packages.
//!
//! This script has no dependencies on purpose: if it shared one with the build script of candle's kernels, those would be compiled
//! again, which takes minutes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../Cargo.lock");
    let metadata = metadata(&variable("CARGO")?, &variable("TARGET")?)?;
    let mut modules = String::new();
    for name in ["core", "nn", "transformers"] {
        let files = files(&tests_of(&metadata, &format!("candle-{name}"))?)?;
        modules += &format!("mod {name}_tests {{\n{files}}}\n");
    }
    fs::write(Path::new(&variable("OUT_DIR")?).join("modules.rs"), modules)
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(io::Error::other)
}

/// The metadata of all packages from Cargo, as JSON.
fn metadata(cargo: &str, target: &str) -> io::Result<String> {
    let arguments = ["metadata", "--format-version=1", "--locked", "--filter-platform", target];
    let output = Command::new(cargo).args(arguments).stderr(Stdio::inherit()).output()?;
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

/// The folder of a package's tests. It is beside the manifest, whose path is one of the strings in the metadata.
fn tests_of(metadata: &str, package: &str) -> io::Result<PathBuf> {
    let is_manifest = |path: &Path| {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        path.ends_with("Cargo.toml") && folder.strip_prefix(package).is_some_and(|version| version.starts_with('-'))
    };
    let manifest = metadata.split('"').map(Path::new).find(|path| is_manifest(path));
    manifest.map(|path| path.with_file_name("tests")).ok_or_else(|| io::Error::other(format!("{package} is missing")))
}

/// One module for each file. Files for other backends compile to nothing.
fn files(folder: &Path) -> io::Result<String> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    paths.sort();
    let module = |path: &PathBuf| path.file_stem().map(|name| format!("#[path = {path:?}]\nmod {};\n", name.display()));
    Ok(paths.iter().filter_map(module).collect())
}
