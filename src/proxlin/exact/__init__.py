"""Models that are solved with a certificate instead of trained."""
