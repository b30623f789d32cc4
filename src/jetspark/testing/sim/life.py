"""How durable it is that something was made, and that it was deleted."""

from __future__ import annotations

from enum import IntEnum


class Stage(IntEnum):
    """How far a decision has come."""

    NONE = 0
    DECIDED = 1
    IN_FLIGHT = 2
    DURABLE = 3


class Life:
    """The making and the deleting of one stream or consumer."""

    def __init__(self) -> None:
        self.created = Stage.DECIDED
        self.deleted = Stage.NONE

    def collected(self) -> None:
        """Everything decided so far is on its way to the disk."""
        if self.created == Stage.DECIDED:
            self.created = Stage.IN_FLIGHT
        if self.deleted == Stage.DECIDED:
            self.deleted = Stage.IN_FLIGHT

    def committed(self, *, is_kept: bool) -> None:
        """What was on its way has arrived, but for a removal that the disk refused and that is still to be done."""
        if self.created == Stage.IN_FLIGHT:
            self.created = Stage.DURABLE
        if self.deleted == Stage.IN_FLIGHT and not is_kept:
            self.deleted = Stage.DURABLE

    def recovered(self) -> None:
        """It was there after a start."""
        self.created = Stage.DURABLE
        self.deleted = Stage.NONE

    @property
    def may_exist(self) -> bool:
        """Can a crash have left it?"""
        return self.created >= Stage.IN_FLIGHT and self.deleted < Stage.DURABLE

    @property
    def must_exist(self) -> bool:
        """Must it survive a crash?"""
        return self.created == Stage.DURABLE and self.deleted <= Stage.DECIDED
