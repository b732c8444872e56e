"""Models of users' own tables: reading files, encoding columns, fitting, saving and loading."""

from proxlin.app.tabular.fit_settings import FitSettings
from proxlin.app.tabular.fitting import Fitted, fit_table
from proxlin.app.tabular.model import Judgement, Misfit, TableModel
from proxlin.app.tabular.reading.csv_file import RawTable
from proxlin.app.tabular.reading.table_file import read_table_file
from proxlin.app.tabular.storage.model_file import load_model, save_model

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
