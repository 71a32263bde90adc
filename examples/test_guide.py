"""The examples of the user's guide, run as they stand: each page in a folder, with a fresh group.

A block with a caption is a file of that name. Python files are run, and print what the comments
behind `print` say; `bank.py` of the first page is the class of all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import test_readme

GUIDE = Path(__file__).resolve().parent.parent / "docs/guide"
BLOCK = re.compile(
    r"^\.\. code-block:: \w+\n   :caption: (?P<name>\S+)\n\n(?P<text>(?:   .*\n|\n)+)", re.MULTILINE
)
UP = ["quorate", "up", "bank:Account", "--args", '["A-1", 100]']
PAGES = sorted(path.stem for path in GUIDE.glob("*.rst"))


def files(page: str) -> dict[str, str]:
    """The files of a page by name."""
    text = (GUIDE / f"{page}.rst").read_text("utf-8") + "\n"
    return {
        found["name"]: re.sub("^   ", "", found["text"], flags=re.M)
        for found in BLOCK.finditer(text)
    }


def test_every_page_of_the_guide_is_listed_and_most_have_examples() -> None:
    """A page that is not listed is found by nobody."""
    index = (GUIDE / "index.rst").read_text("utf-8")
    assert all(f"   {page}\n" in index for page in PAGES if page != "index")
    assert sum(bool(files(page)) for page in PAGES) >= 7


@pytest.mark.parametrize("page", [page for page in PAGES if files(page)])
def test_the_examples_of_a_page_print_what_they_say(page: str, tmp_path: Path) -> None:
    """Runs the files of the page in their order."""
    for name, text in {**files("first-class"), **files(page)}.items():
        (tmp_path / name).write_text(text, "utf-8")
    scripts = [name for name in files(page) if name.endswith(".py") and name != "bank.py"]
    with test_readme.running(UP, tmp_path, test_readme.QUORATE, os.environ) as endpoint:
        for name in scripts:
            script = tmp_path / name
            text = script.read_text("utf-8")
            script.write_text(text.replace(test_readme.WRITTEN_ENDPOINT, endpoint), "utf-8")
            command = [sys.executable, name]
            ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr
            assert ran.stdout.splitlines() == re.findall(r"print\(.*\)  # (.*)", text), name


def test_the_configuration_of_the_guide_has_no_unknown_key(tmp_path: Path) -> None:
    """Its certificates are not here, and nothing else is wrong with it."""
    config = tmp_path / "node.toml"
    config.write_text(files("machines")["node.toml"], "utf-8")
    command = [str(test_readme.QUORATE), "node", "run", "--config", str(config)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode != 0
    assert re.search(r"/etc/quorate|/var/lib/quorate", ran.stderr), ran.stderr
