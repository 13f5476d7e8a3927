"""Object stores that several machines reach: a folder on shared disk, S3, GCS, Azure, memory.

Only the services need the extra `object-store`.
"""

from __future__ import annotations

from .objects import (
    InvalidObjectStoreAddress,
    ObjectDamaged,
    ObjectMissing,
    ObjectStore,
    ObjectStoreError,
    ObjectStoreFull,
    ObjectStoreRefused,
    ObjectStoreUnavailable,
    StoredObject,
    fetch_checked,
)
from .opening import address_without_secrets, open_objects

__all__ = [
    "InvalidObjectStoreAddress",
    "ObjectDamaged",
    "ObjectMissing",
    "ObjectStore",
    "ObjectStoreError",
    "ObjectStoreFull",
    "ObjectStoreRefused",
    "ObjectStoreUnavailable",
    "StoredObject",
    "address_without_secrets",
    "fetch_checked",
    "open_objects",
]
