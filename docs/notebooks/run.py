"""Run the notebooks: `python docs/notebooks/run.py [NAME …]` executes them and writes them with their outputs to
build/notebooks, or with `--keep` in place (extra `notebooks`). With `--plain` the code cells run in this process and
nothing is written, which needs no kernel.

`python docs/notebooks/run.py --address` executes nothing: it gives every notebook a first cell that installs jaxrl from
the repository's address in pyproject.toml, and a badge that opens it in Colab from there.
"""

from __future__ import annotations

import json
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
BUILD = FOLDER.parent.parent / "build" / "notebooks"

INSTALL = """\
# In Colab this installs jaxrl beside the JAX that is there, which stays as it is. Where jaxrl is installed, it does
# nothing.
import importlib.metadata
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("jaxrl") is None:
    has_jax = importlib.util.find_spec("jax") is not None
    kept = [f"jax=={importlib.metadata.version('jax')}"] if has_jax else []
    wanted = ["jaxrl[viz] @ git+ADDRESS", *kept]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *wanted], check=True)"""
BADGE = "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"


def main(arguments: list[str]) -> None:
    """Run the named notebooks, or all, and say how long each took."""
    if "--address" in arguments:
        for path in FOLDER.glob("*.ipynb"):
            notebook = json.loads(path.read_text(encoding="utf-8"))
            installable(notebook, path.name)
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    names = [name for name in arguments if not name.startswith("--")]
    for name in names or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        start = time.monotonic()
        path = FOLDER / f"{Path(name).stem}.ipynb"
        if "--plain" in arguments:
            run_plain(path)
        else:
            run_and_save(path, FOLDER if "--keep" in arguments else BUILD)
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


def installable(notebook: dict[str, Any], name: str) -> None:
    """Renew the badge of a notebook, and the cell that installs what it needs."""
    pyproject = (FOLDER.parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    address = tomllib.loads(pyproject)["project"]["urls"]["Repository"]
    colab = address.replace("https://github.com", "https://colab.research.google.com/github")
    title, *cells = (cell for cell in notebook["cells"] if cell["id"] != "install")
    text = "".join(title["source"]).partition(f"\n\n{BADGE}")[0]
    title["source"] = f"{text}\n\n{BADGE}({colab}/blob/main/docs/notebooks/{name})".splitlines(keepends=True)
    lines = INSTALL.replace("ADDRESS", address).splitlines(keepends=True)
    install = {"cell_type": "code", "execution_count": 0, "id": "install", "metadata": {}, "outputs": [], "source": lines}
    notebook["cells"] = [title, install, *cells]
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        cell["execution_count"] = number
        for output in cell["outputs"]:
            if output["output_type"] == "execute_result":
                output["execution_count"] = number


def run_plain(path: Path) -> None:
    """Execute the code cells one after the other, as a script would be."""
    import matplotlib

    matplotlib.use("Agg")
    names = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)


def run_and_save(path: Path, folder: Path) -> None:
    """Execute in a fresh kernel; write to `folder` what the cells say, but not when and by which version of Python."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                output["data"].pop("text/plain", None)  # every number of a replay, for nobody to read
    notebook.metadata["language_info"] = {"name": "python"}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / path.name).write_text(nbformat.writes(notebook, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
