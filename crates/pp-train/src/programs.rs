//! The two programs of a run: a training step and a validation step. Rank 0 proves both whole; every rank builds its own
//! part and checks it against the proof.

use anyhow::{Context, Result};
use pp_schedule::lower::lanes;
use pp_schedule::{Certificate, CertifiedProgram, Channel, Fingerprint, Rank, RankProgram, ScheduleConfig, verify};

/// Builds and verifies both programs for all ranks; their certificates, training first.
///
/// # Errors
/// When one does not verify, which is a fault of its generator.
pub fn prove(schedule: &ScheduleConfig) -> Result<Vec<Certificate>> {
    let programs = [("training", *schedule), ("validation", schedule.to_forward_only())];
    let prove = |(name, schedule)| {
        let verified =
            verify(lanes::lower(&schedule)).with_context(|| format!("the {name} program does not verify"))?;
        Ok(verified.certificate())
    };
    programs.into_iter().map(prove).collect()
}

/// One rank's part of both programs, built by itself and not yet known to be part of a proved whole.
#[derive(Clone, Debug)]
pub struct OwnPrograms {
    training: (RankProgram, Vec<Channel>),
    validation: (RankProgram, Vec<Channel>),
}

/// One rank's part of both programs, fit to run.
#[derive(Clone, Debug)]
pub struct Programs {
    pub(crate) training: CertifiedProgram,
    pub(crate) validation: CertifiedProgram,
}

impl OwnPrograms {
    /// Builds a rank's part.
    pub fn build(schedule: &ScheduleConfig, rank: Rank) -> Self {
        Self {
            training: lanes::lower_rank(schedule, rank),
            validation: lanes::lower_rank(&schedule.to_forward_only(), rank),
        }
    }

    /// The channels of both: those of training, as validation only goes forward.
    pub fn channels(&self) -> Vec<Channel> {
        self.training.1.clone()
    }

    /// What was built, training first.
    pub fn fingerprints(&self) -> Vec<Fingerprint> {
        [&self.training, &self.validation].map(|(program, channels)| Fingerprint::of(program, channels)).to_vec()
    }

    /// Checks both against what [`prove`] gave.
    ///
    /// # Errors
    /// When they are not part of what was proved.
    pub fn certify(self, certificates: &[Certificate]) -> Result<Programs> {
        let [training, validation] = certificates else {
            anyhow::bail!("two programs need two certificates, not {}", certificates.len());
        };
        Ok(Programs {
            training: training.certify(self.training.0, self.training.1)?,
            validation: validation.certify(self.validation.0, self.validation.1)?,
        })
    }
}
