//! What waiting is to do, told as simply as can be: a list, and a look at every instant (by bisection).

use std::collections::VecDeque;

use tollgate::{Decision, Limiter, Timestamp};

/// One client's limit and those who wait for it.
pub(crate) struct Model<L: Limiter> {
    limiter: L,
    state: L::State,
    waiters: VecDeque<(usize, u64)>,
    /// The instant up to which all is decided.
    now: Timestamp,
    /// Who went, and when.
    pub(crate) gone: Vec<(usize, Timestamp)>,
}

impl<L: Limiter> Model<L> {
    pub(crate) fn new(limiter: L, now: Timestamp) -> Self {
        Self {
            state: limiter.fresh(now),
            limiter,
            waiters: VecDeque::new(),
            now,
            gone: Vec::new(),
        }
    }

    /// Time passes, and whoever may goes.
    pub(crate) fn pass_to(&mut self, now: Timestamp) {
        while let Some(&(who, cost)) = self.waiters.front() {
            let Some(at) = first_instant(&self.limiter, &self.state, (self.now, now), cost) else {
                break;
            };
            let decision = self.limiter.check(&mut self.state, at, cost);
            assert!(decision.unwrap().is_allowed());
            self.waiters.pop_front();
            self.gone.push((who, at));
            self.now = at;
        }
        self.now = now;
    }

    pub(crate) fn arrive(&mut self, who: usize, cost: u64) {
        if cost == 0 {
            self.gone.push((who, self.now));
            return;
        }
        self.waiters.push_back((who, cost));
        self.pass_to(self.now);
    }

    pub(crate) fn leave(&mut self, who: usize) {
        self.waiters.retain(|&(other, _)| other != who);
        self.pass_to(self.now);
    }

    /// Somebody asks who does not wait: whether it may go, and if not, when it could if nobody else came.
    pub(crate) fn check(&mut self, cost: u64) -> (bool, u64) {
        if cost == 0 {
            return (true, 0);
        }
        if self.waiters.is_empty() {
            let decision = self.limiter.check(&mut self.state, self.now, cost).unwrap();
            return (decision.is_allowed(), nanos(decision));
        }
        let mut ahead = Self {
            limiter: self.limiter.clone(),
            state: self.state.clone(),
            waiters: self.waiters.clone(),
            now: self.now,
            gone: Vec::new(),
        };
        let mut until = ahead.now;
        while !ahead.waiters.is_empty() {
            until += std::time::Duration::from_secs(1);
            ahead.pass_to(until);
        }
        let (_, last) = *ahead.gone.last().unwrap();
        let then = self.limiter.peek(&ahead.state, last, cost).unwrap();
        (
            false,
            last.saturating_duration_since(self.now).as_nanos() as u64 + nanos(then),
        )
    }

    pub(crate) fn change(&mut self, change: impl FnOnce(&L, &mut L::State, Timestamp)) {
        change(&self.limiter, &mut self.state, self.now);
        self.pass_to(self.now);
    }

    pub(crate) fn waiters(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn remaining(&self) -> (u64, u64) {
        let stands = self.limiter.peek(&self.state, self.now, 0).unwrap();
        (stands.remaining(), stands.debt())
    }
}

fn nanos(decision: Decision) -> u64 {
    decision.retry_after().as_nanos() as u64
}

/// The first instant of a span at which a cost may go undelayed: once it may, it may for as long as nobody else comes.
fn first_instant<L: Limiter>(
    limiter: &L,
    state: &L::State,
    (from, to): (Timestamp, Timestamp),
    cost: u64,
) -> Option<Timestamp> {
    let goes = |ns: u64| {
        let decision = limiter
            .peek(state, Timestamp::from_nanos(ns), cost)
            .unwrap();
        decision.is_allowed() && decision.delay().is_zero()
    };
    let (mut low, mut high) = (from.as_nanos(), to.as_nanos());
    if goes(low) {
        return Some(from);
    }
    if !goes(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if goes(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(Timestamp::from_nanos(high))
}
