//! The commands, one file per family, and the table of them.

mod capacity;
mod table_opcodes;
pub(crate) mod table;

