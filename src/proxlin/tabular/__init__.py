"""Models of users' own tables: reading files, encoding columns, fitting, saving and loading."""

from proxlin.tabular.fitting import Fitted, fit_table
from proxlin.tabular.model import Judgement, Misfit, TableModel
from proxlin.tabular.raw import RawTable
from proxlin.tabular.read import read_table_file
from proxlin.tabular.saved import load_model, save_model
from proxlin.tabular.settings import FitSettings

__all__ = [
    "FitSettings",
    "Fitted",
    "Judgement",
    "Misfit",
    "RawTable",
    "TableModel",
    "fit_table",
    "load_model",
    "read_table_file",
    "save_model",
]
