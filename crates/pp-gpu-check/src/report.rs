//! What a run found, as its JSON file has it.

use serde::{Deserialize, Serialize};

/// The number that a change of the fields raises.
pub const FORMAT: u32 = 1;

/// All that a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// This program's version.
    pub version: String,
    /// What it ran on.
    pub ran_on: Ground,
    /// Whether it says anything about a GPU: false on any ground but [`Ground::Cuda`].
    pub counts: bool,
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// How long it took, in seconds.
    pub took_s: f64,
    /// The GPU, if it could be asked.
    pub device: Option<DeviceFacts>,
    /// What was checked, in the order it was.
    pub parts: Vec<Part>,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// How many checks passed.
    pub n_passed: usize,
    /// How many failed.
    pub n_failed: usize,
    /// How many were not made.
    pub n_skipped: usize,
}

/// What checks run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Ground {
    /// A GPU.
    Cuda,
    /// The processor: a rehearsal of what does not concern NCCL.
    Cpu,
    /// The emulated driver: a rehearsal of what concerns NCCL.
    Emulator,
}

impl Ground {
    /// As it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Cpu => "cpu",
            Self::Emulator => "emulator",
        }
    }
}

/// A GPU and what drives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Its name.
    pub name: String,
    /// How many the process may see.
    pub n_devices: usize,
    /// Its compute capability, such as `9.0`.
    pub capability: String,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// The driver's version, where the system tells it.
    pub driver: Option<String>,
    /// The version of NCCL that is loaded, or why there is none.
    pub nccl: Result<String, String>,
}

/// Checks that belong together and share a budget of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// How long it may take, in seconds.
    pub budget_s: f64,
    /// How long it took, in seconds.
    pub took_s: f64,
    /// What was checked, in the order it was.
    pub checks: Vec<Check>,
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Its name, different from all others of its part.
    pub name: String,
    /// What came of it.
    pub outcome: Outcome,
    /// What was seen, why it failed, or why it was skipped. May be empty when it passed.
    pub detail: String,
    /// How long it took, in seconds.
    pub took_s: f64,
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Passed,
    /// Not as it should be, or not done in time.
    Failed,
    /// Not made.
    Skipped,
}

/// Something that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what unit; `1` for shares.
    pub unit: String,
    /// How it was measured.
    pub how: String,
}

impl Report {
    /// Of parts that are done.
    pub fn new(ground: Ground, started_unix_s: u64, took_s: f64, device: Option<DeviceFacts>) -> Self {
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ran_on: ground,
            counts: ground == Ground::Cuda,
            started_unix_s,
            took_s,
            device,
            parts: Vec::new(),
            figures: Vec::new(),
            n_passed: 0,
            n_failed: 0,
            n_skipped: 0,
        }
    }

    /// Adds a part, and counts what is in it.
    pub fn add(&mut self, part: Part) {
        for check in &part.checks {
            *match check.outcome {
                Outcome::Passed => &mut self.n_passed,
                Outcome::Failed => &mut self.n_failed,
                Outcome::Skipped => &mut self.n_skipped,
            } += 1;
        }
        self.parts.push(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, outcome: Outcome) -> Check {
        Check { name: name.to_owned(), outcome, detail: "seen".to_owned(), took_s: 0.5 }
    }

    /// What others read: a change here is a change of the format.
    #[test]
    fn the_file_has_these_fields() {
        let facts = DeviceFacts {
            name: "a GPU".to_owned(),
            n_devices: 1,
            capability: "9.0".to_owned(),
            memory_bytes: 1 << 30,
            driver: None,
            nccl: Ok("2.30.4".to_owned()),
        };
        let mut report = Report::new(Ground::Cuda, 7, 1.5, Some(facts));
        report.version = "0".to_owned();
        let checks =
            vec![check("one", Outcome::Passed), check("two", Outcome::Failed), check("three", Outcome::Skipped)];
        report.add(Part { name: "ops".to_owned(), budget_s: 9.0, took_s: 1.0, checks });
        report.figures.push(Figure { name: "rate".to_owned(), value: 2.5, unit: "1".to_owned(), how: "so".to_owned() });
        let said = serde_json::to_string(&report).unwrap();
        let golden = concat!(
            r#"{"format":1,"version":"0","ran_on":"cuda","counts":true,"started_unix_s":7,"took_s":1.5,"#,
            r#""device":{"name":"a GPU","n_devices":1,"capability":"9.0","memory_bytes":1073741824,"driver":null,"#,
            r#""nccl":{"Ok":"2.30.4"}},"parts":[{"name":"ops","budget_s":9.0,"took_s":1.0,"checks":["#,
            r#"{"name":"one","outcome":"passed","detail":"seen","took_s":0.5},"#,
            r#"{"name":"two","outcome":"failed","detail":"seen","took_s":0.5},"#,
            r#"{"name":"three","outcome":"skipped","detail":"seen","took_s":0.5}]}],"#,
            r#""figures":[{"name":"rate","value":2.5,"unit":"1","how":"so"}],"#,
            r#""n_passed":1,"n_failed":1,"n_skipped":1}"#,
        );
        assert_eq!(said, golden);
        assert_eq!(serde_json::from_str::<Report>(&said).unwrap(), report);
    }

    #[test]
    fn only_a_gpu_counts() {
        assert!(!Report::new(Ground::Cpu, 0, 0.0, None).counts);
        assert!(!Report::new(Ground::Emulator, 0, 0.0, None).counts);
    }
}
