//! Device kind `block:PATH`: a block device that is there and large enough.

use super::{Kind, nothing_to_remove};
use crate::error::OpenError;
use crate::file;

pub(super) const KIND: Kind = Kind {
    open: |path, _, method| file::serve(path, file::open(path, true)?, method),
    create: |path, wanted, method| {
        let open = file::open(path, true)?;
        if open.size_bytes < wanted {
            let (path, actual) = (path.to_owned(), open.size_bytes);
            return Err(OpenError::TooSmall { path, actual, wanted });
        }
        file::serve(path, open, method)
    },
    size_bytes: |path| Ok(Some(file::open(path, true)?.size_bytes)),
    remove: nothing_to_remove,
};
