//! What the emulator is there for: an endpoint that is wrong, though its results may be right, is reported, with the memory and
//! both places.
