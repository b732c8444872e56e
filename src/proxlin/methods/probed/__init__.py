"""Probed Gauss-Newton, the default method."""
