//! Limiters as one: charged together or not at all, the strictest answer counts; and one that is only tried.

use num_bigint::BigInt;
use num_rational::BigRational;

use super::rules::{Charge, Memory};
use super::{Answer, Verdict, whole};
use crate::support::histories::Call;
use crate::support::specs::{Composed, Spec};

/// A limiter and one state of it, asked at instants that do not run back behind the latest charge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Oracle {
    Alone(Alone),
    Together(Vec<Oracle>),
    Tried(Box<Oracle>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Alone {
    limit: u64,
    most: u64,
    max_debt: u64,
    memory: Memory,
}

/// What a call was told, and whether it left something behind.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub answer: Answer,
    pub charged: bool,
}

/// A charge, as a refund names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taken {
    /// How many units are to be given back, of how many.
    pub units: u64,
    pub of: u64,
    pub at: i128,
    /// For each rule, where its queue ended when the charge had joined it, if it has joined one.
    ends: Vec<Option<BigInt>>,
}

impl Taken {
    pub fn part(&self, units: u64) -> Taken {
        Taken {
            units: units.min(self.units),
            ..self.clone()
        }
    }
}

impl Oracle {
    pub fn new(limits: &Composed) -> Oracle {
        match limits {
            Composed::Alone(spec) => Oracle::Alone(Alone::new(spec)),
            Composed::Together(members) => {
                Oracle::Together(members.iter().map(Oracle::new).collect())
            }
            Composed::Tried(inner) => Oracle::Tried(Box::new(Oracle::new(inner))),
        }
    }

    /// The answer to a cost that no wait would let pass.
    pub fn never(&self, cost: u64) -> Option<Answer> {
        match self {
            Oracle::Alone(Alone { most, .. }) => (cost > *most).then_some(Answer::Never {
                cost,
                most: *most,
                member: 0,
            }),
            Oracle::Together(members) => {
                let mut nevers = members.iter().map(|member| member.never(cost)).enumerate();
                nevers.find_map(|(member, never)| match never? {
                    Answer::Never { cost, most, .. } => Some(Answer::Never { cost, most, member }),
                    other => Some(other),
                })
            }
            Oracle::Tried(_) => None,
        }
    }

    /// Answers a check, a peek, `at_most` or charge at the instant it is decided, and says what it has taken.
    pub fn ask(&mut self, call: Call, now: i128) -> (Told, Option<Taken>) {
        let cost = call.cost();
        let before = self.ends();
        let told = match call {
            Call::Check { .. } => self.check(now, cost),
            Call::AtMost { .. } => self.at_most(now, cost),
            Call::Charge { .. } => self.charge(now, cost),
            _ => Told {
                answer: self.peek(now, cost),
                charged: false,
            },
        };
        let receipt = told.answer.verdict().and_then(|verdict| verdict.receipt);
        let taken = receipt.map(|(units, at)| {
            let ends = self.ends().into_iter().zip(before);
            let moved = ends.map(|(end, was)| if end == was { None } else { end });
            Taken {
                units,
                of: units,
                at: at.into(),
                ends: moved.collect(),
            }
        });
        (told, taken)
    }

    /// What a check would say, but for what it leaves: a peek charges nothing.
    pub fn peek(&self, now: i128, cost: u64) -> Answer {
        self.never(cost)
            .unwrap_or_else(|| Answer::Decided(self.foretold(now, cost)))
    }

    pub fn check(&mut self, now: i128, cost: u64) -> Told {
        match self.never(cost) {
            Some(never) => Told {
                answer: never,
                charged: false,
            },
            None => self.decide(now, cost),
        }
    }

    /// What each member says by itself to a check: as it has left them, or as it found them if it is refused.
    pub fn each(&self, now: i128, cost: u64) -> Vec<Verdict> {
        let Oracle::Together(members) = self else {
            let told = self.clone().check(now, cost);
            return told.answer.verdict().copied().into_iter().collect();
        };
        let allowed = self.foretold(now, cost).allowed;
        let each = members.iter().cloned().map(|mut member| {
            if allowed {
                *member
                    .decide(now, cost)
                    .answer
                    .verdict()
                    .expect("it is decided")
            } else {
                member.foretold(now, cost)
            }
        });
        each.collect()
    }

    /// A check of what there is, but at least of one unit.
    pub fn at_most(&mut self, now: i128, cost: u64) -> Told {
        if let Oracle::Tried(inner) = self {
            let told = inner.at_most(now, cost);
            let mut verdict = *told.answer.verdict().expect("it is decided");
            verdict.would_have_refused |= verdict.granted < cost;
            return Told {
                answer: Answer::Decided(in_shadow(verdict, cost)),
                ..told
            };
        }
        let there = self.available(now).max(1);
        self.decide(now, cost.min(there))
    }

    /// What there is to grant; one that is only tried keeps nothing back.
    fn available(&self, now: i128) -> u64 {
        match self {
            Oracle::Alone(rule) => rule.foretold(now, 0).remaining,
            Oracle::Together(members) => {
                let available = members.iter().map(|member| member.available(now));
                available.min().expect("there is a member")
            }
            Oracle::Tried(_) => u64::MAX,
        }
    }

    /// Records what was spent already, up to the cap on debt.
    pub fn charge(&mut self, now: i128, cost: u64) -> Told {
        let (recorded, charged) = self.record(now, cost);
        let verdict = Verdict {
            granted: recorded,
            unrecorded: cost - recorded,
            receipt: receipt(recorded, now),
            ..self.foretold(now, 1)
        };
        Told {
            answer: Answer::Decided(verdict),
            charged,
        }
    }

    /// Gives back to every member; says how much the least of them took. Who joined several queues at once leaves them all
    /// at once, or none.
    pub fn refund(&mut self, now: i128, taken: &Taken) -> u64 {
        let ends = self.ends();
        let joined = || {
            taken
                .ends
                .iter()
                .zip(&ends)
                .filter(|(ended, _)| ended.is_some())
        };
        let is_last = joined().count() <= 1 || joined().all(|(ended, ends)| ended == ends);
        let mut ends = taken
            .ends
            .iter()
            .map(|end| end.as_ref().filter(|_| is_last));
        self.give_back(now, taken, &mut ends)
    }

    /// The state under another limiter: member by member.
    pub fn carried(&self, to: &Composed, now: i128) -> Oracle {
        match (self, to) {
            (Oracle::Alone(was), Composed::Alone(spec)) => Oracle::Alone(Alone {
                memory: was.memory.carried(spec, now),
                ..Alone::new(spec)
            }),
            (Oracle::Together(were), Composed::Together(members)) => {
                let members = members.iter().enumerate();
                let carried = members.map(|(at, member)| match were.get(at) {
                    Some(was) => was.carried(member, now),
                    None => Oracle::new(member),
                });
                Oracle::Together(carried.collect())
            }
            (Oracle::Tried(was), Composed::Tried(inner)) => {
                Oracle::Tried(Box::new(was.carried(inner, now)))
            }
            _ => panic!("{self:?} is not of the kind of {to:?}"),
        }
    }

    /// For each rule that is a queue, where it ends.
    pub fn ends(&self) -> Vec<Option<BigInt>> {
        let mut ends = Vec::new();
        self.each_rule(&mut |rule| ends.push(rule.memory.definition().end()));
        ends
    }

    pub fn fits(&self, now: i128, cost: u64) -> bool {
        let mut fits = true;
        self.each_rule(&mut |rule| fits &= rule.fits(now, cost));
        fits
    }

    /// The smallest whole wait after which `cost` fits, in closed form.
    pub fn wait_for(&self, now: i128, cost: u64) -> BigInt {
        self.longest(&|rule| rule.memory.definition().wait_for(now, cost))
    }

    /// The smallest whole wait after which nothing is left of any charge, in closed form.
    pub fn wait_until_idle(&self, now: i128) -> BigInt {
        self.longest(&|rule| rule.memory.definition().wait_until_idle(now))
    }

    fn longest(&self, wait: &dyn Fn(&Alone) -> BigInt) -> BigInt {
        let mut longest = BigInt::ZERO;
        self.each_rule(&mut |rule| longest = wait(rule).max(std::mem::take(&mut longest)));
        longest
    }

    fn each_rule(&self, visit: &mut dyn FnMut(&Alone)) {
        match self {
            Oracle::Alone(rule) => visit(rule),
            Oracle::Together(members) => members.iter().for_each(|member| member.each_rule(visit)),
            Oracle::Tried(inner) => inner.each_rule(visit),
        }
    }

    fn foretold(&self, now: i128, cost: u64) -> Verdict {
        match self {
            Oracle::Alone(rule) => rule.foretold(now, cost),
            Oracle::Together(members) => {
                let verdicts: Vec<_> = members.iter().map(|it| it.foretold(now, cost)).collect();
                strictest(&verdicts)
            }
            Oracle::Tried(inner) => match inner.never(cost) {
                Some(_) => Verdict {
                    would_have_refused: true,
                    ..inner.foretold(now, 0)
                },
                None => in_shadow(inner.foretold(now, cost), 0),
            },
        }
    }

    /// A check of a cost that is not too high.
    fn decide(&mut self, now: i128, cost: u64) -> Told {
        let foretold = self.foretold(now, cost);
        if !foretold.allowed || cost == 0 {
            return Told {
                answer: Answer::Decided(foretold),
                charged: false,
            };
        }
        let (mut verdict, charged) = match self {
            Oracle::Alone(rule) => {
                rule.memory.definition_mut().charge(now, cost);
                let left = rule.foretold(now, 0);
                let delay = foretold.delay;
                (Verdict { delay, ..left }, true)
            }
            Oracle::Together(members) => {
                let told: Vec<_> = members.iter_mut().map(|it| it.decide(now, cost)).collect();
                let verdicts: Vec<_> = told
                    .iter()
                    .filter_map(|it| it.answer.verdict().copied())
                    .collect();
                (strictest(&verdicts), told.iter().any(|it| it.charged))
            }
            Oracle::Tried(inner) => match inner.check(now, cost) {
                Told {
                    answer: Answer::Decided(verdict),
                    charged,
                } => (in_shadow(verdict, cost), charged),
                _ => (foretold, false),
            },
        };
        verdict.granted = cost;
        verdict.receipt = receipt(if charged { cost } else { 0 }, now);
        Told {
            answer: Answer::Decided(verdict),
            charged,
        }
    }

    /// How many units the least of the rules has recorded, and whether any has recorded some.
    fn record(&mut self, now: i128, cost: u64) -> (u64, bool) {
        match self {
            Oracle::Alone(rule) => {
                let recorded = cost.min(rule.room(now));
                if recorded > 0 {
                    rule.memory.definition_mut().charge(now, recorded);
                }
                (recorded, recorded > 0)
            }
            Oracle::Together(members) => {
                let recorded = members.iter_mut().map(|member| member.record(now, cost));
                recorded
                    .reduce(|least, next| (least.0.min(next.0), least.1 || next.1))
                    .expect("there is a member")
            }
            Oracle::Tried(inner) => inner.record(now, cost),
        }
    }

    fn give_back<'a>(
        &mut self,
        now: i128,
        taken: &Taken,
        ends: &mut impl Iterator<Item = Option<&'a BigInt>>,
    ) -> u64 {
        match self {
            Oracle::Alone(rule) => {
                let charge = Charge {
                    units: taken.units,
                    of: taken.of,
                    at: taken.at,
                    end: ends.next().flatten().cloned(),
                };
                rule.memory.definition_mut().refund(now, &charge)
            }
            Oracle::Together(members) => {
                let mut least = u64::MAX;
                for member in members {
                    least = least.min(member.give_back(now, taken, ends));
                }
                least
            }
            Oracle::Tried(inner) => inner.give_back(now, taken, ends),
        }
    }
}

impl Alone {
    fn new(spec: &Spec) -> Alone {
        Alone {
            limit: spec.limit,
            most: spec.most(),
            max_debt: spec.max_debt(),
            memory: Memory::fresh(spec),
        }
    }

    fn left(&self, now: i128) -> BigRational {
        self.memory.definition().left(now)
    }

    fn fits(&self, now: i128, cost: u64) -> bool {
        self.left(now) >= BigRational::from_integer(cost.into())
    }

    /// How many units may be recorded before the debt is at its cap.
    fn room(&self, now: i128) -> u64 {
        let left = self.left(now).floor().to_integer();
        whole((left + self.max_debt).max(BigInt::ZERO))
    }

    fn foretold(&self, now: i128, cost: u64) -> Verdict {
        let definition = self.memory.definition();
        let left = self.left(now);
        let allowed = cost == 0 || left >= BigRational::from_integer(cost.into());
        let (mut retry_after, mut delay) = (0, 0);
        if !allowed {
            retry_after = whole(definition.wait_for(now, cost));
        } else if cost > 0 {
            delay = whole(definition.delay(now));
        }
        Verdict {
            allowed,
            limit: self.limit,
            remaining: whole(left.floor().to_integer().max(BigInt::ZERO)),
            retry_after,
            reset_after: whole(definition.wait_until_idle(now)),
            delay,
            granted: 0,
            debt: whole((-left).ceil().to_integer().max(BigInt::ZERO)),
            unrecorded: 0,
            refused_by: (!allowed).then_some(0),
            would_have_refused: false,
            receipt: None,
        }
    }
}

/// What several limits say together, that charge nothing.
fn strictest(verdicts: &[Verdict]) -> Verdict {
    let refusals = verdicts.iter().enumerate().filter(|(_, it)| !it.allowed);
    let longest = verdicts.iter().map(|it| it.retry_after).max().unwrap_or(0);
    let refused_by = refusals
        .clone()
        .find(|(_, refusal)| refusal.retry_after == longest)
        .map(|(member, _)| member);
    let least = verdicts.iter().map(|it| it.remaining).min().unwrap_or(0);
    let has_least = |member: &usize| verdicts[*member].remaining == least;
    let scarcest = refused_by
        .filter(has_least)
        .or((0..verdicts.len()).find(has_least))
        .expect("one of them has the least");
    let largest = |of: fn(&Verdict) -> u64| verdicts.iter().map(of).max().unwrap_or(0);
    let allowed = refused_by.is_none();
    Verdict {
        allowed,
        limit: verdicts[scarcest].limit,
        remaining: least,
        retry_after: longest,
        reset_after: largest(|it| it.reset_after),
        delay: if allowed { largest(|it| it.delay) } else { 0 },
        granted: 0,
        debt: largest(|it| it.debt),
        unrecorded: 0,
        refused_by,
        would_have_refused: verdicts.iter().any(|it| it.would_have_refused),
        receipt: None,
    }
}

/// What is only tried refuses nobody, and says that it would have.
fn in_shadow(verdict: Verdict, granted: u64) -> Verdict {
    Verdict {
        allowed: true,
        retry_after: 0,
        refused_by: None,
        would_have_refused: verdict.would_have_refused || !verdict.allowed,
        granted,
        ..verdict
    }
}

fn receipt(units: u64, now: i128) -> Option<(u64, u64)> {
    let now = u64::try_from(now).expect("within the range of stamps");
    (units > 0).then_some((units, now))
}
