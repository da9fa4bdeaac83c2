//! The pool engine, without disks.
