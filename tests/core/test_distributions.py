"""Names and versions of distributions are those that importlib gives, from files of all kinds."""

from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distributions, version
from pathlib import Path

import pytest

from tileir.core.distributions import distribution_of, name_of, named, version_of


def test_all_that_is_installed_here_is_called_the_same() -> None:
    found = list(distributions())
    assert found
    for each in found:
        assert named(each) == (each.name, each.version)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("METADATA", "Metadata-Version: 2.1\nName: some.thing\nVersion: 1.0rc1\nSummary: of: colons\n\nName: a text\n"),
        ("PKG-INFO", "Metadata-Version: 1.0\nname:  padded\nVERSION:2\nKeywords: a,\n  folded\n"),
        ("METADATA", "Summary: folded\n Name: in a fold\nName: first\nVersion: 1\nName: second\n"),
    ],
)
def test_headers_are_read_as_importlib_reads_them(tmp_path: Path, file: str, text: str) -> None:
    folder = tmp_path / "some-1.dist-info"
    folder.mkdir()
    (folder / file).write_text(text)
    there = Distribution.at(folder)
    assert named(there) == (there.name, there.version)


def test_an_entry_point_may_have_no_distribution() -> None:
    entry = EntryPoint("a", "b:c", "d")
    assert name_of(entry) is None
    assert distribution_of(entry) == "an unknown distribution"


def test_versions() -> None:
    assert version_of("tileir") == version("tileir")
    with pytest.raises(PackageNotFoundError):
        version_of("no-such-distribution")
