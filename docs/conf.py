"""Sphinx configuration: Markdown in, HTML out; the examples of every page run under the builder ``doctest``."""

import os
import sys
from importlib import metadata
from pathlib import Path

os.environ["TILEIR_CACHE"] = "0"  # examples compile anew, and leave nothing behind
here = Path(__file__).parent
sys.path[:0] = [str(here), str(here.parent / "tools"), str(here.parent / "plugins" / "tileir-reference" / "src")]

import tables

project = "tileir"
author = "The tileir developers"
release = metadata.version("tileir")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "highlighting",
]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_use_ivar = True
myst_enable_extensions = ["deflist", "dollarmath", "substitution"]
myst_heading_anchors = 3
myst_substitutions = {
    "changes_of_passes": tables.changes("passes"),
    "changes_of_steps": tables.changes("steps"),
    "accuracy": tables.accuracy(),
    "codes": tables.codes(),
    "dtypes": tables.dtypes(),
    "emitter": tables.emitter(),
    "expansions": tables.expansions(),
    "formula_functions": tables.formula_functions(),
    "formula_words": tables.formula_words(),
    "operations": tables.operations(),
    "passes": tables.passes(),
    "passes_of_accelerators": tables.passes_of_accelerators(),
    "plaidml_names": tables.plaidml_names(),
    "precedence": tables.precedence(),
    "remarks": tables.remarks(),
}

highlight_language = "python-tile"
copybutton_exclude = ".linenos, .gp, .go"
html_theme = "furo"
html_title = f"tileir {release}"
html_show_copyright = False

doctest_global_setup = "import numpy as np; import tileir"
