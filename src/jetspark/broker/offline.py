"""What the disk has and the server does not run: streams and consumers that could not be recovered.

Each is known by its folder, so that its name stays taken: nothing is created over it and nothing in the folder is
touched, until somebody deletes it or repairs it and starts the server again. Everything else runs.
"""

from __future__ import annotations

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.stream_config import StreamConfig


class Offline:
    """A folder that is not in use, and why."""

    def __init__(self, folder: str, name: str, reason: str) -> None:
        self.folder = folder
        self.name = name
        self.reason = reason
        # For a consumer: the stream that it belongs to.
        self.stream_name: str = ""
        # What its description says, if that could be read.
        self.config: StreamConfig | None = None
        self.consumer_config: ConsumerConfig | None = None
        # Not made by this server: its name is taken, but no stream or consumer is missing because of it.
        self.is_stray: bool = False

    def may_copy(self, stream_name: str) -> bool:
        """Could this stream be a mirror of another, or have it as a source?"""
        if self.is_stray or self.stream_name:
            return False
        config = self.config
        if config is None:
            return True
        if config.mirror is not None and config.mirror.name == stream_name:
            return True
        for source in config.sources or ():
            if source.name == stream_name:
                return True
        return False


class OfflineRegistry:
    """The folders of one account that are not in use."""

    def __init__(self) -> None:
        self._by_folder: dict[str, Offline] = {}
        # Why it is not known which streams the disk has; empty when it is.
        self.unlisted: str = ""

    def add(self, offline: Offline) -> None:
        self._by_folder[offline.folder] = offline

    def get(self, folder: str) -> Offline | None:
        return self._by_folder.get(folder)

    def remove(self, folder: str) -> None:
        """The folder goes, with everything in it."""
        below = folder + "/"
        for known in [known for known in self._by_folder if known == folder or known.startswith(below)]:
            del self._by_folder[known]

    def streams(self) -> list[Offline]:
        """Streams that are missing, by name."""
        return self._sorted("")

    def consumers(self, stream_name: str) -> list[Offline]:
        """Consumers that are missing in a stream that is there, by name."""
        return self._sorted(stream_name) if stream_name else []

    def all_consumers(self) -> list[Offline]:
        found = [o for o in self._by_folder.values() if o.stream_name and not o.is_stray]
        found.sort(key=folder_of)
        return found

    def _sorted(self, stream_name: str) -> list[Offline]:
        found = [o for o in self._by_folder.values() if o.stream_name == stream_name and not o.is_stray]
        found.sort(key=folder_of)
        return found

    def has_readers_of(self, stream_name: str) -> bool:
        """Is somebody missing who may not have had all messages of a stream?"""
        if self.unlisted:
            return True
        for offline in self._by_folder.values():
            if (offline.stream_name == stream_name and not offline.is_stray) or offline.may_copy(stream_name):
                return True
        return False


def folder_of(offline: Offline) -> str:
    return offline.folder
