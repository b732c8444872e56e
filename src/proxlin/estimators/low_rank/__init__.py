"""Few components for many columns: factorisation, PCA, autoencoders, missing cells."""
