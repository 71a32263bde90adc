//! `quorate demo`: kills nodes under four clients. It runs `examples/demo.py` of a checkout, because Python
//! clients are what the demo shows.

use crate::checkout::{CheckoutArgs, Script};
use crate::error::CliError;
use clap::Args;
use std::path::PathBuf;

const SCRIPT: Script = Script {
    path: "examples/demo.py",
    name: "the demo",
    target: "make demo",
};

/// Run the demo of a checkout: a bank account on three nodes that are killed while clients call.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// The directory for the pictures of the timeline.
    #[arg(long, default_value = "out/demo")]
    out: PathBuf,
    #[command(flatten)]
    checkout: CheckoutArgs,
}

/// Becomes the demo's process; returns only when that cannot be started.
pub(crate) fn run(args: &DemoArgs) -> Result<(), CliError> {
    let arguments = ["--out".into(), args.out.clone().into()];
    args.checkout.become_script(&SCRIPT, &arguments)
}
