"""Where processes find each other: keys and values that all of them see."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from smolder import _core

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore", "default_store_timeout", "seconds_of"]

default_store_timeout = timedelta(seconds=300)

# Called before a store is waited for: what others wait for in turn must not be left recorded.
_before_waiting: list[Any] = []


def seconds_of(timeout: timedelta | float) -> float:
    """A timeout as seconds: torch takes timedelta."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not seconds > 0:
        raise ValueError(f"a timeout must be longer than nothing, got {timeout!r}")
    return seconds


class Store:
    """Base of the stores. Values are bytes; texts that are set are encoded."""

    _of: Any  # what is bound, of C++

    def __init__(self) -> None:
        raise TypeError("Store is a base: make a TCPStore, a FileStore, a HashStore or a PrefixStore")

    def set(self, key: str, value: str | bytes) -> None:
        """Sets the value of a key."""
        self._of.set(key, value)

    def get(self, key: str) -> bytes:
        """The value of a key, which is waited for: DistStoreError when it does not come within the timeout."""
        self._settle()
        return self._of.get(key)

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, which is 0 at first. Returns the sum."""
        return self._of.add(key, amount)

    def append(self, key: str, value: str | bytes) -> None:
        """Adds to the end of a value."""
        self._of.append(key, value)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Sets a value where it is the expected one, or where there is none and nothing is expected.

        Returns the value that the key has then."""
        return self._of.compare_set(key, expected_value, desired_value)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all of them are there. Nothing is waited for."""
        return self._of.check(list(keys))

    def delete_key(self, key: str) -> bool:
        """Deletes a key; whether there was one."""
        return self._of.delete_key(key)

    def num_keys(self) -> int:
        """How many keys there are, those of Smolder's own included."""
        return self._of.num_keys()

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys, which are waited for."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Sets several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """True: there are append, multi_get and multi_set."""
        return True

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Waits until all keys are there."""
        self._settle()
        self._of.wait(list(keys), self._of.seconds if timeout is None else seconds_of(timeout))

    def set_timeout(self, timeout: timedelta) -> None:
        """How long get and wait take at most."""
        self._of.seconds = seconds_of(timeout)

    @property
    def timeout(self) -> timedelta:
        """How long get and wait take at most."""
        return timedelta(seconds=self._of.seconds)

    @staticmethod
    def _settle():
        for settle in _before_waiting:
            settle()


class TCPStore(Store):
    """A store that one process, the master, serves to the others.

    It listens on the address of host_name alone: on the loopback, where that is the name of this machine's own. Keys and
    values are not encrypted, and whoever reaches the port may read and set them.
    """

    def __init__(
        self,
        host_name: str,
        port: int = 0,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = default_store_timeout,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        if master_listen_fd is not None:
            raise NotImplementedError("TCPStore: master_listen_fd is not supported: the store opens its own socket")
        del use_libuv  # how torch's waits; there is one way here
        self._of = _core._TCPStore(
            host_name, port, world_size, is_master, seconds_of(timeout), wait_for_workers, multi_tenant
        )

    @property
    def host(self) -> str:
        """Where it is."""
        return self._of.host

    @property
    def port(self) -> int:
        """The port, also where any was asked for."""
        return self._of.port


class FileStore(Store):
    """A store in a file, on a disk that all processes see. The last of world_size users removes it."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self._of = _core._FileStore(str(file_name), world_size)

    @property
    def path(self) -> str:
        """The file."""
        return self._of.path


class HashStore(Store):
    """A store of the threads of one process."""

    def __init__(self) -> None:
        self._of = _core._HashStore()


class PrefixStore(Store):
    """The keys of another store that begin with a prefix and a slash."""

    def __init__(self, prefix: str, store: Store) -> None:
        self._of, self._store = _core._PrefixStore(prefix, store._of), store

    @property
    def underlying_store(self) -> Store:
        """The other store."""
        return self._store
