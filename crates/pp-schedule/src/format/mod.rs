//! Schedules for people to read, and for other programs.

pub mod csv;
mod palette;
pub mod picture;
pub mod svg;
pub mod text;
mod xml;
