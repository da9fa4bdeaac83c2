//! Grouping of client addresses for quotas and rate limits.

use std::net::{IpAddr, Ipv6Addr};

/// What counts as one address: of IPv6 the first 64 bits, since a machine that has one address
/// there has all of its network.
pub(crate) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}
