"""Jacobian rows layer by layer, for chains of common layers."""
