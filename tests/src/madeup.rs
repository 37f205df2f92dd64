//! The made-up driver (`tests/driver`), built where programs find it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The names by which linkers and loaders ask for a driver.
pub const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Builds a package of the repository, by its manifest's path from here, into a folder that all such builds share.
///
/// # Panics
/// If it is not built.
pub fn build<'a>(
    manifest: &str,
    target: &Path,
    arguments: &[&str],
    variables: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
) {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest);
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(&manifest).arg("--target-dir").arg(target);
    command.args(arguments).envs(variables);
    // Cargo's own for a test would be taken for a build script's.
    command.env_remove("CARGO_MANIFEST_DIR");
    let built = command.output().expect("Cargo starts");
    assert!(built.status.success(), "{manifest:?}: {}", String::from_utf8_lossy(&built.stderr));
}

/// Builds the driver into `target`, and answers the folder where it has a driver's names.
///
/// # Panics
/// If it is not built, or not found.
pub fn driver(target: &Path) -> PathBuf {
    build("driver/Cargo.toml", target, &[], []);
    let built = std::fs::read(target.join("debug/libmadeup_driver.so")).expect("the driver is built");
    folder(&target.join("driver"), &built)
}

/// As [`driver`], without one of the functions, as drivers were before that came.
///
/// # Panics
/// As [`driver`].
pub fn driver_without(target: &Path, function: &str) -> PathBuf {
    let mut bytes = std::fs::read(driver(target).join(NAMES[0])).expect("the driver is there");
    let name = format!("{function}\0").into_bytes();
    while let Some(place) = bytes.windows(name.len()).position(|window| window == name) {
        bytes[place] = b'_';
    }
    folder(&target.join(format!("driver-without-{function}")), &bytes)
}

/// A folder in which a driver has its names. Those that are there already are not written again, as programs may be using them.
fn folder(path: &Path, driver: &[u8]) -> PathBuf {
    std::fs::create_dir_all(path).expect("a folder");
    for name in NAMES {
        let place = path.join(name);
        if std::fs::read(&place).is_ok_and(|known| known == driver) {
            continue;
        }
        let beside = path.join(format!("{name}-{}", std::process::id()));
        std::fs::write(&beside, driver).expect("room for the driver");
        std::fs::rename(beside, place).expect("a name for the driver");
    }
    path.into()
}
