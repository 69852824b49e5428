#!/bin/sh
# The Rust tests, and the fuzzer's run target over its corpus, under AddressSanitizer: tests/sanitize.sh [SECONDS]
# SECONDS of fuzzing follow (60 when not given). A stable toolchain does; the standard library is not instrumented.
set -eu
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitize"
# Tests ask for more memory than there is, and libraries keep theirs to the end.
export ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=0"
RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_PROFILE_DEV_OPT_LEVEL=1 \
  cargo test -p hlorun-kernels -p hlorun --target "$host" \
  --config 'profile.dev.package.hlorun-kernels.opt-level=1' \
  --config 'profile.dev.package.hlorun-kernels.debug="line-tables-only"'
SANITIZER=address sh fuzz/run.sh run "${1:-60}"
