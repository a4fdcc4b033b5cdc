#!/bin/sh
# tollgate proxy, two servers behind it, and a Redis, in one command:
#
#     crates/tollgate-server/examples/proxy/start.sh
#
# It says what to try, and ends with Ctrl-C. It needs redis-server and python3.
# PORT is that of the proxy, ADMIN that of the live page; the next ones are the servers' and Redis'.
set -eu
cd "$(dirname "$0")"
port=${PORT:-8080} admin=${ADMIN:-9080}
one=${ONE:-$((admin + 1))} two=${TWO:-$((admin + 2))} redis=${REDIS:-$((admin + 3))}
tollgate=${TOLLGATE:-cargo run --release --quiet --features serve --}

# All of them end with this script.
all=
trap 'kill $all 2>/dev/null || true; wait' EXIT
trap 'exit 0' INT TERM

# What it says goes beside what to try, not among it.
redis-server --port "$redis" --bind 127.0.0.1 --save '' --loglevel warning >&2 &
all="$all $!"
python3 upstream.py one "$one" &
first=$! all="$all $!"
python3 upstream.py two "$two" &
all="$all $!"
REDIS_URL=redis://127.0.0.1:$redis $tollgate proxy --rules rules.toml --log warn \
    --listen "127.0.0.1:$port" --admin "127.0.0.1:$admin" \
    --upstream "http://127.0.0.1:$one" --upstream "http://127.0.0.1:$two" \
    --health-path /health --health-interval 1s &
all="$all $!"

cat <<TRY
Try, once it serves, in another terminal; with what it prints, among other things:

for i in 1 2; do curl -s localhost:$port/; done                                   # two: GET /
curl -si localhost:$port/ | grep -i '^ratelimit:'                                 # "each";r=17;t=
for i in 1 2 3 4 5; do curl -so /dev/null -w '%{http_code} ' -d x localhost:$port/login; done   # 401 401 401 429 429
for i in 1 2 3; do curl -s localhost:$port/slow & done; wait                      # one request too many at once
curl -so /dev/null -w '%{http_code}' --path-as-is localhost:$port/a/../private   # 403
kill $first; for i in 1 2 3; do curl -s localhost:$port/; done                    # two: GET /
redis-cli -p $redis shutdown nosave; sleep 1; curl -so /dev/null -w '%{http_code}' localhost:$port/      # 200
curl -s localhost:$admin/metrics | grep '^tollgate_decisions_total.*proxy.*limited'   # tollgate_decisions_total

The live page: http://localhost:$admin
TRY
wait
