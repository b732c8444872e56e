"""RobustOutlierDetector: which rows are odd, and which of their cells."""
