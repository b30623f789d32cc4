"""An archive's files: at any moment, also after a crash in the middle, the folders that count hold each row once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jetspark.spark.pipelines import archive_files as files
from jetspark.spark.pipelines.archive_files import Folder, compact, folders_that_count, last_commit, plan_merges
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
                files.shutil, "rmtree", lambda path, **more: dies() if path.name[:6] == "batch=" else real(path, **more)
            )
        with pytest.raises(Died):
            compact(tmp_path)
        assert sequences_of(tmp_path) == [0, 1, 2]
    compact(tmp_path)
    assert sequences_of(tmp_path) == [0, 1, 2]
    assert batches_of(tmp_path) == ["batch=0000000000-0000000001", "batch=0000000002"]


def test_there_must_be_an_archive(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no archive"):
        compact(tmp_path / "nothing")
    with pytest.raises(PipelineError, match="there is no archive"):
        files.archive_files(tmp_path / "nothing")
