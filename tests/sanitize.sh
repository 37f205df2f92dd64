#!/usr/bin/env bash
# AddressSanitizer (with leaks) and ThreadSanitizer over what of the crate runs on a host, by the stable toolchain.
#
#   tests/sanitize.sh [address] [thread]     both, if none is named; fails if there is a report
#   STORM_SECONDS=600 tests/sanitize.sh      a longer storm: 60 s by default, a third of that for addresses
#
# `RUSTC_BOOTSTRAP` lets the stable compiler take the flags of the unstable one. The standard library stays as it comes,
# without instrumentation: `base::sync` has locks that tell ThreadSanitizer what it cannot see (`--cfg gpucache_tsan`), and
# `sanitize/*.supp` lists what is reported all the same, with reasons.
#
# That they see was checked by mistakes put into the code for a storm of ten seconds, one at a time. ThreadSanitizer reported:
# `Hold` given up, or taken, by a relaxed operation; its contents touched without holding it; a push on a return stack, or
# its taking, relaxed; memory of another stream that is not waited for; a wait that is left out of a queue; a relaxed look at
# how far a queue is. AddressSanitizer reported: a record read after it was dropped, and after it was pushed for its owner; a
# block filled by one byte too many; a record that is forgotten.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
seconds=${STORM_SECONDS:-60}

# Those that neither count or measure memory, which a sanitizer takes too, nor run the compiler or a GPU.
everywhere=(conformance invalidate_all random shortage storm streams threads)
by_address=(async_scopes faults plans range)
# Files of these programs that do, or that take long, or that do not join their threads.
left_out=(between:: ended:: invalidated_meanwhile:: overlap:: recorded:: recurring_moves:: replaced_state:: several_orders::)

# Runs tests with flags of the compiler, in a folder for those. To optimize the crate saves more time than it takes.
tests() {
    local folder=$1 flags=$2
    shift 2
    printf '\n== %s: %s\n' "$folder" "$*"
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="$flags" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/$folder" \
        cargo test --config profile.dev.package.gpucache.opt-level=1 \
            --config profile.dev.package.gpucache-engine.opt-level=1 --config profile.dev.package.gpucache-plan.opt-level=1 \
            --target "$host" --no-default-features \
        --no-fail-fast "$@"
}

address() {
    local flags=-Zsanitizer=address
    LSAN_OPTIONS="suppressions=$PWD/tests/sanitize/leaks.supp:print_suppressions=0" STORM_SECONDS=$((seconds / 3)) \
        tests address "$flags" --package gpucache --package gpucache-engine --package gpucache-plan --package gpucache-tests --lib \
        "${everywhere[@]/#/--test=}" "${by_address[@]/#/--test=}" -- "${left_out[@]/#/--skip=}"
    # Its endings leave arrays lying around, as programs do, and nothing is freed while a process exits.
    ASAN_OPTIONS=detect_leaks=0 tests address "$flags" --package gpucache-tests --test=exit
}

# Without random programs on one thread, and without what is ordered in ways that the sanitizer does not see: rayon's tasks by fences,
# tokio's by the standard library's locks, and the end of a thread that a scope of threads waits for without a join.
thread() {
    TSAN_OPTIONS="suppressions=$PWD/tests/sanitize/races.supp" STORM_SECONDS=$seconds \
        tests thread "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg gpucache_tsan" \
        --package gpucache-tests "${everywhere[@]/#/--test=}" -- "${left_out[@]/#/--skip=}" --skip model:: --skip programs:: \
        --skip stolen:: --skip a_drop_elsewhere_at_the_exit
}

[ $# -gt 0 ] || set -- address thread
for sanitizer in "$@"; do
    case $sanitizer in
        address | thread) "$sanitizer" ;;
        *) printf 'there is no sanitizer `%s` here: name `address`, `thread` or none\n' "$sanitizer" >&2 && exit 2 ;;
    esac
done
