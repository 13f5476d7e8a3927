"""Object stores for tests: faults on the way, and a service that speaks as S3 does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final
from unittest import mock

from attrs import define, field

from agentforge_sessions.fleet.objects import ObjectStore, StoredObject

BUCKET: Final = "workspaces"
CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "something"}


@contextmanager
def s3_service() -> Iterator[str]:
    """Run a service as S3 on this machine, with one bucket; yield its endpoint."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="someone",
            aws_secret_access_key="something",
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield endpoint
    finally:
        server.stop()


@contextmanager
def credentials() -> Iterator[None]:
    """Have the variables by which a person is known to S3."""
    with mock.patch.dict(os.environ, CREDENTIALS):
        yield


@define
class FaultyStore:
    """A store of which chosen calls fail, or kill. An `ObjectStore`.

    Attributes:
        inner: The store.
        before: Called with the operation and the key before each call; what it raises is raised.
        damage: How often what is fetched is changed on its way.
        calls: What was asked.
    """

    inner: ObjectStore
    before: object = None
    damage: int = 0
    calls: list[tuple[str, str]] = field(factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    def _called(self, operation: str, key: str) -> None:
        self.calls.append((operation, key))
        if callable(self.before):
            self.before(operation, key)

    def put(self, key: str, content: IO[bytes]) -> bool:
        self._called("put", key)
        return self.inner.put(key, content)

    def get(self, key: str, target: IO[bytes]) -> None:
        self._called("get", key)
        start = target.tell()
        self.inner.get(key, target)
        if self.damage:
            self.damage -= 1
            target.seek(start + 20)
            target.write(b"\xff\x00\xff")

    def find(self, key: str) -> StoredObject | None:
        self._called("find", key)
        return self.inner.find(key)

    def list(self) -> Iterator[StoredObject]:
        self._called("list", "")
        return self.inner.list()

    def delete(self, key: str) -> None:
        self._called("delete", key)
        self.inner.delete(key)
