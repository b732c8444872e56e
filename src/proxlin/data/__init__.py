"""Data sets by name, outliers to put into them, and made-up data whose answer is known."""

from proxlin.data.corruption import add_outliers
from proxlin.data.loading import DataSet, load_dataset
from proxlin.data.registry import DataFile, DatasetEntry, list_datasets
from proxlin.data.synthetic import (
    BlobImages,
    PlantedFactorization,
    PlantedRegression,
    blob_images,
    planted_factorization,
    planted_regression,
)

__all__ = [
    "BlobImages",
    "DataFile",
    "DataSet",
    "DatasetEntry",
    "PlantedFactorization",
    "PlantedRegression",
    "add_outliers",
    "blob_images",
    "list_datasets",
    "load_dataset",
    "planted_factorization",
    "planted_regression",
]
