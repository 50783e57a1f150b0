//! How transfers are posted and waited for: the flags, and the policy that they come to.

use std::str::FromStr;

use pp_schedule::lower::Policy;
use pp_schedule::lower::megatron::{Issue, Overlap};

use crate::invalid::{Invalid, refuse};

/// The flags of the lowering policy. Of those that say the same thing the last one counts, as in launch scripts.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PolicyArgs {
    /// How transfers are posted and waited for: lanes, megatron or stagger [default: lanes]
    ///
    /// What is computed, and its bits, are the same. lanes: every channel by itself, receives posted early, sends waited for
    /// late. megatron (1f1b, interleaved, none): the exchanges of Megatron-LM, by --p2p-issue and --p2p-overlap; the names of
    /// `pp-schedule show --policy`, such as megatron-overlap, are taken too. stagger: HyperParallel's turns by parity, 1f1b
    /// with at least as many microbatches as ranks; validation then goes by lanes.
    #[arg(long, value_name = "NAME", help_heading = "Pipeline")]
    pub policy: Option<String>,

    /// With --policy megatron, how an exchange is issued: batched, even-odd or ring [default: batched, or even-odd where
    /// exchanges overlap]
    #[arg(long, value_name = "WAY", help_heading = "Pipeline")]
    #[arg(overrides_with_all = ["batch_p2p_communication", "no_batch_p2p_communication"])]
    pub p2p_issue: Option<String>,

    /// With --policy megatron, which exchanges are waited for later: off, steady or warmup-flush [default: off]
    #[arg(long, value_name = "WHICH", help_heading = "Pipeline")]
    #[arg(overrides_with_all = ["overlap_p2p_communication", "overlap_p2p_communication_warmup_flush", "no_overlap_p2p_communication"])]
    pub p2p_overlap: Option<String>,

    /// As --p2p-issue batched
    #[arg(long, help_heading = "Pipeline", overrides_with_all = ["p2p_issue", "no_batch_p2p_communication"])]
    pub batch_p2p_communication: bool,

    /// As --p2p-issue even-odd
    #[arg(long, help_heading = "Pipeline", overrides_with_all = ["p2p_issue", "batch_p2p_communication"])]
    pub no_batch_p2p_communication: bool,

    /// As --p2p-overlap steady
    #[arg(long, help_heading = "Pipeline")]
    #[arg(overrides_with_all = ["p2p_overlap", "overlap_p2p_communication_warmup_flush", "no_overlap_p2p_communication"])]
    pub overlap_p2p_communication: bool,

    /// As --p2p-overlap warmup-flush
    #[arg(long, help_heading = "Pipeline")]
    #[arg(overrides_with_all = ["p2p_overlap", "overlap_p2p_communication", "no_overlap_p2p_communication"])]
    pub overlap_p2p_communication_warmup_flush: bool,

    /// As --p2p-overlap off
    #[arg(long, help_heading = "Pipeline")]
    #[arg(overrides_with_all = ["p2p_overlap", "overlap_p2p_communication", "overlap_p2p_communication_warmup_flush"])]
    pub no_overlap_p2p_communication: bool,
}

impl PolicyArgs {
    /// The first of its flags that is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        if self.policy.is_some() { Some("--policy") } else { self.given_exchange() }
    }

    /// The same of those about Megatron's exchanges.
    fn given_exchange(&self) -> Option<&'static str> {
        let flags = [
            ("--p2p-issue", self.p2p_issue.is_some()),
            ("--p2p-overlap", self.p2p_overlap.is_some()),
            ("--batch-p2p-communication", self.batch_p2p_communication),
            ("--no-batch-p2p-communication", self.no_batch_p2p_communication),
            ("--overlap-p2p-communication", self.overlap_p2p_communication),
            ("--overlap-p2p-communication-warmup-flush", self.overlap_p2p_communication_warmup_flush),
            ("--no-overlap-p2p-communication", self.no_overlap_p2p_communication),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    /// The policy that the flags come to. Whether a schedule can be run so is another question.
    pub(crate) fn resolve(&self) -> Result<Policy, Invalid> {
        let policy = self.policy.as_deref().map_or(Ok(Policy::Lanes), Policy::from_str);
        let policy = policy.map_err(|error| Invalid(error.to_string()))?;
        let (issue, overlap) = (self.issue()?, self.overlap()?);
        match (policy, self.given_exchange()) {
            (Policy::Megatron(named_issue, named_overlap), _) => {
                let overlap = overlap.unwrap_or(named_overlap);
                // As Megatron itself has it: what overlaps is not batched, unless somebody asks for that.
                let usual = if overlap == Overlap::Off { named_issue } else { Issue::EvenOdd };
                Ok(Policy::Megatron(issue.unwrap_or(usual), overlap))
            }
            (policy, None) => Ok(policy),
            (policy, Some(flag)) => {
                refuse!(
                    "{flag} is about Megatron's exchanges, but --policy is {policy}; add --policy megatron, or leave it out"
                )
            }
        }
    }

    fn issue(&self) -> Result<Option<Issue>, Invalid> {
        match &self.p2p_issue {
            Some(name) => Ok(Some(name.parse().map_err(|error| Invalid(format!("--p2p-issue {name}: {error}")))?)),
            None if self.batch_p2p_communication => Ok(Some(Issue::Batched)),
            None if self.no_batch_p2p_communication => Ok(Some(Issue::EvenOdd)),
            None => Ok(None),
        }
    }

    fn overlap(&self) -> Result<Option<Overlap>, Invalid> {
        match &self.p2p_overlap {
            Some(name) => Ok(Some(name.parse().map_err(|error| Invalid(format!("--p2p-overlap {name}: {error}")))?)),
            None if self.overlap_p2p_communication => Ok(Some(Overlap::Steady)),
            None if self.overlap_p2p_communication_warmup_flush => Ok(Some(Overlap::WarmupFlush)),
            None if self.no_overlap_p2p_communication => Ok(Some(Overlap::Off)),
            None => Ok(None),
        }
    }
}

/// A policy as the flags that ask for it.
pub(crate) fn flags(policy: Policy) -> String {
    match policy {
        Policy::Megatron(issue, overlap) => {
            format!("--policy megatron --p2p-issue {issue} --p2p-overlap {overlap}")
        }
        policy => format!("--policy {policy}"),
    }
}
