//! What leases are called.

/// The label that all of them have, with what they are about: `member`, `shard`.
pub(super) const LEASE_LABEL: &str = "stator.dev/lease";
/// The annotation that says of how many shards the holder knows.
pub(super) const SHARD_COUNT_ANNOTATION: &str = "stator.dev/shards";

const MEMBER_LEASE_PREFIX: &str = "stator-member-";
const SHARD_LEASE_PREFIX: &str = "stator-shard-";
/// The longest that a pod's name is kept of: a lease's name is a DNS name, of at most 253 characters.
const MAX_IDENTITY_LENGTH: usize = 200;

/// The lease of a replica.
pub(super) fn member_lease_name(identity: &str) -> String {
    format!("{MEMBER_LEASE_PREFIX}{identity}")
}

/// The lease of a shard.
pub(super) fn shard_lease_name(shard: u32) -> String {
    format!("{SHARD_LEASE_PREFIX}{shard}")
}

/// The number of the shard that a lease is named after.
pub(super) fn parse_shard_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(SHARD_LEASE_PREFIX)?;
    digits.parse().ok().filter(|number| shard_lease_name(*number) == name)
}

/// Whether a lease is named after this replica.
pub(super) fn is_member_lease_of(name: &str, identity: &str) -> bool {
    name.strip_prefix(MEMBER_LEASE_PREFIX) == Some(identity)
}

/// A name that no other process has, nor the same one after it started anew: what it is called, where that is known, and
/// eight digits by chance.
pub fn unique_identity(called: &str) -> String {
    let mut name: String = called
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .take(MAX_IDENTITY_LENGTH)
        .collect();
    name = name.trim_matches('-').to_owned();
    if name.is_empty() {
        name.push_str("stator");
    }
    let chance: String = uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect();
    format!("{name}-{chance}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_what_they_are_of() {
        assert_eq!(parse_shard_number(&shard_lease_name(12)), Some(12));
        for other in ["stator-shard-", "stator-shard-012", "stator-shard-1x", "stator-shard-+1", "stator-member-1"] {
            assert_eq!(parse_shard_number(other), None, "{other}");
        }
        assert!(is_member_lease_of(&member_lease_name("stator-0-1234"), "stator-0-1234"));
    }

    #[test]
    fn an_identity_is_a_name_whatever_the_machine_is_called() {
        for called in ["stator-7d9f-abc", "Build_Host.example.COM", "", "---", &"ü".repeat(300)] {
            let (one, other) = (unique_identity(called), unique_identity(called));
            assert_ne!(one, other);
            let name = member_lease_name(&one);
            assert!(name.len() <= 253 && !one.starts_with('-'), "{name}");
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
                "{name}"
            );
        }
    }
}
