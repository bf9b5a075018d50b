//! What leases are called.

/// The label that all of them have, with what they are about: `member`, `shard`.
pub(super) const LABEL: &str = "stator.dev/lease";
/// The annotation that says of how many shards the holder knows.
pub(super) const SHARDS: &str = "stator.dev/shards";

const MEMBER: &str = "stator-member-";
const SHARD: &str = "stator-shard-";
/// The longest that a pod's name is kept of: a lease's name is a DNS name, of at most 253 characters.
const LONGEST: usize = 200;

/// The lease of a replica.
pub(super) fn member(identity: &str) -> String {
    format!("{MEMBER}{identity}")
}

/// The lease of a shard.
pub(super) fn shard(shard: u32) -> String {
    format!("{SHARD}{shard}")
}

/// The number of the shard that a lease is named after.
pub(super) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(SHARD)?;
    digits.parse().ok().filter(|number| shard(*number) == name)
}

/// Whether a lease is named after this replica.
pub(super) fn is_member(name: &str, identity: &str) -> bool {
    name.strip_prefix(MEMBER) == Some(identity)
}

/// A name that no other process has, nor the same one after it started anew: what it is called, where that is known, and
/// eight digits by chance.
pub fn identity(called: &str) -> String {
    let mut name: String = called
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .take(LONGEST)
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
        assert_eq!(number(&shard(12)), Some(12));
        for other in ["stator-shard-", "stator-shard-012", "stator-shard-1x", "stator-shard-+1", "stator-member-1"] {
            assert_eq!(number(other), None, "{other}");
        }
        assert!(is_member(&member("stator-0-1234"), "stator-0-1234"));
    }

    #[test]
    fn an_identity_is_a_name_whatever_the_machine_is_called() {
        for called in ["stator-7d9f-abc", "Build_Host.example.COM", "", "---", &"ü".repeat(300)] {
            let (one, other) = (identity(called), identity(called));
            assert_ne!(one, other);
            let name = member(&one);
            assert!(name.len() <= 253 && !one.starts_with('-'), "{name}");
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
                "{name}"
            );
        }
    }
}
