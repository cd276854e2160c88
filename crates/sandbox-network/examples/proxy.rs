//! A proxy for named hosts on 127.0.0.1:3128, until standard input ends:
//!
//! ```text
//! cargo run -p sandbox-network --features broker --example proxy -- example.com '*.example.org:443'
//! curl --proxy http://127.0.0.1:3128 https://example.com
//! curl --proxy socks5h://127.0.0.1:3128 https://example.net    # refused
//! ```
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::net::TcpListener;
use std::sync::Arc;

use sandbox_network::{Broker, BrokerOptions, HostPattern, HostRules, Listeners};

fn main() -> Result<(), Box<dyn Error>> {
    let allow = std::env::args().skip(1);
    let allow = allow.map(|text| HostPattern::parse(&text));
    let rules = HostRules::new(allow.collect::<Result<Vec<_>, _>>()?, []);

    let mut options = BrokerOptions::default();
    options.advice = Arc::new(|host, _| format!("start the example with `{host}` to allow it"));
    options.on_event = Some(Arc::new(|event| {
        println!("{:?} {:#?}", event.kind, event.record)
    }));
    let broker = Broker::new(rules, options)?;
    let service = broker.serve(Listeners {
        proxy: vec![TcpListener::bind("127.0.0.1:3128")?],
        ..Listeners::default()
    })?;

    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let report = service.finish();
    println!("{} connections", report.connections.len());
    Ok(())
}
