"""The port of an object store, its errors, and what all stores share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from io import BytesIO
from typing import IO, Final, Protocol, runtime_checkable

from attrs import frozen

from ...base.errors import AgentForgeError, ErrorKind
from ...base.files.atomic_file import random_token


class ObjectStoreError(AgentForgeError, kind=ErrorKind.STORAGE):
    """Base of the errors about an object store."""

    store: str
    """Its address, without secrets."""


class InvalidObjectStoreAddress(ObjectStoreError, kind=ErrorKind.USAGE):
    """A text is not the address of an object store."""

    message = """{store} names no object store: {reason}. One is s3://BUCKET/PREFIX,
    gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX or file:///FOLDER on shared disk."""
    reason: str


class ObjectStoreUnavailable(ObjectStoreError, retryable=True):
    """The store does not answer, or the folder is not mounted."""

    message = """{store} does not answer: {reason}. What was stored before is not lost; try again
    once it is there."""
    reason: str


class ObjectStoreRefused(ObjectStoreError):
    """The store refused: for lack of rights or room, or because the bucket does not exist."""

    message = "{store} refused: {reason}. Nothing of it was stored; `agentforge doctor` tries it."
    reason: str


class ObjectStoreFull(ObjectStoreRefused, retryable=True):
    """The store has no room, or its quota is used up; a later attempt may find room."""

    message = """{store} is full: {reason}. Nothing of it was stored, and what was stored before is
    not lost; make room there, and try again."""


class ObjectMissing(ObjectStoreError, kind=ErrorKind.NOT_FOUND):
    """There is no object with this key."""

    message = "there is no object {key} in {store}; nothing was changed."
    key: str


class ObjectDamaged(ObjectStoreError):
    """An object differs from what was stored; it was fetched twice."""

    message = """the object {key} in {store} is damaged: its hash is {found:.12}…, not
    {sha256:.12}…. Nothing was changed here; restore it from a backup of the store, or go on on the
    machine that stored it."""
    key: str
    sha256: str
    """The expected hash of its bytes."""
    found: str


_PART: Final = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]{1,255}"
_KEY: Final = re.compile(rf"{_PART}(?:/{_PART})*")
_PIECE: Final = 1 << 20
MOST_BESIDE_BYTES: Final = 64 << 20
"""The largest object that the store beside an index of packs takes: one statement sends it."""


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
    """Stores objects by their keys: names of letters, digits and `._-`, separated by `/`.

    Guarantees required of every implementation: an object appears complete or not at all; when
    `put` returns, it survives a power failure of this machine, and a reader on another machine
    finds it. Errors are `ObjectStoreError`s. Instances may be shared between threads. One suite,
    `tests/contract/object_store/test_object_store_contract.py`, tests this for all of them.
    """

    @property
    def name(self) -> str:
        """Its address, without secrets, for messages."""
        ...

    def put(self, key: str, content: IO[bytes]) -> bool:
        """Store an object unless the key exists; an existing object must have the same content.

        Args:
            key: The key.
            content: Its content, read from start to end; must be seekable.

        Returns:
            Whether it was stored; False if it existed.

        Raises:
            ValueError: The key is not valid.
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
        """Return an object's description, or None if there is none; raises as `put`."""
        ...

    def list(self) -> Iterator[StoredObject]:
        """Yield all objects, in no order; leftovers of a killed writer may be among them.

        Raises: as `put`.
        """
        ...

    def delete(self, key: str) -> None:
        """Remove an object; does nothing if there is none; raises as `put`."""
        ...


def checked_key(key: str) -> str:
    """Return a valid key unchanged.

    Raises:
        ValueError: It is not valid.
    """
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"{key[:80]!r} can't be the key of an object")
    return key


def sha256_of(content: IO[bytes]) -> str:
    """Return the SHA-256 of a file's whole content, in hexadecimal digits."""
    content.seek(0)
    digest = hashlib.sha256()
    while piece := content.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


def try_store(store: ObjectStore) -> None:
    """Write an object, read it and remove it.

    Raises:
        ObjectStoreError: The store can't be used, or returned other content.
    """
    key = f"doctor/{random_token()}"
    content = key.encode()
    store.put(key, BytesIO(content))
    try:
        fetch_checked(store, key, hashlib.sha256(content).hexdigest(), BytesIO())
    finally:
        store.delete(key)


def fetch_checked(store: ObjectStore, key: str, sha256: str, target: IO[bytes]) -> None:
    """Replace a file's content by an object, and verify its hash.

    A damaged object is fetched a second time: it may have been damaged in transit only.

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
