use std::time::Duration;

/// The middle value; the mean of the two middle ones of an even number. Zero of none.
pub fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    let middle = times.len() / 2;
    match times.len() {
        0 => Duration::ZERO,
        odd if odd % 2 == 1 => times[middle],
        _ => (times[middle - 1] + times[middle]) / 2,
    }
}

/// As figures of a report.
pub(crate) fn millis(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|time| time.as_secs_f64() * 1e3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle() {
        let ms = |list: &[u64]| list.iter().map(|n| Duration::from_millis(*n)).collect::<Vec<_>>();
        assert_eq!(median(&[]), Duration::ZERO);
        assert_eq!(median(&ms(&[5])), Duration::from_millis(5));
        assert_eq!(median(&ms(&[9, 1, 5])), Duration::from_millis(5));
        assert_eq!(median(&ms(&[9, 1, 5, 7])), Duration::from_millis(6));
    }
}
