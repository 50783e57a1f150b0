//! Progress: one maximal run over channels that buffer nothing.
//!
//! A channel has one sender and one receiver and keeps its order, and no action chooses between channels. Such programs
//! are confluent: whatever the timing, the same actions become possible, so a single run that goes as far as it can
//! decides whether any run gets stuck. With no buffering a transfer completes only once both its ends are at the head of
//! their queues; more buffering only lets more through, so what passes here passes with any capacity.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

use crate::ids::{ChannelId, Direction, Rank};
use crate::program::{Action, Carries, Channel, Program, Role, Transfer};

/// Which posts of a rank go one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Queues {
    /// As the program's channels say.
    #[default]
    AsStated,
    /// All of them, as on one communicator.
    OnePerRank,
    /// Those of one direction (two rings).
    OnePerDirection,
    /// The sends, and the receives, of one direction (four lanes).
    FourLanes,
    /// Those of one channel.
    OnePerChannel,
}

/// What the channels are taken to be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Semantics {
    /// Which posts go one after the other.
    pub queues: Queues,
    /// Messages that a channel holds before its receiver has posted for them.
    pub capacity: u32,
}

impl Queues {
    fn key(self, id: ChannelId, channel: &Channel, role: Role) -> u32 {
        let direction = u32::from(channel.carries == Carries::Only(Direction::Backward));
        match self {
            Self::AsStated => channel.queue,
            Self::OnePerRank => 0,
            Self::OnePerDirection => direction,
            Self::FourLanes => 2 * direction + role as u32,
            Self::OnePerChannel => id.0,
        }
    }
}

/// Whether every queue is one end of one channel.
pub(super) fn ends_stand_alone(program: &Program, queues: Queues) -> bool {
    let mut known = HashSet::new();
    program.channels.iter().enumerate().all(|(index, channel)| {
        let key = |role| queues.key(ChannelId(index as u32), channel, role);
        known.insert((channel.source, key(Role::Send))) && known.insert((channel.destination, key(Role::Receive)))
    })
}

/// Something that never goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The rank.
    pub rank: Rank,
    /// The index of the action it cannot complete: a wait, or a post that holds up the others of its queue.
    pub step: usize,
    /// That action.
    pub action: String,
    /// The rank it waits for.
    pub waits_for: Rank,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rank {} is stuck at step {} ({}), waiting for rank {}",
            self.rank, self.step, self.action, self.waits_for
        )
    }
}

/// Ranks that wait for each other in a circle (or for a rank that has ended).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The circle: each waits for the next, the last for the first. When one waits for a rank that has ended, the chain
    /// that leads there.
    pub cycle: Vec<Blocked>,
    /// How many ranks are stuck in all.
    pub n_blocked: usize,
    /// What the channels were taken to be able to do.
    pub semantics: Semantics,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.semantics.capacity {
            0 => f.write_str("deadlock with unbuffered channels")?,
            capacity => write!(f, "deadlock with channels that buffer {capacity}")?,
        }
        write!(f, ", {} ranks stuck:", self.n_blocked)?;
        for blocked in &self.cycle {
            write!(f, "\n  {blocked}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Deadlock {}

/// Runs the program as far as it goes; `places[rank][transfer]` is the transfer's place in its channel.
pub(super) fn check(program: &Program, places: &[Vec<u32>], semantics: Semantics) -> Result<(), Deadlock> {
    let mut run = Run::new(program, places, semantics);
    while let Some(rank) = run.ready.pop() {
        run.advance(rank);
    }
    let stuck = (0..program.ranks.len()).filter(|&rank| run.waiting[rank].is_some()).count();
    let held_up = run.queues.iter().position(|queue| !queue.posts.is_empty());
    let start = run.waiting.iter().position(Option::is_some).map(Node::Wait).or(held_up.map(Node::Queue));
    match start {
        None => Ok(()),
        Some(start) => Err(Deadlock { cycle: run.cycle(start), n_blocked: stuck.max(1), semantics }),
    }
}

/// A queue of posts on one rank.
struct Queue {
    rank: usize,
    /// The first transfer and the step of each post that is not complete.
    posts: VecDeque<(u32, usize)>,
    /// Whether the transfers of the first post are offered to their peers.
    offered: bool,
    /// It serves one end of one channel, one transfer at a time: then a transfer is complete as soon as both ends have
    /// posted it, whatever stands before it, and nothing needs to queue.
    simple: bool,
}

struct Run<'a> {
    program: &'a Program,
    places: &'a [Vec<u32>],
    semantics: Semantics,
    queues: Vec<Queue>,
    /// The queue at the sending and at the receiving end of each channel.
    ends: Vec<[usize; 2]>,
    /// Transfers posted, and offered, on each channel so far, at the sending and at the receiving end.
    posted: Vec<[u32; 2]>,
    offered: Vec<[u32; 2]>,
    /// The next action of each rank.
    at: Vec<usize>,
    /// The transfer a blocked rank waits for.
    waiting: Vec<Option<u32>>,
    ready: Vec<usize>,
    /// Queues whose first post may have become complete.
    stirred: Vec<usize>,
}

/// Something that waits: a rank at a wait, or a queue behind its first post.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Wait(usize),
    Queue(usize),
}

const fn end(role: Role) -> usize {
    match role {
        Role::Send => 0,
        Role::Receive => 1,
    }
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, places: &'a [Vec<u32>], semantics: Semantics) -> Self {
        let mut queues: Vec<Queue> = Vec::new();
        let mut known: HashMap<(Rank, u32), usize> = HashMap::new();
        let mut queue_of = |rank: Rank, key: u32| {
            let index = *known.entry((rank, key)).or_insert(queues.len());
            if index == queues.len() {
                queues.push(Queue { rank: rank.idx(), posts: VecDeque::new(), offered: false, simple: true });
            } else {
                queues[index].simple = false;
            }
            index
        };
        let ends = program.channels.iter().enumerate().map(|(index, channel)| {
            let key = |role| semantics.queues.key(ChannelId(index as u32), channel, role);
            [queue_of(channel.source, key(Role::Send)), queue_of(channel.destination, key(Role::Receive))]
        });
        let ends: Vec<[usize; 2]> = ends.collect();
        let grouped = program.ranks.iter().any(|rank| rank.transfers.iter().any(|transfer| !transfer.ends_post));
        if grouped {
            queues.iter_mut().for_each(|queue| queue.simple = false);
        }
        Self {
            program,
            places,
            semantics,
            queues,
            ends,
            posted: vec![[0, 0]; program.channels.len()],
            offered: vec![[0, 0]; program.channels.len()],
            at: vec![0; program.ranks.len()],
            waiting: vec![None; program.ranks.len()],
            ready: (0..program.ranks.len()).rev().collect(),
            stirred: Vec::new(),
        }
    }

    /// Runs one rank until it blocks or ends, and readies those it unblocks.
    fn advance(&mut self, rank: usize) {
        let ranked = &self.program.ranks[rank];
        let mut at = self.at[rank];
        while let Some(&action) = ranked.actions.get(at) {
            match action {
                Action::Compute(_) | Action::Free(_) | Action::Mark(_) => {}
                Action::Post(first) => self.post(rank, first, at),
                Action::Wait(index) => {
                    if !self.complete(rank, index) {
                        self.waiting[rank] = Some(index);
                        break;
                    }
                }
            }
            at += 1;
        }
        self.at[rank] = at;
    }

    #[inline]
    fn complete(&self, rank: usize, index: u32) -> bool {
        let transfer = &self.program.ranks[rank].transfers[index as usize];
        let place = self.places[rank][index as usize];
        let [sent, received] = self.offered[transfer.channel.idx()];
        let met = match transfer.role {
            Role::Send => received.saturating_add(self.semantics.capacity),
            Role::Receive => received,
        };
        place < sent.min(met)
    }

    fn post(&mut self, rank: usize, first: u32, step: usize) {
        let ranked = &self.program.ranks[rank];
        for transfer in ranked.posted(first).unwrap_or_default() {
            self.posted[transfer.channel.idx()][end(transfer.role)] += 1;
            let queue = self.ends[transfer.channel.idx()][end(transfer.role)];
            if self.queues[queue].simple {
                self.offer(transfer);
            }
        }
        // One post may stand in several queues when its channels do; each holds up its own.
        for queue in self.queues_of(rank, first) {
            self.queues[queue].posts.push_back((first, step));
            self.stirred.push(queue);
        }
        while let Some(queue) = self.stirred.pop() {
            self.settle(queue);
        }
    }

    /// The queues, other than simple ones, that a post stands in.
    fn queues_of(&self, rank: usize, first: u32) -> Vec<usize> {
        let mut queues = Vec::new();
        for transfer in self.program.ranks[rank].posted(first).unwrap_or_default() {
            let queue = self.ends[transfer.channel.idx()][end(transfer.role)];
            if !self.queues[queue].simple && !queues.contains(&queue) {
                queues.push(queue);
            }
        }
        queues
    }

    /// Offers a transfer to its peer, which may let the peer go on.
    fn offer(&mut self, transfer: &Transfer) {
        let channel = transfer.channel.idx();
        self.offered[channel][end(transfer.role)] += 1;
        let across = self.ends[channel][1 - end(transfer.role)];
        if !self.queues[across].simple {
            self.stirred.push(across);
        }
        self.wake(transfer.peer.idx());
    }

    /// Lets a queue's posts go on as far as they can.
    fn settle(&mut self, index: usize) {
        let rank = self.queues[index].rank;
        while let Some(&(first, _)) = self.queues[index].posts.front() {
            let program = self.program;
            let transfers = program.ranks[rank].posted(first).unwrap_or_default();
            let mine = |run: &Self, transfer: &Transfer| run.ends[transfer.channel.idx()][end(transfer.role)] == index;
            if !self.queues[index].offered {
                self.queues[index].offered = true;
                for transfer in transfers {
                    if mine(self, transfer) {
                        self.offer(transfer);
                    }
                }
            }
            let indices = first..first + transfers.len() as u32;
            let open = indices.zip(transfers).any(|(at, transfer)| mine(self, transfer) && !self.complete(rank, at));
            self.wake(rank);
            if open {
                return;
            }
            self.queues[index].posts.pop_front();
            self.queues[index].offered = false;
        }
    }

    fn wake(&mut self, rank: usize) {
        let Some(index) = self.waiting[rank] else { return };
        if self.complete(rank, index) {
            self.waiting[rank] = None;
            self.ready.push(rank);
        }
    }

    /// Follows from one thing that waits to what it waits for, until one comes up again or a rank has ended.
    fn cycle(&self, start: Node) -> Vec<Blocked> {
        let mut chain: Vec<(Node, Blocked)> = Vec::new();
        let mut next = Some(start);
        while let Some(node) = next {
            if let Some(start) = chain.iter().position(|(seen, _)| *seen == node) {
                chain.drain(..start);
                break;
            }
            let Some((blocked, after)) = self.follow(node) else { break };
            chain.push((node, blocked));
            next = after;
        }
        chain.into_iter().map(|(_, blocked)| blocked).collect()
    }

    /// What a node is, and what it waits for.
    fn follow(&self, node: Node) -> Option<(Blocked, Option<Node>)> {
        let (rank, step, index) = match node {
            Node::Wait(rank) => (rank, self.at[rank], self.waiting[rank]?),
            Node::Queue(queue) => {
                let queue = &self.queues[queue];
                let &(first, step) = queue.posts.front()?;
                let n_posted = self.program.ranks[queue.rank].posted(first)?.len() as u32;
                let open = (first..first + n_posted).find(|&index| !self.complete(queue.rank, index))?;
                (queue.rank, step, open)
            }
        };
        let ranked = &self.program.ranks[rank];
        let transfer = &ranked.transfers[index as usize];
        let place = self.places[rank][index as usize];
        let (mine, theirs) = (end(transfer.role), 1 - end(transfer.role));
        let channel = transfer.channel.idx();
        let (after, waits_for) = if self.offered[channel][mine] <= place {
            (Some(Node::Queue(self.ends[channel][mine])), Rank(rank as u32))
        } else if self.posted[channel][theirs] > place {
            (Some(Node::Queue(self.ends[channel][theirs])), transfer.peer)
        } else {
            let peer = transfer.peer.idx();
            (self.waiting[peer].map(|_| Node::Wait(peer)), transfer.peer)
        };
        let action = ranked.step(step)?.to_string();
        Some((Blocked { rank: Rank(rank as u32), step, action, waits_for }, after))
    }
}
