//! The rows of the file, and what becomes of each.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tollgate::Quota;

use crate::{AGREED, FATES, THEIRS, WAITING};

#[derive(PartialEq)]
pub(crate) enum Fate {
    Runs,
    Waits(String),
    Theirs,
}

pub(crate) struct Row {
    pub(crate) group: String,
    pub(crate) id: String,
    pub(crate) value: Value,
}

impl Row {
    pub(crate) fn fate(&self) -> Fate {
        let listed = |list: &[(&str, &'static str)]| {
            let entry = list
                .iter()
                .find(|(name, _)| *name == self.id || *name == self.group);
            entry.map(|&(_, why)| why.to_string())
        };
        if listed(&THEIRS).is_some() {
            return Fate::Theirs;
        }
        if let Some(what) = listed(&WAITING) {
            return Fate::Waits(what);
        }
        let agreed =
            |conformance: &Value| conformance == "canonical" || AGREED.contains(&self.id.as_str());
        if self
            .get("conformance")
            .is_some_and(|conformance| !agreed(conformance))
        {
            panic!(
                "{}: {} is new: is it ours?",
                self.id, self.value["conformance"]
            );
        }
        Fate::Runs
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.value.get(name)
    }
    pub(crate) fn number(&self, name: &str) -> u64 {
        let number = self.get(name).and_then(Value::as_u64);
        number.unwrap_or_else(|| panic!("{}: no number {name} in {}", self.id, self.value))
    }
    pub(crate) fn number_or(&self, name: &str, absent: u64) -> u64 {
        self.get(name).map_or(absent, |_| self.number(name))
    }
    pub(crate) fn text(&self, name: &str) -> &str {
        let text = self.get(name).and_then(Value::as_str);
        text.unwrap_or_else(|| panic!("{}: no text {name} in {}", self.id, self.value))
    }
    pub(crate) fn quota(&self, limit: u64) -> Quota {
        let period = Duration::from_nanos(self.number("period_ns"));
        Quota::new(limit, period).expect("a quota")
    }
    pub(crate) fn op(&self) -> &str {
        self.get("op").map_or("try", |_| self.text("op"))
    }
    pub(crate) fn inner(&self, name: &str) -> Row {
        Row {
            group: self.group.clone(),
            id: self.id.clone(),
            value: self.value[name].clone(),
        }
    }
    pub(crate) fn list(&self, name: &str) -> Vec<Row> {
        let list = self.get(name).and_then(Value::as_array);
        let list = list.unwrap_or_else(|| panic!("{}: no list {name} in {}", self.id, self.value));
        let row = |value: &Value| Row {
            group: self.group.clone(),
            id: self.id.clone(),
            value: value.clone(),
        };
        list.iter().map(row).collect()
    }
    /// A field that nobody reads is an expectation that nobody checks.
    pub(crate) fn knows(&self, fields: &[&str]) {
        for field in self.value.as_object().expect("an object").keys() {
            assert!(
                fields.contains(&field.as_str()),
                "{}: the field {field} is new",
                self.id
            );
        }
    }
}

/// Runs each row of a group that runs, and says how many those were.
pub(crate) fn run(group: &str, mut body: impl FnMut(&Row)) -> usize {
    let Some(file) = read() else { return 0 };
    let mut run = 0;
    for row in rows(&file).iter().filter(|row| row.group == group) {
        if row.fate() == Fate::Runs {
            run += 1;
            body(row);
        }
    }
    let &(_, runs, ..) = FATES
        .iter()
        .find(|(name, ..)| *name == group)
        .expect("a group of FATES");
    assert_eq!(run, runs, "{group}: rows that were run");
    run
}

pub(crate) fn rows(file: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for (group, list) in file.as_object().expect("an object of groups") {
        for (i, value) in list.as_array().into_iter().flatten().enumerate() {
            let id = value
                .get("id")
                .and_then(Value::as_str)
                .map_or_else(|| format!("{group}[{i}]"), str::to_string);
            rows.push(Row {
                group: group.clone(),
                id,
                value: value.clone(),
            });
        }
    }
    rows
}

/// The file; or a word, on the real standard error (that of a test that passes is not shown), that it is not there.
pub(crate) fn read() -> Option<Value> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/vectors/peers.json");
    let named = std::env::var_os("TOLLGATE_VECTORS").map(PathBuf::from);
    let path = named.clone().unwrap_or(beside);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(
            serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        ),
        Err(error) => {
            assert!(
                named.is_none(),
                "TOLLGATE_VECTORS: {}: {error}",
                path.display()
            );
            let word = "SKIPPED: the answers of other limiters are not checked";
            writeln!(std::io::stderr(), "{word}: {}: {error}", path.display())
                .expect("standard error");
            None
        }
    }
}
