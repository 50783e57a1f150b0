//! Vector clocks: which work is ordered before which, across streams, host threads and processes.

use std::collections::BTreeMap;

/// Whoever does work in an order of its own: a stream or a host thread of some process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor {
    /// Drawn at random by each process.
    pub process: u64,
    /// The stream or thread in it.
    pub number: u64,
}

/// How much of each actor's work is ordered before a point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(BTreeMap<Actor, u64>);

impl Clock {
    /// Adds all that is ordered before another point.
    pub fn join(&mut self, other: &Self) {
        for (&actor, &count) in &other.0 {
            let mine = self.0.entry(actor).or_default();
            *mine = count.max(*mine);
        }
    }

    /// Adds an actor's work up to piece `number`.
    pub fn raise(&mut self, actor: Actor, number: u64) {
        let mine = self.0.entry(actor).or_default();
        *mine = number.max(*mine);
    }

    /// Takes an actor's work after piece `number` out.
    pub fn lower(&mut self, actor: Actor, number: u64) {
        if let Some(mine) = self.0.get_mut(&actor) {
            *mine = number.min(*mine);
        }
    }

    /// One more piece of an actor's work; gives its number.
    pub fn tick(&mut self, actor: Actor) -> u64 {
        let count = self.0.entry(actor).or_default();
        *count += 1;
        *count
    }

    /// Whether piece `number` of an actor's work is ordered before this point.
    pub fn has(&self, actor: Actor, number: u64) -> bool {
        self.0.get(&actor).is_some_and(|&count| count >= number)
    }

    /// How much of an actor's work is ordered before this point.
    pub fn count(&self, actor: Actor) -> u64 {
        self.0.get(&actor).copied().unwrap_or_default()
    }

    /// All entries, to put into a frame.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Actor, u64)> + '_ {
        self.0.iter().map(|(&actor, &count)| (actor, count))
    }
}

impl FromIterator<(Actor, u64)> for Clock {
    fn from_iter<I: IntoIterator<Item = (Actor, u64)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}
