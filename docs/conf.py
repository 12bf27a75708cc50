"""The documentation site: `make docs` builds it into build/docs, and fails at any warning."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import tables
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

import jaxrl

project = "jaxrl"
copyright = "the jaxrl authors"
version = release = jaxrl.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["**/.ipynb_checkpoints"]
html_theme = "furo"
html_title = f"jaxrl {release}"

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # outputs are kept in the notebooks; `make notebooks KEEP=--keep` writes them
nb_merge_streams = True

default_role = "code"  # docstrings put names between single backticks
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False


def setup(app: Sphinx) -> None:
    """Two hooks."""
    app.connect("builder-inited", _check_tables)
    app.connect("source-read", _name_outside_files)


def _check_tables(app: Sphinx) -> None:
    """Before anything is read: tables must be those of the environments and of the raw numbers."""
    if found := tables.stale(tables.all_tables()):
        raise ExtensionError(f"These tables are out of date: {', '.join(found)}. Run python docs/tables.py")


def _name_outside_files(app: Sphinx, page: str, source: list[str]) -> None:
    """Links that leave docs/ work on a code host only; on the site the file's name follows the words."""

    def named(link: re.Match[str]) -> str:
        words, path = link.groups()
        return f"`{path}`" if words in path else f"{words} (`{path}`)"

    if "/" not in page:  # in docs/notebooks, ../ is still inside
        source[0] = re.sub(r"\[([^\]]+)\]\(\.\./([^)#]+)[^)]*\)", named, source[0])
