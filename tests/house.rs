//! Holds the house of DESIGN.md: imports run upward only, so that a rule never comes to know who holds it.

use std::fs;
use std::path::{Path, PathBuf};

/// The house, top to bottom: a file or folder may use what stands above its own line, and its own folder.
/// (L3 takes four lines, for a policy is made of the algorithms, and several limits of policies; `holder`, `estimate` and
/// `queue` are what `direct` and `keyed` share.)
const HOUSE: [(&str, &[&str]); 12] = [
    ("L0", &["arithmetic", "time", "error"]),
    ("L1", &["quota", "decision"]),
    ("L2", &["limiter", "clock"]),
    ("L3", &["algorithm"]),
    ("L3", &["policy"]),
    ("L3", &["compose"]),
    ("L3", &["check"]),
    ("L3 to L4", &["holder", "estimate"]),
    ("L3 to L4", &["queue"]),
    ("L4", &["direct", "keyed", "http", "redis", "metrics"]),
    ("L5", &["wait", "fleet"]),
    ("L6", &["tower"]),
];

/// What is wrong with the file at this path below `src/` (`keyed/shard.rs`): lines and sentences.
fn faults(path: &str, source: &str) -> Vec<(usize, String)> {
    let module: Vec<&str> = path
        .trim_end_matches(".rs")
        .trim_end_matches("/mod")
        .split('/')
        .collect();
    let owner = module[0];
    if owner == "lib" {
        return Vec::new(); // the root may use everybody
    }
    let Some(own) = line_of(owner) else {
        return vec![(
            1,
            format!("`{owner}` has no place in the house: give it one in tests/house.rs"),
        )];
    };
    let code = what_is_compiled(source);
    let mut found = Vec::new();
    for (at, used) in imports(&code, module.len()) {
        let what = match line_of(&used) {
            _ if used == owner => continue,
            Some(theirs) if theirs < own => continue,
            Some(theirs) => {
                let (here, there) = (HOUSE[own].0, HOUSE[theirs].0);
                format!(
                    "`{owner}` ({here}) may not use `{used}` ({there}), which does not stand above it"
                )
            }
            None => format!(
                "`crate::{used}` is no file of the house: name the file, not what lib.rs re-exports"
            ),
        };
        found.push((1 + code[..at].matches('\n').count(), what));
    }
    found
}

fn line_of(name: &str) -> Option<usize> {
    HOUSE.iter().position(|(_, names)| names.contains(&name))
}

#[test]
fn imports_run_upward_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    list(&src, &mut files);
    assert!(
        files.len() >= 16,
        "only {} files found in {}",
        files.len(),
        src.display()
    );
    let read = |file: &PathBuf| {
        let path = file.strip_prefix(&src).expect("a file of src");
        let source = fs::read_to_string(file).expect("source is UTF-8");
        (path.to_string_lossy().replace('\\', "/"), source)
    };
    let files: Vec<(String, String)> = files.iter().map(read).collect();
    let for_tests: Vec<String> = files
        .iter()
        .flat_map(|(path, source)| modules_for_tests(path, source))
        .collect();
    let mut wrong = Vec::new();
    for (path, source) in &files {
        if for_tests.iter().any(|module| {
            path.strip_prefix(module)
                .is_some_and(|rest| rest.starts_with(['.', '/']))
        }) {
            continue;
        }
        wrong.extend(
            faults(path, source)
                .iter()
                .map(|(line, what)| format!("src/{path}:{line}: {what}")),
        );
    }
    assert!(
        wrong.is_empty(),
        "imports that break the house of DESIGN.md:\n{}",
        wrong.join("\n")
    );
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of src") {
        let path = entry.expect("an entry of src").path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Which modules of the root are named, and where: `crate::a`, `crate::{a, b::{c, d}}`, and `super::a` where it leads
/// to the root from a file that is `depth` modules deep.
fn imports(code: &str, depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, word) in words(code) {
        let starts_path = !code[..at].trim_end().ends_with("::");
        let mut rest = code[at + word.len()..].trim_start();
        let mut levels_up = usize::from(word == "super");
        while let Some(more) = rest
            .strip_prefix("::")
            .map(str::trim_start)
            .filter(|more| more.starts_with("super::"))
        {
            rest = &more["super".len()..];
            levels_up += 1;
        }
        let leads_to_root = word == "crate"
            || (word == "super" && levels_up == depth + inline_modules_around(code, at));
        let Some(rest) = rest
            .strip_prefix("::")
            .map(str::trim_start)
            .filter(|_| starts_path && leads_to_root)
        else {
            continue;
        };
        // The first word, or the first word of each branch of the braces.
        let (mut open, mut is_first) = (0, true);
        let base = code.len() - rest.len();
        for (i, c) in rest.char_indices() {
            match c {
                '{' => open += 1,
                '}' => open -= 1,
                ',' if open == 1 => is_first = true,
                c if is_first && (is_word(c) || c == '*') => {
                    let name: String = rest[i..]
                        .chars()
                        .take_while(|&c| is_word(c) || c == '*')
                        .collect();
                    found.push((base + i, name));
                    is_first = false;
                }
                _ => {}
            }
            if open == 0 && !is_first {
                break;
            }
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let split = code
        .split(|c: char| !is_word(c))
        .filter(|word| !word.is_empty());
    split.map(move |word| (word.as_ptr() as usize - code.as_ptr() as usize, word))
}

fn inline_modules_around(code: &str, at: usize) -> usize {
    let modules = words(&code[..at]).filter(|&(_, word)| word == "mod");
    modules
        .filter(|&(start, _)| start + end_of_item(&code[start..]) > at)
        .count()
}

/// Where an item ends: at its first semicolon outside of braces, or at the brace that closes its first.
fn end_of_item(code: &str) -> usize {
    let mut open = 0;
    for (i, c) in code.char_indices() {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        if open == 0 && (c == ';' || c == '}') {
            return i + 1;
        }
    }
    code.len()
}

/// The source without comments, texts and items for tests; what is left stays in its line.
fn what_is_compiled(source: &str) -> String {
    let mut code = without_comments_and_texts(source);
    while let Some((start, end)) = item_for_tests(&code) {
        let lines = "\n".repeat(code[start..end].matches('\n').count());
        code.replace_range(start..end, &lines);
    }
    code
}

/// The modules that a file declares for tests only, and that lie in files of their own: `keyed/tests`.
fn modules_for_tests(path: &str, source: &str) -> Vec<String> {
    let folder = match path.rsplit_once('/') {
        Some((folder, "mod.rs")) => format!("{folder}/"),
        None if path == "lib.rs" => String::new(),
        _ => format!("{}/", path.trim_end_matches(".rs")),
    };
    let mut code = without_comments_and_texts(source);
    let mut modules = Vec::new();
    while let Some((start, end)) = item_for_tests(&code) {
        let item = code[start..end].strip_suffix(';').unwrap_or_default();
        if let [.., "mod", name] = words(item).map(|(_, word)| word).collect::<Vec<_>>()[..] {
            modules.push(format!("{folder}{name}"));
        }
        code.replace_range(start..end, "");
    }
    modules
}

fn item_for_tests(code: &str) -> Option<(usize, usize)> {
    let marks = ["#[cfg(test)]", "#[cfg(all(test"];
    let start = marks.iter().filter_map(|mark| code.find(mark)).min()?;
    Some((start, start + end_of_item(&code[start..])))
}

fn without_comments_and_texts(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = match rest.as_bytes() {
            [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => comment(rest),
            [b'"', ..] => text(rest),
            [b'r', b'"' | b'#', ..] if !code.ends_with(|c| is_word(c) && c != 'b') => {
                raw_text(rest)
            }
            // A character, not a lifetime.
            [b'\'', b'\\', ..] => 3 + rest[3..].find('\'').map_or(0, |end| end + 1),
            [b'\'', ..] if rest.chars().nth(2) == Some('\'') => {
                rest.chars().take(3).map(char::len_utf8).sum()
            }
            _ => 0,
        };
        if skipped == 0 {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            code.extend(
                rest[..skipped]
                    .chars()
                    .map(|c| if c == '\n' { c } else { ' ' }),
            );
            rest = &rest[skipped..];
        }
    }
    code
}

fn comment(rest: &str) -> usize {
    let (mut open, mut at) = (1, 2);
    while open > 0 && at < rest.len() {
        let (step, opened) = match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        (at, open) = (at + step, open + opened);
    }
    at
}

fn text(rest: &str) -> usize {
    let mut escaped = false;
    let closes = |c: char| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    };
    rest[1..].find(closes).map_or(rest.len(), |end| 1 + end + 1)
}

/// `r#"…"#`; nothing if it is only a name such as `r#type`.
fn raw_text(rest: &str) -> usize {
    let hashes = rest[1..].len() - rest[1..].trim_start_matches('#').len();
    let (open, close) = (
        format!("r{0}\"", "#".repeat(hashes)),
        format!("\"{}", "#".repeat(hashes)),
    );
    let Some(body) = rest.strip_prefix(&open) else {
        return 0;
    };
    body.find(&close)
        .map_or(rest.len(), |end| open.len() + end + close.len())
}

#[test]
fn good_files_pass() {
    let good = |path, source| assert_eq!(faults(path, source), [], "src/{path}:\n{source}");
    good("lib.rs", "mod quota;\npub use crate::tower::Layer;");
    good(
        "time.rs",
        "use core::time::Duration;\nuse std::{fmt, time};",
    );
    good(
        "quota.rs",
        "use crate::error::{Shown, clock};\nuse crate::time::A;",
    );
    good("decision.rs", "use crate::{time::A, error::{self, B}};");
    good(
        "algorithm/bucket.rs",
        "use crate::algorithm::grid;\nuse super::grid::Grid;",
    );
    good("algorithm/bucket.rs", "use super::super::quota::Quota;");
    good(
        "algorithm/mod.rs",
        "use self::bucket::Bucket;\nuse super::limiter;",
    );
    good("policy.rs", "use crate::algorithm::TokenBucket;");
    good(
        "direct.rs",
        "pub(crate) struct A;\npub(in crate::direct) struct B;",
    );
    good(
        "keyed/shard.rs",
        "use super::lookup::A;\nuse crate::holder::B;",
    );
    good(
        "clock.rs",
        "mod a { use super::Clock; use super::super::time::B; }",
    );
    // Not code, or not of this crate, or only for tests.
    good(
        "time.rs",
        "//! [`Clock`](crate::clock::Clock)\n/// crate::direct\n// crate::keyed",
    );
    good(
        "time.rs",
        "/* crate::direct /* crate::keyed */ crate::keyed */ fn f() {}",
    );
    good(
        "time.rs",
        r#"const A: &str = "crate::keyed \" crate::keyed";"#,
    );
    good(
        "time.rs",
        r###"const A: &str = r#"" crate::keyed"#; fn f() { br"crate::b"; }"###,
    );
    good(
        "time.rs",
        "fn f<'a>(c: char) { c == '\"' || c == '\\'' || c == 'µ'; } // crate::a \"",
    );
    good(
        "time.rs",
        "use mycrate::direct;\nuse std::keyed::crate_::x;",
    );
    good(
        "time.rs",
        "#[cfg(test)]\nmod tests {\n use crate::direct::A;\n fn f() { {} }\n}",
    );
    good(
        "time.rs",
        "#[cfg(test)]\nuse crate::direct::A;\n#[cfg(all(test, x))]\nmod b { use crate::c; }",
    );
}

#[test]
fn bad_files_fail_with_their_line() {
    let bad = |path, line, named: &str, source| {
        let found = faults(path, source);
        let is_it =
            found.len() == 1 && found[0].0 == line && found[0].1.contains(&format!("`{named}`"));
        assert!(
            is_it,
            "line {line} of src/{path} uses {named}, found {found:?}:\n{source}"
        );
    };
    bad("time.rs", 2, "clock", "\nuse crate::clock::Clock;");
    bad("error.rs", 1, "time", "use crate::time::Timestamp;");
    bad(
        "quota.rs",
        3,
        "decision",
        "use core::fmt;\n\nuse crate::decision::Decision;",
    );
    bad(
        "limiter.rs",
        3,
        "holder",
        "use crate::{\n    time::A, quota::{B, direct},\n    holder::C,\n};",
    );
    bad(
        "algorithm/bucket.rs",
        2,
        "policy",
        "fn f() {\n    crate::policy::g();\n}",
    );
    bad(
        "algorithm/mod.rs",
        1,
        "direct",
        "use super::direct::Direct;",
    );
    bad(
        "algorithm/bucket.rs",
        1,
        "keyed",
        "use super::super::keyed::Keyed;",
    );
    bad(
        "algorithm/bucket.rs",
        1,
        "keyed",
        "use super :: super::{quota::Quota, keyed::Keyed};",
    );
    bad(
        "clock.rs",
        2,
        "direct",
        "mod a {\n    use super::super::direct::Direct;\n}\nmod b {}",
    );
    bad(
        "holder.rs",
        2,
        "direct",
        "pub fn f(_: crate\n    ::direct::Direct) {}",
    );
    bad("direct.rs", 1, "keyed", "use crate::keyed::Keyed;");
    bad("keyed/shard.rs", 1, "wait", "use crate::wait::Wait;");
    bad("fleet/mod.rs", 1, "wait", "use crate::wait::Wait;");
    bad(
        "time.rs",
        1,
        "direct",
        "macro_rules! m { () => { $crate::direct::f() } }",
    );
    bad(
        "time.rs",
        4,
        "keyed",
        "// a\nconst A: &str = r#\"\n\"#;\nuse crate::keyed;",
    );
    bad(
        "time.rs",
        5,
        "keyed",
        "#[cfg(test)]\nmod tests {\n    use super::*;\n}\nuse crate::keyed;",
    );
    bad(
        "time.rs",
        2,
        "keyed",
        "#[cfg(not(test))]\nuse crate::keyed;",
    );
    // Through the root's re-exports nobody sees who uses whom.
    bad("direct.rs", 1, "crate::Quota", "use crate::Quota;");
    bad("direct.rs", 1, "crate::*", "use crate::*;\nuse std::fmt;");
    // A file that nobody has given a place.
    bad("shed.rs", 1, "shed", "fn f() {}");
    bad("shed/roof.rs", 1, "shed", "");
}

#[test]
fn files_for_tests_are_known_by_their_parents() {
    let found = |path, source| modules_for_tests(path, source).join(" ");
    assert_eq!(found("lib.rs", "#[cfg(test)]\nmod tests;\nmod a;"), "tests");
    assert_eq!(
        found("keyed/mod.rs", "#[cfg(all(test, not(loom)))] mod a;"),
        "keyed/a"
    );
    assert_eq!(
        found("keyed/shard.rs", "#[cfg(test)] pub(crate) mod b;"),
        "keyed/shard/b"
    );
    assert_eq!(found("direct.rs", "#[cfg(test)] mod c;"), "direct/c");
    assert_eq!(
        found(
            "direct.rs",
            "mod a;\n#[cfg(test)]\nmod b {\n    mod c;\n}\n// #[cfg(test)] mod d;"
        ),
        ""
    );
}
