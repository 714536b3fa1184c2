//! Whom a request comes from: rows 46 and 47 of `EDGE_CASES.md`, every bypass that others were found to have, and whatever a client
//! may send.

#![cfg(feature = "http")]

mod support;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use proptest::prelude::*;
use tollgate::http::{AddressHeader, ClientAddress};

use support::hold;

const PROXY: &str = "10.0.0.1";

fn ip(text: &str) -> IpAddr {
    text.parse()
        .unwrap_or_else(|_| panic!("{text} is no address"))
}

fn headers<const N: usize>(lines: [(&str, &str); N]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, value.parse().unwrap());
    }
    headers
}

fn xff(value: &str) -> HeaderMap {
    headers([("x-forwarded-for", value)])
}

fn behind() -> ClientAddress {
    ClientAddress::behind([
        "10.0.0.0/8".parse().unwrap(),
        "2001:db8:ffff::/48".parse().unwrap(),
    ])
}

/// A client that adds the header itself was believed (Eclipse's api-gateway, `tower_governor`, rustfs and more): a bucket for each
/// request.
#[test]
fn a_header_is_nobodys_word_but_a_proxys() {
    let peer = ip("203.0.113.9");
    for value in ["1.2.3.4", "10.0.0.1", "1.2.3.4, 10.0.0.2", ""] {
        for header in [
            "x-forwarded-for",
            "forwarded",
            "x-real-ip",
            "cf-connecting-ip",
        ] {
            let headers = headers([(header, value)]);
            assert_eq!(ClientAddress::new().of(peer, &headers), peer);
            assert_eq!(behind().of(peer, &headers), peer, "no proxy of ours");
        }
    }
    // And of the headers only the one that was named.
    let several = headers([("x-real-ip", "1.2.3.4"), ("forwarded", "for=1.2.3.4")]);
    assert_eq!(behind().of(ip(PROXY), &several), ip(PROXY));
}

#[test]
fn the_first_that_is_no_proxy_from_the_right_is_the_client() {
    for (value, client) in [
        ("198.51.100.17", "198.51.100.17"),
        ("1.1.1.1, 198.51.100.17", "198.51.100.17"),
        // Behind two of ours: everybody was the inner one (authentik).
        ("1.1.1.1, 198.51.100.17, 10.2.0.1", "198.51.100.17"),
        ("198.51.100.17,10.2.0.1,10.3.0.1", "198.51.100.17"),
        (" 198.51.100.17 ,\t10.2.0.1 ", "198.51.100.17"),
        // All of them ours: a request of our own.
        ("10.9.0.1, 10.2.0.1", "10.9.0.1"),
        // No address ends the walk at the last that was one.
        ("198.51.100.17, unknown, 10.2.0.1", "10.2.0.1"),
        ("198.51.100.17, 10.2.0.1:http", PROXY),
        ("unknown", PROXY),
        ("198.51.100.17,", PROXY),
        ("198.51.100.17, 198.51.100.300", PROXY),
        ("", PROXY),
        // With ports, brackets and zones.
        ("198.51.100.17:4711", "198.51.100.17"),
        ("[2001:db8::17]:4711", "2001:db8::17"),
        ("[2001:db8::17]", "2001:db8::17"),
        ("2001:db8::17", "2001:db8::17"),
        ("fe80::17%eth0", "fe80::17"),
        ("[fe80::17%25eth0]:80", "fe80::17"),
        ("::ffff:198.51.100.17", "198.51.100.17"),
        ("[::ffff:c633:6411]:80", "198.51.100.17"),
        // A proxy whose address is written as an IPv6 one is that proxy.
        ("198.51.100.17, ::ffff:10.2.0.1", "198.51.100.17"),
        ("198.51.100.17, 2001:db8:ffff::1", "198.51.100.17"),
        ("[2001:db8::17", PROXY),
        ("[198.51.100.17]", PROXY),
        ("198.51.100.17%eth0", PROXY),
        ("[2001:db8::17]4711", PROXY),
        ("[2001:db8::17]:65536", PROXY),
        ("[2001:db8::17]:+1", PROXY),
        ("198.51.100.17:", PROXY),
    ] {
        assert_eq!(behind().of(ip(PROXY), &xff(value)), ip(client), "{value:?}");
        let mapped = ip(&format!("::ffff:{PROXY}"));
        assert_eq!(
            behind().of(mapped, &xff(value)),
            ip(client),
            "{value:?} of a mapped peer"
        );
    }
}

#[test]
fn several_lines_are_one_list() {
    let lines = headers([
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-for", "198.51.100.17, 10.4.0.1"),
        ("x-forwarded-for", "10.3.0.1"),
    ]);
    assert_eq!(behind().of(ip(PROXY), &lines), ip("198.51.100.17"));
}

#[test]
fn so_many_hops_and_not_one_more() {
    let list = xff("1.1.1.1, 198.51.100.17, 192.0.2.1");
    for (hops, client) in [
        (0, "203.0.113.9"),
        (1, "192.0.2.1"),
        (2, "198.51.100.17"),
        (3, "1.1.1.1"),
        (4, "1.1.1.1"),
    ] {
        let address = ClientAddress::behind_hops(hops);
        assert_eq!(
            address.of(ip("203.0.113.9"), &list),
            ip(client),
            "{hops} hops"
        );
    }
    // A walk has an end, however many are ours.
    let long: Vec<_> = (0..100).map(|n| format!("10.0.1.{n}")).collect();
    let ended = behind().of(ip(PROXY), &xff(&long.join(",")));
    assert_eq!(ended, ip("10.0.1.80"));
}

#[test]
fn forwarded_is_read_as_rfc_7239_has_it() {
    let address = behind().with_header(AddressHeader::Forwarded);
    for (value, client) in [
        ("for=198.51.100.17", "198.51.100.17"),
        (
            "For=\"[2001:db8:cafe::17]:4711\";proto=https, for=10.2.0.1",
            "2001:db8:cafe::17",
        ),
        (
            "proto=http;by=10.9.9.9;FOR=198.51.100.17;host=\"a;b,c\"",
            "198.51.100.17",
        ),
        ("for=198.51.100.17 ; proto=https", "198.51.100.17"),
        ("for=198.51.100.17, for=unknown", PROXY),
        ("for=198.51.100.17, for=_hidden, for=10.2.0.1", "10.2.0.1"),
        ("for=\"198.51.100.17:_port\"", PROXY),
        ("for=\"[2001:db8::17]:_port\"", "2001:db8::17"),
        ("for=198.51.100.17;for=1.1.1.1", PROXY),
        ("by=198.51.100.17", PROXY),
        ("for", PROXY),
        ("", PROXY),
        // What a client left open is its own affair.
        ("for=\"1.1.1.1, for=198.51.100.17", "198.51.100.17"),
        ("for=\"\\\", for=198.51.100.17", "198.51.100.17"),
    ] {
        let headers = headers([("forwarded", value)]);
        assert_eq!(address.of(ip(PROXY), &headers), ip(client), "{value:?}");
    }
}

#[test]
fn a_header_of_one_address_is_read_if_there_is_one() {
    let name = HeaderName::from_static("cf-connecting-ip");
    let address = behind().with_header(AddressHeader::Single(name));
    let one = headers([
        ("cf-connecting-ip", "198.51.100.17"),
        ("x-forwarded-for", "1.1.1.1"),
    ]);
    assert_eq!(address.of(ip(PROXY), &one), ip("198.51.100.17"));
    assert_eq!(address.of(ip("203.0.113.9"), &one), ip("203.0.113.9"));
    let two = headers([
        ("cf-connecting-ip", "1.1.1.1"),
        ("cf-connecting-ip", "198.51.100.17"),
    ]);
    assert_eq!(address.of(ip(PROXY), &two), ip(PROXY));
    let list = headers([("cf-connecting-ip", "1.1.1.1, 198.51.100.17")]);
    assert_eq!(address.of(ip(PROXY), &list), ip(PROXY));
    assert_eq!(address.of(ip(PROXY), &HeaderMap::new()), ip(PROXY));
}

/// Row 46. express-rate-limit 8.0 masked `::ffff:a.b.c.d` as an IPv6 address: all IPv4 clients in one bucket. `OpenClaw` counted the
/// two forms of one address apart.
#[test]
fn one_client_is_one_key() {
    let address = ClientAddress::new();
    let key = |text| address.group(ip(text));
    for same in ["1.2.3.4", "::ffff:1.2.3.4", "::ffff:102:304"] {
        assert_eq!(key(same), key("1.2.3.4"));
        assert_eq!(key(same).to_string(), "1.2.3.4");
        for bits in [32, 48, 64, 128] {
            let address = ClientAddress::new().try_with_ipv6_prefix(bits).unwrap();
            assert_eq!(address.group(ip(same)), key("1.2.3.4"), "/{bits}");
        }
    }
    assert_ne!(key("::ffff:1.2.3.4"), key("::ffff:1.2.3.5"));
    // Told by its bits, not by how it is written: this is no IPv4 address.
    assert_ne!(key("2001:db8::1.2.3.4"), key("1.2.3.4"));
    assert_ne!(key("::1.2.3.4"), key("1.2.3.4"));
    assert_eq!(
        key("2001:db8:0:1::1"),
        key("2001:db8:0:1:ffff:ffff:ffff:ffff")
    );
    assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
    assert_eq!(key("2001:db8:0:1::1").to_string(), "2001:db8:0:1::/64");
    for bits in [0, 31, 129, 255] {
        assert!(
            ClientAddress::new().try_with_ipv6_prefix(bits).is_err(),
            "/{bits}"
        );
    }
}

/// A network that is written as one of mapped addresses holds the addresses.
#[test]
fn networks_are_those_of_the_addresses() {
    let mapped = ClientAddress::behind(["::ffff:10.0.0.0/104".parse().unwrap()]);
    assert_eq!(
        mapped.of(ip(PROXY), &xff("198.51.100.17")),
        ip("198.51.100.17")
    );
    assert_eq!(
        mapped.of(ip("11.0.0.1"), &xff("198.51.100.17")),
        ip("11.0.0.1")
    );
    let everybody = ClientAddress::behind(["::/0".parse().unwrap()]);
    assert_eq!(
        everybody.of(ip(PROXY), &xff("198.51.100.17")),
        ip(PROXY),
        "of IPv6"
    );
}

fn addresses() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from(bits))),
        any::<u32>().prop_map(|bits| IpAddr::V6(Ipv4Addr::from(bits).to_ipv6_mapped())),
        any::<u16>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | u32::from(bits)))),
    ]
}

/// Whatever stands in a header that a client could have sent.
fn rubbish() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop_oneof![
        Just(b",".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"\\".to_vec()),
        Just(b";".to_vec()),
        Just(b"for=".to_vec()),
        Just(b"[".to_vec()),
        Just(b"]:".to_vec()),
        Just(b"%".to_vec()),
        addresses().prop_map(|address| address.to_string().into_bytes()),
        prop::collection::vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff], 0..6),
    ];
    prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
}

fn answer(address: &ClientAddress, name: &'static str, lines: &[Vec<u8>]) -> Option<IpAddr> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_bytes(line).ok()?,
        );
    }
    Some(address.of(ip(PROXY), &headers))
}

/// Nothing that a client puts before what a proxy has added changes whom the request comes from.
#[test]
fn what_a_client_sends_never_changes_the_answer() {
    let drawn = (rubbish(), addresses(), any::<bool>());
    hold(
        "a spoofed prefix changes nothing",
        60_000,
        drawn,
        |(spoofed, client, own_line)| {
            let outside = behind().of(client, &HeaderMap::new()) == client.to_canonical();
            prop_assert!(outside, "a peer is its own address");
            for (name, header, added) in [
                (
                    "x-forwarded-for",
                    AddressHeader::XForwardedFor,
                    client.to_string(),
                ),
                (
                    "forwarded",
                    AddressHeader::Forwarded,
                    format!("for=\"[{client}]\""),
                ),
            ] {
                let client_is_v4 = matches!(client, IpAddr::V4(_));
                let added = if name == "forwarded" && client_is_v4 {
                    format!("for={client}")
                } else {
                    added
                };
                let address = behind().with_header(header);
                let honest = answer(&address, name, &[added.clone().into_bytes()]);
                let is_proxy = behind().of(client, &xff("198.51.100.17")) == ip("198.51.100.17");
                if is_proxy {
                    continue; // it vouches for what stands before it
                }
                let lines = if own_line {
                    vec![spoofed.clone(), added.into_bytes()]
                } else {
                    vec![[&spoofed[..], b", ", added.as_bytes()].concat()]
                };
                if let Some(answer) = answer(&address, name, &lines) {
                    prop_assert_eq!(
                        Some(answer),
                        honest,
                        "{} after {:?}",
                        name,
                        String::from_utf8_lossy(&spoofed)
                    );
                }
            }
            Ok(())
        },
    );
}

/// No header makes it panic, and every answer is canonical.
#[test]
fn whatever_is_sent_there_is_an_answer() {
    let drawn = (prop::collection::vec(rubbish(), 0..4), 0_usize..4);
    hold("an answer to everything", 60_000, drawn, |(lines, hops)| {
        for address in [
            ClientAddress::behind_hops(hops),
            behind().with_header(AddressHeader::Forwarded),
            behind().with_header(AddressHeader::Single(HeaderName::from_static("forwarded"))),
        ] {
            for name in ["x-forwarded-for", "forwarded"] {
                if let Some(answer) = answer(&address, name, &lines) {
                    prop_assert_eq!(answer, answer.to_canonical());
                }
            }
        }
        Ok(())
    });
}

/// A header of a megabyte is not read to its beginning.
#[test]
fn a_long_header_costs_no_more_than_its_end() {
    for piece in ["1.1.1.1,", "\"", "\\", "\\\"", "for=\"", "[", "x"] {
        let long = piece.repeat(1_000_000 / piece.len());
        let headers = xff(&format!("{long}, 198.51.100.17"));
        for _ in 0..100 {
            assert_eq!(behind().of(ip(PROXY), &headers), ip("198.51.100.17"));
        }
    }
}
