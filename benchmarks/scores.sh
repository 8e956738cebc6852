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
from pathlib import Path

import sclsearch
from sclsearch.search.simulate import table_of, write_table

name, storage = sys.argv[1:]
found = sclsearch.select(name, storage=storage)
write_table(table_of(found), Path("benchmarks/scores") / f"{name}.csv")
PYTHON
}

record ce demo 160 --set epochs=6
record scl sst2 100 --set epochs=8 --data-dir "$data"
record lacon dbpedia 70 --set epochs=12 --data-dir "$data"
record supcl-seq sst2 200 --set epochs=4 --data-dir "$data"
