//! `members` and `known` of `node.toml`: what is refused of them.

use crate::config::MemberConfig;
use quorate_types::NodeSet;

/// Refuses members that nobody could reach, or tell apart.
pub(crate) fn check_members(key: &str, members: &[MemberConfig]) -> Result<(), String> {
    for (index, member) in members.iter().enumerate() {
        let place = format!("{key}[{index}]");
        if member.node >= NodeSet::CAPACITY {
            return Err(format!("{place}.node: {} is not below 64", member.node));
        }
        let mut before = members[..index].iter();
        if before.any(|other| other.node == member.node) {
            return Err(format!("{place}.node: {} appears twice", member.node));
        }
        let port = member
            .address
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() {
            return Err(format!(
                "{place}.address: \"{}\" is not host:port",
                member.address
            ));
        }
    }
    Ok(())
}
