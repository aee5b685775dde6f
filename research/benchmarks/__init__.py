"""Speed comparisons of cloze and its peers; run them as `python -m benchmarks`."""
