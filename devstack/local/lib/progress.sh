# shellcheck shell=bash
# Steps: each has a name, a line with the seconds since the start, and a log of its own.

say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }

die() {
    printf '[%4d s] FAILED: %s\n' "$SECONDS" "$*" >&2
    exit 1
}

declare -A STEP_PID STEP_TEXT

# begin NAME TEXT COMMAND...: run it beside what follows; `finish NAME` waits for it.
begin() {
    local name=$1
    STEP_TEXT[$name]=$2
    shift 2
    (
        set -eu
        "$@"
    ) >"$LOG/step-$name.log" 2>&1 </dev/null &
    STEP_PID[$name]=$!
}

finish() {
    local name=$1
    wait "${STEP_PID[$name]}" || step_failed "$name" $?
    say "${STEP_TEXT[$name]}"
}

step() {
    begin "$@"
    finish "$1"
}

step_failed() {
    {
        echo "--- the end of $LOG/step-$1.log:"
        tail -n 25 "$LOG/step-$1.log"
        echo "---"
    } >&2
    die "step '$1' (${STEP_TEXT[$1]}), exit status $2"
}
