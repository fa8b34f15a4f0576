//! `report`, `export`, `completions` and `man` as a user types them.

use super::*;
use numalens_profile::testing::Synthetic;
use serde_json::Value;

#[test]
fn the_first_screen_shows_what_hurts_and_where_to_look_next() {
    let (_directory, path) = profile();
    let text = stdout(numalens(&["report"]).arg(&path));
    for words in
        ["virtual machine test-3+1", "remote           41.6 %", "app.c:21 step", "app.c:9 fill", "--section NAME"]
    {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'), "colours in a pipe");
    assert!(stdout(numalens(&["report"]).arg(&path).args(["--color", "always"])).contains('\x1b'));
}

/// Guards that text, JSON and HTML begin with the same verdict, which names the profile in what to type.
#[test]
fn one_verdict_is_everywhere() {
    let (_directory, path) = profile();
    let report = |args: &[&str]| stdout(numalens(&["report"]).arg(&path).args(args));
    let document: Value = serde_json::from_str(&report(&["--format", "json"])).unwrap();
    let verdict = &document["verdict"];
    let sentence = verdict["sentence"].as_str().unwrap();
    let text = report(&[]);
    assert_eq!(text.lines().next(), Some(sentence));
    let page = report(&["--format", "html"]);
    let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words} is not in the page"));
    assert!(at(sentence) < at("<nav>") && at("<nav>") < at("id=\"meta\""));
    if let Some(next) = verdict["next"].as_str() {
        assert!(next.starts_with("numalens advise ") && next.contains("app.numalens"), "{next}");
        assert!(text.contains(next), "{text}");
    }
    assert!(text.find("how it was recorded").unwrap() > text.find("source lines").unwrap(), "{text}");
}

/// Guards the words of empty sections: what a filter hides was recorded.
#[test]
fn filters_that_leave_nothing_say_so() {
    let (_directory, path) = profile();
    let text = stdout(numalens(&["report"]).arg(&path).args(["--section", "residency", "--thread", "1"]));
    assert!(text.contains("pass the filter") && !text.contains("no allocations were recorded"), "{text}");
    let mut content = Synthetic::example();
    content.allocations.clear();
    let (other, _) = profile();
    let path = content.write(&other.path().join("none.numalens")).unwrap();
    let text = stdout(numalens(&["report"]).arg(&path).args(["--section", "residency"]));
    assert!(text.contains("no allocations were recorded"), "{text}");
}

/// Guards the glossary, which `numalens help terms` and the web page show.
#[test]
fn words_are_explained() {
    for args in [&["help", "terms"][..], &["terms"]] {
        let text = stdout(&mut numalens(args));
        for word in ["first touch", "pinned, unpinned", "memory time"] {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}

/// Guards short tables: what has less than a hundredth is left out, unless somebody asks.
#[test]
fn rows_below_a_hundredth_are_there_when_asked_for() {
    let mut content = Synthetic::example();
    content.site_accesses.iter_mut().filter(|row| row.site.0 == 1).for_each(|row| row.reads *= 1000);
    let directory = tempfile::tempdir().unwrap();
    let path = content.write(&directory.path().join("a.numalens")).unwrap();
    let report = |args: &[&str]| stdout(numalens(&["report"]).arg(&path).args(args));
    let lines = |text: &str| text[text.find("source lines").unwrap()..].split("\n\n").next().unwrap().lines().count();
    let (short, named, top) = (report(&[]), report(&["--section", "lines"]), report(&["--top", "25"]));
    assert!(lines(&short) < lines(&named), "{short}");
    assert_eq!(lines(&top), lines(&named), "{top}");
}

#[test]
fn json_goes_to_a_file_as_to_a_pipe() {
    let (directory, path) = profile();
    let piped = stdout(numalens(&["report"]).arg(&path).args(["--format", "json"]));
    let document: Value = serde_json::from_str(&piped).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["lines"][0]["line"], 21);
    let file = directory.path().join("report.json");
    let quiet = stdout(numalens(&["report"]).arg(&path).args(["--format", "json", "-o"]).arg(&file));
    assert_eq!(quiet, "");
    assert_eq!(std::fs::read_to_string(file).unwrap(), piped);
}

#[test]
fn html_is_one_page_that_asks_nothing_of_the_network() {
    let (_directory, path) = profile();
    let page = stdout(numalens(&["report"]).arg(&path).args(["--format", "html"]));
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for words in [
        "id=\"findings\"",
        "id=\"matrix-access\"",
        "<svg class=\"heat\"",
        "app.c:21 step",
        "prefers-color-scheme: dark",
    ] {
        assert!(page.contains(words), "{words} is not in the page");
    }
    for foreign in ["http:", "https:", "<script", "<link", "url(", "@import"] {
        assert!(!page.contains(foreign), "{foreign} is in the page");
    }
    for element in ["section", "table", "svg", "article", "details", "tr", "td"] {
        let opened = page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
    }
    let one = stdout(numalens(&["report"]).arg(&path).args(["--format", "html", "--section", "lines"]));
    assert!(one.contains("id=\"lines\"") && !one.contains("id=\"findings\""));
}

#[test]
fn one_recording_is_replayed_under_any_policy() {
    let (_directory, path) = profile();
    let simulate = |args: &[&str]| {
        let mut command = numalens(&["simulate"]);
        command.arg(&path).args(args);
        command
    };
    let rows = |args: &[&str]| -> Vec<Value> { json(&mut simulate(args))["simulation"].as_array().unwrap().clone() };
    let report = json(numalens(&["report"]).arg(&path));
    let recorded = &rows(&["--policy", "local"])[0];
    assert_eq!((&recorded["policy"], recorded["memory_time"].as_f64()), (&"recorded".into(), Some(100.0)));
    // What is replayed as recorded has the recording's own figures.
    assert_eq!(recorded["local_share"], report["summary"]["local_share"]);
    let local = &rows(&["--policy", "local"])[1];
    assert!(local["local_share"].as_f64() > recorded["local_share"].as_f64(), "{local}");
    let other =
        rows(&["--machine", "2x2", "--placement", "spread", "--placement", "compact", "--policy", "first-touch"]);
    assert_eq!(other.iter().map(|row| row["placement"].clone()).collect::<Vec<_>>(), ["spread", "compact"]);
    assert!(stdout(&mut simulate(&[])).contains("round-robin"));
    let moved = |args: &[&str]| rows(args)[1]["pages_moved"].as_u64().unwrap();
    let (of_all, of_one) =
        (moved(&["--policy", "local"]), moved(&["--policy", "recorded", "--object-policy", "0=local"]));
    assert!(0 < of_one && of_one < of_all, "{of_one} of {of_all}");
    assert!(stdout(&mut simulate(&["--placement", "cluster", "--page-size", "2M"])).contains("pages of 2048 KiB"));
    assert!(failure(&mut simulate(&["--object-policy", "9999=local"]), 2).contains("no object 9999"));
    assert!(failure(&mut simulate(&["--object-policy", "local"]), 2).contains("7=interleave"));
    assert!(failure(&mut simulate(&["--page-size", "1G"]), 2).contains("64K"));
    assert!(failure(&mut simulate(&["--machine", "4x2", "--policy", "tier:30"]), 2).contains("no slower memory"));
    assert!(failure(&mut simulate(&["--policy", "bind:9"]), 2).contains("bind:9"));
    assert!(failure(&mut simulate(&["--policy", "best"]), 2).contains("round-robin"));
}

#[test]
fn before_and_after_and_a_threshold_for_scripts() {
    let (directory, before) = profile();
    let mut content = Synthetic::example();
    // The work of line 21 is local now, and that of line 22 gone.
    for row in &mut content.site_accesses {
        if row.site.0 == 1 && row.class == numalens_profile::words::Class::Remote {
            (row.class, row.home) = (numalens_profile::words::Class::Local, row.node);
        }
    }
    content.site_accesses.retain(|row| row.site.0 != 2);
    let after = content.write(&directory.path().join("after.numalens")).unwrap();
    let diff = |args: &[&str]| {
        let mut command = numalens(&["diff"]);
        command.args([&before, &after]).args(args);
        command
    };
    let document = json(&mut diff(&[]));
    let figure =
        |name: &str| document["figures"].as_array().unwrap().iter().find(|row| row["metric"] == name).unwrap().clone();
    let local = figure("local_share");
    assert!(local["significant"] == true && local["change"].as_f64() > Some(40.0), "{local}");
    assert!(figure("duration_s")["significant"].is_null());
    let gone = document["lines"].as_array().unwrap().iter().find(|row| row["line"] == 22).unwrap();
    assert_eq!(gone["state"], "gone");
    assert_eq!(document["objects"][0]["change"], 0.0);
    output(&mut diff(&["--fail-if", "local_share<80", "--fail-if", "remote_share > 20"])).succeeded();
    assert!(failure(&mut diff(&["--fail-if", "local_share<99.9"]), 1).contains("local_share"));
    assert!(failure(&mut diff(&["--fail-if", "speed<1"]), 2).contains("imbalance"));
    assert!(failure(&mut diff(&["--fail-if", "local_share"]), 2).contains("local_share<80"));
    assert!(stdout(&mut diff(&["--format", "html"])).contains("id=\"figures\""));
}

#[test]
fn advice_says_why_it_cannot_judge() {
    let (_directory, path) = profile();
    let document = json(numalens(&["advise"]).arg(&path));
    assert_eq!((&document["schema"], &document["meta"]["command"][0]), (&1.into(), &"./app".into()));
    assert!(document["findings"].is_array() && document["nothing_to_gain"].is_boolean(), "{document:#}");
    let text = stdout(numalens(&["advise"]).arg(&path));
    assert!(text.contains("advice"), "{text}");
}

#[test]
fn sections_sorting_and_length_are_the_users() {
    let (_directory, path) = profile();
    let json = |args: &[&str]| -> Value { super::json(numalens(&["report"]).arg(&path).args(args)) };
    let document = json(&["--section", "lines,machine", "--sort", "first_touch", "--top", "1"]);
    let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["schema", "meta", "lines", "machine", "doubts", "omitted"]);
    assert_eq!(document["lines"].as_array().unwrap().len(), 1);
    assert_eq!(document["lines"][0]["line"], 9);
    assert_eq!(document["omitted"]["lines"], 3);
    assert_eq!(json(&["--process", "1001"])["summary"]["accesses"], 10);
}

#[test]
fn mistakes_are_explained() {
    let (directory, path) = profile();
    let report = |args: &[&str]| {
        let mut command = numalens(&["report"]);
        command.arg(&path).args(args);
        command
    };
    let unknown = failure(&mut report(&["--sort", "speed"]), 2);
    assert!(unknown.contains("`speed`") && unknown.contains("accesses, reads, writes"), "{unknown}");
    assert!(failure(&mut report(&["--section", "speed"]), 2).contains("first-touch"));
    assert!(failure(&mut report(&["--source-map", "nothing"]), 2).contains("OLD=NEW"));
    assert!(failure(&mut report(&["--process", "5"]), 2).contains("1001 (./app --child)"));
    let missing = directory.path().join("missing");
    assert!(failure(numalens(&["report"]).arg(&missing), 1).contains("does not exist"));
    assert!(failure(&mut report(&["-o", "/nowhere/at/all"]), 1).contains("/nowhere/at/all"));
}

#[test]
fn csv_is_a_directory_that_is_not_overwritten_by_accident() {
    let (directory, path) = profile();
    let rows = directory.path().join("csv");
    let export = || {
        let mut command = numalens(&["export"]);
        command.arg(&path).args(["--to", "csv", "-o"]).arg(&rows);
        command
    };
    output(&mut export()).succeeded();
    let lines = std::fs::read_to_string(rows.join("lines.csv")).unwrap();
    assert!(lines.lines().next().unwrap().contains("classes.remote") && lines.contains(",app.c,21,step,"), "{lines}");
    assert!(failure(&mut export(), 1).contains("--force"));
    output(export().arg("--force")).succeeded();
    std::fs::write(rows.join("mine.txt"), "precious").unwrap();
    assert!(failure(export().arg("--force"), 1).contains("mine.txt"));
    assert_eq!(std::fs::read_to_string(rows.join("mine.txt")).unwrap(), "precious");
}

#[test]
fn shells_complete_and_man_pages_render() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&mut numalens(&["completions", shell])).contains("first-touch"), "{shell}");
    }
    assert!(stdout(&mut numalens(&["man"])).contains(".TH numalens"));
    let directory = tempfile::tempdir().unwrap();
    output(numalens(&["man", "-o"]).arg(directory.path().join("man1"))).succeeded();
    assert!(directory.path().join("man1/numalens-report.1").exists());
}
