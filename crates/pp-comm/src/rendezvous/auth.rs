//! Who knows the secret: a challenge and a proof each way, over everything that was said before.
//!
//! The same three words open a rank's connection to the host and every link between two ranks:
//!
//! | word | from | what |
//! | --- | --- | --- |
//! | `Hello` or `Link` | the caller | version, world, rank, whether it has a secret, a nonce; then what the frame is for |
//! | `Challenge` | the called | version, whether it has a secret, a nonce, the run |
//! | `Proof` | the caller | HMAC-SHA256 under the secret over the purpose, the caller's role, and both words above |
//! | `Proven` | the called | the same with its own role, once the caller's proof was right |
//! | `Refused` | the called | instead, once it was wrong |
//!
//! A hello names the programs by their fingerprints, a link's first word by a hash over all of them, so that both proofs
//! are over the nonces of both sides, the purpose, the run, the rank, the world, the version and the programs. Nonces of both
//! sides make an old proof worthless; the roles and the purpose make one side's proof worthless for the other side or
//! another use. The called proves nothing before the caller has, and proofs are compared in constant time.
//!
//! Without a secret the same is done under an empty key: that tells runs apart, and keeps nobody out.

use std::io;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::secret::Secret;
use crate::wire::{Fields, Kind, Payload, invalid};

/// Bytes of a nonce, and of a proof.
pub(super) const LEN: usize = 32;

pub(super) type Nonce = [u8; LEN];

/// Stands before everything a proof is made over.
const DOMAIN: &[u8] = b"pp-comm rendezvous proof";

/// A number nobody can foretell.
pub(super) fn nonce() -> io::Result<Nonce> {
    let mut nonce = [0; LEN];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    Ok(nonce)
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Purpose {
    /// A rank's connection to the host.
    Control = 1,
    /// A link from one rank to another.
    Link = 2,
}

impl Purpose {
    /// The first word of such a connection.
    pub(super) const fn first_word(self) -> Kind {
        match self {
            Self::Control => Kind::Hello,
            Self::Link => Kind::Link,
        }
    }
}

/// Whose proof it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Role {
    Caller = 1,
    Called = 2,
}

/// What every first word starts with, in this and all later versions: a rank of another version can be told from a
/// stranger, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) version: u32,
    pub(super) n_ranks: u32,
    pub(super) rank: u32,
    pub(super) has_secret: bool,
    pub(super) nonce: Nonce,
}

impl Greeting {
    pub(super) fn encode(&self) -> Payload {
        let payload = Payload::default().u32(self.version).u32(self.n_ranks).u32(self.rank);
        payload.u32(self.has_secret.into()).array(&self.nonce)
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> io::Result<Self> {
        let (version, n_ranks, rank) = (fields.u32()?, fields.u32()?, fields.u32()?);
        Ok(Self { version, n_ranks, rank, has_secret: flag(fields.u32()?)?, nonce: fields.array()? })
    }
}

/// The answer to a first word, in this and all later versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) version: u32,
    pub(super) has_secret: bool,
    pub(super) nonce: Nonce,
    /// Tells this run from any other.
    pub(super) run: u128,
}

impl Challenge {
    pub(super) fn encode(&self) -> Vec<u8> {
        Payload::default().u32(self.version).u32(self.has_secret.into()).array(&self.nonce).u128(self.run).0
    }

    pub(super) fn decode(payload: &[u8]) -> io::Result<Self> {
        let mut fields = Fields(payload);
        let (version, has_secret) = (fields.u32()?, flag(fields.u32()?)?);
        Ok(Self { version, has_secret, nonce: fields.array()?, run: fields.u128()? })
    }
}

fn flag(value: u32) -> io::Result<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(invalid(format!("{other} where yes or no is said"))),
    }
}

/// What was said before the proofs, as it was on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said<'a> {
    pub(super) purpose: Purpose,
    pub(super) first_word: &'a [u8],
    pub(super) challenge: &'a [u8],
}

impl Said<'_> {
    /// The proof of one side.
    pub(super) fn prove(&self, secret: Option<&Secret>, role: Role) -> [u8; LEN] {
        self.mac(secret, role).finalize().into_bytes().into()
    }

    /// Whether bytes are the proof of one side.
    pub(super) fn is_proof(&self, secret: Option<&Secret>, role: Role, proof: &[u8]) -> bool {
        self.mac(secret, role).verify_slice(proof).is_ok()
    }

    fn mac(&self, secret: Option<&Secret>, role: Role) -> Hmac<Sha256> {
        let key: &[u8] = secret.map_or(&[], |secret| secret.bytes());
        let mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of HMAC may have any length");
        // A key of zeros is no key to HMAC: the word tells them apart.
        let mac = mac.chain_update(DOMAIN).chain_update([self.purpose as u8, role as u8, secret.is_some().into()]);
        [self.first_word, self.challenge].into_iter().fold(mac, |mac, word| {
            // With their lengths, so that no byte can pass from one to the other.
            mac.chain_update((word.len() as u64).to_le_bytes()).chain_update(word)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: Said<'_> = Said { purpose: Purpose::Control, first_word: b"hello, I am 3", challenge: b"prove it" };

    #[test]
    fn a_proof_is_good_for_one_role_purpose_and_exchange_under_one_secret() {
        let secret = Secret::new([7; 32]);
        let proof = SAID.prove(Some(&secret), Role::Caller);
        assert!(SAID.is_proof(Some(&secret), Role::Caller, &proof));
        assert!(!SAID.is_proof(Some(&secret), Role::Called, &proof), "reflected");
        assert!(!SAID.is_proof(Some(&Secret::new([8; 32])), Role::Caller, &proof));
        assert!(!SAID.is_proof(None, Role::Caller, &proof));
        assert!(!SAID.is_proof(Some(&secret), Role::Caller, &proof[..31]), "cut off");
        assert!(!SAID.is_proof(Some(&secret), Role::Caller, &[]));
        for other in [
            Said { purpose: Purpose::Link, ..SAID },
            Said { challenge: b"prove it!", ..SAID },
            Said { first_word: b"hello, I am 3prove", challenge: b" it", ..SAID },
        ] {
            assert!(!other.is_proof(Some(&secret), Role::Caller, &proof));
        }
    }

    #[test]
    fn no_secret_is_none_of_them() {
        let proof = SAID.prove(None, Role::Caller);
        assert!(SAID.is_proof(None, Role::Caller, &proof));
        assert!(!SAID.is_proof(Some(&Secret::new([0; 32])), Role::Caller, &proof));
    }

    #[test]
    fn nonces_differ_and_words_round_trip() {
        let (one, other) = (nonce().expect("randomness"), nonce().expect("randomness"));
        assert_ne!(one, other);
        let greeting = Greeting { version: 5, n_ranks: 4, rank: 3, has_secret: true, nonce: one };
        assert_eq!(Greeting::decode(&mut Fields(&greeting.encode().0)).expect("encoded here"), greeting);
        let challenge = Challenge { version: 5, has_secret: false, nonce: other, run: 1 << 99 };
        assert_eq!(Challenge::decode(&challenge.encode()).expect("encoded here"), challenge);
        let mut bytes = challenge.encode();
        bytes[4] = 2;
        assert!(Challenge::decode(&bytes).is_err(), "neither yes nor no");
    }
}
