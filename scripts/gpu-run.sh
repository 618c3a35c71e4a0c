#!/usr/bin/env bash
# Unpacks Node and runs a part of the bundle: run.sh test [words] | start | bench | <script> [arguments]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
node=$here/bin/node
if [ ! -x "$node" ]; then
  mkdir -p "$here/bin"
  xz -dc "$here"/node-*.xz > "$node.part"
  chmod +x "$node.part"
  mv "$node.part" "$node"
fi
export PATH=$here/bin:$PATH
cd "$here/app"
what=${1:-test}
shift || true
case $what in
  test) exec node scripts/test.mjs "$@" ;;
  start) exec node dist/examples/pipeline/main.js "$@" ;;
  bench) exec node dist/bench/main.js "$@" ;;
  *) exec node "$what" "$@" ;;
esac
