//! Device kind `block:PATH`: a block device that is there and large enough.

use super::{Kind, nothing_to_remove};
use crate::error::OpenError;
use crate::fence::Breaking;
use crate::file;

pub(super) const KIND: Kind = Kind {
    open: |path, _, method, breaking| file::serve(path, file::open(path, true, breaking)?, method),
    create: |path, wanted, method| {
        let open = file::open(path, true, &Breaking::NONE)?;
        if open.size_bytes < wanted {
            let (path, actual) = (path.to_owned(), open.size_bytes);
            return Err(OpenError::TooSmall { path, actual, wanted });
        }
        file::serve(path, open, method)
    },
    size_bytes: |path| Ok(Some(file::size_of_block_device(path)?)),
    remove: nothing_to_remove,
};
