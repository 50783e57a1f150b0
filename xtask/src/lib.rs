//! What the workspace's commands share with the workspace's tests.

pub mod golden;
