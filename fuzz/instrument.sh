#!/bin/sh
# RUSTC_WRAPPER: compiles what reads the input with counters of its branches, which the fuzzer steers by. The kernels and the
# dependencies have none, as they take twice as long to build with them: the fuzzer does not see their branches.
case " $* " in
*' --crate-name hlorun '* | *' --crate-name hlorun_fuzz '* | *"/fuzz_targets/"* | *' fuzz_targets/'*)
  set -- "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
  ;;
esac
exec "$@"
