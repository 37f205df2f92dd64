//! User objects: values of a program that graphs keep. A graph, its executables and their launches each hold a reference. When the last
//! reference is gone, the program's function runs, on whatever thread that is.

use std::ffi::{c_uint, c_void};
use std::sync::{Arc, Mutex};

use crate::answer::{Answer, Out, Status, answer, lock};
use crate::table::Table;
use crate::{capture, graph};

type Destroy = unsafe extern "C" fn(*mut c_void);

/// A value of the program.
pub(crate) struct UserObject {
    value: usize,
    destroy: Destroy,
}

/// The references of a graph, of an executable, or of a launch.
pub(crate) type Kept = Vec<Arc<UserObject>>;

impl Drop for UserObject {
    fn drop(&mut self) {
        // SAFETY: the program gave the function for this value, and the last reference is gone.
        unsafe { (self.destroy)(self.value as *mut c_void) };
    }
}

/// The objects to which the program itself holds references.
static OBJECTS: Mutex<Table<(Arc<UserObject>, Mutex<c_uint>)>> = Mutex::new(Table::from(0x0B00_0000));

/// CUDA's only flag of user objects: nobody waits for the end of the function. And the flag by which a graph takes over references.
const ONLY_FLAG: c_uint = 1;
const MOVE: c_uint = 1;

/// Gives up references of the program.
fn give_up(handle: usize, count: c_uint) -> Answer<Arc<UserObject>> {
    let mut objects = lock(&OBJECTS);
    let found = objects.get(handle).ok_or(Status::INVALID_VALUE)?;
    let left = lock(&found.1).checked_sub(count).ok_or(Status::INVALID_VALUE)?;
    *lock(&found.1) = left;
    if left == 0 {
        objects.remove(handle);
    }
    Ok(found.0.clone())
}

/// # Safety
/// `destroy` may be called once with `value`, on any thread.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuUserObjectCreate(
    object: Out<usize>,
    value: *mut c_void,
    destroy: Option<Destroy>,
    count: c_uint,
    flags: c_uint,
) -> Status {
    answer("cuUserObjectCreate", || {
        let destroy = destroy.filter(|_| count > 0 && flags == ONLY_FLAG).ok_or(Status::INVALID_VALUE)?;
        if !object.is_wanted() {
            return Err(Status::INVALID_VALUE);
        }
        let new = Arc::new(UserObject { value: value as usize, destroy });
        object.put(lock(&OBJECTS).add(Arc::new((new, Mutex::new(count)))))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuUserObjectRelease(object: usize, count: c_uint) -> Status {
    answer("cuUserObjectRelease", || give_up(object, count).map(drop))
}

/// A graph that is still being captured keeps references too.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphRetainUserObject(graph: usize, object: usize, count: c_uint, flags: c_uint) -> Status {
    answer("cuGraphRetainUserObject", || {
        let found = lock(&OBJECTS).get(object).ok_or(Status::INVALID_VALUE)?.0.clone();
        let kept = vec![found; count as usize];
        if !capture::keep(graph, &kept) {
            lock(&graph::find(graph)?.kept).extend(kept);
        }
        if flags == MOVE { give_up(object, count).map(drop) } else { Ok(()) }
    })
}
