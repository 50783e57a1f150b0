//! Progress on one communicator: what is posted together is one launch, a rank's launches go one after the other, and a launch
//! ends only when all of it is complete.
//!
//! A communicator keeps one order of messages from one rank to another, whatever channels they are of; within a launch they are
//! put in the order of their channels. So the n-th message out of one rank meets the n-th that the other takes from it, and these
//! must be the same one. It is complete once the launches of both its ends have begun: transfers of one launch do not hold up each
//! other, as NCCL's manual has it (\"Point-to-point communication\": calls within a group progress independently). The launch
//! behind begins when the one before has ended.
//!
//! Whether all launches end is decided exactly, by one run that goes as far as it can: what is complete stays so, and nothing
//! chooses. Computations and waits add nothing to it: what a rank waits for, it has posted before, and so it stands before in the
//! order anyway.

use std::collections::BTreeMap;
use std::fmt;

use crate::deps::Message;
use crate::ids::Rank;
use crate::program::{Action, Program, Role, Transfer};

/// A launch: what one post starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The rank.
    pub rank: Rank,
    /// The index of its action.
    pub step: usize,
    /// That action.
    pub action: String,
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} ({})", self.step, self.action)
    }
}

/// A link of a circle: a launch that holds up another one of its rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// The launch that comes first. It has something to exchange with the launch that is held up in the next link.
    pub by: Launch,
    /// The one behind it.
    pub what: Launch,
}

/// Why a program cannot run on one communicator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupedError {
    /// Two ranks disagree about the order of the messages from one to the other.
    #[error(
        "on one communicator, message {position} from rank {source_rank} to rank {destination} is {} where it is sent, but {} \
         where it is received; {REMEDY}", message_text(*sent), message_text(*received)
    )]
    Order {
        /// The rank that sends.
        source_rank: Rank,
        /// The rank that receives.
        destination: Rank,
        /// The place in their order.
        position: usize,
        /// What is sent there; `None` past the last.
        sent: Option<Message>,
        /// What is received there; `None` past the last.
        received: Option<Message>,
    },
    /// Launches that wait for each other.
    #[error("on one communicator, launches wait for each other: {}; {REMEDY}", circle_text(circle))]
    Circle {
        /// In turn; after the last comes the first.
        circle: Vec<HeldUp>,
    },
}

/// What works instead.
const REMEDY: &str = "the policies `megatron` and, over two ranks, `megatron-even-odd` keep to what one communicator can do, and a \
                      communicator per channel takes every program";

fn message_text(message: Option<Message>) -> String {
    message.map_or_else(|| "missing".to_owned(), |message| format!("the {message}"))
}

fn circle_text(circle: &[HeldUp]) -> String {
    let link = |HeldUp { by, what }: &HeldUp| format!("rank {} launches {by} before {what}", by.rank);
    let links: Vec<String> = circle.iter().map(link).collect();
    format!("{}; of each rank the first exchanges with the second of the next", links.join("; "))
}

/// Whether a program that passes [`verify`](super::verify()) also runs on one communicator for all its channels, its posts as
/// launches.
///
/// ```
/// use pp_schedule::lower::{Policy, megatron::{Issue, Overlap}};
/// use pp_schedule::verify::check_grouped;
/// use pp_schedule::{ScheduleConfig, ScheduleSpec};
///
/// let config = ScheduleConfig::new(&ScheduleSpec::new(4, 2, 8))?;
/// let batched = Policy::Megatron(Issue::Batched, Overlap::Off).lower(&config)?;
/// assert!(check_grouped(&batched).is_ok());
/// let error = check_grouped(&Policy::Lanes.lower(&config)?).unwrap_err().to_string();
/// assert!(error.contains("`megatron`"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`GroupedError`], which names the launches.
pub fn check_grouped(program: &Program) -> Result<(), GroupedError> {
    let launches = Launches::of(program);
    launches.agree(program)?;
    Run::new(&launches).go_on().map_err(|stuck| GroupedError::Circle { circle: stuck.told(program) })
}

/// One end of a message's way: the launch it is part of, and where it stands in its rank's table of transfers.
#[derive(Clone, Copy)]
struct End {
    launch: usize,
    transfer: u32,
}

/// The messages from one rank to another, as either end has them.
#[derive(Default)]
struct Way {
    sends: Vec<End>,
    receives: Vec<End>,
}

/// All launches, numbered rank by rank in the order of their posts.
struct Launches {
    /// By number: the rank and the action.
    places: Vec<(Rank, usize)>,
    /// By number: the ends it has, by way and role.
    ends: Vec<Vec<(usize, Role)>>,
    /// By rank: its first number; and the end.
    first: Vec<usize>,
    ways: Vec<Way>,
    /// By way: from where to where.
    between: Vec<(Rank, Rank)>,
}

impl Launches {
    fn of(program: &Program) -> Self {
        let mut known = BTreeMap::<(Rank, Rank), usize>::new();
        let mut launches =
            Self { places: Vec::new(), ends: Vec::new(), first: Vec::new(), ways: Vec::new(), between: Vec::new() };
        for (rank, ranked) in (0..).map(Rank).zip(&program.ranks) {
            launches.first.push(launches.places.len());
            for (step, action) in ranked.actions.iter().enumerate() {
                let Action::Post(index) = *action else { continue };
                let mut posted: Vec<_> = (index..).zip(ranked.posted(index).unwrap_or_default()).collect();
                posted.sort_by_key(|(_, transfer)| program.channels.get(transfer.channel.idx()));
                for (transfer, Transfer { role, peer, .. }) in posted {
                    let between = if *role == Role::Send { (rank, *peer) } else { (*peer, rank) };
                    let way = *known.entry(between).or_insert(launches.ways.len());
                    launches.add(between, way, *role, transfer);
                }
                launches.places.push((rank, step));
                launches.ends.resize_with(launches.places.len(), Vec::new);
            }
        }
        launches.first.push(launches.places.len());
        launches
    }

    /// Adds an end to the launch that is being made.
    fn add(&mut self, between: (Rank, Rank), way: usize, role: Role, transfer: u32) {
        if way == self.ways.len() {
            self.ways.push(Way::default());
            self.between.push(between);
        }
        let launch = self.places.len();
        self.ends.resize_with(launch + 1, Vec::new);
        self.ends[launch].push((way, role));
        let end = End { launch, transfer };
        match role {
            Role::Send => self.ways[way].sends.push(end),
            Role::Receive => self.ways[way].receives.push(end),
        }
    }

    /// Whether both ends of every way have the same messages in the same order.
    fn agree(&self, program: &Program) -> Result<(), GroupedError> {
        for (&(source_rank, destination), Way { sends, receives }) in self.between.iter().zip(&self.ways) {
            let message = |rank: Rank, end: &End| program.ranks[rank.idx()].transfers[end.transfer as usize].message;
            for position in 0..sends.len().max(receives.len()) {
                let sent = sends.get(position).map(|end| message(source_rank, end));
                let received = receives.get(position).map(|end| message(destination, end));
                if sent != received {
                    return Err(GroupedError::Order { source_rank, destination, position, sent, received });
                }
            }
        }
        Ok(())
    }
}

/// A run that goes as far as it can.
struct Run<'a> {
    launches: &'a Launches,
    /// By rank: the launch that has begun and not ended.
    head: Vec<usize>,
    /// By way: how many sends and receives have begun.
    begun: Vec<[usize; 2]>,
    /// By launch: how many of its transfers are not complete.
    open: Vec<usize>,
}

impl<'a> Run<'a> {
    fn new(launches: &'a Launches) -> Self {
        let head = launches.first[..launches.first.len() - 1].to_vec();
        let open = launches.ends.iter().map(Vec::len).collect();
        Self { launches, head, begun: vec![[0, 0]; launches.ways.len()], open }
    }

    /// Itself, where it gets stuck before.
    fn go_on(mut self) -> Result<(), Self> {
        let mut ready: Vec<usize> = (0..self.head.len()).collect();
        while let Some(rank) = ready.pop() {
            if let Some(launch) = self.current(rank) {
                self.begin(launch, &mut ready);
            }
        }
        if (0..self.head.len()).all(|rank| self.current(rank).is_none()) { Ok(()) } else { Err(self) }
    }

    /// The launch of a rank that has begun, unless all have ended.
    fn current(&self, rank: usize) -> Option<usize> {
        (self.head[rank] < self.launches.first[rank + 1]).then_some(self.head[rank])
    }

    /// Begins a launch, which may end it and others, whose ranks are then ready for their next.
    fn begin(&mut self, launch: usize, ready: &mut Vec<usize>) {
        if self.open[launch] == 0 {
            self.end(launch, ready);
        }
        for &(way, role) in &self.launches.ends[launch] {
            let before = self.begun[way].into_iter().min();
            self.begun[way][usize::from(role == Role::Receive)] += 1;
            let (Some(place), after) = (before, self.begun[way].into_iter().min()) else { continue };
            if after > before {
                let Way { sends, receives } = &self.launches.ways[way];
                for launch in [sends[place].launch, receives[place].launch] {
                    self.open[launch] -= 1;
                    if self.open[launch] == 0 {
                        self.end(launch, ready);
                    }
                }
            }
        }
    }

    fn end(&mut self, launch: usize, ready: &mut Vec<usize>) {
        let rank = self.launches.places[launch].0.idx();
        self.head[rank] += 1;
        ready.push(rank);
    }

    /// What the launch that a rank is stuck at waits for: a launch of another rank that has not begun.
    fn waits_for(&self, launch: usize) -> Option<usize> {
        self.launches.ends[launch].iter().find_map(|&(way, role)| {
            let (Way { sends, receives }, [sent, received]) = (&self.launches.ways[way], self.begun[way]);
            match role {
                Role::Send if received < sent => {
                    receives[received..sent].iter().zip(&sends[received..sent]).find(|(_, own)| own.launch == launch)
                }
                Role::Receive if sent < received => {
                    sends[sent..received].iter().zip(&receives[sent..received]).find(|(_, own)| own.launch == launch)
                }
                _ => None,
            }
            .map(|(theirs, _)| theirs.launch)
        })
    }

    /// The circle that it is stuck in.
    fn told(&self, program: &Program) -> Vec<HeldUp> {
        let mut chain: Vec<(usize, usize)> = Vec::new();
        let mut next = (0..self.head.len()).find_map(|rank| self.current(rank)).and_then(|stuck| self.waits_for(stuck));
        while let Some(what) = next {
            let rank = self.launches.places[what].0.idx();
            let Some(by) = self.current(rank) else { break };
            if let Some(start) = chain.iter().position(|&(seen, _)| seen == by) {
                chain.drain(..start);
                break;
            }
            chain.push((by, what));
            next = self.waits_for(by);
        }
        // What led to the circle from outside may have waited for something else of its first link.
        let what = chain.last().and_then(|&(last, _)| self.waits_for(last));
        if let (Some(what), Some(first)) = (what, chain.first_mut()) {
            first.1 = what;
        }
        let launch = |launch: usize| {
            let (rank, step) = self.launches.places[launch];
            let action = program.ranks[rank.idx()].step(step).map(|action| action.to_string()).unwrap_or_default();
            Launch { rank, step, action }
        };
        chain.into_iter().map(|(by, what)| HeldUp { by: launch(by), what: launch(what) }).collect()
    }
}
