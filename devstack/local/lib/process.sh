# shellcheck shell=bash
# Daemons by pid file. A pid file holds "pid starttime", so that a recycled pid is never taken for ours.

# Empty for a process that has ended, also while nobody has taken note of that (a zombie).
start_time() { sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" { print $20 }'; }

alive() { # NAME
    local pid since
    [ -f "$RUN/$1.pid" ] || return 1
    read -r pid since <"$RUN/$1.pid" || return 1
    [ -n "$since" ] && [ "$(start_time "$pid")" = "$since" ]
}

# start NAME COMMAND...: in a session of its own, output to $LOG/NAME.log; nothing when it runs already. It inherits no file
# of ours or of our caller's: a lock that came along would be held as long as the daemon runs.
start() {
    local name=$1 pid
    shift
    if alive "$name"; then return 0; fi
    setsid "$@" >>"$LOG/$name.log" 2>&1 </dev/null 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
    pid=$!
    echo "$pid $(start_time "$pid")" >"$RUN/$name.pid"
    disown "$pid" 2>/dev/null || true
}

# stop NAME [SECONDS]: SIGTERM to its process group, SIGKILL when it is still there after so long.
stop() {
    local name=$1 seconds=${2:-15} pid i
    [ -f "$RUN/$name.pid" ] || return 0
    if alive "$name"; then
        read -r pid _ <"$RUN/$name.pid"
        kill -TERM -- "-$pid" 2>/dev/null || true
        for ((i = 0; i < seconds * 10; i++)); do
            kill -0 -- "-$pid" 2>/dev/null || break
            sleep 0.1
        done
        if kill -0 -- "-$pid" 2>/dev/null; then
            say "$name did not stop within $seconds s: killed"
            kill -KILL -- "-$pid" 2>/dev/null || true
        fi
    fi
    rm -f "$RUN/$name.pid"
}

port_open() { (exec 3<>"/dev/tcp/$STACK_HOST/$1") 2>/dev/null; }

# need_port NAME PORT: fail early where somebody else has the port that NAME is to have.
need_port() {
    if ! alive "$1" && port_open "$2"; then
        echo "port $2, which is for $1, is taken; choose another STACK_PORT_BASE"
        return 1
    fi
}

http_status() { curl -s -o /dev/null -m 5 --noproxy '*' -w '%{http_code}' "$1" || true; }

answers() { # URL: any status below 500
    local status
    status=$(http_status "$1")
    [ "${status:-0}" -ge 100 ] && [ "$status" -lt 500 ]
}

# wait_until NAME SECONDS COMMAND...: until it succeeds; fails at once, with the end of its log, when NAME has died.
wait_until() {
    local name=$1 seconds=$2 i
    shift 2
    for ((i = 0; i < seconds * 5; i++)); do
        if "$@"; then return 0; fi
        if ! alive "$name"; then
            echo "$name died; the end of $LOG/$name.log:"
            tail -n 20 "$LOG/$name.log"
            return 1
        fi
        sleep 0.2
    done
    echo "$name is not ready after $seconds s ($*); the end of $LOG/$name.log:"
    tail -n 20 "$LOG/$name.log"
    return 1
}

# start_wsgi NAME MODULE PORT: an API below uWSGI. "Connection: close": its HTTP socket has no keep-alive.
start_wsgi() {
    start "$1" "$BIN/uwsgi" --module "$2:application" --http-socket "$STACK_HOST:$3" --master --processes "$STACK_WORKERS" \
        --threads 1 --enable-threads --lazy-apps --thunder-lock --buffer-size 65535 --die-on-term --exit-on-reload \
        --worker-reload-mercy 5 --need-app --add-header 'Connection: close' --disable-logging --procname-prefix "$1 " \
        --pyargv "${WSGI_ARGUMENTS:-}"
}
