from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from tileir.runtime.caches.private_directory import OpenDirectory, UntrustedError, opened

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are those of POSIX")

OTHERS = (0o040, 0o020, 0o010, 0o004, 0o002, 0o001)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def made(place: Path) -> Path:
    with opened(place, create=True):
        return place


def _read(folder: OpenDirectory, name: str) -> bytes:
    with folder.reading(name) as descriptor:
        return os.read(descriptor, 100)


def test_nothing_is_made_unasked(place: Path) -> None:
    with pytest.raises(FileNotFoundError), opened(place):
        pass
    assert not place.exists()


def test_new_directories_are_for_their_owner_alone(place: Path) -> None:
    inner = place / "a" / "b"
    before = os.umask(0)
    try:
        with opened(inner, create=True) as folder:
            folder.write("file", [b"x"])
    finally:
        os.umask(before)
    assert [stat.S_IMODE(made.stat().st_mode) for made in (place, inner.parent, inner)] == [0o700] * 3
    assert stat.S_IMODE((inner / "file").stat().st_mode) == 0o600


def test_content_is_written_and_read(made: Path) -> None:
    with opened(made) as folder:
        folder.write("file", [b"ab", b"", b"c"])
        assert (folder.names(), _read(folder, "file")) == (["file"], b"abc")
        folder.write("file", [b"d"])
        assert _read(folder, "file") == b"d"
        assert [folder.append("log", b"ab"), folder.append("log", b"c")] == [2, 3]
        folder.remove("file")
        assert folder.names() == ["log"]


@pytest.mark.parametrize("bit", OTHERS)
def test_permissions_of_others_are_refused(made: Path, bit: int) -> None:
    made.chmod(0o700 | bit)
    with pytest.raises(UntrustedError, match="others may use it"), opened(made):
        pass


def test_a_link_is_refused(made: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(made, target_is_directory=True)
    with pytest.raises(UntrustedError, match="is a link"), opened(link, create=True):
        pass


def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UntrustedError, match="is a link"), opened(link, create=True):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_in_its_place_is_refused(place: Path) -> None:
    place.write_bytes(b"")
    with pytest.raises(UntrustedError, match="no directory"), opened(place, create=True):
        pass


def test_links_on_the_way_are_followed(made: Path, tmp_path: Path) -> None:
    outer = tmp_path.parent / f"{tmp_path.name}-link"
    outer.symlink_to(tmp_path, target_is_directory=True)
    with opened(outer / "cache") as folder:
        assert folder.names() == []


def test_a_parent_where_everybody_may_rename_is_refused(made: Path) -> None:
    made.parent.chmod(0o777)
    with pytest.raises(UntrustedError, match="everybody may rename"), opened(made):
        pass
    made.parent.chmod(0o1777)
    with opened(made) as folder:
        assert folder.names() == []


def test_a_stranger_is_refused(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with pytest.raises(UntrustedError, match="belongs to user"), opened(made):
        pass


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the super-user gives files away")
def test_files_of_a_stranger_are_refused(made: Path) -> None:
    with opened(made) as folder:
        folder.write("file", [b"x"])
        os.chown(made / "file", 12345, -1)
        with pytest.raises(UntrustedError, match="belongs to user 12345"):
            _read(folder, "file")
        os.chown(made, 12345, -1)
    with pytest.raises(UntrustedError, match="belongs to user 12345"), opened(made):
        pass


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the super-user gives files away")
def test_the_super_user_makes_nothing_in_directories_of_others(place: Path) -> None:
    os.chown(place.parent, 12345, -1)
    with pytest.raises(UntrustedError, match="belongs to user 12345"), opened(place / "a", create=True):
        pass
    assert not place.exists()


@pytest.mark.parametrize("bit", OTHERS)
def test_files_that_others_may_use_are_refused(made: Path, bit: int) -> None:
    with opened(made) as folder:
        folder.write("file", [b"x"])
        (made / "file").chmod(0o600 | bit)
        with pytest.raises(UntrustedError, match="others may use it"):
            _read(folder, "file")
        with pytest.raises(UntrustedError, match="others may use it"):
            folder.append("file", b"y")


def test_only_regular_files_are_read(made: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"x")
    (made / "link").symlink_to(tmp_path / "target")
    os.mkfifo(made / "pipe", 0o600)
    (made / "folder").mkdir(mode=0o700)
    with opened(made) as folder:
        for name in ("link", "pipe", "folder"):
            with pytest.raises(UntrustedError):
                _read(folder, name)


def test_a_directory_that_is_swapped_while_open_is_not_followed(made: Path, tmp_path: Path) -> None:
    with opened(made) as folder:
        folder.write("file", [b"ours"])
        made.rename(tmp_path / "moved")
        made.mkdir(mode=0o700)
        (made / "file").write_bytes(b"theirs")
        assert _read(folder, "file") == b"ours"


def test_a_failed_write_leaves_nothing(made: Path) -> None:
    with opened(made) as folder:
        (made / "taken").mkdir()
        with pytest.raises(OSError, match="directory"):
            folder.write("taken", [b"x"])
        assert folder.names() == ["taken"]
