"""The port of a store of objects, and what holds for every one of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from io import BytesIO
from typing import IO, Final, Protocol, runtime_checkable

from attrs import frozen

from ...base.files.atomic_file import random_token
from .errors import ObjectDamaged

_PART: Final = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]{1,255}"
_KEY: Final = re.compile(rf"{_PART}(?:/{_PART})*")
_PIECE: Final = 1 << 20


@frozen
class StoredObject:
    """An object in a store.

    Attributes:
        key: Its key.
        size: Its length in bytes.
        stored_at: When it was stored, by the store's clock.
    """

    key: str
    size: int
    stored_at: datetime


@runtime_checkable
class ObjectStore(Protocol):
    """Keeps objects by their keys: names of letters, digits and `._-`, parted by `/`.

    Guarantees asked of every implementation: an object appears whole; when `put` returns, it
    survives a power failure of this machine; a reader on another machine finds it then. Errors are
    `ObjectStoreError`s. Instances may be shared between threads. One suite,
    `tests/contract/object_store/test_object_store_contract.py`, holds all of them to this.
    """

    @property
    def name(self) -> str:
        """Its address, without secrets, for messages."""
        ...

    def put(self, key: str, content: IO[bytes]) -> bool:
        """Store an object unless there is one of the key, which then has to be the same one.

        Args:
            key: The key.
            content: What it holds, read from the beginning to the end; it can be sought.

        Returns:
            Whether it was stored; False where there was one.

        Raises:
            ValueError: It can't be a key.
            ObjectStoreUnavailable: The store does not answer.
            ObjectStoreRefused: It refused.
        """
        ...

    def get(self, key: str, target: IO[bytes]) -> None:
        """Write an object to the end of an open file.

        Raises:
            ObjectMissing: There is none.
            ValueError, ObjectStoreUnavailable, ObjectStoreRefused: As `put`.
            OSError: The file can't be written.
        """
        ...

    def find(self, key: str) -> StoredObject | None:
        """Return what is known of an object, or None where there is none; raises as `put`."""
        ...

    def list(self) -> Iterator[StoredObject]:
        """Go through all objects, in no order; what a killed writer left may be among them.

        Raises: as `put`.
        """
        ...

    def delete(self, key: str) -> None:
        """Remove an object; does nothing where there is none; raises as `put`."""
        ...


def checked_key(key: str) -> str:
    """Return a key as it is.

    Raises:
        ValueError: It is none.
    """
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"{key[:80]!r} can't be the key of an object")
    return key


def sha256_of(content: IO[bytes]) -> str:
    """Return the SHA-256 of all that a file holds, in hexadecimal digits."""
    content.seek(0)
    digest = hashlib.sha256()
    while piece := content.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


def try_store(store: ObjectStore) -> None:
    """Write an object, read it and remove it.

    Raises:
        ObjectStoreError: The store can't be used, or gave back something else.
    """
    key = f"doctor/{random_token()}"
    content = key.encode()
    store.put(key, BytesIO(content))
    try:
        fetch_checked(store, key, hashlib.sha256(content).hexdigest(), BytesIO())
    finally:
        store.delete(key)


def fetch_checked(store: ObjectStore, key: str, sha256: str, target: IO[bytes]) -> None:
    """Make a file hold an object, and nothing else, whose bytes are those that were stored.

    One that is damaged is fetched anew once: it may have been so on its way only.

    Raises:
        ObjectDamaged: It is damaged in the store.
        ObjectMissing, ObjectStoreUnavailable, ObjectStoreRefused: As `ObjectStore.get`.
        OSError: The file can't be written.
    """
    found = ""
    for _ in range(2):
        target.seek(0)
        target.truncate()
        store.get(key, target)
        target.flush()
        found = sha256_of(target)
        if found == sha256:
            return
    raise ObjectDamaged(store=store.name, key=key, sha256=sha256, found=found)
