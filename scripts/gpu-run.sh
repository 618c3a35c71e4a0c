#!/usr/bin/env bash
# Unpacks Node and runs a part of the bundle: run.sh [--node 24|all] test [words] | start | bench | <script> [arguments]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$here/bin
if [ ! -e "$bin/node" ]; then
  rm -rf "$bin.part"
  mkdir -p "$bin.part"
  xz -dc "$here/nodes.tar.xz" | tar -xf - -C "$bin.part"
  # The oldest is the one that runs unless another is asked for.
  ln -s "$(ls "$bin.part" | head -1)" "$bin.part/node"
  mv "$bin.part" "$bin"
fi
if [ ! -e "$here/app" ]; then
  mkdir -p "$here/app.part"
  tar -xJf "$here/app.tar.xz" -C "$here/app.part"
  mv "$here/app.part/app" "$here/app"
fi
export PATH=$bin:$PATH
node=node
if [ "${1:-}" = --node ]; then
  if [ "$2" = all ]; then
    shift 2
    failed=
    for path in "$bin"/node[0-9]*; do
      echo "== Node $("$path" --version)"
      bash "$here/run.sh" --node "${path##*/node}" "$@" || failed="$failed ${path##*/}"
    done
    echo "== Failed:${failed:- none}"
    [ -z "$failed" ]
    exit
  fi
  node=node$2
  shift 2
fi
cd "$here/app"
what=${1:-test}
shift || true
case $what in
  # The rest is tested where there is no GPU.
  test) exec "$node" scripts/test.mjs --gpu "$@" ;;
  start) exec "$node" dist/examples/pipeline/main.js "$@" ;;
  bench) exec "$node" dist/bench/main.js "$@" ;;
  *) exec "$node" "$what" "$@" ;;
esac
