//! [`PolicySet`]: named policies, as a configuration file has them.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::all::All;

/// Named policies: what a configuration file says of a service's limits.
///
/// Each is a quota by itself (a token bucket), a table, or a list of these that hold together ([`All`]). A mistake is an
/// error that names where it is: unknown fields and algorithms, numbers out of range, names given twice.
///
/// ```
/// use tollgate::{Algorithm, Keyed, PolicySet, Timestamp};
///
/// # let toml_text = include_str!("../../examples/data/policies.toml");
/// // toml_text holds examples/data/policies.toml:
/// // search = "100/min"
/// // login = [{ algorithm = "token-bucket", quota = "10/s" }, { algorithm = "fixed-window", quota = "1000/d" }]
/// // …
/// let policies: PolicySet = toml::from_str(toml_text)?;
/// let login = policies.get("login").expect("the file names it");
/// assert_eq!(login.members()[1].algorithm(), Algorithm::FixedWindow);
/// let limiter: Keyed<String, _> = Keyed::new(login.clone());
/// assert!(limiter.allow("ada", Timestamp::from_secs(1_000)));
///
/// let error = toml::from_str::<PolicySet>(r#"login = ["10/s", { algorithm = "sliding-log", quota = "5/fortnight" }]"#);
/// assert!(error.unwrap_err().to_string().contains("login[1].quota: "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The whole of `examples/data/policies.toml`, with every form there is:
///
/// ```toml
#[doc = include_str!("../../examples/data/policies.toml")]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PolicySet {
    named: BTreeMap<String, All>,
}

impl PolicySet {
    /// The policy of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&All> {
        self.named.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &All)> {
        self.named
            .iter()
            .map(|(name, policy)| (name.as_str(), policy))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}

impl<'de> Deserialize<'de> for PolicySet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SetVisitor)
    }
}

struct SetVisitor;

impl<'de> Visitor<'de> for SetVisitor {
    type Value = PolicySet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of named policies")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PolicySet, A::Error> {
        let mut named = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let policy = map.next_value_seed(Named(&name))?;
            if named.insert(name.clone(), policy).is_some() {
                return Err(A::Error::custom(format!(
                    "{name}: this name is there twice"
                )));
            }
        }
        Ok(PolicySet { named })
    }
}

/// The policy of a name, which its errors begin with.
struct Named<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = All;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<All, D::Error> {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            let path = format!("{}", error.path());
            let problem = error.into_inner();
            let name = self.0;
            D::Error::custom(match path.as_str() {
                // What the tracker calls the value as a whole.
                "." => format!("{name}: {problem}"),
                path if path.starts_with('[') => format!("{name}{path}: {problem}"),
                path => format!("{name}.{path}: {problem}"),
            })
        })
    }
}
