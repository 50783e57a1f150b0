//! Where the ranks are to meet, by what was typed and what the chosen source says.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use super::claim::{Claim, Ground, Source};
use super::secret;
use crate::args::Args;
use crate::invalid::{Invalid, refuse};

/// Where the ranks meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// There is nobody to meet.
    Alone,
    /// Rank 0 listens where it can and writes its address into a file.
    File { path: PathBuf, listen: Listen },
    /// The same in a directory of this user, which these words tell from those of other runs; the secret lies beside it.
    Private { words: Vec<String>, listen: Listen },
    /// Rank 0 listens at an address that all know.
    At {
        address: Address,
        /// Where rank 0 listens instead, if the address is one that it does not have itself.
        bind: Option<IpAddr>,
        /// Other hosts have to reach it.
        from_afar: bool,
        /// How the address came about.
        rule: String,
    },
}

/// Where rank 0 listens before it tells the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) ip: IpAddr,
    /// 0 where the system is to choose.
    pub(crate) port: u16,
}

/// A host by name or number, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_whole = !host.is_empty() && !host.contains(char::is_whitespace);
        let is_one = !host.contains(':') || host.parse::<IpAddr>().is_ok();
        let port = port.parse().ok().filter(|&port| port > 0)?;
        (is_whole && is_one).then(|| Self { host: host.to_owned(), port })
    }

    /// Whether nobody from another machine can be meant, as far as can be told without asking for the name.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost") || self.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl Meeting {
    /// Decides where the ranks of a world of several meet.
    pub(super) fn new(args: &Args, claim: &Claim) -> Result<Self, Invalid> {
        let listen =
            Listen { ip: args.bind.unwrap_or(Ipv4Addr::LOCALHOST.into()), port: args.rendezvous_port.unwrap_or(0) };
        match (&args.rendezvous_file, &args.rendezvous) {
            (Some(file), Some(address)) => refuse!(
                "--rendezvous-file {} (PP_RENDEZVOUS_FILE) and --rendezvous {address} (PP_RENDEZVOUS) are both given; leave one of \
                 them out",
                file.display()
            ),
            (Some(file), None) => Ok(Self::File { path: file.clone(), listen: published(listen)? }),
            (None, Some(text)) => at_typed(args, claim, text),
            (None, None) => by_source(args, claim, listen),
        }
    }

    /// Whether somebody on another machine can try to connect.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Alone => false,
            Self::File { listen, .. } | Self::Private { listen, .. } => !listen.ip.is_loopback(),
            Self::At { address, bind, .. } => {
                bind.map_or(!address.is_loopback(), |bind| !bind.is_loopback() || !address.is_loopback())
            }
        }
    }

    /// What rank 0 says of it.
    pub(super) fn said(&self) -> String {
        let listens = |listen: &Listen| match (listen.ip, listen.port) {
            (ip, 0) => format!("rank 0 listens on {ip}, on a port that the system chooses"),
            (ip, port) => format!("rank 0 listens on {ip}, port {port}"),
        };
        match self {
            Self::Alone => "nobody to meet".to_owned(),
            Self::File { path, listen } => format!("through {}; {}", path.display(), listens(listen)),
            Self::Private { listen, .. } => format!("through a directory of this user; {}", listens(listen)),
            Self::At { address, bind, rule, .. } => {
                let bind = bind.map_or_else(String::new, |ip| format!("; rank 0 listens on {ip}"));
                format!("at {address} ({rule}){bind}")
            }
        }
    }
}

/// What rank 0 listens on must be something that it can tell the others.
fn published(listen: Listen) -> Result<Listen, Invalid> {
    if listen.ip.is_unspecified() {
        refuse!(
            "--bind {} is no address at which others could reach rank 0; give one of this machine, or --rendezvous HOST:PORT too",
            listen.ip
        );
    }
    Ok(listen)
}

fn at_typed(args: &Args, claim: &Claim, text: &str) -> Result<Meeting, Invalid> {
    let Some(address) = Address::parse(text) else {
        refuse!("--rendezvous {text} (PP_RENDEZVOUS) is not HOST:PORT with a port of at least 1, such as node0:29400");
    };
    if let Some(port) = args.rendezvous_port {
        refuse!("--rendezvous-port {port} is given beside --rendezvous {text} (PP_RENDEZVOUS); leave one of them out");
    }
    let from_afar = claim.hosts.is_none_or(|hosts| hosts > 1) && !address.is_loopback();
    Ok(Meeting::At { address, bind: args.bind, from_afar, rule: "--rendezvous".to_owned() })
}

fn by_source(args: &Args, claim: &Claim, listen: Listen) -> Result<Meeting, Invalid> {
    match &claim.ground {
        Ground::OneHost => {
            let words =
                [claim.source.name().to_owned(), claim.world.value.to_string()].into_iter().chain(claim.run.clone());
            Ok(Meeting::Private { words: words.collect(), listen: published(listen)? })
        }
        Ground::Hosts { host, port, rule } => {
            let (port, rule) = match args.rendezvous_port {
                Some(port) => (port, "--rendezvous-port".to_owned()),
                None => (*port, format!("port {rule}")),
            };
            let address = Address { host: host.clone(), port };
            let from_afar = claim.hosts.is_none_or(|hosts| hosts > 1) && !address.is_loopback();
            Ok(Meeting::At { address, bind: args.bind, from_afar, rule })
        }
        Ground::Unsaid if claim.source == Source::Flags => refuse!(
            "--rank (PP_RANK) and --world-size (PP_WORLD_SIZE) given without --rendezvous-file (PP_RENDEZVOUS_FILE); a world needs \
             all three, or --rendezvous HOST:PORT (PP_RENDEZVOUS) in the file's place"
        ),
        Ground::Unsaid => refuse!(
            "{} says {} and {}, but not where rank 0 is; give every rank --rendezvous HOST:PORT (PP_RENDEZVOUS) with the host of rank \
             0 and a port that is free there",
            claim.source.name(),
            claim.rank,
            claim.world
        ),
    }
}

/// Beyond this machine anybody can connect, so there has to be something that only the ranks know.
pub(super) fn check_secret(meeting: &Meeting, is_given: bool) -> Result<(), Invalid> {
    if meeting.is_open() && !is_given {
        refuse!("the ranks meet {}, where others can connect, but there is no secret; {}", meeting.said(), secret::HOW);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (text, host, port) in [
            ("node0:29400", "node0", 29400),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("[fd00::2]:80", "fd00::2", 80),
            ("::1:80", "::1", 80),
        ] {
            let address = Address::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((address.host.as_str(), address.port), (host, port));
        }
        assert_eq!(Address::parse("[::1]:80").unwrap().to_string(), "[::1]:80");
        for text in ["", "node0", ":80", "node0:", "node0:0", "node0:65536", "node0:x", "a b:1", "node0:1:2"] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
        let is_loopback = |host: &str| Address { host: host.to_owned(), port: 1 }.is_loopback();
        assert!(["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1"].into_iter().all(is_loopback));
        assert!(!["node0", "10.0.0.1", "0.0.0.0", "::"].into_iter().any(is_loopback));
    }
}
