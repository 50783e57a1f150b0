//! Races: two pieces of work that touch the same bytes, one of them writing, without an order between them.
//!
//! # What orders work
//! Every stream is an [`Actor`](crate::clock::Actor) whose pieces are numbered as they are queued. A piece's clock says how
//! much of every actor's work is ordered before it. It grows along these edges:
//!
//! - the piece before it on its stream, and what the default stream adds to that;
//! - what the host thread that queues it had waited for by then (an enqueue happens after all that its thread did);
//! - the pieces of the events it waits for, as those were recorded when the wait was queued;
//! - what peers tell it while it runs ([`Work::join`](crate::job::Work::join)).
//!
//! # Two steps
//! All edges but the last are there when a piece is queued, whether anything has run or not. So every touch is compared with
//! those before it right then. Of a pair that these edges do not order, there are two kinds:
//!
//! 1. No peer can order it. An order `A -> B` through peers leaves the process after `A` and comes back in some piece `E` that
//!    may learn from peers, with `E` before `B` or `B` itself, and not before `A` (that would be a circle). Pieces only learn
//!    while they run, so `E` is not finished. [`Piece::open`] holds just those: the unfinished pieces before a piece that may
//!    learn. If `B` has none that is not before `A` also, and the same with `A` and `B` exchanged, the pair is a race, however
//!    the timing turns out, and even if neither ever runs. It is reported at once, by the call that queues the later.
//! 2. A peer might. The pair is kept until the clocks with which both touch the memory are known: a read's as its piece
//!    begins, a write's as its piece first writes, with all that was learnt before. What a piece learns orders its own writes
//!    but not its own reads, since an operation reads what it contributes without waiting for others. If neither clock then
//!    has the other piece, it is a race.
//!
//! A piece counts as a whole: work that does several things at once is before another only with all of them.
//!
//! A clock is exact: it has a piece if and only if there is a path of edges from it. So no ordered pair is reported and none
//! without an order is missed, except that a path through a peer exists only if the messages were exchanged as they were in
//! this run.
//!
//! # What is kept
//! Per allocation, the touches that a later one may race with. Once the clock of a touch `P` is known, what is ordered before
//! it is dropped where `P` covers it, if `P` writes or it only reads: a touch `X` queued from now on cannot be before `P`,
//! which has happened. If it is after `P` it is after what was dropped; if not, it races with `P` itself, so that the race is
//! still reported. Touches queued before `P` were compared with what was dropped already. Kept are so, beside what is under
//! way, at most one write and, per stream, one read of every byte, as ranges.

mod history;
mod piece;
mod tracker;

#[cfg(test)]
mod tests;

pub use piece::{Piece, Race, Touch};
pub use tracker::Tracker;
