"""Files in folders: links that lead in circles, and globs."""

import glob
import os

import pytest

from grain.files.folders import files_below, local_matches


@pytest.fixture
def folder(tmp_path):
    for name in ("a/1.txt", "a/b/2.txt", "c/3.txt", ".hidden/4.txt", "c/.5.txt", "top.txt"):
        tmp_path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        tmp_path.joinpath(name).write_text(name)
    return tmp_path


NAMES = [".hidden/4.txt", "a/1.txt", "a/b/2.txt", "c/.5.txt", "c/3.txt", "top.txt"]
LOOPS = {
    "to the folder itself": [("a/self", ".")],
    "to a folder above": [("a/b/up", "../..")],
    "to two folders above": [("a/b/up", "../.."), ("a/b/up2", "..")],
    "to a folder above all": [("a/up", "../.."), ("c/root", "../../..")],
    "to each other": [("a/c", "../c"), ("c/a", "../a")],
    "through another": [("a/b/again", "../../other"), ("other", "a")],
    "to nothing": [("a/nothing", "nowhere")],
    "to a link to itself": [("a/x", "x")],
}


@pytest.mark.parametrize("loop", LOOPS)
def test_every_file_once(folder, loop):
    for link, target in LOOPS[loop]:
        os.symlink(target, folder / link)
    found = sorted(name for name in files_below(str(folder)) if name.endswith(".txt"))
    assert found == NAMES
    matches = [os.path.relpath(path, folder) for path in local_matches(f"{folder}/**/*.txt")]
    assert sorted(matches) == [name for name in NAMES if "." not in (name[0], name.rpartition("/")[2][0])]


def test_a_linked_folder_elsewhere_is_gone_through_once(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    elsewhere.joinpath("6.txt").write_text("")
    os.symlink(elsewhere, folder / "c" / "one")
    os.symlink(elsewhere, folder / "c" / "two")
    os.symlink(folder, elsewhere / "back")
    assert sorted(files_below(str(folder))) == sorted([*NAMES, "c/one/6.txt"])


@pytest.mark.parametrize("pattern", ["**/*.txt", "a/**/2.txt", "**/b/*", "*/**/[0-9].txt", "**", "a/**", "**/.*.txt"])
def test_globs_find_the_files_that_those_of_python_find(folder, pattern, monkeypatch):
    monkeypatch.chdir(folder)
    for whole in (pattern, f"{folder}/{pattern}"):
        expected = [path for path in glob.glob(whole, recursive=True) if os.path.isfile(path)]
        assert sorted(local_matches(whole)) == sorted(expected)
