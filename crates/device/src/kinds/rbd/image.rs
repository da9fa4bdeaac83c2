//! Open image of a Ceph cluster (RBD): the connection, the exclusive lock, and calls that wait.

use std::ffi::{CString, c_int};
use std::io;
use std::path::Path;
use std::ptr::null;

use block::RbdImage;

use super::library::{Ceph, Handle};
use super::os;
use crate::error::OpenError;
use crate::fence::{Breaking, OWNER_BEAT_OFFSET};

/// What the connection is made with, whatever the cluster's configuration file says: no cache, so that
/// a write is with all replicas when it is answered; and no wait without an end for a monitor.
pub(super) const SETTINGS: [(&str, &str); 3] =
    [("rbd_cache", "false"), ("client_mount_timeout", "10"), ("rados_mon_op_timeout", "10")];

/// The bit of the feature exclusive-lock (`RBD_FEATURE_EXCLUSIVE_LOCK`).
const EXCLUSIVE_LOCK: u64 = 1 << 2;

/// errno: the cluster takes nothing from this client any more (`EBLOCKLISTED`).
pub(super) const BLOCKLISTED: i32 = libc::ESHUTDOWN;

/// A connection to a cluster.
pub(super) struct Cluster(&'static Ceph, pub(super) Handle);

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: the handle is of rados_create2, and nothing that came from it is left.
        unsafe { (self.0.rados.rados_shutdown)(self.1) }
    }
}

/// A pool of a cluster.
struct IoContext(&'static Ceph, Handle);

impl Drop for IoContext {
    fn drop(&mut self) {
        // SAFETY: the handle is of rados_ioctx_create, and no image of it is open.
        unsafe { (self.0.rados.rados_ioctx_destroy)(self.1) }
    }
}

/// An open image, whose exclusive lock this process has.
pub(crate) struct Image {
    pub(super) ceph: &'static Ceph,
    pub(super) handle: Handle,
    /// The client that has the lock: this one. Empty until it has it.
    pub(super) owner: String,
    _pool: IoContext,
    pub(super) cluster: Cluster,
}

// SAFETY: librbd and librados take calls on a handle from any thread, and several at a time.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the handle is of rbd_open, and nothing is under way on it: each operation holds the
        // image. The pool and the cluster follow, in the order of the fields.
        let _ = unsafe { (self.ceph.rbd.rbd_close)(self.handle) };
    }
}

/// A text for the libraries; those of a device's name hold no NUL.
pub(super) fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// The result of a call: 0 or an errno, negated.
pub(super) fn checked(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

impl Image {
    /// Connects, opens the image and takes its lock. May wait for the cluster.
    pub(crate) fn open(path: &Path, breaking: &Breaking) -> Result<Self, OpenError> {
        let mut image = Self::find(path, &SETTINGS)?;
        let features = image.features().map_err(os(path, "ask for the image's features"))?;
        if features & EXCLUSIVE_LOCK == 0 {
            let what =
                "lock it: enable the feature with 'rbd feature enable POOL/IMAGE exclusive-lock'";
            return Err(os(path, what)(io::ErrorKind::Unsupported.into()));
        }
        let taken = image.take_lock(path, breaking);
        let read = |buffer: &mut [u8]| image.read(OWNER_BEAT_OFFSET, buffer);
        taken.map_err(|error| error.with_owner_beat(read))?;
        Ok(image)
    }

    /// Connects with these settings and opens the image, without its lock.
    pub(super) fn find(path: &Path, settings: &[(&str, &str)]) -> Result<Self, OpenError> {
        let os = |what| os(path, what);
        let name = path.to_str().and_then(RbdImage::parse);
        let name = name.ok_or_else(|| os("read its name")(io::ErrorKind::InvalidInput.into()))?;
        let ceph = Ceph::load().map_err(io::Error::other);
        let ceph = ceph.map_err(os("load Ceph's libraries (packages librados2 and librbd1)"))?;
        let cluster = connect(ceph, &name, settings).map_err(os("connect to the Ceph cluster"))?;
        let pool = open_pool(&cluster, &name).map_err(os("open the pool in the Ceph cluster"))?;
        match open_image(ceph, &name, pool, cluster) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                Err(OpenError::Missing(path.to_owned()))
            }
            result => result.map_err(os("open the image")),
        }
    }

    fn features(&self) -> io::Result<u64> {
        let mut features = 0;
        // SAFETY: the handle is open, and the library writes one number.
        checked(unsafe { (self.ceph.rbd.rbd_get_features)(self.handle, &raw mut features) })?;
        Ok(features)
    }

    /// Its size. May wait for the cluster.
    pub(crate) fn size_bytes(&self) -> io::Result<u64> {
        let mut size_bytes = 0;
        // SAFETY: the handle is open, and the library writes one number.
        checked(unsafe { (self.ceph.rbd.rbd_get_size)(self.handle, &raw mut size_bytes) })?;
        Ok(size_bytes)
    }

    /// Fills the buffer with the bytes from `offset` on. Waits for the cluster.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: the handle is open, and the library writes no more than the buffer has.
        let read = unsafe { (self.ceph.rbd.rbd_read)(self.handle, offset, length, start) };
        match usize::try_from(read) {
            Ok(read) if read == length => Ok(()),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(io::Error::from_raw_os_error(i32::try_from(-read).unwrap_or(libc::EIO))),
        }
    }

    /// Makes it larger; what is there already stays. Returns the size that it has then.
    pub(super) fn grow(&self, size_bytes: u64) -> io::Result<u64> {
        if self.size_bytes()? < size_bytes {
            // SAFETY: the handle is open.
            checked(unsafe { (self.ceph.rbd.rbd_resize)(self.handle, size_bytes) })?;
        }
        self.size_bytes()
    }
}

fn connect(
    ceph: &'static Ceph,
    name: &RbdImage<'_>,
    settings: &[(&str, &str)],
) -> io::Result<Cluster> {
    let (cluster_name, user) =
        (text("ceph"), text(&format!("client.{}", name.id.unwrap_or("admin"))));
    let mut handle = std::ptr::null_mut();
    // SAFETY: the texts live until the call returns, and the library writes one handle.
    checked(unsafe {
        (ceph.rados.rados_create2)(&raw mut handle, cluster_name.as_ptr(), user.as_ptr(), 0)
    })?;
    let cluster = Cluster(ceph, handle);
    let conf = name.conf.map(text);
    let path = conf.as_ref().map_or(null(), |conf| conf.as_ptr());
    // SAFETY: the handle is of rados_create2; without a path the library looks where it always does.
    checked(unsafe { (ceph.rados.rados_conf_read_file)(handle, path) })?;
    for (key, value) in settings {
        let (key, value) = (text(key), text(value));
        // SAFETY: the texts live until the call returns.
        checked(unsafe { (ceph.rados.rados_conf_set)(handle, key.as_ptr(), value.as_ptr()) })?;
    }
    // SAFETY: the handle is of rados_create2 and not connected yet.
    checked(unsafe { (ceph.rados.rados_connect)(handle) })?;
    Ok(cluster)
}

fn open_pool(cluster: &Cluster, name: &RbdImage<'_>) -> io::Result<IoContext> {
    let &Cluster(ceph, cluster) = cluster;
    let (pool, namespace) = (text(name.pool), text(name.namespace));
    let mut handle = std::ptr::null_mut();
    // SAFETY: the cluster is connected, and the library writes one handle.
    checked(unsafe { (ceph.rados.rados_ioctx_create)(cluster, pool.as_ptr(), &raw mut handle) })?;
    let pool = IoContext(ceph, handle);
    // SAFETY: the handle is of rados_ioctx_create.
    unsafe { (ceph.rados.rados_ioctx_set_namespace)(handle, namespace.as_ptr()) };
    // Without it writes to a full cluster, and to a pool with a quota, wait for ever.
    // SAFETY: as above.
    unsafe { (ceph.rados.rados_set_pool_full_try)(handle) };
    Ok(pool)
}

fn open_image(
    ceph: &'static Ceph,
    name: &RbdImage<'_>,
    pool: IoContext,
    cluster: Cluster,
) -> io::Result<Image> {
    let image = text(name.image);
    let mut handle = std::ptr::null_mut();
    // SAFETY: the pool is open, and the library writes one handle; no snapshot is asked for.
    checked(unsafe { (ceph.rbd.rbd_open)(pool.1, image.as_ptr(), &raw mut handle, null()) })?;
    Ok(Image { ceph, handle, owner: String::new(), _pool: pool, cluster })
}
