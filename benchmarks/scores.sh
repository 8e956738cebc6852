#!/usr/bin/env bash
# Tables of scores for benchmarks/race.py: 60 configurations x 10 seeds of four methods.
#
#     benchmarks/scores.sh FOLDER
#
# Run it from the repository's root; FOLDER has SST-2/ (GLUE) and dbpedia_csv/. Each table takes
# hours on two cores and is written to benchmarks/scores/ when it is complete.
# Finished seed runs are kept in $STORAGE; the same command resumes.
set -euo pipefail
data=${1:?"usage: benchmarks/scores.sh FOLDER-WITH-SST-2-AND-DBPEDIA"}
storage=${STORAGE:-scores-storage}

record() {  # method, task, training examples, other options
    local name="$1-$2-$3"
    sclsearch tune --method "$1" --task "$2" --train-size "$3" --scale laptop --seeds 10 \
        --configs 60 --sampler random --race off --space "benchmarks/scores/$1-$2.yaml" \
        --study "$name" --storage "$storage" --tracking none "${@:4}" >/dev/null
    python - "$name" "$storage" <<'PYTHON'
import sys

import sclsearch

name, storage = sys.argv[1:]
found = sclsearch.select(name, storage=storage)
frame = found.frame()
scores = frame.pivot(index="configuration", columns="replicate", values="validation").fillna(0.0)
scores.columns = [f"seed {seed}" for seed in scores]
values = frame.drop_duplicates("configuration").set_index("configuration")
table = values[[*found.configurations[0].values]].join(scores).round(6)
table.to_csv(f"benchmarks/scores/{name}.csv", index=False)
PYTHON
}

record ce demo 160 --set epochs=6
record scl sst2 100 --set epochs=8 --data-dir "$data"
record lacon dbpedia 70 --set epochs=12 --data-dir "$data"
record supcl-seq sst2 200 --set epochs=4 --data-dir "$data"
