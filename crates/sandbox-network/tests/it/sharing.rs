//! Several commands of one broker: none of them takes what the others need.

use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandbox_network::{HostName, Resolve};

use crate::world::{
    WATCHDOG, World, ask_for_tunnel, assert_echoes, echo_server, tunnel_by, wait_until,
};

#[test]
fn a_command_with_many_connections_leaves_some_for_others() {
    let port = echo_server();
    let world = World::with(&["*.test"], &[], |options| options.limits.connections = 8);
    // More than the broker has.
    let greedy: Vec<_> = (0..12)
        .map(|number| ask_for_tunnel(world.proxy, &format!("h{number}.test"), port))
        .collect();
    wait_until("the command has its share", || {
        world.names.asked().len() >= 5
    });
    let others = [world.another_service(), world.another_service()];
    let tunnels = others.each_ref().map(|(_, proxy)| {
        let mut tunnel = tunnel_by(*proxy, "a.test", port).unwrap();
        assert_echoes(&mut tunnel, b"hello");
        tunnel
    });
    drop((greedy, tunnels));
    for (service, _) in others {
        assert_eq!(service.finish().waited, 0);
    }
}

/// A resolver whose calls for one name below `slow.test` return when the test has ended.
struct SlowForSome {
    end: Mutex<Receiver<()>>,
    began: Mutex<Sender<()>>,
}

impl Resolve for SlowForSome {
    fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        if name.as_str().ends_with(".slow.test") {
            self.began.lock().unwrap().send(()).unwrap();
            let _ = self.end.lock().unwrap().recv();
        }
        Ok(vec![[127, 0, 0, 1].into()])
    }
}

#[test]
fn a_command_whose_names_resolve_slowly_does_not_hold_up_others() {
    let (end, wait) = channel();
    let (began, calls) = channel();
    let port = echo_server();
    let world = World::with(&["*.test"], &[], |options| {
        options.resolve = Arc::new(SlowForSome {
            end: Mutex::new(wait),
            began: Mutex::new(began),
        });
        options.limits.resolutions = 8;
        options.limits.resolve_timeout = Duration::from_secs(5);
    });
    let slow: Vec<_> = (0..12)
        .map(|number| ask_for_tunnel(world.proxy, &format!("h{number}.slow.test"), port))
        .collect();
    for _ in 0..5 {
        calls.recv_timeout(WATCHDOG).unwrap();
    }
    let (service, proxy) = world.another_service();
    let mut tunnel = tunnel_by(proxy, "a.test", port).unwrap();
    assert_echoes(&mut tunnel, b"hello");
    drop((end, slow, tunnel));
    assert_eq!(service.finish().connections.len(), 1);
}
