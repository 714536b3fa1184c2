//! How a call is decided that reaches a shard: known clients first and fast; newcomers, and refusals that are to be noted,
//! apart.

use std::hash::{BuildHasher, Hash};

use super::Keyed;
use super::denials::{Denial, Tagged};
use super::lookup::Lookup;
use super::room::WhenFull;
use super::shard::Shard;
use crate::decision::{Basis, Decision, WaitsBasis};
use crate::error::CostTooHigh;
use crate::holder::{Instant, always_fits};
use crate::limiter::Limiter;
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
        let instant = shard.date(now);
        // No decision is made of what is only asked whether: this is what most calls that are allowed come to.
        let is_allowed = shard.state_mut((hash, key)).is_some_and(|state| {
            let decision = self.limiter.check(state, instant.now, 1);
            decision.is_ok_and(|decision| decision.is_allowed())
        });
        if is_allowed {
            shard.charged(&self.denials, now, instant);
            return true;
        }
        // A refusal has changed nothing, and is asked for again in full, to be noted.
        always_fits(self.check_rare(&mut shard, (hash, key), 1, now, instant)).is_allowed()
    }

    /// Decides a call that the table of denials did not answer.
    #[inline]
    pub(super) fn check_in_shard<Q: Lookup<K> + ?Sized>(
        &self,
        (hash, key): (u64, &Q),
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, CostTooHigh> {
        let mut shard = self.shard(hash).lock();
        let instant = shard.date(now);
        if let Some(state) = shard.state_mut((hash, key)) {
            let mut decision = self.limiter.check(state, instant.now, cost)?;
            if decision.is_allowed() {
                shard.settle(&self.denials, now, instant, &mut decision);
                return Ok(decision);
            }
        }
        self.check_rare(&mut shard, (hash, key), cost, now, instant)
    }

    /// Decides a call of a newcomer, or one that is refused: notes the refusal, so that the next is answered without the
    /// shard.
    #[cold]
    #[inline(never)]
    fn check_rare<Q: Lookup<K> + ?Sized>(
        &self,
        shard: &mut Shard<K, L::State>,
        (hash, key): (u64, &Q),
        cost: u64,
        now: Timestamp,
        instant: Instant,
    ) -> Result<Decision, CostTooHigh> {
        let mut decision = match shard.state_mut((hash, key)) {
            Some(state) => self.limiter.check(state, instant.now, cost)?,
            None => self.check_newcomer(shard, (hash, key), cost, now, instant)?,
        };
        shard.settle(&self.denials, now, instant, &mut decision);
        if cost == 1 && !decision.is_allowed() {
            self.note_denial(shard, self.tagged(hash, key), (now, instant), &decision);
        }
        Ok(decision)
    }

    /// Decides a call of a client that is not known, and keeps its state if it was charged.
    fn check_newcomer<Q: Lookup<K> + ?Sized>(
        &self,
        shard: &mut Shard<K, L::State>,
        (hash, key): (u64, &Q),
        cost: u64,
        stamp: Timestamp,
        instant: Instant,
    ) -> Result<Decision, CostTooHigh> {
        let mut state = self.limiter.fresh(instant.now);
        let decision = self.limiter.check(&mut state, instant.now, cost)?;
        if !decision.is_charged() {
            return Ok(decision);
        }
        if let Some(room) = &self.room {
            if !room.take() {
                if let Err(wait_ns) = self.find_room(room, shard, stamp, instant) {
                    shard.count_refused_for_room();
                    let waits = WaitsBasis {
                        limit: decision.limit(),
                        retry_ns: wait_ns,
                        reset_ns: 0,
                    };
                    let allowed = room.when_full == WhenFull::AllowUnrecorded;
                    return Ok(Decision::for_want_of_room(waits, allowed));
                }
            }
        }
        let forgotten = shard.insert(&self.rules(), hash, key.to_key(), state, instant);
        self.give_back(forgotten);
        Ok(decision)
    }

    fn note_denial(
        &self,
        shard: &mut Shard<K, L::State>,
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
    /// a stamp could be compared with.
    fn of(stamp: Timestamp, instant: Instant, decision: &Decision) -> Option<Self> {
        let stamp_ns = stamp.as_nanos();
        let retry_ns = decision.retry_after_ns();
        let reset_ns = decision.reset_after_ns();
        let last = Timestamp::MAX.as_nanos();
        if instant.now.as_nanos().checked_add(reset_ns.max(retry_ns))? > last {
            return None;
        }
        Some(Self {
            since_ns: stamp_ns,
            until_ns: stamp_ns.checked_add(retry_ns)?,
            reset_at_ns: stamp_ns.checked_add(reset_ns)?,
            limit: decision.limit(),
        })
    }

    /// The decision that the store would take at `now`: of a cost of 1 that is refused, less than one unit remains.
    #[inline]
    pub(super) fn basis(&self, now: Timestamp) -> Basis {
        Basis::Waits(WaitsBasis {
            limit: self.limit,
            retry_ns: self.until_ns.saturating_sub(now.as_nanos()),
            reset_ns: self.reset_at_ns.saturating_sub(now.as_nanos()),
        })
    }
}
