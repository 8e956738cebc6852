#!/usr/bin/env bash
# Rows of benchmarks/evidence.md: a search and a confirmation of each side.
#
#     SCLSEARCH_DATA=glue benchmarks/evidence.sh [--model NAME] [--dry-run] [ROW…] \
#         > benchmarks/evidence.md
#
# Run it from the repository's root; without ROW it trains all rows, which takes days on two cores.
# The folder SCLSEARCH_DATA has SST-2/ (GLUE), dbpedia_csv/ and amazon_review_polarity_csv/.
# Finished seed runs are kept in $STORAGE, and the same command resumes. --dry-run prints the missing
# seed runs and the estimated hours.
set -euo pipefail
storage=${STORAGE:-evidence-storage}
options=(--storage "$storage") rows=() dry=
while (($#)); do
    case $1 in
        --model) options+=(--model "${2:?"--model: needs a name."}"); shift ;;
        --dry-run) dry=1 ;;
        *) rows+=("$1") ;;
    esac
    shift
done
if [[ $dry ]]; then
    exec python -m benchmarks.evidence --plan "${options[@]}" "${rows[@]}"
fi
mkdir -p "$storage"
commands=$(python -m benchmarks.evidence --commands "${options[@]}" "${rows[@]}")
while IFS= read -r command; do
    printf '$ %s\n' "$command" >&2
    eval "$command" </dev/null >&2
done <<<"$commands"
python -m benchmarks.evidence "${options[@]}"
