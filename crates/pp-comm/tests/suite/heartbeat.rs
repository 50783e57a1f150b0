//! Ranks that freeze, end or fail.
