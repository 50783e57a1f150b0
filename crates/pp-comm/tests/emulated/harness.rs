//! A body of work, done by every rank of a run in a process of its own.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use pp_comm::{Group, Host, HostSpec, JoinSpec, Member, NcclSpec, Transports, join};
use pp_schedule::{Channel, Rank};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::common::{HEARTBEAT, Kind, PATIENCE};
use crate::gpu::Gpu;
use crate::place::{self, Part, Place};
use crate::ranks::{self, Dir, End, Ended, VERDICT, Variable};

/// The longest that a run may take, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Where the emulator writes what it finds.
const REPORT: &str = "CUDA_EMULATOR_REPORT";

/// A run to be made.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) kind: Kind,
    pub(crate) n_ranks: u32,
    pub(crate) channels: Vec<Channel>,
    /// For all waits, and for the rendezvous.
    pub(crate) deadline: Duration,
    /// How long a rank may be silent.
    pub(crate) heartbeat: Duration,
    /// What the processes find in their environment; what is for one rank, only its own.
    pub(crate) env: Vec<Variable>,
    /// More of that, made where the run has its directory.
    pub(crate) prepare: fn(&Path) -> Vec<Variable>,
    /// The groups whose collectives take tensors on devices: number and ranks.
    pub(crate) groups: Vec<(u32, Vec<u32>)>,
    /// What the emulator may report, by its kind.
    pub(crate) reported: &'static [&'static str],
    /// The longest that it may take; none that passes takes it.
    pub(crate) limit: Duration,
}

/// What became of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// By rank.
    pub(crate) ended: Ended,
    /// What the emulator found.
    pub(crate) report: String,
}

impl Outcome {
    /// That the emulator found nothing, or only things of these kinds.
    fn check_report(&self, expected: &[&str]) {
        let kinds = self.report.lines().filter_map(|line| line.strip_prefix("violation: "));
        let others: Vec<&str> = kinds.filter(|kind| !expected.contains(kind)).collect();
        assert!(others.is_empty(), "the emulator found {others:?}\n{}{}", self.ended.words, self.report);
    }

    /// What the ranks gave, where all ended in good order.
    pub(crate) fn said<R: DeserializeOwned>(&self) -> Vec<R> {
        let said = self.ended.ends.iter().map(|end| match end {
            End::Said(text) => serde_json::from_str(text).expect("what a rank says is JSON"),
            other => panic!("a rank ended so: {other:?}\n{}{}", self.ended.words, self.report),
        });
        said.collect()
    }
}

/// A rank that has joined the run.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) member: Member,
    kind: Kind,
    groups: Vec<Group>,
}

/// A rank at work.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) member: Member,
    /// None where the kind has none.
    pub(crate) gpu: Option<Gpu>,
}

impl Joined {
    /// The rank at work, over what the run's kind says.
    ///
    /// # Errors
    /// Why there is no NCCL for it.
    pub(crate) fn try_seat(self) -> Result<Seat, String> {
        let Self { member, kind, groups } = self;
        let Kind::Nccl(way) = kind else { return Ok(Seat { member, gpu: None }) };
        let gpu = Gpu::of(member.endpoint.rank()).map_err(|error| error.to_string())?;
        let spec = NcclSpec { groups, ..gpu.spec(way) };
        let member = member.over_nccl(spec).map_err(|error| error.to_string())?;
        Ok(Seat { member, gpu: Some(gpu) })
    }

    /// The same where nothing is to go wrong.
    pub(crate) fn seat(self) -> Seat {
        let rank = self.member.endpoint.rank();
        self.try_seat().unwrap_or_else(|error| {
            panic!(
                "rank {rank} has no NCCL: {error} (`cargo xtask ci emulator` runs these tests with the emulated driver)"
            )
        })
    }
}

impl Run {
    pub(crate) fn new(kind: Kind, n_ranks: u32, channels: &[Channel]) -> Self {
        Self {
            kind,
            n_ranks,
            channels: channels.to_vec(),
            deadline: PATIENCE,
            heartbeat: HEARTBEAT,
            env: Vec::new(),
            prepare: |_| Vec::new(),
            groups: Vec::new(),
            reported: &[],
            limit: LIMIT,
        }
    }

    /// Has every rank do `body`; gives what they gave, in the order of ranks.
    ///
    /// # Panics
    /// When a rank does not end in good order, or the emulator finds something.
    pub(crate) fn all<R: Serialize + DeserializeOwned>(&self, body: impl Fn(Seat) -> R) -> Vec<R> {
        let given = self.within(
            |joined| body(joined.seat()),
            |outcome| {
                let said: Vec<serde_json::Value> = outcome.said();
                outcome.check_report(self.reported);
                said
            },
        );
        given.into_iter().map(|value| serde_json::from_value(value).expect("what the rank gave")).collect()
    }

    /// Has every rank do `body`, however that ends; `look` makes something of it.
    pub(crate) fn within<R: Serialize, T: Serialize + DeserializeOwned>(
        &self,
        body: impl Fn(Joined) -> R,
        look: impl FnOnce(Outcome) -> T,
    ) -> T {
        let place = Place::of_run();
        let Some(part) = place::part() else {
            let given = look(self.start(&place));
            place::keep(place, serde_json::to_value(&given).expect("JSON"));
            return given;
        };
        if part.place == place {
            self.take(part, body);
        }
        match part.given_by(&place) {
            Some(value) => serde_json::from_value(value).expect("what the run gave"),
            // Another thread of this process has the part.
            None => loop {
                std::thread::park();
            },
        }
    }

    /// In the test's process: starts the ranks' and waits for them.
    fn start(&self, place: &Place) -> Outcome {
        let dir = Dir::new();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let spec = HostSpec {
            n_ranks: self.n_ranks,
            certificates: Vec::new(),
            deadline: self.deadline,
            heartbeat: self.heartbeat,
            secret: None,
            run_name: String::new(),
        };
        let host = Host::spawn(listener, spec).expect("a host");
        let part = |rank| {
            let (place, given) = (place.clone(), place::given_in(place.test()));
            Part { place, rank, host: host.address(), dir: dir.path().to_owned(), given }
        };
        let parts: Vec<Part> = (0..self.n_ranks).map(part).collect();
        let report = dir.path().join("report");
        let mut env = vec![(None, REPORT, report.display().to_string())];
        env.extend(self.env.iter().cloned());
        env.extend((self.prepare)(dir.path()));
        let ended = ranks::run(&parts, &env, self.limit);
        // Whether they left in good order is for their processes to say.
        let _ = host.wait(PATIENCE);
        Outcome { ended, report: std::fs::read_to_string(report).unwrap_or_default() }
    }

    /// In a rank's process: does its part, says what comes of it, and ends.
    fn take<R: Serialize>(&self, part: &Part, body: impl Fn(Joined) -> R) -> ! {
        set_parent_process_death_signal(Some(Signal::KILL)).expect("it can be asked for");
        let given = body(self.join(part));
        println!("{VERDICT}{}", serde_json::to_string(&given).expect("JSON"));
        std::process::exit(0)
    }

    fn join(&self, part: &Part) -> Joined {
        let spec = JoinSpec {
            host: part.host.into(),
            rank: Rank(part.rank),
            n_ranks: self.n_ranks,
            fingerprints: Vec::new(),
            channels: self.channels.clone(),
            deadline: self.deadline,
            heartbeat: self.heartbeat,
            transports: Transports::Auto,
            rough: None,
            terms: 0,
            secret: None,
            run_name: String::new(),
        };
        let member = join(&spec).unwrap_or_else(|error| panic!("rank {} cannot join: {error}", part.rank)).member;
        let group =
            |(id, ranks): &(u32, Vec<u32>)| Group::new(*id, ranks.iter().copied().map(Rank).collect(), spec.rank);
        let groups = self.groups.iter().filter_map(group).collect();
        Joined { member, kind: self.kind, groups }
    }
}
