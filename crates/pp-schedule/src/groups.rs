//! How interleaved 1F1B groups its microbatches, and which sizes the rule admits.

/// The rule of interleaved 1F1B (Megatron's): `pp <= group <= microbatches`, and what is left for the last group is
/// nothing or at least `pp`.
pub(crate) fn group_rule_holds(pp: u32, group_size: u32, microbatches: u32) -> bool {
    let fits = pp <= group_size && group_size <= microbatches;
    fits && (microbatches.is_multiple_of(group_size) || microbatches % group_size >= pp)
}

/// The nearest values that the rule admits, as the tail of an error message.
pub(crate) fn nearest(pp: u32, group_size: u32, microbatches: u32, given: bool) -> String {
    let mut advice = Vec::new();
    let default_follows_pp = if given { "" } else { " with the default group size" };
    // With a group below pp no number of microbatches helps: the group itself must grow.
    let size = group_size.max(pp);
    let valid_m = |m: &u32| group_rule_holds(pp, size, *m);
    let below = (1..microbatches).rev().find(valid_m);
    let above = (microbatches..=microbatches.saturating_add(size).max(size)).find(valid_m);
    if group_size >= pp {
        let list: Vec<String> = [below, above].into_iter().flatten().map(|m| format!("--microbatches {m}")).collect();
        advice.push(format!("{}{default_follows_pp}", list.join(" or ")));
    }
    let valid_groups = (pp..=microbatches).filter(|&g| group_rule_holds(pp, g, microbatches));
    if let Some(group) = valid_groups.min_by_key(|&g| g.abs_diff(group_size)) {
        advice.push(format!("--group-size {group}"));
    }
    if !given {
        advice.push("--allow-bubbles".to_owned());
    } else if group_size < pp && microbatches < pp {
        advice.push(format!("--group-size {pp} --microbatches {pp}"));
    }
    format!("nearest that work: {}", advice.join(", or "))
}

/// How the microbatches of a step are cut into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Groups {
    /// Groups of one size; the last has what is left.
    Uniform {
        /// Microbatches in a group.
        size: u32,
    },
    /// A fixed number of groups, as even as possible, larger ones first (`--allow-bubbles`).
    Even {
        /// Number of groups.
        count: u32,
    },
}

impl Groups {
    /// The sizes of the groups that `microbatches` are cut into.
    pub fn sizes(self, microbatches: u32) -> impl Iterator<Item = u32> + Clone {
        let (count, base, larger) = match self {
            Self::Uniform { size } => (microbatches.div_ceil(size), size, 0),
            Self::Even { count } => (count, microbatches / count, microbatches % count),
        };
        (0..count).map(move |idx| match self {
            Self::Uniform { size } => size.min(microbatches - idx * size),
            Self::Even { .. } => base + u32::from(idx < larger),
        })
    }

    /// The size that the warmup is counted with: of all the groups, the largest.
    pub const fn largest(self, microbatches: u32) -> u32 {
        match self {
            Self::Uniform { size } => size,
            Self::Even { count } => microbatches.div_ceil(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_groups_leave_a_smaller_last_one() {
        let sizes = |size, m| Groups::Uniform { size }.sizes(m).collect::<Vec<_>>();
        assert_eq!(sizes(3, 5), [3, 2]);
        assert_eq!(sizes(4, 8), [4, 4]);
        assert_eq!(sizes(8, 3), [3]);
    }

    #[test]
    fn even_groups_put_larger_first() {
        let sizes = |count, m| Groups::Even { count }.sizes(m).collect::<Vec<_>>();
        assert_eq!(sizes(2, 11), [6, 5]);
        assert_eq!(sizes(1, 3), [3]);
        assert_eq!(sizes(3, 12), [4, 4, 4]);
        assert_eq!(Groups::Even { count: 2 }.largest(11), 6);
    }

    #[test]
    fn every_advised_value_works() {
        for pp in 2..6 {
            for group in 1..9 {
                for m in 1..20 {
                    if group_rule_holds(pp, group, m) {
                        continue;
                    }
                    for given in [true, false] {
                        let group = if given { group } else { pp };
                        if group_rule_holds(pp, group, m) {
                            continue;
                        }
                        check_advice(pp, group, m, given);
                    }
                }
            }
        }
    }

    fn check_advice(pp: u32, group: u32, m: u32, given: bool) {
        let advice = nearest(pp, group, m, given);
        let (_, list) = advice.split_once(": ").expect("a list");
        assert!(!list.is_empty(), "pp {pp} group {group} m {m}");
        for option in list.split(", or ").flat_map(|option| option.split(" or ")) {
            let words: Vec<&str> = option.split(' ').collect();
            let value = |flag| words.iter().position(|w| *w == flag).map(|at| words[at + 1].parse::<u32>().unwrap());
            if words.contains(&"--allow-bubbles") {
                continue;
            }
            let (g, m) = (value("--group-size").unwrap_or(group), value("--microbatches").unwrap_or(m));
            assert!(group_rule_holds(pp, g, m), "pp {pp} group {group}: advised {option}");
        }
    }
}
