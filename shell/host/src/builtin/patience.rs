//! How long a caller waits: `blocking` and `timeout` as `threading` reads them.

use crate::arguments::{Arguments, Mistake, NONE, mistake};
use quorate_types::Duration;
use quorate_wire::value::{self, Value};

/// `threading.TIMEOUT_MAX`, the same on every machine.
const LONGEST: f64 = 9_223_372_036.0;

/// Seconds from which on a timeout is none: 95 years.
const ENDLESS: f64 = 3e9;

/// How long a caller waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    /// Not at all.
    None,
    /// For so long.
    For(Duration),
    /// For as long as it takes.
    Endless,
}

impl Patience {
    /// Reads `blocking=True, timeout=None`.
    pub(super) fn read(arguments: &mut Arguments<'_>) -> Result<Patience, Mistake> {
        let is_blocking = match arguments.next_item()? {
            None => true,
            Some(item) => truth(item)?,
        };
        let seconds = match arguments.next_item()? {
            None | Some(NONE) => None,
            Some(item) => Some(number(item)?).filter(|seconds| *seconds != -1.0),
        };
        match seconds {
            None if is_blocking => Ok(Patience::Endless),
            None => Ok(Patience::None),
            Some(_) if !is_blocking => refused("can't specify a timeout for a non-blocking call"),
            Some(seconds) if seconds > LONGEST => {
                let message = "timeout value is too large".to_owned();
                Err(mistake("OverflowError", message))
            }
            Some(seconds) if seconds.is_nan() || seconds < 0.0 => {
                refused("timeout value must be a non-negative number")
            }
            Some(0.0) => Ok(Patience::None),
            Some(seconds) if seconds >= ENDLESS => Ok(Patience::Endless),
            Some(seconds) => Ok(Patience::For(Duration((seconds * 1e9) as u64))),
        }
    }
}

fn refused(message: &str) -> Result<Patience, Mistake> {
    Err(mistake("ValueError", message.to_owned()))
}

fn truth(item: &[u8]) -> Result<bool, Mistake> {
    match value::decode(item) {
        Ok(Value::Bool(truth)) => Ok(truth),
        Ok(Value::Int(number)) => Ok(number != 0),
        Ok(_) | Err(_) => Err(mistake(
            "TypeError",
            "argument `blocking` is not a bool".to_owned(),
        )),
    }
}

fn number(item: &[u8]) -> Result<f64, Mistake> {
    match value::decode(item) {
        Ok(Value::Int(number)) => Ok(number as f64),
        Ok(Value::Float(number)) => Ok(number),
        Ok(_) | Err(_) => {
            let message = "argument `timeout` is not a number of seconds".to_owned();
            Err(mistake("TypeError", message))
        }
    }
}
