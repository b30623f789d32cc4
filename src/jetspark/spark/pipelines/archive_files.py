"""The files of an archive: which of them count, and merging small ones.

    archive/day=2026-11-16/subject_key=ORDERS.new/batch=0000000007/part-….parquet       one micro-batch
    archive/day=2026-11-16/subject_key=ORDERS.new/batch=0000000000-0000000006/….parquet  merged batches 0 to 6

A micro-batch that runs again after a crash overwrites its own folder, so nothing is ever there twice. A merged folder
appears by one rename, complete, and from then on the batches it covers no longer count; they are removed afterwards. So
at any moment, also after a crash in the middle, the folders that count hold every row once.

Only what has been committed is merged: the newest batch may yet be written again. On object stores a rename is a copy,
and this promise does not hold there; use a Delta table for those.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jetspark.spark.pipelines.errors import PipelineError

DIGITS = 10
# Files begin with neither . nor _, which Spark and Arrow both pass over.
_BATCH = re.compile(r"batch=(\d+)(?:-(\d+))?")
_UNFINISHED = "_merging-"
TARGET_BYTES = 128 * 1024 * 1024
GROUP_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, order=True)
class Folder:
    """The folder of one batch, or of several merged."""

    first: int
    last: int
    path: Path

    def covers(self, other: Folder) -> bool:
        """Whether the other's rows are all in here too."""
        return self != other and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True)
class Merge:
    """Folders that are to become one."""

    folders: tuple[Folder, ...]

    @property
    def target(self) -> Path:
        """The folder they become."""
        first, last = self.folders[0].first, self.folders[-1].last
        return self.folders[0].path.parent / f"batch={first:0{DIGITS}d}-{last:0{DIGITS}d}"


@dataclass(frozen=True)
class Compacted:
    """What a compaction did."""

    merges: int
    files_before: int
    files_after: int


def parse_folder(path: Path) -> Folder | None:
    """A batch folder by its name; None for anything else."""
    found = _BATCH.fullmatch(path.name)
    if found is None:
        return None
    first = int(found[1])
    return Folder(first, int(found[2]) if found[2] else first, path)


def folders_that_count(folders: Iterable[Folder]) -> list[Folder]:
    """The folders of one day and subject without those a merged folder covers, in order of their batches."""
    ordered = sorted(folders)
    return [one for one in ordered if not any(other.covers(one) for other in ordered)]


def plan_merges(
    folders: Iterable[Folder], sizes: dict[Path, int], last_committed: int, target_bytes: int
) -> list[Merge]:
    """Runs of neighbouring small folders, each run about the target size; a run of one is left alone."""
    merges: list[Merge] = []
    run: list[Folder] = []
    run_bytes = 0

    def close() -> None:
        if len(run) > 1:
            merges.append(Merge(tuple(run)))

    for folder in folders_that_count(folders):
        size_bytes = sizes[folder.path]
        if folder.last > last_committed or size_bytes >= target_bytes or run_bytes + size_bytes > target_bytes:
            close()
            run, run_bytes = [], 0
        if folder.last <= last_committed and size_bytes < target_bytes:
            run.append(folder)
            run_bytes += size_bytes
    close()
    return merges


def partitions_of(root: Path) -> Iterator[Path]:
    """Every folder of a day and a subject."""
    yield from sorted(path for path in root.glob("day=*/subject_key=*") if path.is_dir())


def batch_folders(partition: Path) -> list[Folder]:
    """The batch folders of a day and subject."""
    return [found for path in partition.iterdir() if path.is_dir() and (found := parse_folder(path)) is not None]


def files_of(folder: Path) -> list[Path]:
    """The files of a batch folder, by name."""
    return sorted(path for path in folder.glob("*.parquet") if path.is_file())


def archive_files(root: Path) -> list[str]:
    """Every file that counts."""
    if not root.is_dir():
        raise PipelineError(f"there is no archive at {root}")
    return [
        str(file)
        for partition in partitions_of(root)
        for folder in folders_that_count(batch_folders(partition))
        for file in files_of(folder.path)
    ]


def last_commit(checkpoint: Path) -> int:
    """The newest batch of a query that will not run again; -1 when there is none."""
    numbers = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    return max(numbers, default=-1)


def compact(root: str | Path, *, checkpoint: str | Path | None = None, target_bytes: int = TARGET_BYTES) -> Compacted:
    """Merge the small files of an archive; safe while the archive is being written and read.

    `checkpoint` is the archiving query's; its commits say which batches are final. Without it the newest batch stays.
    """
    top = Path(root)
    if not top.is_dir():
        raise PipelineError(f"there is no archive at {top}")
    folders = {partition: batch_folders(partition) for partition in partitions_of(top)}
    if checkpoint is not None:
        committed = last_commit(Path(checkpoint))
    else:
        committed = max((one.last for found in folders.values() for one in found), default=0) - 1
    merges, before, after = 0, 0, 0
    for partition, found in folders.items():
        _clean(partition, found)
        counting = folders_that_count(found)
        sizes = {one.path: sum(file.stat().st_size for file in files_of(one.path)) for one in counting}
        before += sum(len(files_of(one.path)) for one in counting)
        for merge in plan_merges(counting, sizes, committed, target_bytes):
            _merge(merge)
            merges += 1
        after += sum(len(files_of(one.path)) for one in folders_that_count(batch_folders(partition)))
    return Compacted(merges, before, after)


def _clean(partition: Path, folders: list[Folder]) -> None:
    """Remove what an interrupted compaction left: half a merge, or batches that are merged already."""
    for path in partition.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(path)
    counting = folders_that_count(folders)
    for folder in folders:
        if folder not in counting:
            shutil.rmtree(folder.path)


def _merge(merge: Merge) -> None:
    """Write the rows of the folders into one file, in order, and put it in their place."""
    import pyarrow.parquet as parquet

    files = [file for folder in merge.folders for file in _by_sequence(files_of(folder.path))]
    fresh = merge.target.parent / f"{_UNFINISHED}{merge.target.name}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    schema = parquet.read_schema(files[0])
    with parquet.ParquetWriter(fresh / "part-merged.parquet", schema, compression="zstd") as writer:
        for rows in _in_groups(files):
            writer.write_table(rows)
    # Here the merged folder takes over.
    fresh.rename(merge.target)
    for folder in merge.folders:
        shutil.rmtree(folder.path)


def _in_groups(files: list[Path]) -> Iterator[Any]:
    """The rows of files as tables large enough to be read well, and small enough to be held."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    held: list[Any] = []
    for file in files:
        for rows in parquet.ParquetFile(file).iter_batches():
            held.append(rows)
            if sum(one.nbytes for one in held) >= GROUP_BYTES:
                yield arrow.Table.from_batches(held)
                held = []
    if held:
        yield arrow.Table.from_batches(held)


def _by_sequence(files: list[Path]) -> list[Path]:
    """Files of one batch hold different ranges; their statistics say in which order."""
    import pyarrow.parquet as parquet

    def first_sequence(path: Path) -> Any:
        metadata = parquet.ParquetFile(path).metadata
        column = metadata.schema.names.index("sequence")
        return metadata.row_group(0).column(column).statistics.min if metadata.num_row_groups else 0

    return sorted(files, key=first_sequence)
