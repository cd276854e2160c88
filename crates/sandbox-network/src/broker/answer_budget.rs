//! How often clients are told why one host cannot be reached. A client that asks on and on must end: npm's agent
//! repeats a CONNECT for ever if a proxy answers it with a status while further requests wait, and gives
//! up after its own retries if the proxy hangs up (<https://github.com/npm/cli/issues/9386>).

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::host::Host;

/// Answers to one host and port in a row. More than programs ask at once for one page or install.
const BURST: u32 = 64;
/// Time without a request after which clients are answered again. A few answers in between would keep
/// such a client going.
const QUIET: Duration = Duration::from_secs(30);
/// Bound on the hosts that are counted. Clients with others are answered.
const MAX_TARGETS: usize = 256;

/// The answers that are left, by host and port.
#[derive(Debug, Default)]
pub(crate) struct AnswerBudget(HashMap<(Host, u16), AnswersLeft>);

#[derive(Clone, Copy, Debug)]
struct AnswersLeft {
    count: u32,
    /// The last request.
    at: Instant,
}

impl AnswerBudget {
    /// Gives all answers back: the host was reached.
    pub(crate) fn reset(&mut self, host: &Host, port: u16) {
        if !self.0.is_empty() {
            self.0.remove(&(host.clone(), port));
        }
    }

    /// Takes one answer. `false` if none is left: the client is to be hung up on.
    pub(crate) fn take(&mut self, host: &Host, port: u16, now: Instant) -> bool {
        let target = (host.clone(), port);
        let is_quiet = |left: &AnswersLeft| now.saturating_duration_since(left.at) >= QUIET;
        if self.0.len() >= MAX_TARGETS && !self.0.contains_key(&target) {
            self.0.retain(|_, left| !is_quiet(left));
            if self.0.len() >= MAX_TARGETS {
                return true;
            }
        }
        let full = AnswersLeft {
            count: BURST,
            at: now,
        };
        let left = self.0.entry(target).or_insert(full);
        if is_quiet(left) {
            *left = full;
        }
        let is_answered = left.count > 0;
        *left = AnswersLeft {
            count: left.count.saturating_sub(1),
            at: now,
        };
        is_answered
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
        // Each request is noise.
        assert!(!take("a.example", 443, 29_999) && !take("a.example", 443, 59_998));
        for _ in 0..BURST {
            assert!(take("a.example", 443, 89_998));
        }
        assert!(!take("a.example", 443, 89_998));
        budget.reset(&host("a.example"), 443);
        assert!(budget.take(
            &host("a.example"),
            443,
            start + Duration::from_millis(89_998)
        ));
    }

    #[test]
    fn more_hosts_than_are_counted_are_answered() {
        let mut budget = AnswerBudget::default();
        let now = Instant::now();
        for number in 0..2 * MAX_TARGETS {
            assert!(budget.take(&host(&format!("h{number}.example")), 443, now));
        }
        assert_eq!(budget.0.len(), MAX_TARGETS);
        let later = now + QUIET;
        assert!(budget.take(&host("new.example"), 443, later));
        assert_eq!(budget.0.len(), 1);
    }
}
