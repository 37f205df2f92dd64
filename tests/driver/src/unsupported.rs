//! Functions that programs are linked against and that this driver cannot do: modules of files, captures, contexts of one's own.

use crate::answer::{Status, answer};

/// Exports functions that refuse. They take their arguments as any C function may that does not look at them.
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
    cuStreamBeginCapture_v2
    cuStreamEndCapture
    cuGraphInstantiateWithFlags
    cuGraphLaunch
    cuGraphExecDestroy
    cuGraphDestroy
    cuCtxCreate_v4
    cuCtxDestroy_v2
}
