//! The independent initiators: gantry-host (libiscsi), QEMU.
