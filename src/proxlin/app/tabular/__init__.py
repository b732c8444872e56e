"""Models of users' own tables: reading files, encoding columns, fitting, saving and loading."""

from proxlin.app.tabular.fitting import Fitted, fit_table
from proxlin.app.tabular.model import Judgement, Misfit, TableModel
from proxlin.app.tabular.raw import RawTable
from proxlin.app.tabular.read import read_table_file
from proxlin.app.tabular.saved import load_model, save_model
from proxlin.app.tabular.settings import FitSettings

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
