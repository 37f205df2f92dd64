//! Tells the linker the folder of the driver's library (`FOREIGN_DRIVER`), and the C compiler the name of the linker
//! (`FOREIGN_LINKER`). Set here and not by flags for the whole build, so that builds with two linkers share their dependencies.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FOREIGN_DRIVER");
    println!("cargo::rerun-if-env-changed=FOREIGN_LINKER");
    if let Ok(folder) = std::env::var("FOREIGN_DRIVER") {
        println!("cargo::rustc-link-search=native={folder}");
    }
    if let Ok(linker) = std::env::var("FOREIGN_LINKER") {
        println!("cargo::rustc-link-arg-bins=-fuse-ld={linker}");
    }
}
