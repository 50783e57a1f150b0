//! Schedules for people to read, and for other programs.

#[cfg(feature = "json")]
pub mod any;
#[cfg(feature = "json")]
pub mod chrome;
pub mod csv;
#[cfg(feature = "json")]
pub mod document;
#[cfg(feature = "json")]
pub mod events;
pub mod grid;
pub mod html;
#[cfg(feature = "json")]
pub mod json;
mod palette;
pub mod picture;
#[cfg(test)]
mod samples;
pub mod svg;
pub mod text;
#[cfg(test)]
mod wellformed;
mod xml;
