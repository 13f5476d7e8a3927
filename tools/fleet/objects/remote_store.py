"""Objects in a service, by obstore: S3, GCS, Azure and compatible services; or in memory.

Only this module uses obstore. Each call makes a bounded number of attempts in a bounded time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any, Final, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    JoinError,
)
from obstore.store import MemoryStore, from_url

from .objects import (
    InvalidObjectStoreAddress,
    ObjectMissing,
    ObjectStoreError,
    ObjectStoreFull,
    ObjectStoreRefused,
    ObjectStoreUnavailable,
    StoredObject,
    checked_key,
)

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as Obstore

_ONE_REQUEST: Final = 8 << 20
"""The size limit, in bytes, of a single-request put, which fails if the object exists."""
_PIECE: Final = 1 << 20
_RETRIES: Final[RetryConfig] = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}
_CLIENT: Final[ClientConfig] = {
    "allow_http": True,  # the address decides
    "connect_timeout": timedelta(seconds=10),
    "timeout": timedelta(seconds=300),
}
_QUERY: Final = re.compile(r"\?[^\s\"')]*")
_STATUS: Final = re.compile(r"status code: (4\d\d)")
_TRIED_AGAIN: Final = frozenset({"408", "425", "429"})
_FULL: Final = re.compile(
    r"status code: 507|<Code>\w*(?:StorageFull|QuotaExceeded|Insufficient\w*)<"
)
"""How services report a lack of room: Insufficient Storage, or a code ending in one of these."""
_CODE: Final = re.compile(r"<Code>(\w{1,80})</Code>")
_DOCUMENT: Final = re.compile(r"<\?xml.*")
_SHOWN: Final = 300


class RemoteStore:
    """Objects in a service. An `ObjectStore`.

    Args:
        url: Its address, without a query.
        name: The same, without secrets.
        config: Further settings of obstore for a store of this kind, by name.
        retries: How often a request is repeated, at most.

    Raises:
        InvalidObjectStoreAddress: It is not such an address.
    """

    def __init__(
        self, url: str, *, name: str, config: dict[str, str], retries: int | None = None
    ) -> None:
        self._name = name
        retrying: RetryConfig = {**_RETRIES}
        if retries is not None:
            retrying["max_retries"] = retries
        try:
            if url.startswith("memory:"):
                self._store: Obstore = MemoryStore()
            else:
                self._store = from_url(
                    url,
                    config=cast("Any", config),  # its keys come from the person
                    client_options=_CLIENT,
                    retry_config=retrying,
                )
        except (BaseError, ValueError) as error:
            raise InvalidObjectStoreAddress(store=name, reason=_words(error)) from error

    @property
    def name(self) -> str:
        """Its address, without secrets."""
        return self._name

    def put(self, key: str, content: IO[bytes]) -> bool:
        """Store an object unless it exists; see `ObjectStore`."""
        checked_key(key)
        size = content.seek(0, os.SEEK_END)
        if size > _ONE_REQUEST and self.find(key) is not None:
            return False
        content.seek(0)
        with self._errors(key):
            if size > _ONE_REQUEST:  # in parts, which replace identical content
                obstore.put(self._store, key, content)
                return True
            try:
                obstore.put(self._store, key, content.read(), mode="create")
            except AlreadyExistsError:
                return False
        return True

    def get(self, key: str, target: IO[bytes]) -> None:
        """Write an object to a file; see `ObjectStore`."""
        with self._errors(checked_key(key)):
            stream = obstore.get(self._store, key).stream(min_chunk_size=_PIECE)
        while True:
            with self._errors(key):
                piece = next(stream, None)
            if piece is None:
                return
            target.write(piece)

    def find(self, key: str) -> StoredObject | None:
        """Return an object's description; see `ObjectStore`."""
        try:
            with self._errors(checked_key(key)):
                found = obstore.head(self._store, key)
        except ObjectMissing:
            return None
        return StoredObject(key, found["size"], found["last_modified"])

    def list(self) -> Iterator[StoredObject]:
        """Yield all objects; see `ObjectStore`."""
        with self._errors(""):
            pages = obstore.list(self._store)
        while True:
            with self._errors(""):
                page = next(pages, None)
            if page is None:
                return
            for one in page:
                yield StoredObject(one["path"], one["size"], one["last_modified"])

    def delete(self, key: str) -> None:
        """Remove an object; see `ObjectStore`."""
        try:
            with self._errors(checked_key(key)):
                obstore.delete(self._store, key)
        except ObjectMissing:
            return

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._refused(error) from error
            raise ObjectMissing(store=self._name, key=key) from error
        except AlreadyExistsError:
            raise
        except (BaseError, OSError) as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> ObjectStoreError:
        if _FULL.search(str(error)) is not None:
            return ObjectStoreFull(store=self._name, reason=_words(error))
        status = _STATUS.search(str(error))
        certain = status is not None and status[1] not in _TRIED_AGAIN
        transient = isinstance(error, GenericError | JoinError | OSError) and not certain
        kind = ObjectStoreUnavailable if transient else ObjectStoreRefused
        return kind(store=self._name, reason=_words(error))


def _words(error: Exception) -> str:
    """Return the first line of an error's message, without possible secrets."""
    first = str(error).strip().partition("\n")[0]
    code = _CODE.search(first)
    said = _QUERY.sub("", _DOCUMENT.sub("" if code is None else code[1], first))
    return said[:_SHOWN] or type(error).__name__
