#!/bin/sh
# The GPU suite and the kernels' figures on one CUDA device, results into $OUT.
# Compiling kernels takes most of it, so the tests are dealt out to processes.
set -u
OUT=${OUT:-benchmarks/results}
PARTS=${PARTS:-tests sweep targets crossover loss}
PYTHON=${PYTHON:-python3}
SHARDS=${SHARDS:-12}
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
suite="$PYTHON -m pytest -o addopts=--import-mode=importlib -q -p no:cacheprovider -W ignore"
began=$(date +%s)
took() { echo "== $1: $(($(date +%s) - began)) s since the start"; }

case " $PARTS " in *" tests "*)
  work=$(mktemp -d)
  $suite --collect-only tests/fused | grep :: >"$work/ids"
  split -n "r/$SHARDS" "$work/ids" "$work/shard."
  for shard in "$work"/shard.*; do
    xargs -d '\n' -a "$shard" $suite -rf --tb=short >"$shard.log" 2>&1 &
  done
  wait
  cat "$work"/shard.*.log >"$OUT/tests.log"
  grep -h -E "^(FAILED|ERROR|E  )" "$OUT/tests.log" | cut -c1-200 | head -40
  grep -h -E "[0-9]+ (passed|failed|skipped)" "$OUT/tests.log"
  took tests ;;
esac
case " $PARTS " in *" sweep "*)
  timeout 90 $PYTHON benchmarks/kernels.py --parts ceilings sweep --out "$OUT" 2>&1 | tee "$OUT/sweep.log"
  took sweep ;;
esac
case " $PARTS " in *" targets "*)
  timeout 120 $PYTHON benchmarks/targets.py --out "$OUT" 2>&1 | tee "$OUT/targets.log"
  took targets ;;
esac
case " $PARTS " in *" crossover "*)
  mkdir -p "$OUT/crossover"
  timeout 60 $PYTHON benchmarks/kernels.py --parts crossover --out "$OUT/crossover" 2>&1 | tee "$OUT/crossover.log"
  took crossover ;;
esac
case " $PARTS " in *" loss "*)
  timeout 595 $PYTHON benchmarks/loss.py --device cuda --dtype bfloat16 --seconds ${SECONDS_FOR_LOSS:-560} --out "$OUT" 2>&1 | tee "$OUT/loss.log"
  took loss ;;
esac
