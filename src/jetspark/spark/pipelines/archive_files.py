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

import contextlib
import fcntl
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jetspark.clock import SystemClock
from jetspark.spark.pipelines.errors import PipelineError

DIGITS = 10
# Files begin with neither . nor _, which Spark and Arrow both pass over.
_BATCH = re.compile(r"batch=(\d+)(?:-(\d+))?")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_UNFINISHED = "_merging-"
_COMPACTING = "_compacting"
OWNER_FILE = "_archive.json"
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


def local_folder(path: str | Path, what: str) -> Path:
    """A folder as an absolute path; an address on another file system is refused, not taken for a name."""
    text = str(path)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    elif _SCHEME.match(text):
        raise PipelineError(f"{what} is a folder that driver and executors share, not {text}")
    return Path(text).resolve()


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
    return [str(file) for partition in partitions_of(root) for file in _files_that_count(partition)]


def _files_that_count(partition: Path) -> list[Path]:
    """The files of a day and subject; when a merged folder took over meanwhile, what was seen is not to be trusted."""
    folders = batch_folders(partition)
    while True:
        files = [file for folder in folders_that_count(folders) for file in files_of(folder.path)]
        now = batch_folders(partition)
        if set(now) == set(folders):
            return files
        folders = now


@dataclass(frozen=True)
class Owner:
    """Who writes an archive: batches have numbers, so a second writer's would take the place of the first one's."""

    query: str
    """The id in the query's checkpoint."""
    subject_tokens: int | None

    def claim(self, root: Path) -> None:
        """Take an archive that nobody has, or see that it is one's own."""
        path = root / OWNER_FILE
        if not path.exists():
            root.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
            return
        check_owner(root, self)


def check_owner(root: Path, claimant: Owner) -> None:
    """Refuse who is not the owner of an archive that has one."""
    path = root / OWNER_FILE
    if not path.exists():
        return
    found = Owner(**json.loads(path.read_text(encoding="utf-8")))
    if found.query != claimant.query:
        raise PipelineError(
            f"the archive at {root} belongs to a query with another checkpoint, whose batches would be overwritten:"
            " use that checkpoint, or another folder"
        )
    if found.subject_tokens != claimant.subject_tokens:
        raise PipelineError(
            f"the archive at {root} was begun with subject_tokens={found.subject_tokens},"
            f" not {claimant.subject_tokens}: use that, or another folder"
        )


def last_commit(checkpoint: Path) -> int:
    """The newest batch of a query that will not run again; -1 when there is none."""
    numbers = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    return max(numbers, default=-1)


def compact(
    root: str | Path,
    *,
    checkpoint: str | Path | None = None,
    target_bytes: int = TARGET_BYTES,
    keep_s: float = 0,
) -> Compacted:
    """Merge the small files of an archive; safe while the archive is being written and read.

    `checkpoint` is that of the archiving query; it says which batches are committed. Without it, the newest batch is
    left alone. `keep_s` keeps the merged files for that many seconds, for readers that have begun; they are removed by
    a later compaction. `read_archive` ignores them, other readers of the folder do not.
    """
    top = local_folder(root, "an archive")
    if not top.is_dir():
        raise PipelineError(f"there is no archive at {top}")
    with _only_compaction(top):
        return _compact(top, checkpoint, target_bytes, Leftovers(keep_s, SystemClock().now_ns() / 1e9))


@contextlib.contextmanager
def _only_compaction(root: Path) -> Iterator[None]:
    """One at a time: two would take each other's half-written files. The lock goes with the process that holds it."""
    with (root / _COMPACTING).open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PipelineError(f"the archive at {root} is being compacted already") from error
        yield


@dataclass(frozen=True)
class Leftovers:
    """What becomes of files that are merged: how long they stay, from the time of the merge."""

    keep_s: float
    now_s: float

    def may_go(self, folder: Folder, folders: list[Folder]) -> bool:
        """Whether a folder is merged into another, long enough ago."""
        return any(one.covers(folder) and self.now_s - one.path.stat().st_mtime >= self.keep_s for one in folders)


def _compact(root: Path, checkpoint: str | Path | None, target_bytes: int, leftovers: Leftovers) -> Compacted:
    folders = {partition: batch_folders(partition) for partition in partitions_of(root)}
    if checkpoint is not None:
        committed = last_commit(Path(checkpoint))
    else:
        committed = max((one.last for found in folders.values() for one in found), default=0) - 1
    merges, before, after = 0, 0, 0
    for partition, found in folders.items():
        _clean(partition, found, leftovers)
        counting = folders_that_count(found)
        sizes = {one.path: sum(file.stat().st_size for file in files_of(one.path)) for one in counting}
        before += sum(len(files_of(one.path)) for one in counting)
        for merge in plan_merges(counting, sizes, committed, target_bytes):
            _merge(merge, is_final=not leftovers.keep_s)
            merges += 1
        after += sum(len(files_of(one.path)) for one in folders_that_count(batch_folders(partition)))
    return Compacted(merges, before, after)


def _clean(partition: Path, folders: list[Folder], leftovers: Leftovers) -> None:
    """Remove what an earlier compaction left: half a merge, or batches that are merged already."""
    for path in partition.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(path)
    # The small before the large: what covers a folder is looked at when its turn comes.
    for folder in sorted(folders, key=lambda one: one.last - one.first):
        if leftovers.may_go(folder, folders):
            shutil.rmtree(folder.path)


def _merge(merge: Merge, *, is_final: bool) -> None:
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
    for folder in merge.folders if is_final else ():
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
