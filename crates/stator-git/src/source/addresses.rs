//! Which addresses a source may have stator talk to.
//!
//! A tenant names hosts, and stator connects to them from where it runs: from there its own machine can be reached, and
//! what a cloud serves to it alone (tokens of the machine's role). So names are judged by what they resolve to, right
//! before the connection is made, and addresses are judged in every form in which they can be written.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Which addresses may be connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressPolicy {
    /// All: whoever names the host may use this machine.
    #[default]
    Any,
    /// None of this machine, of its link, or of its cloud's metadata. Private networks are allowed: git hosts are there.
    NoLocal,
}

/// What clouds serve to a machine alone, outside of the link-local networks.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

impl AddressPolicy {
    /// Whether an address may be connected to.
    pub fn permits(self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::Any, _) => true,
            (Self::NoLocal, IpAddr::V4(address)) => !is_local_v4(address),
            (Self::NoLocal, IpAddr::V6(address)) => !is_local_v6(address),
        }
    }

    /// Whether a host may be connected to, as far as its name tells: it may be an address.
    pub fn permits_host(self, host: &str) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse().map_or(true, |address| self.permits(address))
    }

    /// The addresses of a host that may be connected to.
    ///
    /// # Errors
    /// When it has none, or none that may be.
    pub(in crate::source) async fn resolve(self, host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        let mut refused = false;
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
            .await?
            .filter(|address| {
                let permitted = self.permits(address.ip());
                refused |= !permitted;
                permitted
            })
            .collect();
        if found.is_empty() && refused { Err(refusal()) } else { Ok(found) }
    }
}

/// That nothing is connected to there. Which address it is would tell a tenant what the cluster's names resolve to.
pub(crate) fn refusal() -> Error {
    Error::new(
        ErrorKind::PermissionDenied,
        "it is a loopback, link-local, multicast or metadata address, which sources may not use",
    )
}

impl Resolve for AddressPolicy {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = *self;
        Box::pin(async move {
            let found = policy.resolve(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    address.is_loopback()
        || address.octets().first() == Some(&0)
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || METADATA_V4.contains(&address)
}

fn is_local_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    let inside = match [a, b, c, d, e, f] {
        // Mapped, and the form before that; NAT64, by its well-known prefix and by local ones; SIIT.
        [0, 0, 0, 0, 0, 0xffff | 0] | [0x64, 0xff9b, 0, 0, 0, 0] | [0, 0, 0, 0, 0xffff, 0] => Some(embedded(g, h)),
        [0x64, 0xff9b, 1, ..] => Some(embedded(g, h)),
        // 6to4, and Teredo, which writes it inverted.
        [0x2002, high, low, ..] => Some(embedded(high, low)),
        [0x2001, 0, ..] => Some(embedded(!g, !h)),
        _ => None,
    };
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unicast_link_local()
        || METADATA_V6.contains(&address)
        || inside.is_some_and(is_local_v4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row S12 of the review: whoever could create a source had the controller ask its own machine and its cloud.
    #[test]
    fn an_address_is_local_in_whatever_form_it_is_written() {
        let local = [
            "127.0.0.1",
            "127.8.9.1",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "::1",
            "::",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::7f00:1",
            "::ffff:0:127.0.0.1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001:0:1:2:3:4:80ff:fffe",
            "fd00:ec2::254",
            "fd20:ce::254",
        ];
        for text in local {
            let address: IpAddr = text.parse().unwrap();
            assert!(!AddressPolicy::NoLocal.permits(address), "{text}");
            assert!(!AddressPolicy::NoLocal.permits_host(text), "{text}");
            assert!(!AddressPolicy::NoLocal.permits_host(&format!("[{text}]")), "{text}");
            assert!(AddressPolicy::Any.permits(address), "{text}");
        }
        let fine = [
            "10.0.0.1",
            "172.16.3.4",
            "192.168.1.1",
            "100.64.0.1",
            "140.82.121.3",
            "2606:50c0::1",
            "fd12:3456::1",
            "::ffff:10.0.0.1",
            "64:ff9b::8.8.8.8",
        ];
        for text in fine {
            assert!(AddressPolicy::NoLocal.permits(text.parse().unwrap()), "{text}");
        }
        assert!(AddressPolicy::NoLocal.permits_host("git.example.com"));
    }

    #[tokio::test]
    async fn a_name_is_judged_by_what_it_resolves_to() {
        let refused = AddressPolicy::NoLocal.resolve("localhost", 443).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        assert!(!AddressPolicy::Any.resolve("localhost", 443).await.unwrap().is_empty());
    }
}
