"""The ranks of one job, brought together through the communicator that the job has.

mpi4py's ``allgather`` or torch.distributed's ``all_gather_object``: whichever the builder has
imported and started. Neither is imported from here; who has none audits its rank alone.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol

_COUNTS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")
"""How a launcher tells a process how many there are: Open MPI, MPICH, MVAPICH, torchrun."""


class Job(Protocol):
    """Several processes, each of which audits what it emitted."""

    @property
    def rank(self) -> int:
        """This process's number; 0 says what there is to say."""

    @property
    def size(self) -> int:
        """How many processes there are."""

    def gather(self, mine: bytes) -> list[bytes]:
        """Give what every process has to give, in the order of their numbers.

        Every process of the job has to call it.
        """

    def abort(self, status: int) -> None:
        """End all of them, where one cannot come to the meeting any more."""


class _Alone:
    rank = 0
    size = 1

    def gather(self, mine: bytes) -> list[bytes]:
        return [mine]

    def abort(self, status: int) -> None:
        pass


class _Mpi:
    def __init__(self, mpi: Any) -> None:
        self._comm = mpi.COMM_WORLD
        self.rank = int(self._comm.Get_rank())
        self.size = int(self._comm.Get_size())

    def gather(self, mine: bytes) -> list[bytes]:
        return list(self._comm.allgather(mine))

    def abort(self, status: int) -> None:
        self._comm.Abort(status)


class _Torch:
    def __init__(self, distributed: Any) -> None:
        self._distributed = distributed
        self.rank = int(distributed.get_rank())
        self.size = int(distributed.get_world_size())

    def gather(self, mine: bytes) -> list[bytes]:
        gathered: list[Any] = [None] * self.size
        self._distributed.all_gather_object(gathered, mine)
        return gathered

    def abort(self, status: int) -> None:
        # torchrun ends the others when a process ends badly.
        pass


def job() -> Job:
    """The job that this process is of, as far as the builder has started one."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        found: Job = _Mpi(mpi)
        if found.size > 1:
            return found
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        found = _Torch(distributed)
        if found.size > 1:
            return found
    return _Alone()


def launched() -> int:
    """How many processes a launcher says that it started; 1 where none says so."""
    for name in _COUNTS:
        value = os.environ.get(name, "")
        if value.isascii() and value.isdecimal() and len(value) < 7:
            return max(int(value), 1)
    return 1
