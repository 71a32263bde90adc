//! Spans of time on the command line: seconds with fractions, checked before anything starts.

use std::time::Duration;

/// The longest span that a command takes: a year, so that no deadline overflows a clock.
const SECONDS_MAX: f64 = 366.0 * 24.0 * 3600.0;

/// A span above zero.
pub(crate) fn span(word: &str) -> Result<f64, String> {
    match word.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => Ok(seconds),
        Ok(_) | Err(_) => Err("takes seconds above 0 and at most a year".to_owned()),
    }
}

/// A span that may be zero.
pub(crate) fn span_or_none(word: &str) -> Result<f64, String> {
    match word.parse() {
        Ok(0.0) => Ok(0.0),
        Ok(_) | Err(_) => span(word),
    }
}

/// A span, or infinity for `never`.
pub(crate) fn span_or_never(word: &str) -> Result<f64, String> {
    match word {
        "never" => Ok(f64::INFINITY),
        _ => span(word).map_err(|error| format!("{error}, or `never`")),
    }
}

/// A span that was checked by [`span`].
pub(crate) fn duration(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_positive_and_no_clock_overflows() {
        assert_eq!(span("0.5"), Ok(0.5));
        for word in ["0", "-1", "nan", "inf", "1e300", "soon", ""] {
            assert!(span(word).is_err(), "{word}");
        }
        assert_eq!(span_or_none("0"), Ok(0.0));
        assert!(span_or_none("-1").is_err());
        assert_eq!(span_or_never("never"), Ok(f64::INFINITY));
        assert!(span_or_never("inf").is_err());
    }
}
