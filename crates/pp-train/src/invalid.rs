//! What is said of arguments that make no run.

/// Arguments that make no run: flag, value, rule and the nearest that works, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

macro_rules! refuse {
    ($($message:tt)*) => { return Err(Invalid(format!($($message)*)).into()) };
}
pub(crate) use refuse;

macro_rules! invalid_from {
    ($($error:ty),*) => { $(impl From<$error> for Invalid {
        fn from(error: $error) -> Self {
            Self(error.to_string())
        }
    })* };
}
invalid_from!(pp_schedule::ConfigError, pp_schedule::LayoutError, pp_model::ConfigError, pp_comm::mesh::MeshError);
