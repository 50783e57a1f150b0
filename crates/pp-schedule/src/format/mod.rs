//! Schedules for people to read.

pub mod text;
