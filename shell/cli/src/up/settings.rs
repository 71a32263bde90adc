//! How the nodes of a group run, as opposed to what the group is: options that may differ from start to start.
//!
//! An option that is given holds from this start on; one that is left out stays as the directory has it. What cannot
//! change in a directory is refused in `plan`.

use super::UpArgs;
use clap::ValueEnum;
use quorate_node::{NodeConfig, NodeStatus, ObjectConfig, ReadChecksConfig, SandboxConfig};
use serde_json::{Value, json};
use std::net::SocketAddrV4;

/// Which reads are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum CheckReadsArg {
    /// The first of each method and a sample.
    Sample,
    /// All, for tests.
    All,
}

/// Whether the kernel keeps the host process from files, sockets, signals and programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SandboxArg {
    /// As far as the kernel can.
    On,
    /// Not at all, for objects that read files.
    Off,
}

/// Bytes as people write them: a number with MiB or GiB, or `none` for no limit, which is 0.
pub(crate) fn memory(word: &str) -> Result<u64, String> {
    let wrong = || "takes a number with MiB or GiB, at least 128MiB, or none".to_owned();
    if word == "none" {
        return Ok(0);
    }
    let unit_at = word.find(|letter: char| !letter.is_ascii_digit());
    let (number, unit) = word.split_at(unit_at.ok_or_else(wrong)?);
    let unit: u64 = match unit.trim() {
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(unit).ok_or_else(wrong)?;
    // The upper end is what TOML can write.
    let may_be = 128 << 20..=i64::MAX.cast_unsigned();
    may_be.contains(&bytes).then_some(bytes).ok_or_else(wrong)
}

/// Steps of a call; the upper end is what TOML can write.
pub(crate) fn steps(word: &str) -> Result<u64, String> {
    let steps: Option<u64> = word.parse().ok();
    let wrong =
        || "takes a number of steps, such as 50000000, or 0 for as many as a call likes".to_owned();
    steps
        .filter(|steps| i64::try_from(*steps).is_ok())
        .ok_or_else(wrong)
}

/// The name of a package: the first part of its modules' names.
pub(crate) fn package(word: &str) -> Result<String, String> {
    let mut letters = word.chars();
    let is_name = letters
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_alphanumeric() || letter == '_');
    if is_name {
        Ok(word.to_owned())
    } else {
        Err("takes the name of a package, without dots, such as networkx".to_owned())
    }
}

/// An address where datagrams reach all nodes of a group.
pub(crate) fn multicast(word: &str) -> Result<SocketAddrV4, String> {
    let advice = "takes an IPv4 multicast address with a port, such as 239.1.2.3:7600";
    let address: SocketAddrV4 = word.parse().map_err(|_| advice.to_owned())?;
    match address.ip().is_multicast() && address.port() > 0 {
        true => Ok(address),
        false => Err(advice.to_owned()),
    }
}

/// Takes the options of this start over into a node's configuration.
pub(super) fn apply(args: &UpArgs, object: &ObjectConfig, config: &mut NodeConfig) {
    // The module was found here, so the nodes must find it here too.
    config.objects[0].path.clone_from(&object.path);
    if let Some(python) = &args.python {
        config.python = Some(python.clone());
    }
    if let Some(seconds) = args.call_timeout {
        config.call_timeout = seconds;
    }
    if let Some(steps) = args.budget {
        config.objects[0].budget = steps;
    }
    if let Some(bytes) = args.host_memory {
        config.host_memory = bytes;
    }
    if !args.allow.is_empty() {
        config.allow.clone_from(&args.allow);
    }
    if let Some(sandbox) = args.sandbox {
        config.sandbox = match sandbox {
            SandboxArg::On => SandboxConfig::On,
            SandboxArg::Off => SandboxConfig::Off,
        };
    }
    if let Some(checks) = args.check_reads {
        config.check_reads = match checks {
            CheckReadsArg::Sample => ReadChecksConfig::Sample,
            CheckReadsArg::All => ReadChecksConfig::All,
        };
    }
    if let Some(slots) = args.speculation {
        config.limits.speculation = slots.into();
    }
    if args.multicast.is_some() {
        config.limits.multicast = args.multicast;
    }
    config.snapshot.enabled = !args.no_snapshot;
}

/// The settings as `up` prints them for people.
pub(super) fn words(config: &NodeConfig, statuses: &[NodeStatus]) -> String {
    if config
        .host_config()
        .objects
        .iter()
        .all(|object| object.is_rust())
    {
        return String::new();
    }
    let timeout = if config.call_timeout.is_finite() {
        format!("{} s", config.call_timeout)
    } else {
        "as long as it likes".to_owned()
    };
    let memory = match config.host_memory {
        0 => "as much memory as there is".to_owned(),
        bytes => format!("{} MiB of memory", bytes >> 20),
    };
    let sandbox = statuses.iter().find_map(|status| status.sandbox.as_deref());
    format!(
        "a call may take {timeout} (--call-timeout), its host {memory} (--host-memory); sandbox: {} (--sandbox)\n",
        sandbox.unwrap_or("unknown")
    )
}

/// The settings as `up` prints them for scripts.
pub(super) fn json(config: &NodeConfig) -> Value {
    json!({
        // JSON has no infinity: null is never.
        "call_timeout": config.call_timeout.is_finite().then_some(config.call_timeout),
        "budget": config.objects[0].budget,
        "host_memory": config.host_memory,
        "sandbox": config.sandbox,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_one_name_without_dots() {
        assert_eq!(package("networkx"), Ok("networkx".to_owned()));
        for word in ["", "networkx.classes", "3d", "a-b", "a b"] {
            assert!(package(word).is_err(), "{word}");
        }
    }

    #[test]
    fn steps_are_a_number_that_may_be_zero() {
        assert_eq!(steps("0"), Ok(0));
        assert_eq!(steps("50000000"), Ok(50_000_000));
        for word in ["", "-1", "many", "1e6", "9223372036854775808"] {
            assert!(steps(word).is_err(), "{word}");
        }
    }

    #[test]
    fn memory_is_written_with_a_unit() {
        assert_eq!(memory("4GiB"), Ok(4 << 30));
        assert_eq!(memory("512 MiB"), Ok(512 << 20));
        assert_eq!(memory("none"), Ok(0));
        for word in [
            "",
            "4",
            "GiB",
            "1MiB",
            "4GB",
            "-1GiB",
            "99999999999999999999GiB",
            "9999999999GiB",
        ] {
            assert!(memory(word).is_err(), "{word}");
        }
    }
}
