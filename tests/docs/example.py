"""An example as `python example.py FOLDER` runs it; started by test_gallery.py."""

import os
import runpy
import sys

import matplotlib


def run_example(path, folder):
    os.chdir(folder)
    matplotlib.use("Agg")
    sys.argv = [str(path), str(folder)]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")
