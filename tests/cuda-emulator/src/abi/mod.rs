//! The C names.
