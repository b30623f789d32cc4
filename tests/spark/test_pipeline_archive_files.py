"""An archive's files: at any moment, also after a crash in the middle, the folders that count hold each row once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from jetspark.spark.pipelines import archive_files as files
from jetspark.spark.pipelines.archive_files import (
    Folder,
    Owner,
    compact,
    folders_that_count,
    last_commit,
    local_folder,
    plan_merges,
)
from jetspark.spark.pipelines.errors import PipelineError

pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'jetspark[arrow]'")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow was built without Parquet")


def folder(first: int, last: int | None = None) -> Folder:
    return Folder(first, first if last is None else last, Path(f"batch={first}-{last}"))


def ranges(found: list[Folder]) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in found]


def test_a_merged_folder_counts_instead_of_the_batches_it_covers() -> None:
    found = folders_that_count([folder(3), folder(0), folder(1), folder(0, 2), folder(0, 1), folder(2)])
    assert ranges(found) == [(0, 2), (3, 3)]


def test_small_neighbours_are_merged_up_to_the_target_and_the_rest_is_left() -> None:
    folders = [folder(number) for number in range(8)]
    sizes = {one.path: size for one, size in zip(folders, [10, 10, 90, 10, 10, 100, 10, 10], strict=True)}
    merges = plan_merges(folders, sizes, last_committed=7, target_bytes=100)
    assert [ranges(list(merge.folders)) for merge in merges] == [[(0, 0), (1, 1)], [(2, 2), (3, 3)], [(6, 6), (7, 7)]]


def test_a_batch_that_may_run_again_is_not_merged() -> None:
    folders = [folder(number) for number in range(4)]
    sizes = {one.path: 1 for one in folders}
    merges = plan_merges(folders, sizes, last_committed=2, target_bytes=100)
    assert [ranges(list(merge.folders)) for merge in merges] == [[(0, 0), (1, 1), (2, 2)]]
    assert plan_merges(folders, sizes, last_committed=0, target_bytes=100) == []


def put(root: Path, batch: str, *sequences: int, part: int = 0) -> None:
    path = root / "day=2026-11-16" / "subject_key=a" / f"batch={batch}"
    path.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table({"sequence": list(sequences)}), path / f"part-{part}.parquet")


def sequences_of(root: Path) -> list[int]:
    return [row for name in files.archive_files(root) for row in parquet.read_table(name)["sequence"].to_pylist()]


def batches_of(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "day=2026-11-16" / "subject_key=a").iterdir())


def test_compaction_keeps_every_row_in_order_and_leaves_the_newest_batch(tmp_path: Path) -> None:
    # Parts of a batch are named by task, which need not be the order of their ranges.
    put(tmp_path, "0000000000", 4, 5, part=0)
    put(tmp_path, "0000000000", 1, 2, 3, part=1)
    put(tmp_path, "0000000001", 6)
    put(tmp_path, "0000000002", 7)
    done = compact(tmp_path)
    assert (done.merges, done.files_before, done.files_after) == (1, 4, 2)
    assert batches_of(tmp_path) == ["batch=0000000000-0000000001", "batch=0000000002"]
    assert sequences_of(tmp_path) == [1, 2, 3, 4, 5, 6, 7]
    put(tmp_path, "0000000003", 8)
    compact(tmp_path)
    assert batches_of(tmp_path) == ["batch=0000000000-0000000002", "batch=0000000003"]
    assert sequences_of(tmp_path) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_checkpoint_says_which_batches_are_final(tmp_path: Path) -> None:
    root, state = tmp_path / "archive", tmp_path / "state"
    for number in range(3):
        put(root, f"{number:010d}", number)
    (state / "commits").mkdir(parents=True)
    assert last_commit(state) == -1
    assert compact(root, checkpoint=state).merges == 0
    for number in range(3):
        (state / "commits" / str(number)).touch()
    (state / "commits" / ".2.crc").touch()
    assert compact(root, checkpoint=state).merges == 1
    assert batches_of(root) == ["batch=0000000000-0000000002"]


@pytest.mark.parametrize("moment", ["before the rename", "before the removal"])
def test_a_compaction_that_died_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    for number in range(3):
        put(tmp_path, f"{number:010d}", number)

    class Died(Exception):
        """The machine stopped here."""

    def dies(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as crash:
        if moment == "before the rename":
            crash.setattr(Path, "rename", dies)
        else:
            real = shutil.rmtree
            crash.setattr(
                shutil, "rmtree", lambda path, **more: dies() if path.name[:6] == "batch=" else real(path, **more)
            )
        with pytest.raises(Died):
            compact(tmp_path)
        assert sequences_of(tmp_path) == [0, 1, 2]
    compact(tmp_path)
    assert sequences_of(tmp_path) == [0, 1, 2]
    assert batches_of(tmp_path) == ["batch=0000000000-0000000001", "batch=0000000002"]


def test_a_compaction_between_two_looks_hides_no_row_from_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        put(tmp_path, f"{number:010d}", number)
    real = files.files_of
    compactions = iter([compact])

    def meanwhile(path: Path) -> list[Path]:
        for due in compactions:
            due(tmp_path)
        return real(path)

    monkeypatch.setattr(files, "files_of", meanwhile)
    assert sequences_of(tmp_path) == [0, 1, 2]
    assert batches_of(tmp_path) == ["batch=0000000000-0000000001", "batch=0000000002"]


def test_merged_files_can_stay_for_those_who_read_them(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path, f"{number:010d}", number)
    begun = files.archive_files(tmp_path)
    done = compact(tmp_path, keep_s=3600)
    assert (done.merges, done.files_before, done.files_after) == (1, 3, 2)
    assert all(Path(name).exists() for name in begun)
    assert sequences_of(tmp_path) == [0, 1, 2]
    # Not an hour later: they are still there, and not merged a second time.
    assert compact(tmp_path, keep_s=3600).merges == 0
    assert all(Path(name).exists() for name in begun)
    merged = tmp_path / "day=2026-11-16" / "subject_key=a" / "batch=0000000000-0000000001"
    os.utime(merged, (merged.stat().st_mtime - 3601,) * 2)
    compact(tmp_path, keep_s=3600)
    assert batches_of(tmp_path) == ["batch=0000000000-0000000001", "batch=0000000002"]
    assert sequences_of(tmp_path) == [0, 1, 2]


def test_one_compaction_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        put(tmp_path, f"{number:010d}", number)
    real = Path.rename

    def another_comes(path: Path, target: Path) -> Path:
        with pytest.raises(PipelineError, match="is being compacted already"):
            compact(tmp_path)
        return real(path, target)

    monkeypatch.setattr(Path, "rename", another_comes)
    assert compact(tmp_path).merges == 1
    assert sequences_of(tmp_path) == [0, 1, 2]


def test_an_archive_has_one_writer(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    Owner("one", 2).claim(root)
    Owner("one", 2).claim(root)
    with pytest.raises(PipelineError, match="belongs to a query with another checkpoint"):
        Owner("two", 2).claim(root)
    with pytest.raises(PipelineError, match="was begun with subject_tokens=2, not None"):
        Owner("one", None).claim(root)


def test_an_address_on_another_file_system_is_not_taken_for_a_folder(tmp_path: Path) -> None:
    assert local_folder(f"file://{tmp_path}/a b", "an archive") == tmp_path / "a b"
    with pytest.raises(PipelineError, match=r"an archive is a folder .* not s3://bucket/a"):
        local_folder("s3://bucket/a", "an archive")


def test_there_must_be_an_archive(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no archive"):
        compact(tmp_path / "nothing")
    with pytest.raises(PipelineError, match="there is no archive"):
        files.archive_files(tmp_path / "nothing")
