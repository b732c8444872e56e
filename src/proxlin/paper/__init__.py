"""The paper's experiments: grids of training runs, their tables and figures, beside the paper's."""
