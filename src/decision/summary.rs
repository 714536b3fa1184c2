//! What several limits say together.

use super::{Basis, Decision, SummaryBasis, Tail};
use crate::time::Timestamp;

/// The members' decisions, taken together one by one, in their order.
pub(super) struct Summary {
    seen: usize,
    decided_at: Timestamp,
    refused: Option<Refused>,
    limit: u64,
    remaining: u64,
    reset_ns: u64,
    delay_ns: u64,
    debt: u64,
    granted: u64,
    recorded: bool,
    would_have_refused: bool,
    tail: Tail,
}

/// The member with the longest wait so far.
struct Refused {
    member: usize,
    retry_ns: u64,
    limit: u64,
    remaining: u64,
}

impl Summary {
    #[inline]
    pub(super) const fn new() -> Self {
        Self {
            seen: 0,
            decided_at: Timestamp::EPOCH,
            refused: None,
            limit: 0,
            remaining: u64::MAX,
            reset_ns: 0,
            delay_ns: 0,
            debt: 0,
            granted: 0,
            recorded: false,
            would_have_refused: false,
            tail: Tail::NONE,
        }
    }

    // Always inlined, so that whoever asks only whether the request may go pays for nothing else: the compiler does not drop
    // a call.
    #[inline(always)]
    pub(super) fn add(&mut self, decision: &Decision) {
        let (limit, remaining) = (decision.limit(), decision.remaining());
        if self.seen == 0 || remaining < self.remaining {
            (self.limit, self.remaining) = (limit, remaining);
        }
        if !decision.is_allowed() {
            let retry_ns = decision.retry_after_ns();
            let is_longest = |longest: &Refused| retry_ns > longest.retry_ns;
            if self.refused.as_ref().is_none_or(is_longest) {
                self.refused = Some(Refused {
                    member: self.seen,
                    retry_ns,
                    limit,
                    remaining,
                });
            }
        }
        self.reset_ns = self.reset_ns.max(decision.reset_after_ns());
        self.delay_ns = self.delay_ns.max(decision.delay_ns());
        self.debt = self.debt.max(decision.debt());
        self.granted = self.granted.max(decision.granted());
        self.recorded |= decision.is_recorded();
        self.would_have_refused |= decision.would_have_refused();
        self.tail = self.tail.and(decision.tail());
        self.decided_at = decision.decided_at;
        self.seen += 1;
    }

    /// The decision of all that were added.
    #[inline(always)]
    pub(super) fn decision(self) -> Decision {
        let mut basis = SummaryBasis {
            limit: self.limit,
            remaining: self.remaining,
            retry_ns: 0,
            reset_ns: self.reset_ns,
            delay_ns: self.delay_ns,
            debt: self.debt,
        };
        let mut refused_by = 0;
        if let Some(refused) = &self.refused {
            refused_by = refused.member;
            basis.retry_ns = refused.retry_ns;
            if refused.remaining == self.remaining {
                // Of those with the least left, the one that keeps the client waiting is named.
                basis.limit = refused.limit;
            }
        }
        let taken = if self.recorded { self.granted } else { 0 };
        let allowed = self.refused.is_none();
        let decision = Decision::of(Basis::Summary(basis), self.decided_at, allowed, taken)
            .of_members(refused_by, self.would_have_refused, self.tail);
        if allowed && self.would_have_refused && !self.recorded {
            decision.in_shadow(self.granted)
        } else {
            decision
        }
    }
}
