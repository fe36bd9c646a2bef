#!/usr/bin/env bash
# Makes build/benchmarks/peers, the environment of the libraries that peers_extract.py compares with.
set -eu
cd "$(dirname "$0")/.."
python=build/benchmarks/peers/bin/python
test -x "$python" || "${PYTHON:-python3}" -m venv build/benchmarks/peers
# The stores in the versions of constraints.txt, so that both sides write into the same.
"$python" -m pip install torch==2.13.0 fastembed==0.9.1 sentence-transformers==6.2.0 \
    qdrant-client==1.20.0 lancedb==0.40.0 chromadb==1.5.9
