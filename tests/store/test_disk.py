"""The real disk does what each operation says, and says which file failed."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetspark.store import disk as ops
from jetspark.store.block_head import HEAD_SIZE
from jetspark.store.disk import OPEN_FILES_MAX, DiskOp, FileDisk, compress_block, decompress_block
from jetspark.store.recovery import open_stream_store
from jetspark.store.store_base import StoreOptions
from tests.store.model import check_consistent, commit, commit_all, live_messages


@pytest.fixture
def disk() -> FileDisk:
    return FileDisk()


def test_appending_creates_the_file_and_adds_to_it(disk: FileDisk, tmp_path: Path) -> None:
    path = f"{tmp_path}/file"

    for data in (b"one", b"two"):
        disk.perform(DiskOp(ops.APPEND, path, data))
    disk.perform(DiskOp(ops.SYNC, path))
    disk.perform(DiskOp(ops.SYNC_DIR, str(tmp_path)))

    assert disk.read_all(path) == b"onetwo"
    assert disk.read(path, 2, 3) == b"etw"
    assert disk.read(path, 5, 100) == b"o"
    assert disk.size(path) == 6
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_replacing_a_file_keeps_later_appends_going_to_the_new_one(disk: FileDisk, tmp_path: Path) -> None:
    path = f"{tmp_path}/file"
    disk.perform(DiskOp(ops.APPEND, path, b"old"))

    disk.perform(DiskOp(ops.WRITE_FILE, path, b"new"))
    disk.perform(DiskOp(ops.APPEND, path, b"er"))
    assert disk.read_all(path) == b"newer"
    disk.perform(DiskOp(ops.WRITE_CACHE, path, b"cache"))
    disk.perform(DiskOp(ops.APPEND, path, b"d"))

    assert disk.read_all(path) == b"cached"
    assert disk.list_dir(str(tmp_path)) == ["file"]


def test_cutting_overwriting_renaming_and_removing(disk: FileDisk, tmp_path: Path) -> None:
    path, other = f"{tmp_path}/file", f"{tmp_path}/other"
    disk.perform(DiskOp(ops.APPEND, path, b"0123456789"))

    disk.perform(DiskOp(ops.TRUNCATE, path, size=6))
    disk.perform(DiskOp(ops.TRUNCATE, path, size=100))
    disk.perform(DiskOp(ops.OVERWRITE, path, b"xy", size=1))
    disk.perform(DiskOp(ops.APPEND, path, b"!"))
    assert disk.read_all(path) == b"0xy345!"
    disk.perform(DiskOp(ops.RENAME, path, target=other))
    assert disk.read_all(other) == b"0xy345!"
    disk.perform(DiskOp(ops.REMOVE, other))
    disk.perform(DiskOp(ops.REMOVE, other))
    disk.perform(DiskOp(ops.TRUNCATE, other, size=3))

    assert not disk.exists(other)
    assert disk.size(other) == -1


def test_directories_are_made_and_removed_with_what_is_in_them(disk: FileDisk, tmp_path: Path) -> None:
    folder = f"{tmp_path}/a/b/c"

    disk.perform(DiskOp(ops.MKDIRS, folder))
    disk.perform(DiskOp(ops.MKDIRS, folder))
    disk.perform(DiskOp(ops.APPEND, f"{folder}/file", b"x"))
    assert disk.list_dir(f"{tmp_path}/a/b") == ["c"]
    disk.perform(DiskOp(ops.REMOVE_TREE, f"{tmp_path}/a"))
    disk.perform(DiskOp(ops.REMOVE_TREE, f"{tmp_path}/a"))

    assert disk.list_dir(f"{tmp_path}/a") == []
    disk.perform(DiskOp(ops.MKDIRS, folder))
    disk.perform(DiskOp(ops.APPEND, f"{folder}/file", b"y"))
    assert disk.read_all(f"{folder}/file") == b"y"


@contextlib.contextmanager
def no_directory_opens() -> Iterator[None]:
    """Syncing a directory takes a file descriptor, and there is none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_directory_whose_name_could_not_be_synced_is_made_again(disk: FileDisk, tmp_path: Path) -> None:
    folder = f"{tmp_path}/a"

    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)), no_directory_opens():
        disk.perform(DiskOp(ops.MKDIRS, folder))

    assert not disk.exists(folder)


def test_a_removal_that_could_not_be_synced_is_made_again(disk: FileDisk, tmp_path: Path) -> None:
    folder = f"{tmp_path}/a"
    disk.perform(DiskOp(ops.MKDIRS, folder))
    disk.perform(DiskOp(ops.APPEND, f"{folder}/file", b"x"))

    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)), no_directory_opens():
        disk.perform(DiskOp(ops.REMOVE_TREE, folder))

    assert disk.read_all(f"{folder}/file") == b"x"
    disk.perform(DiskOp(ops.REMOVE_TREE, folder))
    assert disk.list_dir(str(tmp_path)) == []


def test_more_files_than_are_kept_open(disk: FileDisk, tmp_path: Path) -> None:
    for turn in range(2):
        for number in range(OPEN_FILES_MAX + 10):
            disk.perform(DiskOp(ops.APPEND, f"{tmp_path}/{number}", b"%d" % turn))

    assert all(disk.read_all(f"{tmp_path}/{number}") == b"01" for number in range(OPEN_FILES_MAX + 10))
    disk.close()


def test_a_failure_names_its_file(disk: FileDisk, tmp_path: Path) -> None:
    path = f"{tmp_path}/missing/file"

    with pytest.raises(OSError, match="missing") as caught:
        disk.perform(DiskOp(ops.APPEND, path, b"x"))

    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == path


def test_a_full_device_is_an_error_with_its_number(disk: FileDisk) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")

    with pytest.raises(OSError, match="No space") as caught:
        disk.perform(DiskOp(ops.APPEND, "/dev/full", b"x"))

    assert caught.value.errno == errno.ENOSPC


def test_what_there_was_room_for_is_not_left_behind(disk: FileDisk, tmp_path: Path) -> None:
    path = tmp_path / "meta.inf"
    disk.perform(DiskOp(ops.WRITE_FILE, str(path), b"before"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match=r"meta\.inf"):
            disk.perform(DiskOp(ops.WRITE_FILE, str(path), b"x" * 5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("meta.inf", b"before")]


def test_an_unknown_operation_is_refused(disk: FileDisk) -> None:
    with pytest.raises(ValueError, match="unknown disk operation"):
        disk.perform(DiskOp(99, "x"))


@pytest.mark.parametrize("size", [HEAD_SIZE, HEAD_SIZE + 1, HEAD_SIZE + 65_536, HEAD_SIZE + 200_000])
def test_a_compressed_block_comes_back(size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)

    packed = compress_block(data, HEAD_SIZE)

    assert decompress_block(packed, HEAD_SIZE) == data


@pytest.mark.parametrize("compress", [False, True])
def test_a_store_on_real_files(disk: FileDisk, tmp_path: Path, compress: bool) -> None:
    options = StoreOptions(block_size=4_000, compress=compress)
    store = open_stream_store(disk, f"{tmp_path}/s", options)
    for number in range(1, 501):
        store.append(b"a.%d" % (number % 10), 0, b"x" * (number % 90), number)
        if number % 50 == 0:
            commit(store, disk)
    for seq in range(1, 500, 3):
        store.remove(seq, seq % 2 == 0)
    commit_all(store, disk)
    expected = live_messages(store)
    disk.close()

    again = open_stream_store(FileDisk(), f"{tmp_path}/s", options)

    assert live_messages(again) == expected
    assert again.report.is_clean()
    check_consistent(again)
