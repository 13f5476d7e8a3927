"""Typed errors of object stores, with fields."""

from __future__ import annotations

from ...base.errors import AgentForgeError, ErrorKind


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
