//! librados and librbd, loaded at run time (dlopen): the daemon starts, and is packaged, without Ceph.
//!
//! The functions are declared here by hand, as `rados/librados.h` and `rbd/librbd.h` have them. All are
//! safe to call from several threads.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use libloading::{Library, Symbol};

/// A handle that the libraries give out.
pub(super) type Handle = *mut c_void;

/// What librbd calls when an asynchronous operation has ended, from a thread of its own.
pub(super) type Callback = unsafe extern "C" fn(completion: Handle, argument: *mut c_void);

/// A client that has an image open for writing (`rbd_image_watcher_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Watcher {
    pub(super) address: *mut c_char,
    pub(super) id: i64,
    pub(super) cookie: u64,
}

/// Makes a table of a library's functions, and what fills it.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)+ }) => {
        $(#[$doc])*
        pub(super) struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+
        }

        impl $table {
            fn of(library: &'static Library) -> Result<Self, libloading::Error> {
                // SAFETY: the declarations above are those of the library's header, and the library
                // stays loaded for as long as the process lives.
                unsafe {
                    Ok(Self {
                        $($name: {
                            let symbol: Symbol<unsafe extern "C" fn($($argument),*) $(-> $result)?> =
                                library.get(stringify!($name))?;
                            *symbol
                        },)+
                    })
                }
            }
        }
    };
}

functions! {
    /// librados: the connection to a cluster.
    Rados {
        fn rados_create2(*mut Handle, *const c_char, *const c_char, u64) -> c_int;
        fn rados_conf_read_file(Handle, *const c_char) -> c_int;
        fn rados_conf_set(Handle, *const c_char, *const c_char) -> c_int;
        fn rados_connect(Handle) -> c_int;
        fn rados_shutdown(Handle);
        fn rados_ioctx_create(Handle, *const c_char, *mut Handle) -> c_int;
        fn rados_ioctx_set_namespace(Handle, *const c_char);
        fn rados_set_pool_full_try(Handle);
        fn rados_blocklist_add(Handle, *mut c_char, u32) -> c_int;
        fn rados_ioctx_destroy(Handle);
    }
}

functions! {
    /// librbd: an image.
    Rbd {
        fn rbd_open(Handle, *const c_char, *mut Handle, *const c_char) -> c_int;
        fn rbd_close(Handle) -> c_int;
        fn rbd_get_size(Handle, *mut u64) -> c_int;
        fn rbd_get_features(Handle, *mut u64) -> c_int;
        fn rbd_resize(Handle, u64) -> c_int;
        fn rbd_read(Handle, u64, usize, *mut c_char) -> isize;
        fn rbd_lock_acquire(Handle, c_int) -> c_int;
        fn rbd_lock_get_owners(Handle, *mut c_int, *mut *mut c_char, *mut usize) -> c_int;
        fn rbd_lock_get_owners_cleanup(*mut *mut c_char, usize);
        fn rbd_lock_break(Handle, c_int, *const c_char) -> c_int;
        fn rbd_is_exclusive_lock_owner(Handle, *mut c_int) -> c_int;
        fn rbd_watchers_list(Handle, *mut Watcher, *mut usize) -> c_int;
        fn rbd_watchers_list_cleanup(*mut Watcher, usize);
        fn rbd_aio_create_completion(*mut c_void, Callback, *mut Handle) -> c_int;
        fn rbd_aio_release(Handle);
        fn rbd_aio_get_return_value(Handle) -> isize;
        fn rbd_aio_read(Handle, u64, usize, *mut c_char, Handle) -> c_int;
        fn rbd_aio_writev(Handle, *const libc::iovec, c_int, u64, Handle) -> c_int;
        fn rbd_aio_flush(Handle, Handle) -> c_int;
    }
}

/// Both libraries.
pub(super) struct Ceph {
    pub(super) rados: Rados,
    pub(super) rbd: Rbd,
}

static LOADED: Mutex<Option<&'static Ceph>> = Mutex::new(None);

impl Ceph {
    /// Loads the libraries, once; tries again if they were not there.
    pub(super) fn load() -> Result<&'static Self, libloading::Error> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ceph) = *loaded {
            return Ok(ceph);
        }
        let rados = Rados::of(keep("librados.so.2")?)?;
        let rbd = Rbd::of(keep("librbd.so.1")?)?;
        Ok(*loaded.insert(Box::leak(Box::new(Self { rados, rbd }))))
    }
}

/// Loads a library for as long as the process lives: its threads cannot be made to end.
fn keep(name: &str) -> Result<&'static Library, libloading::Error> {
    // SAFETY: Ceph's libraries do nothing when they are loaded that others could mind.
    let library = unsafe { Library::new(name) }?;
    Ok(Box::leak(Box::new(library)))
}
