//! How a call is decided that reaches a shard: known clients first and fast; newcomers, and refusals that are to be noted,
//! apart.

use std::hash::{BuildHasher, Hash};

use super::Keyed;
use super::denials::{Denial, Tagged};
use super::lookup::Lookup;
use super::room::WhenFull;
use super::shard::Shard;
use crate::decision::Decision;
use crate::error::CostTooHigh;
use crate::holder::Instant;
use crate::limiter::{Limiter, expect_grantable};
use crate::time::Timestamp;

impl<K: Hash + Eq, L: Limiter, H: BuildHasher> Keyed<K, L, H> {
    /// Whether a call of cost 1 that the table of denials did not answer may go.
    ///
    /// Not inlined, so that a refusal that the table does answer saves no registers for it.
    #[inline(never)]
    pub(super) fn allow_in_shard<Q: Lookup<K> + ?Sized>(
        &self,
        (hash, key): (u64, &Q),
        now: Timestamp,
    ) -> bool {
        let mut shard = self.shard(hash).lock();
        if shard.is_awaited() {
            if let Some(behind) = self.behind_others(&mut shard, (hash, key), 1, now) {
                return expect_grantable(behind).is_allowed();
            }
        }
        let instant = shard.date(now);
        let tagged = || self.tagged(hash, key);
        match self.allow_known(&mut shard, (hash, key), tagged, (now, instant), |_| true) {
            Some(is_allowed) => is_allowed,
            None => expect_grantable(self.check_rare(&mut shard, (hash, key), 1, now)).is_allowed(),
        }
    }

    /// Whether a call of cost 1 may go by a client that is known and as asked for; a refusal is noted.
    ///
    /// No decision is made of what is only asked whether.
    #[inline]
    pub(super) fn allow_known<Q: Lookup<K> + ?Sized>(
        &self,
        shard: &mut Shard<K, L>,
        key: (u64, &Q),
        tagged: impl FnOnce() -> Tagged,
        (now, instant): (Timestamp, Instant),
        is_meant: impl FnOnce(&L::State) -> bool,
    ) -> Option<bool> {
        let (found, admits) = shard
            .look_and_take_if(key, instant.now, 1, is_meant)?
            .ok()?;
        if admits {
            self.settle_taken(shard, &found, 1, (now, instant));
        } else {
            let _noted = self.refuse(shard, Some(tagged()), &found, (now, instant));
        }
        Some(admits)
    }

    /// Decides a request of cost 1 that the table of denials did not answer; a refusal is noted under `tagged`.
    #[inline]
    pub(super) fn check_in_shard<Q: Lookup<K> + ?Sized>(
        &self,
        (hash, key): (u64, &Q),
        tagged: Tagged,
        now: Timestamp,
    ) -> Decision {
        let mut shard = self.shard(hash).lock();
        if shard.is_awaited() {
            if let Some(behind) = self.behind_others(&mut shard, (hash, key), 1, now) {
                return expect_grantable(behind);
            }
        }
        self.check_known_or(
            &mut shard,
            (hash, key),
            tagged,
            now,
            |_| true,
            |shard| self.check_rare(shard, (hash, key), 1, now),
        )
    }

    /// Decides a request of cost 1 by a client that is known and as asked for, and `otherwise` one by another.
    #[inline]
    pub(super) fn check_known_or<Q: Lookup<K> + ?Sized>(
        &self,
        shard: &mut Shard<K, L>,
        key: (u64, &Q),
        tagged: Tagged,
        now: Timestamp,
        is_meant: impl FnOnce(&L::State) -> bool,
        otherwise: impl FnOnce(&mut Shard<K, L>) -> Result<Decision, CostTooHigh>,
    ) -> Decision {
        let instant = shard.date(now);
        match shard.look_and_take_if(key, instant.now, 1, is_meant) {
            // Here, as everywhere, the decision is made last and where the caller wants it: it is a hundred bytes, and a copy
            // of them costs as much as all the arithmetic.
            Some(Ok((found, true))) => {
                self.settle_taken(shard, &found, 1, (now, instant));
                let decision = shard.limiter().decision(&found, instant.now, 1);
                decision.counted_from(instant.lateness_ns())
            }
            Some(Ok((found, false))) => self.refuse(shard, Some(tagged), &found, (now, instant)),
            _ => expect_grantable(otherwise(shard)),
        }
    }

    /// The same of any cost; nothing is noted.
    #[inline]
    pub(super) fn check_n_in_shard<Q: Lookup<K> + ?Sized>(
        &self,
        (hash, key): (u64, &Q),
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, CostTooHigh> {
        let mut shard = self.shard(hash).lock();
        if shard.is_awaited() {
            if let Some(behind) = self.behind_others(&mut shard, (hash, key), cost, now) {
                return behind;
            }
        }
        let instant = shard.date(now);
        match shard.look_and_take((hash, key), instant.now, cost) {
            Some(Ok((found, true))) => {
                self.settle_taken(&mut shard, &found, cost, (now, instant));
                let decision = shard.limiter().decision(&found, instant.now, cost);
                Ok(decision.counted_from(instant.lateness_ns()))
            }
            Some(Ok((found, false))) => Ok(self.refuse(&mut shard, None, &found, (now, instant))),
            Some(Err(never)) => Err(never),
            None => self.check_rare(&mut shard, (hash, key), cost, now),
        }
    }

    /// Keeps what an admitted request has shown of the time.
    #[inline]
    fn settle_taken(
        &self,
        shard: &mut Shard<K, L>,
        found: &L::Found,
        cost: u64,
        (now, instant): (Timestamp, Instant),
    ) {
        if cost > 0 && shard.limiter().spends(found) {
            shard.charged(&self.denials, now, instant);
        } else {
            shard.note_set_back(&self.denials, now, instant);
        }
    }

    /// The decision on a known client's request that was not admitted; noted under `tagged`.
    #[inline(never)]
    fn refuse(
        &self,
        shard: &mut Shard<K, L>,
        tagged: Option<Tagged>,
        found: &L::Found,
        (now, instant): (Timestamp, Instant),
    ) -> Decision {
        shard.note_set_back(&self.denials, now, instant);
        let decision = shard.limiter().decision(found, instant.now, 0);
        let decision = decision.counted_from(instant.lateness_ns());
        if let Some(tagged) = tagged {
            self.note_denial(shard, tagged, (now, instant), &decision);
        }
        decision
    }

    /// Decides a request of a newcomer.
    #[cold]
    #[inline(never)]
    fn check_rare<Q: Lookup<K> + ?Sized>(
        &self,
        shard: &mut Shard<K, L>,
        key: (u64, &Q),
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, CostTooHigh> {
        self.ask_shard(shard, key, None, now, |limiter, state, now| {
            limiter.check(state, now, cost)
        })
    }

    /// Decides a call of any kind that the table of denials did not answer, in its shard. A refusal is noted under `tagged`, so
    /// that the next is answered without the shard.
    #[inline]
    pub(super) fn ask_shard<Q: Lookup<K> + ?Sized>(
        &self,
        shard: &mut Shard<K, L>,
        (hash, key): (u64, &Q),
        tagged: Option<Tagged>,
        now: Timestamp,
        mut ask: impl FnMut(&L, &mut L::State, Timestamp) -> Result<Decision, CostTooHigh>,
    ) -> Result<Decision, CostTooHigh> {
        let instant = shard.date(now);
        let known = shard.ask_known((hash, key), |limiter, state| {
            ask(limiter, state, instant.now)
        });
        let mut decision = match known {
            Some(decision) => decision?,
            None => self.ask_newcomer(shard, (hash, key), (now, instant), ask)?,
        };
        shard.settle(&self.denials, now, instant, &mut decision);
        if !decision.is_allowed() {
            if let Some(tagged) = tagged {
                self.note_denial(shard, tagged, (now, instant), &decision);
            }
        }
        Ok(decision)
    }

    /// Decides a call of a client that is not known, and keeps its state if something was spent.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_newcomer<Q: Lookup<K> + ?Sized>(
        &self,
        shard: &mut Shard<K, L>,
        (hash, key): (u64, &Q),
        (stamp, instant): (Timestamp, Instant),
        mut ask: impl FnMut(&L, &mut L::State, Timestamp) -> Result<Decision, CostTooHigh>,
    ) -> Result<Decision, CostTooHigh> {
        let mut state = shard.limiter().fresh(instant.now);
        let decision = ask(shard.limiter(), &mut state, instant.now)?;
        if !decision.is_recorded() {
            // Nothing is kept of it.
            return Ok(decision.leaving_time());
        }
        if let Some(room) = &self.room {
            if !room.take() {
                if let Err(wait_ns) = self.find_room(room, shard, stamp, instant) {
                    shard.count_refused_for_room();
                    let allowed = room.when_full == WhenFull::AllowUnrecorded;
                    return Ok(decision.for_want_of_room(wait_ns, allowed));
                }
            }
        }
        let forgotten = shard.insert(&self.hasher, (hash, key.to_key()), state, instant, |key| {
            self.is_client_awaited(key)
        });
        self.give_back(forgotten);
        Ok(decision)
    }

    #[inline]
    fn note_denial(
        &self,
        shard: &mut Shard<K, L>,
        key: Tagged,
        (stamp, instant): (Timestamp, Instant),
        decision: &Decision,
    ) {
        let turn = shard.count_refusal();
        if decision.is_store_full() || !self.denials.has_room(key, stamp.as_nanos(), turn) {
            return;
        }
        if let Some(denial) = Denial::of(stamp, instant, decision) {
            self.denials.note(key, denial);
            shard.noted_until(denial.until_ns);
        }
    }
}

impl Denial {
    /// What a refusal of cost 1 says, in its caller's stamps.
    ///
    /// `None` where the end of time is near: a wait that saturates, or that ends beyond the last stamp, has no end that
    /// a stamp could be compared with. And for a client that owes: its debt is another at every instant.
    fn of(stamp: Timestamp, instant: Instant, decision: &Decision) -> Option<Self> {
        let stamp_ns = stamp.as_nanos();
        let retry_ns = decision.retry_after_ns();
        let reset_ns = decision.reset_after_ns();
        let last = Timestamp::MAX.as_nanos();
        if decision.debt() > 0 || decision.would_have_refused() {
            return None;
        }
        if instant.now.as_nanos().checked_add(reset_ns.max(retry_ns))? > last {
            return None;
        }
        Some(Self {
            since_ns: stamp_ns,
            until_ns: stamp_ns.checked_add(retry_ns)?,
            reset_at_ns: stamp_ns.checked_add(reset_ns)?,
            limit: decision.limit(),
            member: decision.refused_by()? as u64,
        })
    }

    /// The decision that the store would take at `now`: of a cost of 1 that is refused, less than one unit remains.
    #[inline]
    pub(super) fn decision(&self, now: Timestamp) -> Decision {
        let retry_ns = self.until_ns.saturating_sub(now.as_nanos());
        let reset_ns = self.reset_at_ns.saturating_sub(now.as_nanos());
        Decision::from_memory(self.limit, (retry_ns, reset_ns), self.member as usize, now)
    }
}
