"""RobustRegressor and what it stands on: high-breakdown starts, the efficient fit, nets."""
