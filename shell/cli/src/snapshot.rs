//! `quorate snapshot`: every replica takes a snapshot at one agreed slot.

use crate::error::CliError;
use crate::print;
use crate::seconds;
use crate::tls::TlsArgs;
use clap::Args;
use quorate_client::{Answer, Client, DriverOptions, Endpoint, Operation};

/// Take a snapshot on every replica at one agreed slot, and print the slot.
#[derive(Args, Clone, Debug)]
pub(crate) struct SnapshotArgs {
    /// The group, for example quorate://127.0.0.1:7400.
    #[arg(
        long,
        env = "QUORATE_ENDPOINT",
        default_value = "quorate://127.0.0.1:7400"
    )]
    endpoint: String,
    /// Seconds to wait for the answer.
    #[arg(long, default_value_t = 10.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    tls: TlsArgs,
}

pub(crate) fn run(args: &SnapshotArgs, as_json: bool) -> Result<(), CliError> {
    let endpoint: Endpoint = args.endpoint.parse().map_err(CliError::endpoint)?;
    let timeout = seconds::duration(args.timeout);
    let options = DriverOptions {
        timeout,
        tls: args.tls.read()?,
        ..DriverOptions::default()
    };
    let client = Client::connect(&endpoint, options, Some(timeout)).map_err(CliError::connect)?;
    match client
        .perform(Operation::Checkpoint)
        .map_err(CliError::call)?
    {
        Answer::Checkpointed(slot) if as_json => print::line(serde_json::json!({"slot": slot.0}))?,
        Answer::Checkpointed(slot) => print::line(slot.0)?,
        Answer::Called(_) | Answer::Read { .. } => {
            return Err(CliError::failed("the node did not answer with a snapshot"));
        }
    }
    Ok(())
}
