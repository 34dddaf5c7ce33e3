#!/usr/bin/env bash
# picoformer on other machines, under emulators: named steps that a person runs too.
#
#   tests/targets.sh               every step
#   tests/targets.sh STEP…         single steps, in the given order
#   tests/targets.sh --list        their names
#
# A step is a function of a file in tests/targets/; each file says what it is for. What a
# step needs and does not find it installs, or it says SKIPPED and why.
set -euo pipefail
# What fails within $(…) fails the step.
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

STEPS=()
for file in tests/targets/*.sh; do
    # Each file appends the names of its steps to STEPS.
    source "$file"
done

[ "${1:-}" != --list ] || { printf '%s\n' "${STEPS[@]}"; exit; }
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${STEPS[@]}")
for step in "${steps[@]}"; do
    printf '\n=== %s\n' "$step"
    start=$SECONDS
    "$step"
    printf -- '--- %s: %d s\n' "$step" $((SECONDS - start))
done
