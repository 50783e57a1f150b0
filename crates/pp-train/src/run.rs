//! From a configuration to the end of the run: the text, the proofs, the meeting with the other ranks, the training.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use pp_comm::{
    Control, Host, HostAddress, HostSpec, JoinSpec, Joined, Member, Transports, clear_address, join, publish_address,
    withdraw_address,
};
use pp_schedule::{Certificate, Rank};
use xxhash_rust::xxh3::Xxh3Default;

use crate::config::TrainConfig;
use crate::data::Text;
use crate::files;
use crate::invalid::Invalid;
use crate::programs::{OwnPrograms, Programs, prove};
use crate::report::{self, Report, say};
use crate::train::train;
use crate::world::Place;

/// How long rank 0 gives the others to hear of a loss before it leaves.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long a rank may be silent before it counts as frozen.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Runs what a configuration says; with `--dry-run`, everything up to the start.
///
/// # Errors
/// [`crate::Failure::of`] tells which kind.
pub fn run(config: &TrainConfig) -> Result<()> {
    let text = Text::load(config)?;
    files::check(config)?;
    if config.dry_run {
        prove(&config.plan)?;
        return say(&report::before(config, &text));
    }
    let mut report = Report::new(config, text.unigram_entropy());
    let rank = Rank(config.place.rank());
    let own = OwnPrograms::build(&config.plan, rank)?;
    let certificates = if rank == Rank(0) {
        let certificates = prove(&config.plan)?;
        say(&report::before(config, &text))?;
        certificates
    } else {
        Vec::new()
    };
    match &config.place {
        Place::Alone => {
            let programs = own.certify(&certificates)?;
            let mut member = Member::alone(config.timeout);
            train(config, &text, programs, &mut member, &mut report)?;
            member.close();
            Ok(())
        }
        Place::Ranked { rendezvous_file, .. } if rank == Rank(0) => {
            host_and_train(config, &text, own, certificates, rendezvous_file, &mut report)
        }
        Place::Ranked { rendezvous_file, .. } => {
            let joined = join_as(config, &own, HostAddress::InFile(rendezvous_file.clone()))?;
            train_joined(config, &text, own, joined, &mut report)
        }
    }
}

/// Rank 0: where the others meet, and a rank like them.
fn host_and_train(
    config: &TrainConfig,
    text: &Text,
    own: OwnPrograms,
    certificates: Vec<Certificate>,
    rendezvous_file: &Path,
    report: &mut Report,
) -> Result<()> {
    // An earlier run may have been killed before it took its address back.
    clear_address(rendezvous_file)?;
    let host = start_host(config, certificates)?;
    let address = host.address();
    // Nobody needs the file once all have come or nobody else will; if it stays, the next run finds out that it is old.
    let withdraw = || drop(withdraw_address(rendezvous_file, address));
    let published = publish_address(rendezvous_file, address).map_err(anyhow::Error::from);
    let joined = published.and_then(|()| join_as(config, &own, address.into()));
    if joined.is_ok() {
        withdraw();
    }
    let done = joined.and_then(|joined| train_joined(config, text, own, joined, report));
    // The others may still be leaving, or have yet to hear of what went wrong.
    let left = host.wait(if done.is_ok() { config.timeout } else { FAREWELL });
    if done.is_err() {
        withdraw();
    }
    done.and(left.map_err(anyhow::Error::from))
}

fn start_host(config: &TrainConfig, certificates: Vec<Certificate>) -> Result<Host> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen for the other ranks")?;
    let spec = HostSpec {
        n_ranks: config.plan.n_ranks(),
        certificates,
        deadline: config.timeout,
        heartbeat: HEARTBEAT,
        secret: None,
        run_name: String::new(),
    };
    Ok(Host::spawn(listener, spec)?)
}

fn join_as(config: &TrainConfig, own: &OwnPrograms, host: HostAddress) -> Result<Joined> {
    let spec = JoinSpec {
        host,
        rank: Rank(config.place.rank()),
        n_ranks: config.place.world_size(),
        fingerprints: own.fingerprints(),
        channels: own.channels(),
        deadline: config.timeout,
        heartbeat: HEARTBEAT,
        transports: Transports::Auto,
        rough: None,
        secret: None,
        run_name: String::new(),
    };
    Ok(join(&spec)?)
}

fn train_joined(
    config: &TrainConfig,
    text: &Text,
    own: OwnPrograms,
    joined: Joined,
    report: &mut Report,
) -> Result<()> {
    let programs: Programs = own.certify(&joined.certificates)?;
    let mut member = joined.member;
    agree(&mut member.control, config, text)?;
    train(config, text, programs, &mut member, report)?;
    member.close();
    Ok(())
}

/// Every rank must have been started with the same arguments and the same text.
fn agree(control: &mut Control, config: &TrainConfig, text: &Text) -> Result<()> {
    let mut hash = Xxh3Default::new();
    hash.update(config.what_is_trained().as_bytes());
    hash.update(text.bytes());
    let parts = control.all_gather(&hash.digest128().to_le_bytes())?;
    let other = parts.iter().position(|part| part != &parts[0]);
    if let Some(rank) = other {
        return Err(Invalid(format!(
            "rank {rank} was started with other arguments or another text than rank 0; start every rank with the same"
        ))
        .into());
    }
    Ok(())
}
