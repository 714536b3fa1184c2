//! A policy as an entry of a configuration file: a table, or a quota by itself.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Algorithm, Policy};
use crate::algorithm::{FixedWindow, LeakyBucket, SlidingLog, SlidingWindowCounter, TokenBucket};
use crate::limiter::Limiter;
use crate::quota::{Quota, period_text};

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PolicyVisitor)
    }
}

struct PolicyVisitor;

impl<'de> Visitor<'de> for PolicyVisitor {
    type Value = Policy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Policy::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Policy, E> {
        Policy::of_text(text)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Policy, A::Error> {
        Policy::of_table(map)
    }
}

impl Policy {
    /// What a policy may be written as.
    pub(crate) const EXPECTED: &str =
        "a quota such as \"100/min\", or a table with `algorithm` and `quota`";

    pub(crate) fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        let quota: Quota = text.parse().map_err(E::custom)?;
        Ok(Self::TokenBucket(TokenBucket::new(quota)))
    }

    pub(crate) fn of_table<'de, A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        let table = PolicyTable::deserialize(MapAccessDeserializer::new(map))?;
        table.try_into().map_err(A::Error::custom)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyTable {
    algorithm: Algorithm,
    quota: Quota,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offset: Option<Period>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    anchored_at_first_request: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolution: Option<Period>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_debt: Option<u64>,
}

/// `30s`, `10ms`.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Period(#[serde(with = "period_text")] Duration);

impl PolicyTable {
    const fn new(algorithm: Algorithm, quota: Quota) -> Self {
        Self {
            algorithm,
            quota,
            burst: None,
            offset: None,
            anchored_at_first_request: None,
            resolution: None,
            max_debt: None,
        }
    }

    /// Refuses what the algorithm would have ignored.
    fn takes_only(&self, taken: &[&str]) -> Result<(), String> {
        let given = [
            ("burst", self.burst.is_some()),
            ("offset", self.offset.is_some()),
            (
                "anchored_at_first_request",
                self.anchored_at_first_request.is_some(),
            ),
            ("resolution", self.resolution.is_some()),
        ];
        for (name, is_given) in given {
            if is_given && !taken.contains(&name) {
                return Err(format!("{} takes no `{name}`", self.algorithm));
            }
        }
        Ok(())
    }
}

impl TryFrom<PolicyTable> for Policy {
    type Error = String;

    fn try_from(table: PolicyTable) -> Result<Self, String> {
        let quota = table.quota;
        let burst = table.burst.unwrap_or(quota.limit());
        let offset = table.offset.map_or(Duration::ZERO, |Period(offset)| offset);
        let policy = match table.algorithm {
            Algorithm::TokenBucket => {
                table.takes_only(&["burst"])?;
                let rule = TokenBucket::new(quota).try_with_burst(burst);
                Self::TokenBucket(rule.map_err(|error| error.to_string())?)
            }
            Algorithm::LeakyBucket => {
                table.takes_only(&["burst"])?;
                let rule = LeakyBucket::new(quota).try_with_burst(burst);
                Self::LeakyBucket(rule.map_err(|error| error.to_string())?)
            }
            Algorithm::FixedWindow => {
                table.takes_only(&["offset", "anchored_at_first_request"])?;
                let rule = FixedWindow::new(quota).with_offset(offset);
                let anchored = table.anchored_at_first_request == Some(true);
                if anchored && table.offset.is_some() {
                    return Err(
                        "a window anchored at the first request has no grid: leave out `offset`"
                            .to_string(),
                    );
                }
                Self::FixedWindow(if anchored {
                    rule.anchored_at_first_request()
                } else {
                    rule
                })
            }
            Algorithm::SlidingLog => {
                table.takes_only(&["resolution"])?;
                let rule = SlidingLog::new(quota);
                Self::SlidingLog(match table.resolution {
                    Some(Period(resolution)) => rule
                        .try_with_resolution(resolution)
                        .map_err(|error| error.to_string())?,
                    None => rule,
                })
            }
            Algorithm::SlidingWindowCounter => {
                table.takes_only(&["offset"])?;
                Self::SlidingWindowCounter(SlidingWindowCounter::new(quota).with_offset(offset))
            }
        };
        match table.max_debt {
            Some(units) => policy
                .try_with_max_debt(units)
                .map_err(|error| error.to_string()),
            None => Ok(policy),
        }
    }
}

impl From<Policy> for PolicyTable {
    fn from(policy: Policy) -> Self {
        let mut table = Self::new(policy.algorithm(), policy.quota());
        let offset = |offset: Duration| (!offset.is_zero()).then_some(Period(offset));
        match policy {
            Policy::TokenBucket(rule) => table.burst = Some(rule.burst()),
            Policy::LeakyBucket(rule) => table.burst = Some(rule.burst()),
            Policy::FixedWindow(rule) if rule.is_anchored_at_first_request() => {
                table.anchored_at_first_request = Some(true);
            }
            Policy::FixedWindow(rule) => table.offset = offset(rule.offset()),
            Policy::SlidingLog(rule) => {
                table.resolution = Some(Period(rule.resolution()));
            }
            Policy::SlidingWindowCounter(rule) => table.offset = offset(rule.offset()),
        }
        table.max_debt = policy.set_max_debt();
        table
    }
}
