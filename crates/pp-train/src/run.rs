//! From a configuration to the end of the run: the text, the proofs, the meeting with the other ranks, the training.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use pp_comm::{Endpoint, Fault, Host, HostAddress, HostSpec, JoinSpec, Joined, Member, Secret, join};
use pp_schedule::{Certificate, Rank};
use xxhash_rust::xxh3::Xxh3Default;

use crate::config::TrainConfig;
use crate::data::Text;
use crate::files;
use crate::flight::Flight;
use crate::groups::channels;
use crate::machine::{Machine, all_ready};
#[cfg(feature = "nccl")]
use crate::programs::check_one_communicator;
use crate::programs::{OwnPrograms, Programs, prove};
use crate::report::{self, Report, say};
use crate::stop::{Stop, Stopped};
use crate::train::train;

/// How long a rank that has no machine waits for the others, to tell them so.
const CONFESSION: Duration = Duration::from_secs(10);

/// How long rank 0 gives the others to hear of a loss before it leaves.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs what a configuration says, to its end or until a rank is asked to stop; with `--dry-run`, everything up to the start.
/// Says where it was stopped, if it was. When it fails, `flight` has what this rank did last written down.
///
/// # Errors
/// [`crate::Failure::of`] tells which kind.
pub fn run(config: &TrainConfig, stop: &Stop, flight: &Flight) -> Result<Option<Stopped>> {
    let text = Text::load(config)?;
    files::check(config)?;
    // On every rank, so that none waits for one that refuses.
    #[cfg(feature = "nccl")]
    if config.carrier.has_one_communicator() {
        check_one_communicator(&config.plan)?;
    }
    if config.dry_run {
        prove(&config.plan)?;
        say(&report::before(config, &text))?;
        return Ok(None);
    }
    let mut report = Report::new(config, text.unigram_entropy());
    let rank = Rank(config.place.rank());
    let own = OwnPrograms::build(&config.plan, rank)?;
    // Before anything is said of a run that cannot be.
    let machine = Machine::open(config);
    let machine = if config.place.is_alone() { Ok(machine?) } else { machine };
    let certificates = if rank == Rank(0) {
        let certificates = prove(&config.plan)?;
        if machine.is_ok() {
            say(&report::before(config, &text))?;
        }
        certificates
    } else {
        Vec::new()
    };
    let mut run = Run { config, text: &text, stop, flight, report: &mut report };
    if config.place.is_alone() {
        let programs = own.certify(&certificates)?;
        let machine = machine?;
        run.train(programs, &machine, Member::alone(config.timeout), |_| {
            machine.told().map_or(Ok(()), |told| say(&told))
        })
    } else {
        run.meet(own, certificates, machine)
    }
}

/// What a rank goes to the meeting with.
struct Run<'a> {
    config: &'a TrainConfig,
    text: &'a Text,
    stop: &'a Stop,
    flight: &'a Flight,
    report: &'a mut Report,
}

impl Run<'_> {
    /// Meets the others, and trains with them. A rank without a machine meets them too, so that they do not wait for it.
    fn meet(
        &mut self,
        own: OwnPrograms,
        certificates: Vec<Certificate>,
        machine: Result<Machine>,
    ) -> Result<Option<Stopped>> {
        let timeout = self.config.timeout;
        let limit = if machine.is_ok() { timeout } else { timeout.min(CONFESSION) };
        if self.config.place.rank() == 0 {
            return self.host(own, certificates, machine, limit);
        }
        let joined = self.config.place.approach(limit);
        let joined = joined.and_then(|(host, secret)| self.join(&own, host, secret, limit));
        self.joined(own, joined, machine)
    }

    /// Rank 0: where the others meet, and a rank like them.
    fn host(
        &mut self,
        own: OwnPrograms,
        certificates: Vec<Certificate>,
        machine: Result<Machine>,
        limit: Duration,
    ) -> Result<Option<Stopped>> {
        let config = self.config;
        let (listener, ground) = config.place.open(config.timeout)?;
        let (left_behind, own_address) = (ground.clone(), listener.local_addr()?);
        self.stop.on_end_at_once(move || left_behind.withdraw(own_address));
        let spec = HostSpec {
            n_ranks: config.plan.n_ranks(),
            certificates,
            deadline: limit,
            heartbeat: config.heartbeat,
            secret: ground.secret.clone(),
            run_name: config.place.run_name(),
        };
        let host = Host::spawn(listener, spec)?;
        let address = host.address();
        let published = ground.publish(address);
        let joined = published.and_then(|meeting| self.join(&own, meeting, ground.secret.clone(), limit));
        if joined.is_ok() {
            ground.withdraw(address);
        }
        let done = self.joined(own, joined, machine);
        // The others may still be leaving, or have yet to hear of what went wrong.
        let left = host.wait(if done.is_ok() { config.timeout } else { FAREWELL });
        if done.is_err() {
            ground.withdraw(address);
        }
        done.and_then(|done| left.map(|()| done).map_err(anyhow::Error::from))
    }

    fn join(&self, own: &OwnPrograms, host: HostAddress, secret: Option<Secret>, limit: Duration) -> Result<Joined> {
        let config = self.config;
        let spec = JoinSpec {
            host,
            rank: Rank(config.place.rank()),
            n_ranks: config.place.world_size(),
            fingerprints: own.fingerprints(),
            channels: channels(config, own),
            deadline: limit,
            heartbeat: config.heartbeat,
            transports: config.carrier.transports(),
            rough: config.fault.and_then(Fault::rough),
            secret,
            run_name: config.place.run_name(),
            terms: terms(config, self.text),
        };
        Ok(join(&spec)?)
    }

    fn joined(
        &mut self,
        own: OwnPrograms,
        joined: Result<Joined>,
        machine: Result<Machine>,
    ) -> Result<Option<Stopped>> {
        let mut joined = match (joined, machine.as_ref().err()) {
            (Ok(joined), _) => joined,
            // That nobody came is not what this rank failed by.
            (Err(error), None) => return Err(error),
            (Err(_), Some(_)) => return machine.map(|_| None),
        };
        let config = self.config;
        let machine = match config.needs_gpu() {
            true => all_ready(&mut joined.member.control, machine)?,
            false => machine?,
        };
        let programs: Programs = own.certify(&joined.certificates)?;
        self.train(programs, &machine, joined.member, |member| {
            tell_links(member)?;
            config.fault.map_or(Ok(()), |fault| rehearse(fault, &mut member.endpoint))
        })
    }

    fn train(
        &mut self,
        programs: Programs,
        machine: &Machine,
        member: Member,
        begin: impl FnOnce(&mut Member) -> Result<()>,
    ) -> Result<Option<Stopped>> {
        let &mut Self { config, text, stop, flight, ref mut report } = self;
        flight.arm(config, &member)?;
        let mut member = machine.carry(config, member).map_err(|error| flight.failed_alone(error))?;
        let done = begin(&mut member).and_then(|()| train(config, text, machine, programs, &mut member, stop, report));
        let outcome = done.map_err(|error| flight.failed(&mut member.control, error))?;
        if let Some(fault) = config.fault.filter(|_| member.endpoint.has_fault_left()) {
            let never =
                format!("rehearsal: --inject-fault {fault} did not come: this rank's run ended before its place");
            say(&never)?;
        }
        member.close();
        Ok(outcome.stopped)
    }
}

/// Has rank 0 say what the links between ranks go over, each counted at the rank where it ends.
fn tell_links(member: &mut Member) -> Result<()> {
    let (endpoint, rank) = (&member.endpoint, member.control.rank());
    let ending = endpoint.channels().iter().filter(|channel| channel.destination == rank);
    let mine: Vec<&str> = ending.filter_map(|&channel| endpoint.transport_of(channel)).collect();
    let parts = member.control.all_gather(mine.join("\n").as_bytes())?;
    if rank != Rank(0) {
        return Ok(());
    }
    let mut counts = BTreeMap::<String, usize>::new();
    for part in &parts {
        for name in String::from_utf8_lossy(part).lines() {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    let counts: Vec<String> = counts.iter().map(|(name, n)| format!("{n} over {name}")).collect();
    say(&format!("links between ranks: {}", if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }))
}

/// Has a failure rehearsed; the rank that it is done to says so, lest somebody take it for a real one.
fn rehearse(fault: Fault, endpoint: &mut Endpoint) -> Result<()> {
    endpoint.inject(fault);
    if fault.rank().is_none_or(|rank| rank == endpoint.rank()) {
        say(&format!("rehearsal: --inject-fault {fault}"))?;
    }
    Ok(())
}

/// What every rank must have been started with alike: the arguments that decide what is done, and the text.
fn terms(config: &TrainConfig, text: &Text) -> u128 {
    let mut hash = Xxh3Default::new();
    hash.update(config.what_is_trained().as_bytes());
    hash.update(format!("{:?}", config.trace.as_ref().map(|trace| trace.iteration)).as_bytes());
    hash.update(text.bytes());
    hash.digest128()
}
