//! The certificate: how a rank that built its own program knows that it is part of a verified whole.

use xxhash_rust::xxh3::Xxh3Default;

use crate::ids::{Direction, Rank};
use crate::program::{Action, Carries, Channel, Mark, Program, RankProgram, Role, Slot};

/// A hash of everything that one rank's program says, and of the channels it says it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u128);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Fingerprint {
    /// The fingerprint of a rank's program over its channels. Equal on every machine.
    pub fn of(program: &RankProgram, channels: &[Channel]) -> Self {
        let mut hash = Words(Xxh3Default::new());
        hash.word(program.rank.0);
        hash.len(channels.len());
        for channel in channels {
            hash.words([channel.source.0, channel.destination.0, carries_word(channel.carries), channel.queue]);
        }
        hash.len(program.actions.len());
        for action in &program.actions {
            hash.words(match *action {
                Action::Compute(index) => [0, index],
                Action::Post(index) => [1, index],
                Action::Wait(index) => [2, index],
                Action::Free(slot) => [3, slot_word(Some(slot))],
                Action::Mark(Mark::SyncOff) => [4, 0],
                Action::Mark(Mark::SyncOn) => [4, 1],
                Action::Mark(Mark::Finalize) => [4, 2],
                Action::Mark(Mark::SyncGradients(chunk)) => [5, chunk.0],
                Action::Mark(Mark::SyncParameters(chunk)) => [6, chunk.0],
            });
        }
        hash.len(program.computes.len());
        for compute in &program.computes {
            let work = compute.work;
            hash.words([
                work.kind as u32,
                work.stage.0,
                work.microbatch.0,
                compute.recompute as u32,
                compute.overlaps_next.into(),
            ]);
            hash.words([compute.saved, compute.input, compute.output].map(slot_word));
        }
        hash.len(program.transfers.len());
        for transfer in &program.transfers {
            let message = transfer.message;
            hash.words([
                u32::from(transfer.role == Role::Receive),
                u32::from(transfer.releases),
                u32::from(transfer.ends_post),
                u32::from(message.direction == Direction::Backward),
                message.stage.0,
                message.microbatch.0,
                transfer.channel.0,
                transfer.peer.0,
                slot_word(Some(transfer.slot)),
            ]);
        }
        Self(hash.0.digest128())
    }
}

fn carries_word(carries: Carries) -> u32 {
    match carries {
        Carries::Only(Direction::Forward) => 0,
        Carries::Only(Direction::Backward) => 1,
        Carries::Both => 2,
    }
}

fn slot_word(slot: Option<Slot>) -> u32 {
    slot.map_or(0, |slot| ((slot.class() as u32) << 29) | (slot.idx() as u32 + 1))
}

struct Words(Xxh3Default);

impl Words {
    fn words<const N: usize>(&mut self, words: [u32; N]) {
        for word in words {
            self.word(word);
        }
    }

    fn word(&mut self, word: u32) {
        self.0.update(&word.to_le_bytes());
    }

    fn len(&mut self, len: usize) {
        self.0.update(&(len as u64).to_le_bytes());
    }
}

/// The fingerprints of all ranks of a verified program, by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    fingerprints: Vec<Fingerprint>,
}

/// Why a program does not fit a certificate, or bytes are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The program is not the one that was verified.
    #[error("rank {rank} built another program than the one verified: fingerprint {built}, verified {verified}")]
    Mismatch {
        /// The rank.
        rank: Rank,
        /// What it built.
        built: Fingerprint,
        /// What was verified.
        verified: Fingerprint,
    },
    /// The certificate does not cover the rank.
    #[error("rank {rank} is not covered by the certificate, which is for {n_ranks} ranks")]
    NoSuchRank {
        /// The rank.
        rank: Rank,
        /// Ranks covered.
        n_ranks: usize,
    },
    /// Bytes that are no certificate.
    #[error("a certificate is 16 bytes per rank, but {len} bytes were given")]
    Length {
        /// Their number.
        len: usize,
    },
}

impl Certificate {
    /// Only a verified program has one.
    pub(crate) fn of(program: &Program) -> Self {
        let fingerprints = program.ranks.iter().map(|rank| Fingerprint::of(rank, &program.channels)).collect();
        Self { fingerprints }
    }

    /// The fingerprints, by rank.
    pub fn fingerprints(&self) -> &[Fingerprint] {
        &self.fingerprints
    }

    /// 16 bytes per rank, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.fingerprints.iter().flat_map(|fingerprint| fingerprint.0.to_le_bytes()).collect()
    }

    /// A certificate as [`Certificate::to_bytes`] wrote it. Whoever sent the bytes is trusted to have verified.
    ///
    /// # Errors
    /// [`CertificateError::Length`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CertificateError> {
        let (chunks, rest) = bytes.as_chunks::<16>();
        if chunks.is_empty() || !rest.is_empty() {
            return Err(CertificateError::Length { len: bytes.len() });
        }
        Ok(Self { fingerprints: chunks.iter().map(|chunk| Fingerprint(u128::from_le_bytes(*chunk))).collect() })
    }

    /// A rank's own program, fit to be executed if it is the one that was verified.
    ///
    /// # Errors
    /// [`CertificateError`] when it is not.
    pub fn certify(&self, program: RankProgram, channels: Vec<Channel>) -> Result<CertifiedProgram, CertificateError> {
        let rank = program.rank;
        let n_ranks = self.fingerprints.len();
        let &verified = self.fingerprints.get(rank.idx()).ok_or(CertificateError::NoSuchRank { rank, n_ranks })?;
        let built = Fingerprint::of(&program, &channels);
        if built != verified {
            return Err(CertificateError::Mismatch { rank, built, verified });
        }
        Ok(CertifiedProgram::trusted(program, channels))
    }
}

/// A rank's program that is known to be part of a verified whole: the only thing an executor takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedProgram {
    program: RankProgram,
    channels: Vec<Channel>,
}

impl CertifiedProgram {
    pub(crate) fn trusted(program: RankProgram, channels: Vec<Channel>) -> Self {
        Self { program, channels }
    }

    /// The rank's program.
    pub const fn program(&self) -> &RankProgram {
        &self.program
    }

    /// The channels of the whole program, by id.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }
}
