//! Tuples of limiters.

use crate::decision::{Decision, Receipt, Recorded, Tail};
use crate::error::CostTooHigh;
use crate::limiter::{Limiter, sealed};
use crate::quota::Quota;
use crate::time::Timestamp;

macro_rules! tuple {
    ($($index:tt $name:ident),+) => {
        impl<$($name: Limiter),+> sealed::Sealed for ($($name,)+) {}

        /// Several limits as one, charged together or not at all.
        impl<$($name: Limiter),+> Limiter for ($($name,)+) {
            type State = ($($name::State,)+);
            type Found = ($($name::Found,)+);
            const SHAPES: bool = false $(|| $name::SHAPES)+;

            #[inline]
            fn quota(&self) -> Quota {
                self.0.quota()
            }

            #[inline]
            fn fresh(&self, now: Timestamp) -> Self::State {
                ($(self.$index.fresh(now),)+)
            }

            fn refund(&self, state: &mut Self::State, now: Timestamp, receipt: Receipt) -> u64 {
                let is_last = self.tail(state) == receipt.tail();
                let queues = 0 $(+ usize::from(!self.$index.tail(&state.$index).is_none()))+;
                let mut given = u64::MAX;
                $(
                    let tail = self.$index.tail(&state.$index);
                    let tail = receipt.tail_of_member(queues, is_last, tail);
                    let of_member = receipt.with_tail(tail);
                    given = given.min(self.$index.refund(&mut state.$index, now, of_member));
                )+
                given
            }

            fn carry(&self, from: &Self, state: Self::State, now: Timestamp) -> Self::State {
                ($(self.$index.carry(&from.$index, state.$index, now),)+)
            }

            fn idle_at(&self, state: &Self::State) -> Timestamp {
                let mut idle_at = Timestamp::EPOCH;
                $(idle_at = idle_at.max(self.$index.idle_at(&state.$index));)+
                idle_at
            }

            #[inline]
            fn is_idle(&self, state: &Self::State, now: Timestamp) -> bool {
                true $(&& self.$index.is_idle(&state.$index, now))+
            }

            fn state_bytes(&self, state: &Self::State) -> usize {
                let mut on_heap = 0;
                $(on_heap += self.$index.state_bytes(&state.$index) - size_of::<$name::State>();)+
                size_of::<Self::State>() + on_heap
            }

            #[inline]
            fn look(
                &self,
                state: &Self::State,
                now: Timestamp,
                cost: u64,
            ) -> Result<Self::Found, CostTooHigh> {
                Ok(($(
                    match self.$index.look(&state.$index, now, cost) {
                        Ok(found) => found,
                        Err(never) => return Err(never.of_member($index)),
                    },
                )+))
            }

            #[inline]
            fn admits(&self, found: &Self::Found) -> bool {
                true $(&& self.$index.admits(&found.$index))+
            }

            #[inline]
            fn spends(&self, found: &Self::Found) -> bool {
                false $(|| self.$index.spends(&found.$index))+
            }

            #[inline]
            fn take(&self, state: &mut Self::State, now: Timestamp, found: &Self::Found, cost: u64) {
                $(self.$index.take(&mut state.$index, now, &found.$index, cost);)+
            }

            #[inline]
            fn decision(&self, found: &Self::Found, now: Timestamp, taken: u64) -> Decision {
                Decision::together([$(self.$index.decision(&found.$index, now, taken)),+])
            }

            fn each(
                &self,
                found: &Self::Found,
                now: Timestamp,
                taken: u64,
                report: &mut dyn FnMut(usize, Decision),
            ) {
                $(report($index, self.$index.decision(&found.$index, now, taken));)+
            }

            fn available(&self, state: &Self::State, now: Timestamp) -> u64 {
                let mut available = u64::MAX;
                $(available = available.min(self.$index.available(&state.$index, now));)+
                available
            }

            fn record(&self, state: &mut Self::State, now: Timestamp, units: u64) -> Recorded {
                let recorded = [$(self.$index.record(&mut state.$index, now, units)),+];
                recorded.into_iter().reduce(Recorded::and).unwrap_or(Recorded::NOTHING)
            }

            #[inline]
            fn tail(&self, state: &Self::State) -> Tail {
                let tail = Tail::NONE;
                $(let tail = tail.and(self.$index.tail(&state.$index));)+
                tail
            }

            fn redate(&self, state: &mut Self::State, from: Timestamp, to: Timestamp) {
                $(self.$index.redate(&mut state.$index, from, to);)+
            }

            fn is_sound(&self, state: &Self::State) -> bool {
                true $(&& self.$index.is_sound(&state.$index))+
            }
        }
    };
}

tuple!(0 A);
tuple!(0 A, 1 B);
tuple!(0 A, 1 B, 2 C);
tuple!(0 A, 1 B, 2 C, 3 D);
tuple!(0 A, 1 B, 2 C, 3 D, 4 E);
tuple!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F);
tuple!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G);
tuple!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H);
