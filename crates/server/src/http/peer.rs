//! Origin of a request: the Unix socket, or an address with or without TLS.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The daemon's socket, whose file mode says who may open it.
    Socket,
    /// This address, not encrypted: it is this machine's.
    Plain(SocketAddr),
    /// This address, encrypted.
    Tls(SocketAddr),
}

impl Peer {
    /// How it came, in one word.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Plain(_) => "plain",
            Self::Tls(_) => "tls",
        }
    }

    /// For the audit log; without the port, which changes.
    pub(crate) fn source(self) -> String {
        match self {
            Self::Socket => String::new(),
            Self::Plain(address) | Self::Tls(address) => address.ip().to_canonical().to_string(),
        }
    }

    /// For counting wrong passwords: the address, of IPv6 the network (RFC 4291 2.5.4), in which one
    /// machine can have as many addresses as it likes.
    pub(crate) fn network(self) -> String {
        match self {
            Self::Socket => String::new(),
            Self::Plain(address) | Self::Tls(address) => match address.ip().to_canonical() {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => {
                    let network = address.to_bits() & !u128::from(u64::MAX);
                    format!("{}/64", Ipv6Addr::from_bits(network))
                }
            },
        }
    }

    /// Whether the request came from another machine.
    pub(crate) fn is_far(self) -> bool {
        match self {
            Self::Socket | Self::Plain(_) => false,
            Self::Tls(address) => !address.ip().to_canonical().is_loopback(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_are_counted_by_address_and_of_ipv6_by_network() {
        for (address, network) in [
            ("10.1.2.3:99", "10.1.2.3"),
            ("[::ffff:10.1.2.3]:99", "10.1.2.3"),
            ("[2001:db8:1:2:3:4:5:6]:99", "2001:db8:1:2::/64"),
        ] {
            assert_eq!(Peer::Tls(address.parse().unwrap()).network(), network);
        }
    }
}
