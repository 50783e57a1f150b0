//! Schedules for people to read, and for other programs.

#[cfg(feature = "json")]
pub mod any;
pub mod csv;
#[cfg(feature = "json")]
pub mod document;
#[cfg(feature = "json")]
pub mod events;
pub mod grid;
#[cfg(feature = "json")]
pub mod json;
pub mod text;
