//! Strangers at the listeners of a run, many of them.
