"""The figures behind the claims, as tables with ratios: `python -m benchmarks [name ...]`."""
