"""Open the object store of an address."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from ...base.errors import ExtraMissing
from .folder_store import FolderStore
from .objects import InvalidObjectStoreAddress, ObjectStore

_SERVICES: Final = ("s3", "gs", "az", "memory")


def address_without_secrets(url: str) -> str:
    """Return a store's address in a form safe for messages, logs and records."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:
        return f"{url.partition(':')[0]}://…"
    return f"{parts.scheme}://{quote(host)}{port}{parts.path}"


def open_objects(url: str, *, retries: int | None = None) -> ObjectStore:
    """Open the object store of an address; no requests yet.

    Args:
        url: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://account/container/prefix`,
            `file:///folder` or `memory://`. A query (`?endpoint=…&region=…`) has more for the
            service, by obstore's names; else its usual variables are read (`AWS_ENDPOINT_URL`,
            `AWS_REGION`, `AWS_ACCESS_KEY_ID`, … ).
        retries: How often a request to a service is repeated, at most; a few times if None.

    Raises:
        InvalidObjectStoreAddress: It is not such an address.
        ExtraMissing: obstore is not installed.
    """
    name = address_without_secrets(url)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidObjectStoreAddress(store=name, reason="it can't be read") from error
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/") or parts.query:
            reason = "a folder has an absolute path and nothing else"
            raise InvalidObjectStoreAddress(store=name, reason=reason)
        return FolderStore(Path(unquote(parts.path)))
    if parts.scheme not in _SERVICES:
        raise InvalidObjectStoreAddress(store=name, reason="no store has such an address")
    if not parts.netloc and parts.scheme != "memory":
        raise InvalidObjectStoreAddress(store=name, reason="it names no bucket")
    try:
        from .remote_store import RemoteStore
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "obstore":
            raise
        raise ExtraMissing(f"the object store {name}", "obstore", "object-store") from error
    bare = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    config = dict(parse_qsl(parts.query, keep_blank_values=True))
    return RemoteStore(bare, name=name, config=config, retries=retries)
