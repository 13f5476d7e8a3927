"""One suite for everything that keeps objects for several machines.

An implementation takes part by an entry in `STORES`.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from unittest import mock

import pytest

from agentforge_sessions.base.errors import ExtraMissing
from agentforge_sessions.fleet.objects import (
    InvalidObjectStoreAddress,
    ObjectDamaged,
    ObjectMissing,
    ObjectStore,
    ObjectStoreFull,
    ObjectStoreRefused,
    ObjectStoreUnavailable,
    address_without_secrets,
    fetch_checked,
    open_objects,
)
from agentforge_sessions.fleet.objects.folder_store import FolderStore
from agentforge_sessions.fleet.objects.objects import MOST_BESIDE_BYTES
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.packs import PostgresObjects
from tests.contract.conftest import database, fresh, migrated, server
from tests.support.filesystem import FaultyFileSystem, every_call_from, nth_call
from tests.support.object_stores import BUCKET, FaultyStore, credentials, s3_service

__all__ = ["database", "fresh", "migrated", "server"]
BIG: Final = b"0123456789abcdef" * (600 * 1024)
"""Longer than what is stored in one request."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_service() as address, credentials():
        yield address


def folder(request: pytest.FixtureRequest, path: Path) -> str:
    (path / "objects").mkdir()
    return (path / "objects").as_uri()


def service(request: pytest.FixtureRequest, path: Path) -> str:
    address = request.getfixturevalue("endpoint")
    return f"s3://{BUCKET}/{path.name}?endpoint={address}&region=us-east-1"


STORES: Final[dict[str, Callable[[pytest.FixtureRequest, Path], str]]] = {
    "folder": folder,
    "memory": lambda *_: "memory://",
    "s3": service,
}


@pytest.fixture(params=[*STORES, "database"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "database":
        return PostgresObjects(request.getfixturevalue("database"))
    return open_objects(STORES[request.param](request, tmp_path))


def put(store: ObjectStore, key: str, content: bytes) -> bool:
    return store.put(key, io.BytesIO(content))


def fetched(store: ObjectStore, key: str) -> bytes:
    target = io.BytesIO()
    store.get(key, target)
    return target.getvalue()


def test_it_is_what_the_port_asks_for(store: ObjectStore) -> None:
    assert isinstance(store, ObjectStore)
    assert store.name.startswith(("file:///", "memory://", "s3://workspaces/", "postgresql://"))
    assert "?" not in store.name


@pytest.mark.parametrize("content", [b"", b"one\n", BIG], ids=["empty", "small", "big"])
def test_an_object_is_stored_once_and_read_whole(store: ObjectStore, content: bytes) -> None:
    assert store.find("a/b.pack") is None
    assert put(store, "a/b.pack", content)
    assert not put(store, "a/b.pack", content)
    assert fetched(store, "a/b.pack") == content
    found = store.find("a/b.pack")
    assert found is not None
    assert (found.key, found.size) == ("a/b.pack", len(content))
    assert abs(datetime.now(UTC) - found.stored_at) < timedelta(minutes=5)


def test_a_file_is_stored_from_its_beginning_wherever_it_was_read_to(store: ObjectStore) -> None:
    content = io.BytesIO(b"from here")
    content.read(4)
    store.put("one", content)
    assert fetched(store, "one") == b"from here"


def test_all_are_listed_and_what_is_deleted_is_absent(store: ObjectStore) -> None:
    assert list(store.list()) == []
    for key in ("a/one", "a/two", "b"):
        put(store, key, key.encode())
    assert {one.key: one.size for one in store.list()} == {"a/one": 5, "a/two": 5, "b": 1}
    store.delete("a/one")
    store.delete("a/one")
    store.delete("x/y/z")
    assert {one.key for one in store.list()} == {"a/two", "b"}
    with pytest.raises(ObjectMissing) as missing:
        fetched(store, "a/one")
    assert missing.value.key == "a/one"


@pytest.mark.parametrize(
    "key", ["", "/", "/a", "a/", "a//b", "..", "a/../b", ".", "a/./b", "a b", "a\nb", "é", "a\0"]
)
def test_what_can_be_no_key_reaches_nothing(store: ObjectStore, key: str) -> None:
    for act in (
        lambda: put(store, key, b"x"),
        lambda: fetched(store, key),
        lambda: store.find(key),
        lambda: store.delete(key),
    ):
        with pytest.raises(ValueError, match="key"):
            act()
    assert list(store.list()) == []


def test_what_is_damaged_on_its_way_is_fetched_anew_once(store: ObjectStore) -> None:
    content = bytes(range(256)) * 40
    digest = hashlib.sha256(content).hexdigest()
    put(store, "one", content)
    target = io.BytesIO(b"what was there")
    fetch_checked(FaultyStore(store, damage=1), "one", digest, target)
    assert target.getvalue() == content

    twice = FaultyStore(store, damage=2)
    with pytest.raises(ObjectDamaged) as damaged:
        fetch_checked(twice, "one", digest, io.BytesIO())
    assert (damaged.value.key, damaged.value.sha256) == ("one", digest)
    assert twice.calls == [("get", "one")] * 2


# ----------------------------------------------------------------------------- what goes wrong


def test_a_service_that_does_not_answer_is_an_error_that_a_retry_can_help(endpoint: str) -> None:
    secret = "x" * 30
    url = f"s3://{BUCKET}/p?endpoint=http://127.0.0.1:1&region=r&secret_access_key={secret}"
    store = open_objects(url, retries=0)
    for act in (
        lambda: put(store, "one", b"x"),
        lambda: put(store, "one", BIG),
        lambda: fetched(store, "one"),
        lambda: store.find("one"),
        lambda: list(store.list()),
        lambda: store.delete("one"),
    ):
        with pytest.raises(ObjectStoreUnavailable) as unavailable:
            act()
        assert unavailable.value.retryable
        assert secret not in str(unavailable.value)
        assert unavailable.value.store == f"s3://{BUCKET}/p"


def test_a_bucket_that_is_not_there_is_a_refusal(endpoint: str) -> None:
    store = open_objects(f"s3://no-such-bucket/p?endpoint={endpoint}&region=us-east-1", retries=0)
    for act in (lambda: put(store, "one", b"x"), lambda: list(store.list())):
        with pytest.raises(ObjectStoreRefused, match=r"NoSuchBucket|404") as refused:
            act()
        assert not refused.value.retryable


def test_a_folder_that_is_not_mounted_is_not_made(tmp_path: Path) -> None:
    store = open_objects((tmp_path / "away").as_uri())
    for act in (
        lambda: put(store, "one", b"x"),
        lambda: fetched(store, "one"),
        lambda: store.find("one"),
        lambda: list(store.list()),
        lambda: store.delete("one"),
    ):
        with pytest.raises(ObjectStoreUnavailable, match="mount"):
            act()
    assert not (tmp_path / "away").exists()


def test_no_link_in_a_folder_is_followed(tmp_path: Path) -> None:
    for name in ("objects", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"theirs")
    (tmp_path / "objects" / "a").symlink_to(tmp_path / "outside")
    store = open_objects((tmp_path / "objects").as_uri())
    for act in (lambda: put(store, "a/y", b"x"), lambda: fetched(store, "a/x")):
        with pytest.raises(ObjectStoreRefused):
            act()
    assert [one.name for one in (tmp_path / "outside").iterdir()] == ["x"]
    assert list(store.list()) == []


def test_a_folder_has_an_object_on_the_disk_when_it_says_so(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    put(FolderStore(tmp_path, fs=fs), "session/one", b"x")
    steps = [call.operation for call in fs.trace if call.operation in {"fsync", "rename", "mkdir"}]
    assert steps == ["mkdir", "fsync", "fsync", "rename", "fsync"]
    (file,) = (tmp_path / "session").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_each_fault_of_a_folder_leaves_no_object_or_a_whole_one(tmp_path: Path) -> None:
    clean = FaultyFileSystem()
    put(FolderStore(tmp_path, fs=clean), "0/one", b"content")
    for number in range(len(clean.trace)):
        fs = FaultyFileSystem(plan=nth_call(number, errno.EIO))
        key = f"{number + 1}/one"
        with suppress(ObjectStoreRefused, ObjectStoreUnavailable):
            put(FolderStore(tmp_path, fs=fs), key, b"content")
        store = FolderStore(tmp_path)
        found = store.find(key)
        assert found is None or fetched(store, key) == b"content"
        put(store, key, b"content")
        assert fetched(store, key) == b"content"


# ------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "url",
    [
        "",
        "objects",
        "http://x/y",
        "s3://",
        "s3:///p",
        "file://host/x",
        "file://x",
        "az://[",
        "gs:x",
    ],
)
def test_an_address_of_no_store_is_refused(url: str) -> None:
    with pytest.raises(InvalidObjectStoreAddress):
        open_objects(url)


def test_an_option_that_a_service_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidObjectStoreAddress, match="bogus"):
        open_objects("s3://bucket/p?bogus=1")


def test_no_secret_stands_in_a_name() -> None:
    shown = address_without_secrets("s3://user:hidden@bucket/p?secret_access_key=hidden#hidden")
    assert shown == "s3://bucket/p"
    assert address_without_secrets("az://[hidden") == "az://…"


def test_without_the_extra_only_a_folder_is_opened(tmp_path: Path) -> None:
    name = "agentforge_sessions.fleet.objects.remote_store"
    loaded = {key: one for key, one in sys.modules.items() if key not in {name, "obstore"}}
    with mock.patch.dict(sys.modules, {**loaded, "obstore": None}, clear=True):
        with pytest.raises(ExtraMissing, match=r"agentforge-sessions\[object-store\]"):
            open_objects("s3://bucket/p")
        put(open_objects(tmp_path.as_uri()), "one", b"x")
    assert os.listdir(tmp_path) == ["one"]


# ------------------------------------------------------------------------------------- no room


@contextmanager
def answering(status: int, code: str) -> Iterator[str]:
    """Run a service as S3 that answers each request to store something so; yield its endpoint."""

    class Answers(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = f'<?xml version="1.0"?><Error><Code>{code}</Code></Error>'.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server, credentials():
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (507, "XMinioStorageFull"),
        (507, "InsufficientStorage"),
        (403, "QuotaExceeded"),
        (400, "XMinioAdminBucketQuotaExceeded"),
    ],
)
def test_a_service_without_room_is_full_and_another_try_may_succeed(status: int, code: str) -> None:
    with answering(status, code) as endpoint:
        store = open_objects(f"s3://{BUCKET}/p?endpoint={endpoint}&region=r", retries=0)
        with pytest.raises(ObjectStoreFull, match=code) as full:
            put(store, "one", b"x")
    assert full.value.retryable


def test_a_service_that_forbids_is_no_full_one_and_its_code_is_shown() -> None:
    with answering(403, "AccessDenied") as endpoint:
        store = open_objects(f"s3://{BUCKET}/p?endpoint={endpoint}&region=r", retries=0)
        with pytest.raises(ObjectStoreRefused, match="AccessDenied") as refused:
            put(store, "one", b"x")
    assert not refused.value.retryable


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_folder_without_room_is_full_and_holds_nothing_of_the_object(
    tmp_path: Path, number: int
) -> None:
    fs = FaultyFileSystem(plan=every_call_from(0, number, ["writev"]))
    with pytest.raises(ObjectStoreFull, match=os.strerror(number)) as full:
        put(FolderStore(tmp_path, fs=fs), "session/one", b"x")
    assert full.value.retryable
    assert list(FolderStore(tmp_path).list()) == []


# --------------------------------------------------------------------------- the rows of a database


def test_a_database_refuses_what_it_should_not_be_sent_at_once(database: Database) -> None:
    store = PostgresObjects(database)
    with pytest.raises(ObjectStoreRefused, match=r"67,108,865 bytes is more than 67,108,864"):
        put(store, "a", bytes(MOST_BESIDE_BYTES + 1))
    assert list(store.list()) == []


def test_a_database_that_does_not_answer_or_refuses_is_an_error_of_a_store(
    fresh: Database,
) -> None:
    with (
        Database("postgresql://127.0.0.1:1/none", connect_s=2) as away,
        pytest.raises(ObjectStoreUnavailable) as raised,
    ):
        put(PostgresObjects(away), "a", b"1")
    assert raised.value.retryable
    with fresh.connection() as connection:
        connection.execute("drop table agentforge.pack_objects")
    with pytest.raises(ObjectStoreRefused, match="does not exist"):
        PostgresObjects(fresh).find("a")
