"""Side-by-side speed measurements: one file a benchmark, over one harness."""
