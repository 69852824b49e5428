#!/usr/bin/env bash
# wheels.sh [TARGET...]: builds wheels and the source distribution into dist/. Without targets, those of Linux in
# tools/targets.txt, which zig links for old systems on any Linux; those of macOS and Windows are built there.
# There is none for musl: ml_dtypes, which hlorun needs, has no such wheels.
# One abi3 wheel serves every CPython from 3.10 on; a free-threaded one is built for each such interpreter found.
set -euo pipefail
cd "$(dirname "$0")/.."

# glibc 2.17, the oldest that Rust's standard library runs on.
linux=manylinux2014
free_threaded=(python3.14t)

targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  mapfile -t targets < <(grep linux tools/targets.txt)
fi

venv=target/wheels-venv
python3 -m venv "$venv"
# Windows has its programs in another folder.
bin=$venv/bin
[ -d "$bin" ] || bin=$venv/Scripts
"$bin/python" -m pip install -q 'pip>=25.1'
"$bin/python" -m pip install -q --group wheels
PATH=$PWD/$bin:$PATH

for target in "${targets[@]}"; do
  grep -qx "$target" tools/targets.txt || { echo "$target is not in tools/targets.txt"; exit 2; }
  rustup target add "$target"
  build=(maturin build --release --locked --target "$target" --out dist)
  case $target in
    *linux*) build+=(--zig --compatibility "$linux") ;;
  esac
  "${build[@]}"
  for interpreter in "${free_threaded[@]}"; do
    if command -v "$interpreter" >/dev/null; then "${build[@]}" --interpreter "$interpreter"; fi
  done
done
maturin sdist --out dist
ls -l dist
