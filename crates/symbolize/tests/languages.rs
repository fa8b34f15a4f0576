//! Compilers that not every machine has: Haskell and Go. Each test is skipped, and says so, where its compiler is
//! missing.

mod common;

use common::*;
use std::fs;
use std::process::Command;

fn is_missing(compiler: &str) -> bool {
    let missing = Command::new(compiler).arg("--help").output().is_err();
    if missing {
        eprintln!("skipped: {compiler} is not installed");
    }
    missing
}

const HASKELL: &str = "module Solver.Relax where
relax :: Int -> Int -> Int
relax n acc | n == 1 = acc
            | even n = relax (n `div` 2) (acc + 1)
            | otherwise = relax (3 * n + 1) (acc + 1)
{-# NOINLINE relax #-}
";

/// Names come from GHC's own; continuations, which have no symbols, belong to the function before them.
#[test]
fn haskell() {
    if is_missing("ghc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("Solver")).unwrap();
    fs::write(dir.path().join("Solver/Relax.hs"), HASKELL).unwrap();
    let main = "import Solver.Relax\nmain :: IO ()\nmain = print (sum (map (`relax` 0) [1 .. 1000]))\n";
    fs::write(dir.path().join("main.hs"), main).unwrap();
    run("ghc", dir.path(), &["-O1", "-g", "main.hs", "-o", "app"]);
    let app = dir.path().join("app");
    let addresses = instructions(&app, 4000);
    let outcome = symbolize(&app.to_string_lossy(), "", &addresses, &options(&[]));
    let all = levels(&outcome, addresses.len());
    let names: Vec<&str> = outcome.functions.iter().map(|function| function.name.as_str()).collect();
    for name in ["base:GHC.TopHandler.runMainIO1", "evacuate", "stg_ap_pp_fast"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    let encoded: Vec<_> = names.iter().filter(|name| name.contains("zi") && name.contains("_info")).collect();
    assert!(encoded.is_empty(), "Z-encoded names are left: {encoded:?}");
    let named = all.iter().filter(|levels| !levels.is_empty()).count();
    assert!(named * 100 > all.len() * 98, "{named} of {}", all.len());

    let text = run("nm", dir.path(), &["app"]);
    let start = text.lines().find_map(|line| line.strip_suffix(" T SolverziRelax_zdwrelax_info")).unwrap();
    let start = u64::from_str_radix(start, 16).unwrap();
    let outcome = symbolize(&app.to_string_lossy(), "", &[start, start + 4], &options(&[]));
    for levels in levels(&outcome, 2) {
        let (name, file, line) = &levels[0];
        assert_eq!(name, "Solver.Relax.$wrelax");
        assert!(file.ends_with("Solver/Relax.hs") && line.parse::<u32>().is_ok_and(|line| line <= 6), "{file}:{line}");
    }
}

/// Functions that a module does not export have no symbols: before its first one stands what the linker has put there.
#[test]
fn haskell_that_is_not_exported() {
    if is_missing("ghc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let main = "module Main (main) where\nimport System.Environment\n\
        steps :: Int -> Int -> Int\nsteps n acc | n == 1 = acc\n            | even n = steps (n `div` 2) (acc + 1)\n            \
        | otherwise = steps (3 * n + 1) (acc + 1)\n{-# NOINLINE steps #-}\n\
        main :: IO ()\nmain = getArgs >>= mapM_ (\\n -> print (steps (read n) 0))\n";
    fs::write(dir.path().join("main.hs"), main).unwrap();
    run("ghc", dir.path(), &["-O1", "main.hs", "-o", "app"]);
    let app = dir.path().join("app");
    let text = run("nm", dir.path(), &["-n", "app"]);
    let mut after = text.lines().skip_while(|line| !line.ends_with(" t frame_dummy"));
    let [start, end] =
        [(); 2].map(|()| u64::from_str_radix(after.next().unwrap().split(' ').next().unwrap(), 16).unwrap());
    assert!(end - start > 200, "{start:#x} {end:#x}");
    let outcome = symbolize(&app.to_string_lossy(), "", &[start, start + 16, end - 1, end], &options(&[]));
    let names: Vec<String> = levels(&outcome, 4).iter().map(|levels| levels[0].0.clone()).collect();
    assert_eq!(names[..3], ["frame_dummy", "Main.local code", "Main.local code"]);
    assert!(names[3].starts_with("Main.") && names[3] != names[2], "{names:?}");
}

#[test]
fn go() {
    if is_missing("go") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let source = "package main

import \"fmt\"

type Matrix struct {
\td []float64
\tn int
}

func (m *Matrix) At(i, j int) float64 { return m.d[i*m.n+j] }

//go:noinline
func (m *Matrix) Sum() float64 {
\ts := 0.0
\tfor i := 0; i < m.n; i++ {
\t\ts += m.At(i, i)
\t}
\treturn s
}

func main() { fmt.Println((&Matrix{make([]float64, 100), 10}).Sum()) }
";
    fs::write(dir.path().join("app.go"), source).unwrap();
    run("go", dir.path(), &["build", "-o", "app", "app.go"]);
    let app = dir.path().join("app");
    let text = run("nm", dir.path(), &["app"]);
    let start = text.lines().find_map(|line| line.strip_suffix(" T main.(*Matrix).Sum")).unwrap();
    let start = u64::from_str_radix(start, 16).unwrap();
    let addresses: Vec<u64> = (start..start + 100).collect();
    let outcome = symbolize(&app.to_string_lossy(), "", &addresses, &options(&[]));
    let all = levels(&outcome, addresses.len());
    let chain = |line: &str| {
        let is_there = |levels: &&Vec<Level>| levels.len() == 2 && levels[0].2 == line;
        let inlined = all.iter().find(is_there);
        inlined.map(|levels| [levels[0].0.as_str(), &levels[1].0, &levels[1].2])
    };
    assert_eq!(chain("10"), Some(["main.(*Matrix).At", "main.(*Matrix).Sum", "16"]));
}
