//! Functions that programs are linked against and that this driver does not support: modules of files, and contexts of
//! the program's own.

use crate::answer::{Status, answer};

/// Exports functions that refuse. A C function that does not look at its arguments may take any.
macro_rules! unsupported {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> Status {
            answer(stringify!($name), || Err(Status::NOT_SUPPORTED))
        }
    )*};
}

unsupported! {
    cuModuleLoad
    cuCtxCreate_v4
    cuCtxDestroy_v2
}
