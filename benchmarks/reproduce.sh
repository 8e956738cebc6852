#!/usr/bin/env bash
# Cells of four published tables with MiniLM at laptop scale: benchmarks/reproduce.md.
#
#     benchmarks/reproduce.sh glue > benchmarks/reproduce.md
#
# Run it from the repository's root; glue is the folder with CoLA/, MRPC/, RTE/ and SST-2/. Each
# table is trained for at most 40 minutes a time; finished seed runs are kept in $STORAGE, and the
# same command resumes and prints the same bytes.
set -euo pipefail
data=${1:?"usage: benchmarks/reproduce.sh FOLDER-WITH-GLUE"}
storage=${STORAGE:-reproduce-storage}
export COLUMNS=80
unfinished=0

table() {
    printf '\n## %s\n\n```\n$ sclsearch reproduce %s --scale laptop \\\n    --cells "%s"\n' "$1" "$@"
    sclsearch reproduce "$1" --cells "$2" --scale laptop --data-dir "$data" \
        --storage "$storage" --tracking none --time-budget 40m |
        awk '!done { sub(/ *$/, ""); print } /^all: mean/ { done = 1 }' || unfinished=1
    printf '```\n'
}

cat <<'INTRO'
# Cells of four published tables, at laptop scale

MiniLM, 3 seeds, the better of 2 configurations by validation, at most 150 updates a stage, 200
validation and 500 test rows. So small a budget shows that the tables can be made and how our
figures stand beside the published ones; it says little of which method is best.

    benchmarks/reproduce.sh glue > benchmarks/reproduce.md
INTRO
table gunel/table-4 "20,100,SST-2"
table lacon/table-4 "RTE,MRPC"
table cmlm/table-1 "FT,CMLM,N=100,SST-2,CoLA"
table supcl-seq/table-2 "SupCL-Seq,RTE"
table supcl-seq/table-2 "SupCL-Seq,MRPC F1,MRPC accuracy"
printf '\n'
python -m benchmarks.machine
exit "$unfinished"
