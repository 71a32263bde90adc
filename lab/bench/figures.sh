#!/usr/bin/env bash
# The figures of the README, each beside the object without replication. Usage: figures.sh [path of quorate]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../examples"
quorate=${1:-quorate}
seconds=${SECONDS_PER_LINE:-10}

measure() {
  printf '\n%s\n' "$1"
  shift
  "$quorate" bench --local 3 "$@" --unreplicated --seconds "$seconds" --warmup 2
}

# What a Python client sees: one call at a time and 1000 in flight, beside the Rust client in the same run.
from_python() {
  printf '\n%s\n' "$1"
  shift
  "$quorate" bench --local 3 "$@" --python-client --seconds "$seconds" --warmup 2
}

measure "counter, memory, 1 client"     --object rust:counter --clients 1 --window 1   --size 16 --persist memory
measure "counter, memory, 4 x 256"      --object rust:counter --clients 4 --window 256 --size 16 --persist memory
measure "counter, disk, 1 client"       --object rust:counter --clients 1 --window 1   --size 16 --persist disk
measure "counter, disk, 4 x 256"        --object rust:counter --clients 4 --window 256 --size 16 --persist disk
measure "Python method, disk, 1 client" --object bank:Account.deposit --clients 1 --window 1 --args '["A-1", 100]' --persist disk
measure "Python method, disk, 4 x 256"  --object bank:Account.deposit --clients 4 --window 256 --args '["A-1", 100]' --persist disk
from_python "Python method called from Python, disk" --object bank:Account.deposit --args '["A-1", 100]' --persist disk
measure "confirmed reads, memory, 4 x 256" --object rust:counter --clients 4 --window 256 --read-ratio 1.0 --reads confirmed --persist memory
