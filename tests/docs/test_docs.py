"""The pages of docs/ and README.md: their code runs and says what they show, and a site can be made of them."""

import doctest
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import grain
import grain.runtime

ROOT = Path(__file__).parents[2]
PAGES = {
    str(page.relative_to(ROOT)): page.read_text() for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
}
BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_code_runs(page, tmp_path, monkeypatch):
    """The blocks of a page, in order, are one program in a folder of its own; sessions give what they show."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for block in BLOCK.finditer(PAGES[page]):
        kind, code = block.groups()
        lines_before = PAGES[page].count("\n", 0, block.start(2))
        if kind == "python":
            exec(compile("\n" * lines_before + code, page, "exec"), namespace)
        else:
            session = doctest.DocTestParser().get_doctest(code, namespace, page, page, lines_before)
            report = []
            outcome = doctest.DocTestRunner().run(session, out=report.append, clear_globs=False)
            assert not outcome.failed, "".join(report)
            namespace.update(session.globs)


def test_faults_are_those_of_the_runtime_and_their_tests_exist():
    page = PAGES["docs/reference/faults.md"]
    rules = re.findall(r"^(\d+)\. \*\*", grain.runtime.__doc__, re.MULTILINE)
    assert re.findall(r"^\| (\d+)\.", page, re.MULTILINE) == rules
    rows = [row for row in page.splitlines() if row.startswith("| ") and "| tests |" not in row]
    for row in rows:
        named = re.findall(r"`(\w+/[\w/]+\.py)(?:::(\w+))?`", row.split("|")[3])
        assert named, row
        for file, test in named:
            assert f"def {test}" in (ROOT / "tests" / file).read_text(), row


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    made = subprocess.run([*command, ROOT / "docs", folder], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder


def test_site_can_be_searched_without_a_network(site):
    assert (site / "searchindex.js").exists()
    assert 'role="search"' in (site / "index.html").read_text()
    loaded = [
        address
        for page in site.rglob("*.html")
        for address in re.findall(r'(?:src|<link[^>]*href)="(https?:[^"]*)"', page.read_text())
    ]
    assert not loaded


def test_reference_has_every_public_name(site):
    pages = "".join(page.read_text() for page in site.glob("reference/*.html"))
    described = {name.rpartition(".")[2] for name in re.findall(r'id="(grain\.[\w.]+)"', pages)}
    names = {*grain.__all__, *grain.FOUND_LATER}
    public = {name for name in names if not isinstance(getattr(grain, name), ModuleType)}
    assert public - described == {
        # older names of what is there, numbers and strings
        *(f"{prefix}Checkpoint{name}" for prefix in ("Grain", "PyGrain") for name in ("Save", "Restore")),
        *("PyGrainDatasetIterator", "__version__", "__version_info__", "config"),
        *grain.constants.__all__,
        *("Transformation", "Transformations"),
    }
