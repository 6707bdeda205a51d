"""Files: the error of a bad one, and writing one in whole or not at all."""

from __future__ import annotations

import glob
import os
import platform
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HIDDEN = ".kernelpursuit-"  # how the names of files begin that are not yet complete
LEFT = 3600  # seconds without a byte after which the file of a process that is gone counts as left behind


class ModelFileError(ValueError):
    """A file that is not a whole model file of a known version; the message is one line."""


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A stream of bytes that become the file `path` when all are written; an interrupt or an error leaves the old one.

    A symbolic link stays one: the file that it names is replaced. The new file has the permissions of the old one. What
    is no regular file (a pipe, a device) cannot be replaced, and is written as the bytes come. An error of the system
    names `path`, not the hidden file that is written first.
    """
    place = Path(os.path.realpath(path))
    temporary = None
    try:
        if os.path.exists(path) and not place.is_file():  # the /dev/fd/63 of a shell is a link to no path at all
            with open(path, "wb") as stream:
                yield stream
            return
        remove_left_files(place.parent)
        descriptor, temporary = tempfile.mkstemp(prefix=f"{HIDDEN}{platform.node()}-{os.getpid()}-", dir=place.parent)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        os.chmod(temporary, permissions(place))
        os.replace(temporary, place)
    except BaseException as error:
        if temporary is not None:
            os.unlink(temporary)
        if isinstance(error, OSError) and is_of_writing(error):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def remove_left_files(folder: Path) -> None:
    """Remove hidden files of processes of this machine that were killed while they wrote.

    They are an hour old: containers may share a name and a folder, and cannot see each other's processes.
    """
    if os.name != "posix":  # elsewhere a process cannot be asked whether it lives
        return
    for file in folder.glob(f"{glob.escape(HIDDEN + platform.node())}-*-*"):
        number = file.name.rpartition("-")[0].rpartition("-")[2]
        with suppress(OSError):  # of another user, or gone meanwhile
            if number.isdecimal() and file.stat().st_mtime < time.time() - LEFT and not is_alive(int(number)):
                file.unlink()


def is_alive(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        pass
    return True


def is_of_writing(error: OSError) -> bool:
    """Whether an error is that of a new file, and not of another that is read meanwhile."""
    of_hidden = error.filename is None or Path(str(error.filename)).name.startswith(HIDDEN)
    return error.errno is not None and of_hidden


def permissions(place: Path) -> int:
    """Permissions of the file at a path, or of new files where there is none."""
    if place.exists():
        return stat.S_IMODE(place.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
