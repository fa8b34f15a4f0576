//! Small files of the shapes that importers read.
#![allow(dead_code, reason = "each file of tests uses a part")]

pub mod perf;

use serde_json::{Value as Json, json};

/// Two nodes and memory without CPUs. Thread 0 was unpinned, then bound to node 0; thread 1 is bound to node 1. One
/// access of thread 1 found no page.
pub fn numaprof() -> Json {
    json!({
        "infos": { "formatVersion": 2, "tool": "numaprof", "exe": "app", "command": "./app 8", "hostname": "there",
                   "date": "2021-04-05 14:56", "duration": 5000 },
        "config": { "core": { "skipStackAccesses": true } },
        "process": { "maxAllocatedPages": [7, 5, 1] },
        "topo": {
            "0": { "isMcdram": false, "cpus": [0, 1, 4, 5], "distance": [0, 1, 2] },
            "1": { "isMcdram": false, "cpus": [2, 3], "distance": [1, 0, 2] },
            "2": { "isMcdram": true, "cpus": [], "distance": [2, 2, 0] },
        },
        "threads": [
            {
                "stats": { "unpinnedFirstTouch": 2, "firstTouch": 1, "unpinnedBothAccess": 18, "localAccess": 60,
                           "unpinnedPageAccess": 9, "remoteAccess": 10, "nonAlloc": 50 },
                "numa": 0, "memPolicy": { "mode": "MPOL_DEFAULT", "type": "NO_BIND", "mask": [] }, "binding": [0, 1],
                "accessMatrix": { "-1": [15, 5, 0], "0": [70, 10, 0], "1": [0, 0, 0] },
                "allocationMatrix": { "-1": [4096, 0, 0], "0": [100, 8, 0] },
                "distanceCnt": [20, 70, 10, 0],
                "bindingLog": [{ "at": 20, "numa": -1 }, { "at": 90, "numa": 0 }],
                "memPolicyLog": [{ "at": 19, "policy": { "mode": "MPOL_DEFAULT", "type": "NO_BIND", "mask": [] } },
                                 { "at": 100, "policy": { "mode": "MPOL_BIND", "type": "BIND", "mask": [0] } }],
                "clockStart": 10, "clockEnd": 4900, "mbindCalls": 0, "touchedPages": [3, 0, 0],
            },
            {
                "stats": { "firstTouch": 2, "localAccess": 29, "remoteAccess": 50, "localMcdramAccess": 5, "remoteMcdramAccess": 0 },
                "numa": 1, "binding": [2, 3],
                "accessMatrix": { "0": [0, 0, 0], "1": [50, 30, 5] },
                "distanceCnt": [0, 30, 50, 5],
                "bindingLog": [{ "at": 30, "numa": 1 }],
                "clockStart": 30, "clockEnd": 4000, "touchedPages": [0, 1, 0],
            },
        ],
        "symbols": {
            "lowAddrMap": { "/home/me/app": 4194304, "/lib/libm.so.6": 139746848337920u64 },
            "map": [{ "lower": "0x400000", "upper": "0x402000", "offset": "0x0", "file": "/home/me/app" },
                    { "lower": "0x7f196d6f5000", "upper": "0x7f196d6f9000", "offset": "0x0", "file": "/lib/libm.so.6" }],
            "strings": ["??", "app.c", "main", "/home/me/app"],
            "instr": { "0x401000": { "file": 1, "function": 2, "line": 12, "binary": 3 },
                       "0x401008": { "function": 2, "binary": 3 },
                       "0x7f196d6f5af1": { "file": 0, "function": 0, "binary": -1 } },
        },
        "instructions": {
            "0x401000": { "unpinnedFirstTouch": 2, "firstTouch": 2, "unpinnedBothAccess": 18, "localAccess": 60 },
            "0x401008": { "localAccess": 29, "remoteAccess": 60, "unpinnedPageAccess": 9 },
            "0x7f196d6f5af1": { "firstTouch": 1 },
            "0x2": { "localMcdramAccess": 5 },
        },
        "allocs": { "0x401008": { "localAccess": 80, "remoteAccess": 59, "unpinnedPageAccess": 9 } },
    })
}
