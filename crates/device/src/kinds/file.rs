//! Device kind `file:PATH`: a sparse file, made when the pool is.

use super::{Kind, unknown_size};
use crate::fence::Breaking;
use crate::file;

pub(super) const KIND: Kind = Kind {
    open: |path, _, method, _| file::serve(path, file::open(path, false, &Breaking::NONE)?, method),
    create: |path, size_bytes, method| file::serve(path, file::create(path, size_bytes)?, method),
    size_bytes: unknown_size,
    remove: |path| std::fs::remove_file(path),
};
