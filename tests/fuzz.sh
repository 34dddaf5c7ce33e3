#!/usr/bin/env bash
# Runs every fuzz target of tests/fuzz for some seconds each, from its corpus.
#
#   tests/fuzz.sh [SECONDS [TARGET…]]     20 seconds, all targets
#
# With a nightly compiler under AddressSanitizer, else without a sanitizer: overflow checks and
# debug assertions are on in any case. What it finds is written to tests/fuzz/artifacts, and the
# step fails; new inputs stay in tests/fuzz/target/corpus, from which the next run starts.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-20}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(image tokenizers weights converters plan c_calls)

export PATH=$PWD/target/tools/bin:$PATH
cargo fuzz --version > /dev/null 2>&1 || cargo install -q --locked cargo-fuzz --root target/tools ||
    { echo "SKIPPED: no cargo-fuzz, and it cannot be installed"; exit 0; }
command -v c++ > /dev/null || { echo "SKIPPED: no C++ compiler, which libFuzzer is built with"; exit 0; }

if cargo +nightly --version > /dev/null 2>&1; then
    cargo=(cargo +nightly) sanitizer=address
else
    cargo=(cargo) sanitizer=none
    echo "SKIPPED: AddressSanitizer, for there is no nightly compiler; the targets run without it"
fi

status=0
for target in "${targets[@]}"; do
    found=$PWD/tests/fuzz/target/corpus/$target log=$PWD/tests/fuzz/target/$target.log
    mkdir -p "$found"
    if ! (cd tests && "${cargo[@]}" fuzz run -s "$sanitizer" "$target" \
        "$found" "fuzz/corpus/$target" -- -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
        -max_len=16384 -print_final_stats=1) > "$log" 2>&1; then
        tail -40 "$log"
        echo "$target: FOUND SOMETHING"
        status=1
        continue
    fi
    echo "$target: $(grep -oP 'stat::number_of_executed_units: *\K\d+' "$log") executions in $seconds s," \
        "$(grep -oP 'cov: \K\d+' "$log" | tail -1) edges, nothing found ($sanitizer)"
done
rm -rf /dev/shm/picoformer-fuzz-*
exit $status
