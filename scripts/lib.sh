# Shared by the scripts: where things are, readable progress, and the build. Sourced, not run.
# shellcheck shell=bash

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${WARPLINE_JOBS:-$(nproc)}

if [ -t 1 ]; then BOLD=$'\e[1m' GREEN=$'\e[32m' RED=$'\e[31m' DIM=$'\e[2m' PLAIN=$'\e[0m'; else BOLD='' GREEN='' RED='' DIM='' PLAIN=''; fi
STARTED=$SECONDS
# What ccache must overlook to keep what was compiled with precompiled headers: the times of files, whose contents it compares anyway.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}
# What a file includes is known from the compiler's list, which ninja wants anyway: ccache need not preprocess it first.
export CCACHE_DEPEND=${CCACHE_DEPEND:-1}

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

# part NAME: begins a part of a script whose cost costs() prints; ends the one before it. Costs are the processor time of all that was
# started and has ended, and the time by the clock.
COSTS=() PART='' PART_CPU=0 PART_CLOCK=0
part() {
    local cpu clock=$SECONDS file
    file=$(mktemp)
    times >"$file"
    # The second line: user and system time of the children, as 12m3.456s.
    cpu=$(sed -n 2p "$file" | tr 'ms' '  ' | awk '{ printf "%.1f", 60 * $1 + $2 + 60 * $3 + $4 }')
    rm -f "$file"
    [ -z "$PART" ] || COSTS+=("$(awk -v a="$PART_CPU" -v b="$cpu" 'BEGIN { printf "%.1f", b - a }') $((clock - PART_CLOCK)) $PART")
    PART=${1:-} PART_CPU=$cpu PART_CLOCK=$clock
    [ -z "$PART" ] || step "$PART"
}
costs() {
    part
    printf '\n%10s  %10s\n' 'CPU min' 'clock min'
    printf '%s\n' "${COSTS[@]}" | awk '
        { cpu += $1; clock += $2; name = $0; sub(/^[^ ]+ [^ ]+ /, "", name); printf "%10.1f  %10.1f  %s\n", $1 / 60, $2 / 60, name }
        END { printf "%10.1f  %10.1f  %s\n", cpu / 60, clock / 60, "all" }'
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
