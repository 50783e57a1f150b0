//! The two programs of a run: a training step and a validation step. Rank 0 proves both whole; every rank builds its own
//! part and checks it against the proof.

use anyhow::Result;
use pp_schedule::lower::PolicyError;
use pp_schedule::{Certificate, CertifiedProgram, Channel, Fingerprint, Rank};

#[cfg(feature = "nccl")]
use crate::invalid::Invalid;
use crate::plan::{OwnProgram, Plan};

/// Builds and verifies both programs for all ranks; their certificates, training first.
///
/// # Errors
/// When one does not verify, which is a fault of its generator.
pub fn prove(plan: &Plan) -> Result<Vec<Certificate>> {
    Ok(plan.verified()?.iter().map(|verified| verified.certificate()).collect())
}

/// By which flags a program is one that one communicator takes.
#[cfg(feature = "nccl")]
const ONE_TAKES: &str = "add --policy megatron (schedules 1f1b, interleaved and none; with --vp over --pp 2 also --p2p-issue even-odd), \
                         or leave --nccl-communicators out";

/// That both programs run with one communicator of NCCL for all channels, of which not every program is content.
///
/// # Errors
/// [`Invalid`], which says who would wait for whom, and what works instead.
#[cfg(feature = "nccl")]
pub(crate) fn check_one_communicator(plan: &Plan) -> Result<()> {
    for verified in plan.verified()? {
        let checked = pp_schedule::verify::check_grouped(verified.program());
        checked.map_err(|error| Invalid(format!("--nccl-communicators one: {error}; {ONE_TAKES}")))?;
    }
    Ok(())
}

/// One rank's part of both programs, built by itself and not yet known to be part of a proved whole.
#[derive(Clone, Debug)]
pub struct OwnPrograms {
    training: OwnProgram,
    validation: OwnProgram,
}

/// One rank's part of both programs, fit to run.
#[derive(Clone, Debug)]
pub struct Programs {
    pub(crate) training: CertifiedProgram,
    pub(crate) validation: CertifiedProgram,
}

impl OwnPrograms {
    /// Builds a rank's part.
    ///
    /// # Errors
    /// [`PolicyError`] where the plan's policy does not take its schedule, which no plan that arguments came to has.
    pub fn build(plan: &Plan, rank: Rank) -> Result<Self, PolicyError> {
        let [training, validation] = plan.own(rank)?;
        Ok(Self { training, validation })
    }

    /// The channels of both, each once. Validation mostly goes over those of training; but where a file says which
    /// transfers share a channel, the lanes of validation are others.
    pub fn channels(&self) -> Vec<Channel> {
        let mut channels = self.training.1.clone();
        let others = self.validation.1.iter().filter(|channel| !self.training.1.contains(channel));
        channels.extend(others);
        channels
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
