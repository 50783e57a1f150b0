//! Round numbers along an axis.

/// Multiples of 1, 2 or 5 times a power of ten, from 0 to `max`, at most `most` of them besides 0. Only 0 for an empty
/// axis.
pub(in crate::format) fn ticks(max: f64, most: usize) -> Vec<f64> {
    // An axis of no length, or of none that is known.
    if !max.is_finite() || max <= 0.0 {
        return vec![0.0];
    }
    let rough = max / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| step * (1.0 + 1e-9) >= rough);
    let step = step.unwrap_or(10.0 * power);
    (0..=(max / step * (1.0 + 1e-12)).floor() as usize).map(|n| n as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(27.0, 10), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!(ticks(100.0, 10).len(), 11);
        assert_eq!(ticks(0.25, 3), [0.0, 0.1, 0.2]);
        for most in 1..40 {
            for max in [0.003, 0.7, 1.0, 9.99, 27.0, 1e6, 123_456_789.0] {
                let ticks = ticks(max, most);
                assert!(ticks.len() <= most + 1 && ticks[ticks.len() - 1] <= max * 1.001, "{max} {most} {ticks:?}");
                assert!(most < 3 || ticks.len() >= 2, "{max} {most}");
            }
        }
    }

    #[test]
    fn an_axis_without_length_has_its_zero() {
        for max in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ticks(max, 5), [0.0]);
        }
    }
}
