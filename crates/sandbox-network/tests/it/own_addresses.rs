//! Public addresses of this machine, in a network namespace that the test makes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;

use sandbox_network::{AddressClass, Broker, BrokerOptions, Listeners, Refusal};

use crate::transparent::in_a_namespace;
use crate::world::{Names, echo, rules, serve_on};

/// Two of one network, of which the system prefers the first.
const OWN: [&str; 4] = [
    "93.184.216.34/24",
    "93.184.216.35/24",
    "1.1.1.1/32",
    "2606:4700::1/128",
];

#[test]
fn a_name_does_not_reach_this_machine_by_its_public_addresses() {
    in_a_namespace(
        "own_addresses::a_name_does_not_reach_this_machine_by_its_public_addresses",
        || {
            for address in OWN {
                let mut ip = Command::new("ip");
                let status = ip
                    .args(["addr", "add", address, "dev", "lo", "nodad"])
                    .status();
                assert!(status.unwrap().success(), "{address}");
            }
            for address in OWN.map(|one| one.split('/').next().unwrap()) {
                reach(address);
            }
        },
    );
}

fn reach(address: &str) {
    let host = if address.contains(':') {
        format!("[{address}]")
    } else {
        address.to_owned()
    };
    let port = serve_on(&format!("{host}:0"), echo);
    for is_named in [false, true] {
        let named = format!("{host}:{port}");
        let allow = if is_named {
            vec!["own.example", &named]
        } else {
            vec!["own.example"]
        };
        let names = Arc::new(Names::default());
        names.set("own.example", &[&[address]]);
        let mut options = BrokerOptions::default();
        options.resolve = names;
        let broker = Broker::new(rules(&allow, &[]), options).unwrap();
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(proxy.local_addr().unwrap()).unwrap();
        let listeners = Listeners {
            proxy: vec![proxy],
            ..Listeners::default()
        };
        let service = broker.serve(listeners).unwrap();
        let target = format!("own.example:{port}");
        write!(
            client,
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
        )
        .unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).unwrap();
        let code = if is_named { "200" } else { "403" };
        assert_eq!(
            std::str::from_utf8(&answer),
            Ok(&*format!("HTTP/1.1 {code}")),
            "{address}"
        );
        drop(client);
        let reason = service.finish().connections.remove(0).reason;
        let refused = Refusal::NotPublic {
            address: address.parse().unwrap(),
            class: AddressClass::ThisMachine,
        };
        assert_eq!(reason, (!is_named).then_some(refused));
    }
}
