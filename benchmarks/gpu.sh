#!/bin/sh
# What only a CUDA device can measure, part by part, results into $OUT.
#
#   sh benchmarks/gpu.sh                                 # the tests and the losses
#   PARTS="peers long" DATA=cifar10 sh benchmarks/gpu.sh
#   PARTS=long SEED=1 DATA=cifar10 sh benchmarks/gpu.sh              # one row per call
#   PARTS=study DATA=cifar10 sh benchmarks/gpu.sh       # batch 256, again and again
#   PARTS=study LANES="32 32" DATA=cifar10 sh benchmarks/gpu.sh    # two runs per call
#   PARTS=study LIMIT=1700 MINUTES=27 LANES="32 32 32" DATA=cifar10 \
#     sh benchmarks/gpu.sh    # the six long runs at batch 32, three after three, so
#                             # that half of them are safe at half time
#
# Each part has a limit in seconds, so that it fits a short lease of a machine. Trainings
# (peers, recipe, study) add a row per run and go on with the next one when called again;
# 'small_batch.py DATA --plan' says how many minutes are left. A lane of the study is a
# process that does runs of that batch alone. DATA is a folder with train/CLASS/*.jpg and
# test/CLASS/*.jpg, which the parts from 'start' on need.
set -u
OUT=${OUT:-benchmarks/results}
mkdir -p "$OUT"
PARTS=${PARTS:-tests sweep targets crossover loss}
PYTHON=${PYTHON:-python3}
SHARDS=${SHARDS:-12}
MINUTES=${MINUTES:-9}
LANES=${LANES:-256 256}
LIMIT=${LIMIT:-595}
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
suite="$PYTHON -m pytest -o addopts=--import-mode=importlib -q -p no:cacheprovider -W ignore"
began=$(date +%s)

asked() { case " $PARTS " in *" $1 "*) true ;; *) false ;; esac; }
took() { echo "== $1: $(($(date +%s) - began)) s since the start"; }
measure() { # NAME SECONDS SCRIPT ...: its output is kept beside its results
  name=$1 limit=$2
  shift 2
  {
    timeout "$limit" $PYTHON "$@" 2>&1 || echo "== $name ended with $? (124: its limit)"
  } | tee "$OUT/$name.log"
  took "$name"
}
images() { # the parts below cannot do without
  if [ ! -d "${DATA:-}/train" ]; then
    echo "DATA is a folder with train/ and test/: got '${DATA:-}'." >&2
    exit 2
  fi
}
rows() { # NAME.jsonl beside the results, so that a call takes up what is there
  [ -e "$OUT/$1.jsonl" ] || cp "benchmarks/results/$1.jsonl" "$OUT/" 2>/dev/null
  echo "$OUT/$1.jsonl"
}

# Compiling kernels takes most of it, so the tests are dealt out to processes.
if asked tests; then
  work=$(mktemp -d)
  $suite --collect-only tests/fused | grep :: >"$work/ids"
  split -n "r/$SHARDS" "$work/ids" "$work/shard."
  for shard in "$work"/shard.*; do
    OMP_NUM_THREADS=1 xargs -d '\n' -a "$shard" $suite -rf --tb=short >"$shard.log" 2>&1 &
  done
  wait
  cat "$work"/shard.*.log >"$OUT/tests.log"
  grep -h -E "^(FAILED|ERROR|E  )" "$OUT/tests.log" | cut -c1-200 | head -40
  grep -h -E "[0-9]+ (passed|failed|skipped)" "$OUT/tests.log"
  took tests
fi
if asked sweep; then
  measure sweep 90 benchmarks/kernels.py --parts ceilings sweep --out "$OUT"
fi
if asked targets; then
  measure targets 120 benchmarks/targets.py --out "$OUT"
fi
if asked crossover; then
  mkdir -p "$OUT/crossover"
  measure crossover 60 benchmarks/kernels.py --parts crossover --out "$OUT/crossover"
fi
if asked loss; then
  measure loss 595 benchmarks/loss.py --device cuda --dtype bfloat16 \
    --seconds "${SECONDS_FOR_LOSS:-560}" --out "$OUT"
fi
if asked epochs; then
  measure epochs 400 benchmarks/epochs.py --minutes 6 --out "$OUT/epochs_cuda.md"
fi
if asked loading; then
  measure loading 500 benchmarks/loading.py --generate 20000 --image-size 224 \
    --out "$OUT"
fi
if asked start; then
  images
  measure start 240 benchmarks/start.py "$DATA" --bytecode "$(mktemp -d)" --out "$OUT"
fi
if asked peers; then
  images
  measure peers 590 benchmarks/peers_training.py "$DATA" --lines "$(rows peers_training)"
fi
if asked long; then # 200 epochs from files to scores, and how long that takes
  images
  measure long 420 benchmarks/cifar10.py "$DATA" --hold-out 0 --test --epochs 200 \
    --batch-size 512 --temperature 0.2 --optim.name sgd --optim.lr 0.5 \
    --optim.lr-scaling none --optim.weight-decay 5e-4 --seed "${SEED:-0}" \
    --lines "$(rows cifar10)"
fi
if asked recipe; then
  images
  measure recipe "$LIMIT" benchmarks/recipe.py "$DATA" --parallel 4 --minutes "$MINUTES" \
    --lines "$(rows recipe)"
fi
if asked study; then
  images
  nvidia-cuda-mps-control -d # without it kernels of several processes take turns
  measure study "$LIMIT" benchmarks/small_batch.py "$DATA" --lanes $LANES \
    --minutes "$MINUTES" --machine.compile True --lines "$(rows small_batch)"
  echo quit | nvidia-cuda-mps-control
  $PYTHON benchmarks/small_batch_report.py --lines "$OUT/small_batch.jsonl"
fi
