//! [`ClientAddress`]: whom a request comes from.
//!
//! The simplest idea is the first address of `X-Forwarded-For`, and it is what most have tried. It breaks on the first client that
//! sends the header itself: every request comes from somebody else, and no limit holds. The last address is no better behind two
//! proxies: everybody is the inner one. And an address is not what it looks like: `1.2.3.4` and `::ffff:1.2.3.4` are one client,
//! and one subscriber's IPv6 network is 2⁶⁴ addresses.
//!
//! So nothing is believed that nobody vouches for. The peer's address is known. If it is a proxy of one's own, it vouches for the
//! last entry that it has written; if that is a proxy of one's own, for the one before it; and so on, to the first that is none:
//! that is the client. What stands left of it is whatever the client liked to send. An entry that cannot be read ends the walk,
//! at the last address that could: never at one further left.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::header::{FORWARDED, HeaderMap, HeaderName};
use ipnet::IpNet;
use thiserror::Error;

/// Finds out whom a request comes from, and what of the address is the client.
///
/// With nothing configured that is the peer, and no header is believed.
///
/// ```
/// use http::HeaderMap;
/// use tollgate::http::ClientAddress;
///
/// let mut headers = HeaderMap::new();
/// headers.append("x-forwarded-for", "198.51.100.17, 10.0.0.2".parse()?);
/// let peer = "10.0.0.1".parse()?;
///
/// let direct = ClientAddress::new();
/// assert_eq!(direct.of(peer, &headers), peer, "anybody can send that header");
///
/// let behind_proxies = ClientAddress::behind(["10.0.0.0/8".parse()?]);
/// assert_eq!(behind_proxies.of(peer, &headers).to_string(), "198.51.100.17");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    proxies: Proxies,
    header: AddressHeader,
    ipv6_prefix: u8,
}

/// Which peers are one's own proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Proxies {
    None,
    Networks(Vec<IpNet>),
    /// So many, whoever they are.
    Hops(usize),
}

/// The header in which one's proxies write whom they speak for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AddressHeader {
    /// `X-Forwarded-For`: a list, to which each proxy adds its own peer.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239): the same, with more beside it.
    Forwarded,
    /// A header with one address, such as `CF-Connecting-IP` or `X-Real-IP`. A request with two of them is its peer's: one may be
    /// the client's own.
    Single(HeaderName),
}

/// What of an address is the client: an IPv4 address, or an IPv6 network.
///
/// Equal for all addresses of one client, and small: a key for a `Keyed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressKey {
    network: IpAddr,
    prefix: u8,
}

/// An IPv6 prefix that groups nothing, or too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "an IPv6 prefix of {0} bits is no client: use one of 32 to 128 (64 is one subscriber's network)"
)]
pub struct PrefixError(u8);

impl ClientAddress {
    /// The peer, and no header is believed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            proxies: Proxies::None,
            header: AddressHeader::XForwardedFor,
            ipv6_prefix: DEFAULT_IPV6_PREFIX,
        }
    }

    /// Behind proxies with addresses of these networks, who write `X-Forwarded-For`.
    pub fn behind(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self {
            proxies: Proxies::Networks(networks.into_iter().map(canonical_network).collect()),
            ..Self::new()
        }
    }

    /// Behind so many proxies one after the other, whatever their addresses, who write `X-Forwarded-For`.
    ///
    /// For a service that nobody can reach but through them: whoever could would be believed as they are.
    #[must_use]
    pub const fn behind_hops(hops: usize) -> Self {
        Self {
            proxies: Proxies::Hops(hops),
            header: AddressHeader::XForwardedFor,
            ipv6_prefix: DEFAULT_IPV6_PREFIX,
        }
    }

    /// The same, with proxies that write another header. Only this one is read.
    #[must_use]
    pub fn with_header(mut self, header: AddressHeader) -> Self {
        self.header = header;
        self
    }

    /// The same, where IPv6 networks of this prefix are one client: 32..=128 bits, 64 unless said otherwise.
    ///
    /// Providers hand out a /64, a /56 or a /48: with /64 a client may have up to 65 536 of them, with /48 all of a provider's
    /// neighbours may be one. A second, wider limit by /48 beside the first is the answer to both.
    ///
    /// # Errors
    ///
    /// [`PrefixError`] if it is out of range.
    pub fn try_with_ipv6_prefix(mut self, bits: u8) -> Result<Self, PrefixError> {
        if !(LEAST_IPV6_PREFIX..=128).contains(&bits) {
            return Err(PrefixError(bits));
        }
        self.ipv6_prefix = bits;
        Ok(self)
    }

    /// Whom a request comes from that `peer` has sent with these `headers`.
    #[must_use]
    pub fn of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.vouches(peer, 0) {
            return peer;
        }
        match &self.header {
            AddressHeader::XForwardedFor => self.walk(peer, headers, &X_FORWARDED_FOR, list_entry),
            AddressHeader::Forwarded => self.walk(peer, headers, &FORWARDED, forwarded_entry),
            AddressHeader::Single(name) => single(headers, name).unwrap_or(peer),
        }
    }

    /// What of that address is the client.
    #[must_use]
    pub fn key_of(&self, peer: IpAddr, headers: &HeaderMap) -> AddressKey {
        self.group(self.of(peer, headers))
    }

    /// What of an address is the client.
    #[must_use]
    pub fn group(&self, address: IpAddr) -> AddressKey {
        match address.to_canonical() {
            address @ IpAddr::V4(_) => AddressKey {
                network: address,
                prefix: 32,
            },
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - u32::from(self.ipv6_prefix));
                AddressKey {
                    network: Ipv6Addr::from(u128::from(address) & mask).into(),
                    prefix: self.ipv6_prefix,
                }
            }
        }
    }

    /// Whether what `address` has written is believed: it stands so many places before the peer.
    fn vouches(&self, address: IpAddr, place: usize) -> bool {
        match &self.proxies {
            Proxies::None => false,
            Proxies::Networks(networks) => networks.iter().any(|net| net.contains(&address)),
            Proxies::Hops(hops) => place < *hops,
        }
    }

    /// From the peer leftwards, as long as each vouches for the one before it.
    fn walk(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
        name: &HeaderName,
        read: fn(&[u8]) -> Option<IpAddr>,
    ) -> IpAddr {
        let mut last = peer;
        // All lines are one list.
        let lines = headers.get_all(name).iter().rev();
        let entries = lines.flat_map(|line| parts_from_right(line.as_bytes(), b','));
        for (entry, place) in entries.zip(1..=MOST_HOPS) {
            let Some(address) = read(entry) else { break };
            last = address;
            if !self.vouches(address, place) {
                break;
            }
        }
        last
    }
}

impl Default for ClientAddress {
    fn default() -> Self {
        Self::new()
    }
}

impl AddressKey {
    /// The address, or the first of the network.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.network
    }

    /// How many of its bits are the client's: 32 of an IPv4 address.
    #[must_use]
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }
}

/// As an address, or as a network: `198.51.100.17`, `2001:db8::/64`.
impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(address) if self.prefix == 128 => address.fmt(f),
            IpAddr::V6(address) => write!(f, "{address}/{}", self.prefix),
        }
    }
}

/// The parts of a list, the last first. What is within quotes separates nothing.
///
/// In bytes, and from the right: what a client has sent stands to the left of what a proxy has added, and may be of any length and
/// no text at all. It is not even looked at.
fn parts_from_right(list: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(list);
    core::iter::from_fn(move || {
        let list = rest?;
        let mut quoted = false;
        for at in (0..list.len()).rev() {
            if list[at] == b'"' && !is_escaped(list, at) {
                quoted = !quoted;
            } else if list[at] == separator && !quoted {
                rest = Some(&list[..at]);
                return Some(&list[at + 1..]);
            }
        }
        rest = None;
        Some(list)
    })
}

/// Whether the byte at this place is escaped by an odd number of backslashes.
fn is_escaped(bytes: &[u8], at: usize) -> bool {
    let before = bytes[..at].iter().rev();
    before.take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

fn list_entry(entry: &[u8]) -> Option<IpAddr> {
    address(text(entry)?)
}

/// The `for` of one `Forwarded` element; an element with none, or two, says nothing.
fn forwarded_entry(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for pair in parts_from_right(element, b';') {
        let (name, value) = text(pair)?.split_once('=')?;
        if !name.eq_ignore_ascii_case("for") {
            continue;
        }
        if found.is_some() {
            return None;
        }
        let node = match value.strip_prefix('"') {
            Some(quoted) => quoted.strip_suffix('"')?,
            None => value,
        };
        found = Some(address(node)?);
    }
    found
}

fn single(headers: &HeaderMap, name: &HeaderName) -> Option<IpAddr> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next()?;
    if lines.next().is_some() {
        return None;
    }
    address(text(line.as_bytes())?)
}

/// A part as text, without the white space around it.
fn text(part: &[u8]) -> Option<&str> {
    Some(core::str::from_utf8(part).ok()?.trim_matches(OWS))
}

/// An address in any form in which proxies write it: with a port, in brackets, with a zone.
fn address(text: &str) -> Option<IpAddr> {
    // No address is longer, with its port and its zone.
    if text.len() > 128 {
        return None;
    }
    if let Some(inner) = text.strip_prefix('[') {
        let (inner, port) = inner.split_once(']')?;
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        let inner = Ipv6Addr::from_str(without_zone(inner)).ok()?;
        return is_port.then(|| IpAddr::V6(inner).to_canonical());
    }
    if let Ok(address) = IpAddr::from_str(without_zone(text)) {
        return Some(address.to_canonical());
    }
    let with_port = SocketAddr::from_str(text).ok()?;
    Some(with_port.ip().to_canonical())
}

fn without_zone(text: &str) -> &str {
    match text.split_once('%') {
        // Only IPv6 addresses have zones.
        Some((address, zone)) if !zone.is_empty() && address.contains(':') => address,
        _ => text,
    }
}

/// A number, or (of RFC 7239) a hidden one.
fn is_port(text: &str) -> bool {
    let is_number = text.parse::<u16>().is_ok() && text.bytes().all(|byte| byte.is_ascii_digit());
    let hidden = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    is_number || (text.len() > 1 && text.starts_with('_') && text.bytes().all(hidden))
}

/// Networks of IPv4 addresses that are written as IPv6 ones are those of the addresses, for it is those that are compared.
fn canonical_network(network: IpNet) -> IpNet {
    if let IpNet::V6(net) = network {
        if let (Some(address), Some(prefix)) = (
            net.addr().to_ipv4_mapped(),
            net.prefix_len().checked_sub(96),
        ) {
            return IpNet::new(IpAddr::V4(address), prefix).unwrap_or(network);
        }
    }
    network
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What may stand around a list's entry.
const OWS: [char; 2] = [' ', '\t'];

/// No chain of one's own proxies is longer.
const MOST_HOPS: usize = 20;

const DEFAULT_IPV6_PREFIX: u8 = 64;
const LEAST_IPV6_PREFIX: u8 = 32;
