# Shared by the scripts: where things are, readable progress, and the build. Sourced, not run.
# shellcheck shell=bash

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${WARPLINE_JOBS:-$(nproc)}

if [ -t 1 ]; then BOLD=$'\e[1m' GREEN=$'\e[32m' RED=$'\e[31m' DIM=$'\e[2m' PLAIN=$'\e[0m'; else BOLD='' GREEN='' RED='' DIM='' PLAIN=''; fi
STARTED=$SECONDS

# step TEXT: one line of progress with the time since the script began.
step() { printf '%s[%3ds]%s %s%s%s\n' "$DIM" "$((SECONDS - STARTED))" "$PLAIN" "$BOLD" "$*" "$PLAIN"; }
note() { printf '       %s\n' "$*"; }
die() { printf '%serror:%s %s\n' "$RED" "$PLAIN" "$*" >&2; exit 1; }

# quietly LOG COMMAND…: runs a command with its output in a file; shows the end of it if the command fails.
quietly() {
    local log=$1; shift
    mkdir -p "$(dirname "$log")"
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        die "'$*' failed; the whole output is in $log"
    fi
}

# Where nvcc and its headers are: ours in .cuda/, or an installed toolkit. Empty if there is none.
cuda_root() {
    local nvcc
    if [ -x "$ROOT/.cuda/bin/nvcc" ]; then
        echo "$ROOT/.cuda"
    elif nvcc=$(command -v nvcc) && [ "${WARPLINE_TOOLKIT:-}" != wheels ]; then
        dirname "$(dirname "$(readlink -f "$nvcc")")"
    fi
}

# build PRESET [targets…]: configures (always, it is cheap) and builds a preset.
build() {
    local preset=$1; shift
    local log="$ROOT/build/$preset/build.log"
    quietly "$ROOT/build/$preset/configure.log" cmake -S "$ROOT" --preset "$preset"
    if ! (cd "$ROOT" && cmake --build --preset "$preset" -j "$JOBS" ${1:+--target "$@"} >"$log" 2>&1); then
        grep -E 'error|Error|FAILED' "$log" | head -n 30 >&2 || true
        tail -n 20 "$log" >&2
        die "the build failed; the whole output is in $log"
    fi
}
