"""Run the notebooks: `python docs/notebooks/run.py [NAME …]` executes them and writes them with their outputs to
build/notebooks, or with `--keep` in place (extra `notebooks`). With `--plain` the code cells run in this process and
nothing is written, which needs no kernel.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
BUILD = FOLDER.parent.parent / "build" / "notebooks"


def main(arguments: list[str]) -> None:
    """Run the named notebooks, or all, and say how long each took."""
    names = [name for name in arguments if not name.startswith("--")]
    for name in names or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        start = time.monotonic()
        path = FOLDER / f"{Path(name).stem}.ipynb"
        if "--plain" in arguments:
            run_plain(path)
        else:
            run_and_save(path, FOLDER if "--keep" in arguments else BUILD)
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


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
