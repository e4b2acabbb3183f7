//! The recorded cases, replayed without Geth.

mod names;

use crate::{
    prestate::Prestate,
    record::cases,
    system::{System, asked, difference},
    truth::{self, Told},
};
use prestate_tests::geth::Case;
use serde_json::Value;
use std::{collections::BTreeMap, error::Error, fs, path::PathBuf};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn files(folder: &str) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(cases().join(folder))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn load(case: &Case) -> Outcome<Prestate> {
    Prestate::load(case.genesis.get(), &case.blocks)
        .map_err(|error| format!("{}: {error}", case.name).into())
}

/// Compares all exchanges of a case in exact mode; returns how many, and the differences.
fn compare(case: &Case) -> Outcome<(usize, Vec<String>)> {
    let ours = load(case)?;
    let mut differences = Vec::new();
    let mut count = 0;
    for exchange in &case.requests {
        let params = exchange.params.get();
        if !asked(&exchange.method, params) {
            continue;
        }
        if case.name == "errors" && excused(&exchange.method, params).is_some() {
            // Refused here as there, be it in other words.
            let ours = ours.exact().call(&exchange.method, params);
            let refused = ours
                .as_ref()
                .map_or(true, |bytes| String::from_utf8_lossy(bytes).contains("\"error\":"));
            if !refused {
                differences.push(format!("{} {params}: answered", exchange.method));
            }
            continue;
        }
        count += 1;
        if let Some(what) =
            difference(&exchange.answer(), &ours.exact().call(&exchange.method, params))
        {
            let shown: String = params.chars().take(200).collect();
            differences.push(format!("{}: {} {shown}\n{what}\n", case.name, exchange.method));
        }
    }
    Ok((count, differences))
}

fn report(what: &str, count: usize, differences: &[String]) {
    for difference in differences.iter().take(40) {
        println!("{difference}");
    }
    println!("{what}: {count} answers compared, {} differences", differences.len());
    assert!(count > 0, "{what}: nothing was compared");
    assert!(differences.is_empty(), "{what}: {} differences", differences.len());
}

/// Where prestate answers otherwise on purpose.
fn excused(method: &str, params: &str) -> Option<&'static str> {
    const SCRIPTS: [&str; 8] =
        ["", "noSuchTracer", "PrestateTracer", "prestateTracer ", "{", "{}", "1+1", "throw 1"];
    let names = SCRIPTS.map(|script| format!("\"tracer\":\"{script}\""));
    if names.iter().any(|name| params.contains(name)) || params.contains("{\"noSuchTracer\":{}}") {
        return Some("JavaScript tracers are refused in our own words");
    }
    if method == "debug_traceBlockByNumber" && params.contains("\"pending\"") {
        return Some("there is no pending block");
    }
    if params.contains("noopTracer") && params.contains("\"timeout\"") {
        return Some("a noopTracer out of time says so");
    }
    // `block #[26 43 60 …] not found`: Geth prints the hash as a list of bytes.
    let by_hash =
        params.contains("0x1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809\"");
    let raw = ["debug_getRawBlock", "debug_getRawHeader"].contains(&method);
    (raw && by_hash).then_some("unknown hashes are printed in hexadecimal")
}

/// Requests refused, and bounds of what is accepted: Geth's code and text.
#[test]
fn refusals_are_geths() -> Outcome<()> {
    let case = Case::read(&cases().join("errors.json"))?;
    let (count, differences) = compare(&case)?;
    report("errors", count, &differences);
    Ok(())
}

/// One recorded chain, byte for byte.
fn run(folder: &str, name: &str) -> Outcome<()> {
    let case = Case::read(&cases().join(folder).join(format!("{name}.json")))?;
    let (count, differences) = compare(&case)?;
    report(name, count, &differences);
    Ok(())
}

/// Every scenario, report and find has a test of its name in [`names`].
#[test]
fn every_file_has_its_test() -> Outcome<()> {
    for folder in ["scenarios", "found"] {
        for path in files(folder)? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            assert!(names::NAMED.contains(&(folder, &name)), "{folder}/{name} has no test");
        }
    }
    Ok(())
}

/// All scenarios in the default mode: Geth's recorded diffs without the artefacts.
#[test]
fn scenarios_tell_the_truth_by_default() -> Outcome<()> {
    let (mut total, mut all) = (0, Vec::new());
    for path in files("scenarios")? {
        let case = Case::read(&path)?;
        let ours = load(&case)?;
        let answered = |options: &str| -> BTreeMap<String, Vec<Value>> {
            let asked = case.requests.iter().filter(|exchange| {
                exchange.method == "debug_traceBlockByNumber"
                    && exchange.params.get().ends_with(options)
            });
            asked
                .filter_map(|exchange| {
                    let block = exchange.params.get().split(',').next()?.to_owned();
                    Some((block, traces(exchange.result.as_ref()?.get())))
                })
                .collect()
        };
        const DIFF: &str = ",{\"tracer\":\"prestateTracer\",\"tracerConfig\":{\"diffMode\":true}}]";
        let diffs = answered(DIFF);
        let all_accounts =
            answered(",{\"tracer\":\"prestateTracer\",\"tracerConfig\":{\"includeEmpty\":true}}]");
        let calls = answered(",{\"tracer\":\"flatCallTracer\"}]");
        for (block, diffs) in &diffs {
            let answer =
                ours.truthful().call("debug_traceBlockByNumber", &format!("{block}{DIFF}"));
            let answer = answer.map_err(|error| format!("{}: {error:?}", case.name))?;
            let answer = traces(std::str::from_utf8(&answer)?);
            assert_eq!(answer.len(), diffs.len(), "{}", case.name);
            for (index, diff) in diffs.iter().enumerate() {
                total += 1;
                let told = Told {
                    diff,
                    looked_up: &all_accounts[block][index],
                    calls: &calls[block][index],
                };
                if let Some(what) = truth::difference(&told, &answer[index]) {
                    all.push(format!("{} transaction {index}\n{what}\n", case.name));
                }
            }
        }
    }
    report("default mode", total, &all);
    Ok(())
}

fn traces(text: &str) -> Vec<Value> {
    let entries: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    entries.into_iter().map(|mut entry| entry["result"].take()).collect()
}
