//! Faults on request: what `CUDA_EMULATOR_FAULTS` asks for.
//!
//! The variable holds faults, with commas between them, each `NAME`, `NAME=NUMBER`, and after it maybe `:rank=R` (only on
//! communicators in which the caller has that rank) and, for `async-error`, `:code=K`. Counts begin at 1 and are those of
//! the process, unless it says otherwise. A word that is not known is an error at the first use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Names the faults.
pub const FAULTS_VAR: &str = "CUDA_EMULATOR_FAULTS";

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process aborts when its n-th NCCL operation is about to run.
    Die,
    /// The communicator fails when its n-th operation is about to run.
    AsyncError,
    /// Every NCCL operation takes n milliseconds longer.
    Slow,
    /// NCCL says that it is of version n.
    Version,
    /// No communicator gets made.
    InitNever,
    /// The death of a peer is not noticed, as where the hardware does not tell.
    SilentDeath,
    /// The n-th `cuStreamWaitEvent` does nothing.
    SkipEventWait,
    /// The first buffer of the n-th NCCL operation is freed as soon as it is launched.
    EarlyFree,
    /// The n-th NCCL operation goes on a stream of its own.
    WrongStream,
    /// The operations of the n-th group of several go as groups of one.
    SplitGroup,
}

impl Fault {
    const ALL: [(&'static str, Self); 10] = [
        ("die", Self::Die),
        ("async-error", Self::AsyncError),
        ("slow", Self::Slow),
        ("version", Self::Version),
        ("init-never", Self::InitNever),
        ("silent-death", Self::SilentDeath),
        ("skip-event-wait", Self::SkipEventWait),
        ("early-free", Self::EarlyFree),
        ("wrong-stream", Self::WrongStream),
        ("split-group", Self::SplitGroup),
    ];

    const fn takes_number(self) -> bool {
        !matches!(self, Self::InitNever | Self::SilentDeath)
    }

    const fn takes_rank(self) -> bool {
        !matches!(self, Self::Version | Self::SkipEventWait)
    }
}

/// One fault that was asked for.
#[derive(Debug)]
struct Asked {
    fault: Fault,
    number: u64,
    rank: Option<usize>,
    code: i32,
    seen: AtomicU64,
}

/// All that was asked for.
#[derive(Debug, Default)]
pub struct Faults(Vec<Asked>);

impl Faults {
    /// What a text asks for.
    ///
    /// # Errors
    /// The first word that is wrong, and what could stand there.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(one).collect::<Result<_, _>>().map(Self)
    }

    fn of(&self, fault: Fault, rank: Option<usize>) -> impl Iterator<Item = &Asked> {
        self.0
            .iter()
            .filter(move |asked| asked.fault == fault && (asked.rank.is_none() || rank.is_none() || asked.rank == rank))
    }

    /// Counts one more, and says whether it is the one that the fault is to strike.
    pub fn strikes(&self, fault: Fault, rank: Option<usize>) -> bool {
        // Every one counts, also after the first that strikes.
        self.of(fault, rank).filter(|asked| asked.seen.fetch_add(1, Ordering::Relaxed) + 1 == asked.number).count() > 0
    }

    /// The error's code, if a communicator's `nth` operation is to fail.
    pub fn async_error(&self, rank: usize, nth: u64) -> Option<i32> {
        self.of(Fault::AsyncError, Some(rank)).find(|asked| asked.number == nth).map(|asked| asked.code)
    }

    /// How much longer an operation takes.
    pub fn delay(&self, rank: usize) -> Duration {
        Duration::from_millis(self.of(Fault::Slow, Some(rank)).map(|asked| asked.number).sum())
    }

    /// The version that NCCL is to say.
    pub fn version(&self) -> Option<i32> {
        self.of(Fault::Version, None).find_map(|asked| i32::try_from(asked.number).ok())
    }

    /// Whether a fault without a count holds for a rank.
    pub fn holds(&self, fault: Fault, rank: usize) -> bool {
        self.of(fault, Some(rank)).next().is_some()
    }
}

fn one(item: &str) -> Result<Asked, String> {
    let mut parts = item.split(':');
    let head = parts.next().unwrap_or_default();
    let (name, number) = head.split_once('=').map_or((head, None), |(name, number)| (name, Some(number)));
    let known = || Fault::ALL.map(|(name, _)| name).join(", ");
    let Some(&(_, fault)) = Fault::ALL.iter().find(|(known, _)| *known == name) else {
        return Err(format!("{FAULTS_VAR}: there is no fault {name:?} (there are: {})", known()));
    };
    let number = match (number, fault.takes_number()) {
        (None, false) => 0,
        (Some(number), true) => whole(item, number)?,
        (None, true) => return Err(format!("{FAULTS_VAR}: {item:?}: {name} needs a number: {name}=1")),
        (Some(_), false) => return Err(format!("{FAULTS_VAR}: {item:?}: {name} takes no number")),
    };
    if number == 0 && fault.takes_number() {
        return Err(format!("{FAULTS_VAR}: {item:?}: counts begin at 1"));
    }
    let mut asked = Asked { fault, number, rank: None, code: 6, seen: AtomicU64::new(0) };
    for option in parts {
        match option.split_once('=') {
            Some(("rank", rank)) if fault.takes_rank() => asked.rank = Some(whole(item, rank)?),
            Some(("code", code)) if fault == Fault::AsyncError => {
                asked.code = whole(item, code)?;
                if !(1..=6).contains(&asked.code) {
                    return Err(format!("{FAULTS_VAR}: {item:?}: codes of errors are 1 to 6"));
                }
            }
            _ => return Err(format!("{FAULTS_VAR}: {item:?}: {name} has no option {option:?}")),
        }
    }
    Ok(asked)
}

fn whole<T: std::str::FromStr>(item: &str, digits: &str) -> Result<T, String> {
    // Stricter than `parse`, which takes a plus sign.
    let number = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
    number.ok_or_else(|| format!("{FAULTS_VAR}: {item:?}: {digits:?} is not a whole number that fits"))
}

/// Those that the environment asks for, as it was at the first use.
///
/// # Errors
/// As [`Faults::parse`].
pub fn asked() -> Result<&'static Faults, String> {
    static ASKED: OnceLock<Result<Faults, String>> = OnceLock::new();
    let asked = ASKED.get_or_init(|| match std::env::var(FAULTS_VAR) {
        Ok(text) => Faults::parse(&text),
        Err(std::env::VarError::NotPresent) => Ok(Faults::default()),
        Err(error) => Err(format!("{FAULTS_VAR}: {error}")),
    });
    asked.as_ref().map_err(Clone::clone)
}

/// Whether this `cuStreamWaitEvent` is to do nothing. Call it once for each. Where the variable cannot be read, it does what
/// it should; [`asked`] says what is wrong.
pub fn skips_event_wait() -> bool {
    asked().is_ok_and(|faults| faults.strikes(Fault::SkipEventWait, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_what_happens() {
        let faults =
            Faults::parse("die=2:rank=1, slow=20,slow=5:rank=0,async-error=3:code=2,version=21000,init-never:rank=4");
        let faults = faults.unwrap();
        assert!(!faults.strikes(Fault::Die, Some(0)) && !faults.strikes(Fault::Die, Some(0)));
        assert!(!faults.strikes(Fault::Die, Some(1)));
        assert!(faults.strikes(Fault::Die, Some(1)));
        assert!(!faults.strikes(Fault::Die, Some(1)));
        assert_eq!(faults.delay(0), Duration::from_millis(25));
        assert_eq!(faults.delay(1), Duration::from_millis(20));
        assert_eq!((faults.async_error(0, 3), faults.async_error(0, 2)), (Some(2), None));
        assert_eq!(faults.version(), Some(21_000));
        assert!(faults.holds(Fault::InitNever, 4) && !faults.holds(Fault::InitNever, 3));
        assert!(!faults.holds(Fault::SilentDeath, 0));
        assert!(Faults::parse("").unwrap().0.is_empty());
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        for (text, says) in [
            ("dye=1", "no fault \"dye\""),
            ("die", "needs a number: die=1"),
            ("die=0", "begin at 1"),
            ("die=+1", "not a whole number"),
            ("die=x", "\"x\""),
            ("init-never=3", "takes no number"),
            ("die=1:code=2", "no option \"code=2\""),
            ("die=1:rank", "no option \"rank\""),
            ("async-error=1:code=7", "1 to 6"),
            ("skip-event-wait=1:rank=0", "no option"),
            ("slow=1,,nonsense", "nonsense"),
        ] {
            let error = Faults::parse(text).unwrap_err();
            assert!(error.starts_with(FAULTS_VAR) && error.contains(says), "{text}: {error}");
        }
    }
}
