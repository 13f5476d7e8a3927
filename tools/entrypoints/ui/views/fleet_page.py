"""The page of a fleet's workers and jobs, for sessions in a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element

from ....base.errors import counted
from ....wiring.fleet import open_fleet
from ...pages.html import Child, element
from ...pages.parts import badge, muted, note, section, table
from ...pages.values.texts import duration
from ..errors import PageNotFound
from ..live import FLEET
from ..services import UiServices
from ..view import View, ago, page_heading
from .controls import Form

if TYPE_CHECKING:
    from ....wiring.fleet import FleetView

_JOBS: Final = 200


def fleet_view(services: UiServices, _: Form, __: str) -> View:
    """Return the page of live workers and of jobs.

    Raises:
        PageNotFound: The sessions are in files, for which there is no fleet.
        StoreError: The store does not respond.
    """
    store = services.places.store
    if not services.in_database or store is None:
        raise PageNotFound("/fleet")
    with open_fleet(store, direct=services.places.direct) as fleet:
        parts = [
            page_heading("Fleet", hidden=True),
            section("workers", "Workers", _workers(fleet), class_="card"),
            section("jobs", "Jobs", _jobs(fleet), class_="card"),
        ]
    return View(title="Fleet", topics=(FLEET,), content=parts)


def _workers(fleet: FleetView) -> Element:
    rows = [
        (
            one.host,
            str(one.pid),
            ", ".join(one.queues),
            f"{one.running} of {one.concurrency}",
            f"{duration(one.silent_s)} ago",
            ago(one.started_at),
            one.version,
            one.problem or "",
        )
        for one in fleet.workers()
    ]
    if not rows:
        command = element("code", "agentforge fleet worker")
        return element("p", "No worker is alive. To start one: ", command)
    head = ("Host", "Process", "Queues", "Runs", "Heartbeat", "Since", "Release", "Problem")
    return table("Workers that are alive", head, rows)


_JOB: Final = (
    *("Session", "Job", "Since", "Attempts", "Queue"),
    *("Session is", "Phase", "Worker", "Reason"),
)


def _jobs(fleet: FleetView) -> Child:
    found, total = fleet.jobs(limit=_JOBS)
    rows = [
        (
            element("a", element("code", one.session_id), href=f"/sessions/{one.session_id}"),
            badge(one.state, "bad" if one.state == "failed" else "plain"),
            ago(one.since),
            one.attempts,
            one.queue,
            one.session_state or "deleted",
            one.phase or "",
            one.worker or "",
            one.reason or "",
        )
        for one in found
    ]
    if not rows:
        return muted("There is no job.", tag="p")
    more = note(f"The first {len(found):,} of {counted(total, 'job')}.")
    return table("Jobs", _JOB, rows), more if total > len(found) else None
