"""The demonstration: what outliers do to squared errors and to robust losses, on embedded data."""
