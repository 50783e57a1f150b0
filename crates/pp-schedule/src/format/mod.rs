//! Schedules for people to read, and for other programs.

#[cfg(feature = "json")]
pub mod chrome;
pub mod csv;
pub mod html;
mod palette;
pub mod picture;
pub mod svg;
pub mod text;
mod xml;
