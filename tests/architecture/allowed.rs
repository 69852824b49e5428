//! What may use what.

/// Each folder or file of the crate's root, and what it may use of the others.
pub const ALLOWED: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("float_mode", &[]),
    ("suggestion", &[]),
    ("types", &[]),
    ("buffers", &["error"]),
    ("module", &["error", "types"]),
    (
        "text",
        &["error", "float_mode", "module", "suggestion", "types"],
    ),
    ("proto", &["error", "module", "suggestion", "text", "types"]),
    ("stablehlo", &["module", "text", "types"]),
    ("library", &["module", "types"]),
    ("verify", &["error", "library", "module", "types"]),
    (
        "plan",
        &[
            "buffers",
            "error",
            "float_mode",
            "library",
            "module",
            "suggestion",
            "types",
            "verify",
        ],
    ),
    (
        "exec",
        &["buffers", "error", "float_mode", "module", "plan", "types"],
    ),
    (
        "analysis",
        &["error", "library", "module", "plan", "text", "types"],
    ),
    (
        "fault_tests",
        &["buffers", "error", "exec", "plan", "text", "verify"],
    ),
    (
        "replay",
        &[
            "analysis", "buffers", "error", "exec", "module", "plan", "types", "verify",
        ],
    ),
];

/// What the folders and files of `plan` may use of each other, lowest first.
pub const PLAN: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("faults", &[]),
    ("limits", &[]),
    ("options", &[]),
    ("view", &[]),
    ("cost", &["options"]),
    ("element", &["cost", "error", "faults"]),
    ("ops", &["element", "error", "view"]),
    ("spmd", &["element", "error", "limits", "view"]),
    (
        "hlo",
        &[
            "cost", "error", "faults", "limits", "ops", "options", "view",
        ],
    ),
    (
        "thunk",
        &["element", "faults", "ops", "options", "spmd", "view"],
    ),
    (
        "lower",
        &[
            "cost", "element", "error", "faults", "limits", "ops", "options", "spmd", "thunk",
            "view",
        ],
    ),
    (
        "schedule",
        &[
            "cost", "element", "faults", "ops", "options", "thunk", "view",
        ],
    ),
    ("memory", &["faults", "schedule", "spmd", "thunk", "view"]),
    (
        "replication",
        &[
            "element", "faults", "memory", "ops", "schedule", "spmd", "thunk", "view",
        ],
    ),
    (
        "passes",
        &[
            "element",
            "hlo",
            "lower",
            "replication",
            "schedule",
            "thunk",
        ],
    ),
    ("pipeline", &["hlo", "options"]),
    (
        "executable",
        &[
            "element",
            "hlo",
            "lower",
            "memory",
            "options",
            "passes",
            "pipeline",
            "replication",
            "schedule",
            "spmd",
            "thunk",
            "view",
        ],
    ),
    (
        "listing",
        &[
            "element",
            "executable",
            "memory",
            "ops",
            "options",
            "thunk",
            "view",
        ],
    ),
    (
        "work",
        &[
            "cost",
            "element",
            "executable",
            "ops",
            "schedule",
            "thunk",
            "view",
        ],
    ),
    (
        "fragment",
        &[
            "executable",
            "lower",
            "memory",
            "options",
            "schedule",
            "thunk",
        ],
    ),
];

/// The same for `exec`.
pub const EXEC: &[(&str, &[&str])] = &[
    ("array", &[]),
    ("parallel", &["array"]),
    ("epilogue", &["array"]),
    ("threads", &[]),
    ("hooks", &["array"]),
    ("memory", &["array"]),
    ("options", &["hooks"]),
    ("rendezvous", &["array", "threads"]),
    ("shadow", &["threads"]),
    (
        "environment",
        &[
            "memory",
            "options",
            "parallel",
            "rendezvous",
            "shadow",
            "threads",
        ],
    ),
    ("element", &["environment", "memory"]),
    ("gemm", &["array", "environment", "epilogue", "memory"]),
    ("ops", &["array", "element", "epilogue", "parallel"]),
    ("reduce", &["element", "environment", "memory"]),
    (
        "row_tiling",
        &["element", "environment", "gemm", "memory", "reduce"],
    ),
    (
        "spmd",
        &[
            "array",
            "element",
            "environment",
            "gemm",
            "memory",
            "parallel",
            "rendezvous",
        ],
    ),
    (
        "run",
        &[
            "array",
            "element",
            "environment",
            "gemm",
            "hooks",
            "memory",
            "ops",
            "options",
            "parallel",
            "reduce",
            "rendezvous",
            "row_tiling",
            "shadow",
            "spmd",
            "threads",
        ],
    ),
];
