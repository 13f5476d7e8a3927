"""What can go wrong with a store of objects, as typed errors with fields."""

from __future__ import annotations

from typing import ClassVar

from ...base.errors import AgentForgeError, ErrorKind


class ObjectStoreError(AgentForgeError):
    """Base of the errors about a store of objects.

    Attributes:
        store: Its address, without secrets.
    """

    kind = ErrorKind.STORAGE

    def __init__(self, message: str, *, store: str) -> None:
        super().__init__(message)
        self.store = store


class ObjectStoreExtraMissing(ObjectStoreError):
    """The package that a store of this kind needs is not installed."""

    kind = ErrorKind.NOT_DONE

    def __init__(self, *, store: str) -> None:
        super().__init__(
            f"{store} is an object store, and the package for it is not installed: "
            "pip install 'agentforge-sessions[object-store]'. Nothing was begun.",
            store=store,
        )


class InvalidObjectStoreAddress(ObjectStoreError):
    """A text names no store of objects."""

    kind = ErrorKind.USAGE

    def __init__(self, *, store: str, reason: str) -> None:
        super().__init__(
            f"{store} names no object store: {reason}. One is s3://BUCKET/PREFIX, "
            "gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX or file:///FOLDER on shared disk.",
            store=store,
        )


class ObjectStoreUnavailable(ObjectStoreError):
    """The store does not answer, or the folder is not mounted.

    Attributes:
        reason: What it, the network or the system said.
    """

    retryable: ClassVar[bool] = True

    def __init__(self, *, store: str, reason: str) -> None:
        super().__init__(
            f"{store} does not answer: {reason}. What was stored before is not lost; try again "
            "once it is there.",
            store=store,
        )
        self.reason = reason


class ObjectStoreRefused(ObjectStoreError):
    """The store refused: for lack of rights or room, or since it has no such bucket.

    Attributes:
        reason: What it said.
    """

    def __init__(self, *, store: str, reason: str) -> None:
        super().__init__(
            f"{store} refused: {reason}. Nothing of it was stored; `agentforge doctor` tries it.",
            store=store,
        )
        self.reason = reason


class ObjectStoreFull(ObjectStoreRefused):
    """The store has no room, or a quota of it is used up; a later try may find room."""

    retryable: ClassVar[bool] = True

    def __init__(self, *, store: str, reason: str) -> None:
        super().__init__(store=store, reason=reason)
        self.args = (
            f"{store} is full: {reason}. Nothing of it was stored, and what was stored before is "
            "not lost; make room there, and try again.",
        )


class ObjectMissing(ObjectStoreError):
    """There is no object of a key.

    Attributes:
        key: The key.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, *, store: str, key: str) -> None:
        super().__init__(f"there is no object {key} in {store}; nothing was changed.", store=store)
        self.key = key


class ObjectDamaged(ObjectStoreError):
    """An object is not what was stored; it was fetched twice.

    Attributes:
        key: The key.
        sha256: What its bytes' hash should be.
        found: What it is.
    """

    def __init__(self, *, store: str, key: str, sha256: str, found: str) -> None:
        super().__init__(
            f"the object {key} in {store} is damaged: its hash is {found[:12]}…, not "
            f"{sha256[:12]}…. Nothing was changed here; restore it from a backup of the store, or "
            "go on on the machine that stored it.",
            store=store,
        )
        self.key = key
        self.sha256 = sha256
        self.found = found
