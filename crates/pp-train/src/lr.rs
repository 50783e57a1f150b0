//! The learning rate: linear warmup, then half a cosine down to the last step's.

use std::f64::consts::PI;

/// A learning rate for each step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LrSchedule {
    /// The highest rate, reached at the end of the warmup.
    pub peak: f64,
    /// The rate of the last step.
    pub min: f64,
    /// Steps of warmup; the first has `peak / warmup`, not 0.
    pub warmup: u32,
    /// All steps.
    pub total: u32,
}

impl LrSchedule {
    /// The rate of a step, 0-based. Past the last step it stays at the minimum.
    pub fn at(&self, iteration: u32) -> f64 {
        let done = f64::from(iteration) + 1.0;
        let (warmup, total) = (f64::from(self.warmup), f64::from(self.total));
        if done <= warmup {
            return self.peak * done / warmup;
        }
        if done >= total {
            return self.min;
        }
        let progress = (done - warmup) / (total - warmup);
        self.min + (self.peak - self.min) * 0.5 * (1.0 + (PI * progress).cos())
    }
}

#[cfg(test)]
mod tests {
    use super::LrSchedule;

    #[test]
    fn warms_up_and_comes_down() {
        let lr = LrSchedule { peak: 1.0, min: 0.1, warmup: 4, total: 12 };
        assert_eq!((0..4).map(|i| lr.at(i)).collect::<Vec<_>>(), [0.25, 0.5, 0.75, 1.0]);
        assert!((lr.at(7) - 0.55).abs() < 1e-12, "half way down at half the time: {}", lr.at(7));
        assert!((4..12).all(|i| lr.at(i) < lr.at(i - 1)));
        assert_eq!((lr.at(11), lr.at(100)), (0.1, 0.1));
    }

    #[test]
    fn without_warmup_it_starts_near_the_peak_and_with_nothing_else_it_ends_there() {
        let lr = LrSchedule { peak: 1.0, min: 0.0, warmup: 0, total: 100 };
        assert!(lr.at(0) > 0.999);
        let lr = LrSchedule { peak: 1.0, min: 0.0, warmup: 3, total: 3 };
        assert_eq!(lr.at(2), 1.0);
    }
}
