#!/usr/bin/env bash
# Trains the claims of benchmarks/evidence.md, a search and a confirmation of each side.
#
#     SCLSEARCH_DATA=glue benchmarks/evidence.sh [CLAIM…]
#
# Run it from the repository's root; without CLAIM it trains all claims, which takes days on two
# cores. The folder SCLSEARCH_DATA has SST-2/ (GLUE), dbpedia_csv/ and amazon_review_polarity_csv/.
# Finished seed runs are kept in $STORAGE, and the same command resumes.
set -euo pipefail
storage=${STORAGE:-evidence-storage}
mkdir -p "$storage"
commands=$(python -m benchmarks.evidence --storage "$storage" --commands "$@")
while IFS= read -r command; do
    printf '$ %s\n' "$command" >&2
    eval "$command" </dev/null >&2
done <<<"$commands"
python -m benchmarks.evidence --storage "$storage"
