#!/usr/bin/env bash
# The measured lines of the README, each beside its unreplicated twin. Usage: figures.sh [path of quorate]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../examples"
quorate=${1:-quorate}
seconds=${SECONDS_PER_LINE:-10}

measure() {
  local title=$1
  shift
  for mode in "" --unreplicated; do
    printf '%-44s %s ' "$title" "${mode:-  three nodes}"
    # shellcheck disable=SC2086
    "$quorate" bench --local 3 "$@" $mode --seconds "$seconds" --warmup 2 -o json
  done
}

measure "counter, memory, 1 client"     --object rust:counter --clients 1 --window 1   --size 16 --persist memory
measure "counter, memory, 4 x 256"      --object rust:counter --clients 4 --window 256 --size 16 --persist memory
measure "counter, disk, 1 client"       --object rust:counter --clients 1 --window 1   --size 16 --persist disk
measure "counter, disk, 4 x 256"        --object rust:counter --clients 4 --window 256 --size 16 --persist disk
measure "Python method, memory, 1 client" --object bank:Account.deposit --clients 1 --window 1   --persist memory
measure "Python method, memory, 4 x 256"  --object bank:Account.deposit --clients 4 --window 256 --persist memory
measure "confirmed reads, memory, 4 x 256" --object rust:counter --clients 4 --window 256 --read-ratio 1.0 --reads confirmed --persist memory
