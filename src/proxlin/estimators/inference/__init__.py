"""Uncertainty of linear fits and of predictions: errors, intervals, diagnostics."""
