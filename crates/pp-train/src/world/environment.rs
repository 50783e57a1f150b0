//! The environment variables of a process, as data: what a source makes of them can be tested without being in it.

use std::collections::BTreeMap;

use crate::invalid::{Invalid, refuse};

/// Environment variables. [`Environment::default`] has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Those of this process. What is no text is in none of the variables that are looked at.
    pub fn of_process() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        )
    }

    /// The value of a variable; an empty one counts as none, as `NAME= command` is how a shell takes one away.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of a variable, also an empty one.
    #[cfg(any(feature = "nccl", test))]
    pub(super) fn set(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The first of these variables that there is.
    pub(super) fn first<'n>(&self, names: &[&'n str]) -> Option<(&'n str, &str)> {
        names.iter().find_map(|name| Some((*name, self.text(name)?)))
    }

    /// The number in the first of these variables that there is.
    pub(super) fn number(&self, names: &[&'static str]) -> Result<Option<Number>, Invalid> {
        let Some((name, text)) = self.first(names) else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(Number { name, value })),
            Err(_) => refuse!(
                "{name}={text} is not a whole number of at most {}; {}",
                u32::MAX,
                leave_out("or mend it where the process is started")
            ),
        }
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// A number and the variable or flag it was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) name: &'static str,
    pub(super) value: u32,
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A flag is typed with a space.
        let between = if self.name.starts_with("--") { ' ' } else { '=' };
        write!(f, "{}{between}{}", self.name, self.value)
    }
}

/// The remedy where a source stands in the way.
pub(super) fn leave_out(or: &str) -> String {
    format!("choose one source with --launcher flags, torchrun, slurm, openmpi or single (PP_LAUNCHER), {or}")
}
