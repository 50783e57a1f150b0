//! Going to the meeting: rank 0 listens and tells the others where, the others learn it.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use pp_comm::{HostAddress, Secret, clear_address, publish_address, withdraw_address};

use super::Place;
use super::meeting::{Address, Meeting};
use super::private::Private;
use crate::invalid::{Invalid, refuse};

/// Pause between two looks for a secret.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Pause between two questions for a name, which may not be known yet.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// What rank 0 has beside the port it listens on.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    pub(crate) secret: Option<Secret>,
    told: Told,
}

/// How the others learn where rank 0 listens.
#[derive(Clone, Debug)]
enum Told {
    InFile(std::path::PathBuf),
    InPrivate(Private),
    /// They know it; and so that all reach it by the same address, rank 0 takes that too.
    Before(Option<SocketAddr>),
}

impl Place {
    /// Rank 0 begins to listen, and leaves what has to be there before its address is.
    ///
    /// # Errors
    /// [`Invalid`] when it cannot listen where it is to; others of the system.
    pub(crate) fn open(&self, limit: Duration) -> Result<(TcpListener, Ground)> {
        match &self.meeting {
            Meeting::Alone => bail!("a rank that is alone meets nobody"),
            Meeting::File { path, listen } => {
                // An earlier run may have been killed before it took its address back.
                clear_address(path)?;
                let listener = bind((listen.ip, listen.port).into())?;
                Ok((listener, Ground { secret: self.secret.clone(), told: Told::InFile(path.clone()) }))
            }
            Meeting::Private { words, listen } => {
                let private = Private::of(&std::env::temp_dir(), words);
                let made = private.make().map_err(anyhow::Error::from).and_then(|()| match self.secret {
                    Some(_) => Ok(()),
                    None => private.leave_secret(),
                });
                made.context("cannot make the directory in which the ranks meet")?;
                let secret = self.secret.clone().map_or_else(|| read_secret(&private), Ok)?;
                clear_address(&private.address())?;
                let listener = bind((listen.ip, listen.port).into())?;
                Ok((listener, Ground { secret: Some(secret), told: Told::InPrivate(private) }))
            }
            Meeting::At { address, bind: ip, from_afar, .. } => {
                let resolved = resolve(address, limit)?;
                let own = ip.map_or(resolved, |ip| (ip, address.port).into());
                if *from_afar && own.ip().is_loopback() {
                    refuse!(
                        "{} is {} on this machine, where other hosts cannot reach it; give --bind with an address of this machine \
                         that they can reach",
                        address.host,
                        own.ip()
                    );
                }
                let listener = bind(own)?;
                let dial = own.ip().is_unspecified().then_some(resolved);
                Ok((listener, Ground { secret: self.secret.clone(), told: Told::Before(dial) }))
            }
        }
    }

    /// Where the others find rank 0, and the secret they share with it.
    ///
    /// # Errors
    /// When there is neither within the limit; others of the system.
    pub(crate) fn approach(&self, limit: Duration) -> Result<(HostAddress, Option<Secret>)> {
        match &self.meeting {
            Meeting::Alone => bail!("a rank that is alone meets nobody"),
            Meeting::File { path, .. } => Ok((HostAddress::InFile(path.clone()), self.secret.clone())),
            Meeting::Private { words, .. } => {
                let private = Private::of(&std::env::temp_dir(), words);
                let secret = self.secret.clone().map_or_else(|| await_secret(&private, limit), Ok)?;
                Ok((HostAddress::InFile(private.address()), Some(secret)))
            }
            Meeting::At { address, .. } => Ok((resolve(address, limit)?.into(), self.secret.clone())),
        }
    }
}

impl Ground {
    /// Tells the others where rank 0 listens; gives the address by which it joins itself.
    pub(crate) fn publish(&self, address: SocketAddr) -> Result<HostAddress> {
        match &self.told {
            Told::InFile(path) => publish_address(path, address)?,
            Told::InPrivate(private) => publish_address(&private.address(), address)?,
            Told::Before(Some(known)) => return Ok((*known).into()),
            Told::Before(None) => {}
        }
        Ok(address.into())
    }

    /// Nobody needs what was told once all have come or nobody else will; if it stays, the next run finds out that it is old.
    pub(crate) fn withdraw(&self, address: SocketAddr) {
        match &self.told {
            Told::InFile(path) => drop(withdraw_address(path, address)),
            Told::InPrivate(private) => private.remove(),
            Told::Before(_) => {}
        }
    }
}

fn read_secret(private: &Private) -> Result<Secret> {
    Ok(Secret::from_file(&private.secret())?)
}

fn await_secret(private: &Private, limit: Duration) -> Result<Secret> {
    let start = Instant::now();
    loop {
        if private.check().context("cannot use the directory in which the ranks meet")? && private.secret().exists() {
            return read_secret(private);
        }
        if start.elapsed() >= limit {
            let path = private.address().display().to_string();
            return Err(pp_comm::RendezvousError::NoAddress { path, limit }.into());
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Listens at exactly this address: whether a port is free shows by taking it.
fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; another process has it: give all ranks another port by --rendezvous-port, or --rendezvous HOST:PORT"
            }
            io::ErrorKind::AddrNotAvailable => {
                "; rank 0 has to run on the machine of that address, or be given --bind with one of its own"
            }
            io::ErrorKind::PermissionDenied => "; give all ranks a port of at least 1024",
            _ => "",
        };
        Invalid(format!("rank 0 cannot listen at {address}: {error}{remedy}")).into()
    })
}

/// The address of a name. Where it has several, all ranks take the first of IP version 4, or the first.
fn resolve(address: &Address, limit: Duration) -> Result<SocketAddr> {
    if let Ok(ip) = address.host.parse::<IpAddr>() {
        return Ok((ip, address.port).into());
    }
    // Asking blocks for as long as the system likes.
    let (send, answer) = mpsc::channel();
    let (question, start) = ((address.host.clone(), address.port), Instant::now());
    let ask = move || loop {
        let found = question.to_socket_addrs().map(|found| found.collect::<Vec<_>>());
        let is_last = found.as_ref().is_ok_and(|found| !found.is_empty());
        if send.send(found).is_err() || is_last || start.elapsed() >= limit {
            return;
        }
        thread::sleep(ASK_EVERY);
    };
    thread::Builder::new().name("resolve".to_owned()).spawn(ask).context("cannot ask for the host of rank 0")?;
    let mut reason = "no answer".to_owned();
    while let Some(left) = limit.checked_sub(start.elapsed()) {
        match answer.recv_timeout(left) {
            Ok(Ok(found)) => match found.iter().find(|found| found.is_ipv4()).or(found.first()) {
                Some(found) => return Ok(*found),
                None => reason = "it has no address".to_owned(),
            },
            Ok(Err(error)) => reason = error.to_string(),
            Err(_) => break,
        }
    }
    Err(Invalid(format!(
        "the host of rank 0, {}, is not known within {limit:?}: {reason}; give --rendezvous HOST:PORT with one that is",
        address.host
    ))
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_said_with_what_to_do() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = bind(taken.local_addr().unwrap()).unwrap_err();
        assert!(error.is::<Invalid>() && error.to_string().contains("--rendezvous-port"), "{error}");
        let elsewhere = bind("192.0.2.1:4711".parse().unwrap()).unwrap_err().to_string();
        assert!(elsewhere.contains("192.0.2.1:4711") && elsewhere.contains("--bind"), "{elsewhere}");
    }

    #[test]
    fn names_are_asked_for_within_a_limit() {
        let address = |host: &str| Address { host: host.to_owned(), port: 9 };
        let limit = Duration::from_millis(300);
        assert!(resolve(&address("localhost"), Duration::from_secs(20)).unwrap().ip().is_loopback());
        assert_eq!(resolve(&address("::1"), limit).unwrap(), "[::1]:9".parse().unwrap());
        let start = Instant::now();
        let error = resolve(&address("no-such-host.invalid"), limit).unwrap_err().to_string();
        assert!(error.contains("no-such-host.invalid") && error.contains("--rendezvous"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
