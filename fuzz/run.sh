#!/bin/sh
# Fuzzes one target on a stable toolchain: fuzz/run.sh TARGET [SECONDS] [SEED]
# A seed makes two runs try the same inputs. Zero seconds only build.
# With SANITIZER=address every memory access is checked.
# Starts from the texts of tests/hlo, the packed corpus of the target and what earlier runs found.
set -eu
cd "$(dirname "$0")"
target=$1
seconds=${2:-60}
seed=${3:-0}
export RUSTC_WRAPPER="$PWD/instrument.sh" RUSTFLAGS="--cfg fuzzing"
if [ -n "${SANITIZER:-}" ]; then
  export RUSTC_BOOTSTRAP=1 RUSTFLAGS="$RUSTFLAGS -Zsanitizer=$SANITIZER"
fi
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --target "$host" --bin "$target"
[ "$seconds" != 0 ] || exit 0
mkdir -p "corpus/$target" "artifacts/$target"
[ ! -f "corpus/$target.tar.gz" ] || tar -xzf "corpus/$target.tar.gz" -C corpus
target_dir=${CARGO_TARGET_DIR:-target}
exec "$target_dir/$host/release/$target" "corpus/$target" \
  ../tests/hlo/parse ../tests/hlo/parse-fail ../tests/hlo/print ../tests/hlo/verify ../tests/hlo/verify-fail ../tests/hlo/execute ../tests/data/stablehlo \
  -dict=hlo.dict -artifact_prefix="artifacts/$target/" -max_total_time="$seconds" -seed="$seed" \
  -timeout=10 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1
