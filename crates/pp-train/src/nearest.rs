//! What to try instead of arguments that are refused. Nothing is advised that would be refused as well.

use std::fmt::Display;

use crate::args::Args;
use crate::invalid::Invalid;

/// The most ways out that one message names.
const MAX_WAYS: usize = 3;

/// Why arguments make no run, with what might.
#[derive(Debug)]
pub(crate) struct Refusal {
    rule: String,
    tries: Vec<Try>,
    /// What is said where no try works.
    otherwise: &'static str,
}

/// A flag to change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Try {
    /// To this value.
    To(&'static str, u64),
    /// To the largest multiple of this that is below what it is.
    Below(&'static str, u32),
}

impl<E: Into<Invalid>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self { rule: error.into().0, tries: Vec::new(), otherwise: "" }
    }
}

impl Refusal {
    pub(crate) fn new(rule: impl Display, tries: impl IntoIterator<Item = Try>) -> Self {
        Self { rule: rule.to_string(), tries: tries.into_iter().collect(), otherwise: "" }
    }

    pub(crate) fn otherwise(self, advice: &'static str) -> Self {
        Self { otherwise: advice, ..self }
    }

    /// The message, with those tries that `works` accepts.
    pub(crate) fn advise(self, args: &Args, works: impl Fn(&Args) -> bool) -> Invalid {
        let mut ways: Vec<(&str, u32)> = Vec::new();
        for (flag, value) in self.tries.iter().filter_map(|&option| find(option, args, &works)) {
            if ways.len() < MAX_WAYS && !ways.contains(&(flag, value)) {
                ways.push((flag, value));
            }
        }
        let mut message = self.rule;
        if ways.is_empty() {
            message.push_str(self.otherwise);
        }
        for (index, &(flag, value)) in ways.iter().enumerate() {
            let more = match index.checked_sub(1).map(|before| ways[before].0) {
                None => format!("; nearest that works: {flag} {value}"),
                Some(before) if before == flag => format!(" or {value}"),
                Some(_) => format!(", or {flag} {value}"),
            };
            message.push_str(&more);
        }
        Invalid(message)
    }
}

/// The value that a try comes to, if it works.
fn find(option: Try, args: &Args, works: &impl Fn(&Args) -> bool) -> Option<(&'static str, u32)> {
    let with = |flag, value| {
        let mut changed = args.clone();
        *changed.size_mut(flag)? = value;
        works(&changed).then_some((flag, value))
    };
    match option {
        Try::To(flag, value) => with(flag, u32::try_from(value).ok()?),
        Try::Below(flag, step) => {
            // A smaller value needs less: what works is found by halving.
            let now = *args.clone().size_mut(flag)?;
            let (mut low, mut high) = (0, now.saturating_sub(1) / step + 1);
            while low + 1 < high {
                let middle = low + (high - low) / 2;
                if with(flag, middle * step).is_some() { low = middle } else { high = middle }
            }
            (low > 0).then_some((flag, low * step))
        }
    }
}
