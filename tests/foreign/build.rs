//! Where the driver's library is for the linker, and which linker: `FOREIGN_DRIVER` is a folder, `FOREIGN_LINKER` a name that
//! the C compiler takes. Said here and not by flags for the whole build, so that builds of two linkers share what they depend on.

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
