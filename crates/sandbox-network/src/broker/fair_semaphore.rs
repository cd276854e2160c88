//! A semaphore that the services of a broker share fairly.
//!
//! Why: a permit cannot be taken back, so some have to be free before another service needs them.
//! A service gets a permit while it has no more permits than are free. One service gets half of all,
//! the next one half of the rest, and as permits come back, all get equally many. (The rule is known
//! from the buffers of switches, as dynamic thresholds.)

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::lock;

/// A bounded number of permits.
#[derive(Debug)]
pub(super) struct FairSemaphore {
    limit: usize,
    service_limit: usize,
    state: Mutex<SemaphoreState>,
}

#[derive(Debug)]
struct SemaphoreState {
    free: usize,
    /// Services that have permits or wait for some.
    services: BTreeMap<u64, ServiceShare>,
    /// The number of the next waiter.
    next_waiter: u64,
}

#[derive(Debug, Default)]
struct ServiceShare {
    held: usize,
    /// Waiters with their numbers, the oldest first.
    waiters: VecDeque<(u64, oneshot::Sender<FairPermit>)>,
}

/// A permit of a service, until it is dropped.
#[derive(Debug)]
pub(super) struct FairPermit {
    semaphore: Arc<FairSemaphore>,
    service: u64,
}

impl FairSemaphore {
    /// Returns a semaphore with a limit for all services, and one for each. Both are at least 1.
    pub(super) fn new(limit: usize, service_limit: usize) -> Arc<FairSemaphore> {
        let limit = limit.max(1);
        Arc::new(FairSemaphore {
            limit,
            service_limit: service_limit.max(1),
            state: Mutex::new(SemaphoreState {
                free: limit,
                services: BTreeMap::new(),
                next_waiter: 0,
            }),
        })
    }

    /// Returns the number of permits that services have.
    pub(super) fn held(&self) -> usize {
        self.limit - lock(&self.state).free
    }

    /// Returns a permit for a service if there is one for it now.
    pub(super) fn try_acquire(self: &Arc<Self>, service: u64) -> Option<FairPermit> {
        lock(&self.state)
            .take(service, self.service_limit)
            .then(|| self.permit(service))
    }

    /// Waits for a permit for a service. Among services that may have the next permit, the one with
    /// the fewest gets it.
    pub(super) async fn acquire(self: &Arc<Self>, service: u64) -> Option<FairPermit> {
        match self.enqueue(service) {
            Ok(permit) => Some(permit),
            // The sender is dropped only after it has sent.
            Err(receiver) => receiver.await.ok(),
        }
    }

    /// Returns a permit, or the receiver of a later one.
    fn enqueue(
        self: &Arc<Self>,
        service: u64,
    ) -> Result<FairPermit, oneshot::Receiver<FairPermit>> {
        let mut state = lock(&self.state);
        if state.take(service, self.service_limit) {
            return Ok(self.permit(service));
        }
        let number = state.next_waiter;
        state.next_waiter += 1;
        let (sender, receiver) = oneshot::channel();
        let waiters = &mut state.services.entry(service).or_default().waiters;
        // Futures that were dropped meanwhile.
        waiters.retain(|(_, waiter)| !waiter.is_closed());
        waiters.push_back((number, sender));
        Err(receiver)
    }

    fn permit(self: &Arc<Self>, service: u64) -> FairPermit {
        FairPermit {
            semaphore: Arc::clone(self),
            service,
        }
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        let semaphore = &self.semaphore;
        let granted = {
            let mut state = lock(&semaphore.state);
            state.give_back(self.service);
            state.grant(semaphore.service_limit)
        };
        // After the lock: a permit that its waiter does not take any more comes back at once.
        for (service, waiter) in granted {
            let _ = waiter.send(semaphore.permit(service));
        }
    }
}

impl SemaphoreState {
    /// `true` if a service with so many permits may have another one.
    fn may_have_more(&self, held: usize, service_limit: usize) -> bool {
        self.free > 0 && held <= self.free && held < service_limit
    }

    /// Takes a permit for a service. Returns `false` if it may not have one now.
    fn take(&mut self, service: u64, service_limit: usize) -> bool {
        let held = self.services.get(&service).map_or(0, |share| share.held);
        let may = self.may_have_more(held, service_limit);
        if may {
            self.free -= 1;
            self.services.entry(service).or_default().held += 1;
        }
        may
    }

    fn give_back(&mut self, service: u64) {
        self.free += 1;
        if let Some(share) = self.services.get_mut(&service) {
            share.held -= 1;
        }
    }

    /// Takes permits for the waiters that may have one now.
    fn grant(&mut self, service_limit: usize) -> Vec<(u64, oneshot::Sender<FairPermit>)> {
        self.services.retain(|_, share| {
            share.waiters.retain(|(_, waiter)| !waiter.is_closed());
            share.held > 0 || !share.waiters.is_empty()
        });
        let mut granted = Vec::new();
        while let Some(service) = self.next_service(service_limit)
            && let Some(share) = self.services.get_mut(&service)
            && let Some((_, waiter)) = share.waiters.pop_front()
        {
            share.held += 1;
            self.free -= 1;
            granted.push((service, waiter));
        }
        granted
    }

    /// Returns the service whose waiter is next: the one with the fewest permits, and of several the
    /// one that has waited longest.
    fn next_service(&self, service_limit: usize) -> Option<u64> {
        let waiting = self.services.iter().filter_map(|(service, share)| {
            let (number, _) = share.waiters.front()?;
            self.may_have_more(share.held, service_limit)
                .then_some((share.held, *number, *service))
        });
        waiting.min().map(|(_, _, service)| service)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes all permits that a service gets.
    fn take_all(semaphore: &Arc<FairSemaphore>, service: u64) -> Vec<FairPermit> {
        std::iter::from_fn(|| semaphore.try_acquire(service)).collect()
    }

    fn wait(semaphore: &Arc<FairSemaphore>, service: u64) -> oneshot::Receiver<FairPermit> {
        semaphore.enqueue(service).expect_err("a waiter")
    }

    #[test]
    fn every_service_finds_a_permit_while_others_take_all_they_get() {
        let semaphore = FairSemaphore::new(64, 64);
        let held: Vec<_> = (0..6)
            .map(|service| take_all(&semaphore, service))
            .collect();
        let counts: Vec<_> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [33, 16, 8, 4, 2, 1]);
    }

    #[test]
    fn a_service_has_a_limit_of_its_own() {
        let semaphore = FairSemaphore::new(100, 5);
        for service in 0..4 {
            assert_eq!(take_all(&semaphore, service).len(), 5);
        }
        let held: Vec<_> = (0..4)
            .map(|service| take_all(&semaphore, service))
            .collect();
        assert_eq!(semaphore.held(), 20);
        drop(held);
        assert_eq!(semaphore.held(), 0);
        assert!(lock(&semaphore.state).services.is_empty());
    }

    #[test]
    fn one_permit_is_enough_for_one_service_after_the_other() {
        let semaphore = FairSemaphore::new(0, 0);
        let first = semaphore.try_acquire(1).unwrap();
        let mut second = wait(&semaphore, 2);
        drop(first);
        assert_eq!(second.try_recv().unwrap().service, 2);
    }

    #[test]
    fn the_service_with_the_fewest_permits_is_next_and_its_oldest_waiter() {
        let semaphore = FairSemaphore::new(4, 4);
        let mut many = take_all(&semaphore, 1);
        let one = semaphore.try_acquire(2).unwrap();
        assert_eq!((many.len(), semaphore.held()), (3, 4));
        let (mut greedy, mut second) = (wait(&semaphore, 1), wait(&semaphore, 2));
        let (mut third, mut fourth) = (wait(&semaphore, 3), wait(&semaphore, 3));
        many.pop();
        let got = third.try_recv().unwrap();
        for waiter in [&mut greedy, &mut second, &mut fourth] {
            waiter.try_recv().unwrap_err();
        }
        many.pop();
        // All three have one, and the first has waited longest.
        let more = greedy.try_recv().unwrap();
        for waiter in [&mut second, &mut fourth] {
            waiter.try_recv().unwrap_err();
        }
        drop((one, got, more));
        assert_eq!(second.try_recv().unwrap().service, 2);
        assert_eq!(fourth.try_recv().unwrap().service, 3);
    }

    #[test]
    fn a_waiter_that_has_gone_takes_no_permit() {
        let semaphore = FairSemaphore::new(1, 1);
        let held = semaphore.try_acquire(1).unwrap();
        for _ in 0..100 {
            drop(wait(&semaphore, 1));
        }
        assert_eq!(lock(&semaphore.state).services[&1].waiters.len(), 1);
        let mut live = wait(&semaphore, 2);
        drop(held);
        let received = live.try_recv().unwrap();
        drop(received);
        // Sent, and dropped before it was received.
        let held = semaphore.try_acquire(1).unwrap();
        let unread = wait(&semaphore, 1);
        drop(held);
        assert_eq!(semaphore.held(), 1);
        drop(unread);
        assert_eq!(semaphore.held(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// After any steps: the limits are kept, three services leave a permit to a fourth, and no
        /// waiter is left that may have one.
        #[test]
        fn limits_are_kept_and_newcomers_are_let_in(
            limit in 1usize..40,
            service_limit in 1usize..40,
            steps in proptest::collection::vec((0u64..4, 0u8..3), 0..200),
        ) {
            let semaphore = FairSemaphore::new(limit, service_limit);
            let mut held: Vec<FairPermit> = Vec::new();
            let mut waiting: Vec<oneshot::Receiver<FairPermit>> = Vec::new();
            for (service, step) in steps {
                match step {
                    0 => match semaphore.enqueue(service) {
                        Ok(permit) => held.push(permit),
                        Err(waiter) => waiting.push(waiter),
                    },
                    1 => {
                        let own = held.iter().position(|permit| permit.service == service);
                        drop(own.map(|own| held.swap_remove(own)));
                    }
                    _ => drop(waiting.pop()),
                }
                waiting.retain_mut(|waiter| match waiter.try_recv() {
                    Ok(permit) => { held.push(permit); false }
                    Err(_) => true,
                });
                prop_assert_eq!(semaphore.held(), held.len());
                prop_assert!(held.len() <= limit);
                for service in 0..4 {
                    let own = held.iter().filter(|permit| permit.service == service);
                    prop_assert!(own.count() <= service_limit);
                }
                prop_assert!(lock(&semaphore.state).next_service(service_limit).is_none());
                let has_fourth = held.iter().any(|permit| permit.service == 3);
                if limit >= 16 && !has_fourth && waiting.is_empty() {
                    prop_assert!(semaphore.try_acquire(9).is_some());
                }
            }
            drop((held, waiting));
            prop_assert_eq!(semaphore.held(), 0);
        }
    }
}
