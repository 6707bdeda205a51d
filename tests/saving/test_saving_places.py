"""Where files are written: in whole or not at all, and what is no regular file stays what it is."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import kernelpursuit
from kernelpursuit import KMPRegressor, save

pytest.importorskip("safetensors")

MODEL = KMPRegressor(n_atoms=2, gamma=1.0).fit(np.eye(5), np.arange(5.0))


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """What is in the file of the model."""
    file = tmp_path_factory.mktemp("plain") / "file"
    save(MODEL, file)
    return file.read_bytes()


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_pipe_stays_one_and_is_written_into(tmp_path, content):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    save(MODEL, pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and names(tmp_path) == ["pipe"]
    reader.join()
    assert found == [content]


def test_a_pipe_of_the_shell_is_written_into(content):
    """`--out >(wc -l)` hands over a path such as /dev/fd/63, which names no file."""
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb") as given:
        save(MODEL, f"/dev/fd/{writing}")
        given.close()
        assert stream.read() == content


@pytest.mark.parametrize("there", [True, False], ids=["there", "dangling"])
def test_a_symbolic_link_stays_one(tmp_path, there, content):
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    if there:
        (folder / "file").write_bytes(b"old")
    link.symlink_to(folder / "file")
    save(MODEL, link)
    assert link.is_symlink() and (folder / "file").read_bytes() == content
    assert names(tmp_path) == ["folder", "link"] and names(folder) == ["file"]


@pytest.mark.parametrize("kept", [0o600, 0o664, 0o755], ids=oct)
def test_a_file_keeps_its_permissions(tmp_path, kept, content):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(kept)
    save(MODEL, file)
    assert mode(file) == kept and file.read_bytes() == content


def test_a_new_file_has_the_permissions_of_new_files(tmp_path):
    before = os.umask(0o027)
    try:
        save(MODEL, tmp_path / "file")
    finally:
        os.umask(before)
    assert mode(tmp_path / "file") == 0o640


def test_what_is_not_written_to_its_end_leaves_the_old_file(tmp_path):
    from kernelpursuit.saving.files import new_file

    file = tmp_path / "file"
    file.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), new_file(file) as stream:
        stream.write(b"new")
        raise KeyboardInterrupt
    assert file.read_bytes() == b"old" and names(tmp_path) == ["file"]


def test_a_folder_is_refused_by_its_own_name(tmp_path):
    with pytest.raises(IsADirectoryError) as caught:
        save(MODEL, tmp_path)
    assert str(caught.value.filename) == str(tmp_path) and names(tmp_path) == []


KILLED = """
import os, signal, sys
from kernelpursuit.saving.files import new_file
with new_file(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed(tmp_path, content):
    """And nothing of one that is alive, of another machine, or of a user's own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(kernelpursuit.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "file"], env=environment)
    (left,) = names(tmp_path)
    assert left.startswith(".kernelpursuit-") and not (tmp_path / "file").exists()
    dead = left.rpartition("-")[0].rpartition("-")[2]
    assert dead.isdecimal()
    alive, young = left.replace(f"-{dead}-", f"-{os.getppid()}-"), f"{left}young"
    others = [alive, young, f".kernelpursuit-elsewhere-{dead}-x", ".kernelpursuit-mine"]
    for name in [left, *others]:
        (tmp_path / name).write_bytes(b"half")
        if name != young:
            os.utime(tmp_path / name, (0, 0))
    save(MODEL, tmp_path / "file")
    assert names(tmp_path) == sorted([*others, "file"]) and (tmp_path / "file").read_bytes() == content
