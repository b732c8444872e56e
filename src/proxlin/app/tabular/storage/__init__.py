"""Fitted models as folders on the disk."""
