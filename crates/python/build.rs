//! Compiles the functions that PyTorch calls.

fn main() {
    println!("cargo::rerun-if-changed=src/torch");
    println!("cargo::rerun-if-changed=../capi/include/gpucache.h");
    #[cfg(feature = "torch")]
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(true)
        .files(["src/torch/hooks.cpp", "src/torch/raise.cpp"])
        .include("../capi/include")
        .compile("gpucache_torch");
}
