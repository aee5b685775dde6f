"""Measuring: reports and benchmarks."""
