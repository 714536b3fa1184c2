//! Rows in which an address is a client.

use std::net::IpAddr;

use tollgate::http::ClientAddress;

use crate::rows::run;

#[test]
fn one_client_is_one_key() {
    run("ip_keys", |row| {
        row.knows(&["source", "ip", "prefix", "key", "python_ipaddress_agrees"]);
        let address: IpAddr = row.text("ip").parse().expect("an address");
        // Without a prefix nothing is grouped; and theirs of less than ours groups nothing but IPv6, which no such row is.
        let prefix = row
            .get("prefix")
            .and_then(|prefix| prefix.as_u64())
            .unwrap_or(128);
        let prefix = u8::try_from(prefix).expect("a prefix").max(32);
        let group = ClientAddress::new()
            .try_with_ipv6_prefix(prefix)
            .expect("it is in range");
        let key = group.group(address).to_string();
        let theirs = row.text("key");
        // Theirs leaves an address as it was sent where it groups nothing.
        let canonical = theirs.parse::<IpAddr>().map(|address| address.to_string());
        assert_eq!(
            key,
            canonical.unwrap_or_else(|_| theirs.to_owned()),
            "{}",
            row.value
        );
    });
}
