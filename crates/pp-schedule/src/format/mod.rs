//! Schedules for people to read, and for other programs.

pub mod csv;
pub mod grid;
pub mod text;
