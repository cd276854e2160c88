//! How often clients are told why one host cannot be reached. A client that asks on and on must end: npm's agent
//! repeats a CONNECT for ever if a proxy answers it with a status while further requests wait, and gives
//! up after its own retries if the proxy hangs up (<https://github.com/npm/cli/issues/9386>).

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::host::Host;

/// Answers to one host and port in a row. More than programs ask at once for one page or install.
const BURST: u32 = 64;
/// Time in which one more answer is due.
const REFILL: Duration = Duration::from_millis(250);
/// Bound on the hosts that are counted. Clients with others are answered.
const MAX_TARGETS: usize = 256;

/// The answers that are left, by host and port.
#[derive(Debug, Default)]
pub(crate) struct AnswerBudget(HashMap<(Host, u16), Left>);

#[derive(Clone, Copy, Debug)]
struct Left {
    count: u32,
    since: Instant,
}

impl Left {
    fn at(self, now: Instant) -> Left {
        let passed = now.saturating_duration_since(self.since);
        let refilled = u32::try_from(passed.as_millis() / REFILL.as_millis()).unwrap_or(BURST);
        match self.count.saturating_add(refilled) {
            count if count >= BURST => Left {
                count: BURST,
                since: now,
            },
            count => Left {
                count,
                since: self.since + REFILL * refilled,
            },
        }
    }
}

impl AnswerBudget {
    /// Takes one answer. `false` if none is left: the client is to be hung up on.
    pub(crate) fn take(&mut self, host: &Host, port: u16, now: Instant) -> bool {
        let target = (host.clone(), port);
        if self.0.len() >= MAX_TARGETS && !self.0.contains_key(&target) {
            self.0.retain(|_, left| left.at(now).count < BURST);
            if self.0.len() >= MAX_TARGETS {
                return true;
            }
        }
        let full = Left {
            count: BURST,
            since: now,
        };
        let left = self.0.entry(target).or_insert(full);
        *left = left.at(now);
        match left.count.checked_sub(1) {
            Some(count) => {
                left.count = count;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Host {
        Host::parse(name).unwrap()
    }

    #[test]
    fn answers_end_for_one_host_and_come_back() {
        let mut budget = AnswerBudget::default();
        let start = Instant::now();
        let mut take = |name, port, after| {
            budget.take(&host(name), port, start + Duration::from_millis(after))
        };
        for _ in 0..BURST {
            assert!(take("a.example", 443, 0));
        }
        assert!(!take("a.example", 443, 0));
        assert!(take("a.example", 80, 0) && take("b.example", 443, 0));
        assert!(!take("a.example", 443, 249));
        assert!(take("a.example", 443, 250) && !take("a.example", 443, 499));
        for _ in 0..BURST {
            assert!(take("a.example", 443, 3_600_000));
        }
        assert!(!take("a.example", 443, 3_600_000));
    }

    #[test]
    fn more_hosts_than_are_counted_are_answered() {
        let mut budget = AnswerBudget::default();
        let now = Instant::now();
        for number in 0..2 * MAX_TARGETS {
            assert!(budget.take(&host(&format!("h{number}.example")), 443, now));
        }
        assert_eq!(budget.0.len(), MAX_TARGETS);
        let later = now + Duration::from_secs(1);
        assert!(budget.take(&host("new.example"), 443, later));
        assert_eq!(budget.0.len(), 1);
    }
}
