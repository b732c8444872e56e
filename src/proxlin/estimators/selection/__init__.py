"""RobustFeatureSelector: which features matter, along a path of penalties."""
