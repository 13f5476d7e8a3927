"""The workers and jobs of a fleet, where the sessions are in a database that one works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element

from ....base.errors import counted
from ....wiring.fleet import open_fleet
from ...pages.html import element
from ...pages.parts import badge, note, table
from ...pages.values.texts import duration
from ..errors import PageNotFound
from ..live import FLEET
from ..services import Services
from ..view import View, ago, part
from .forms import Form

if TYPE_CHECKING:
    from ....wiring.fleet import FleetView

_JOBS: Final = 200


def fleet_view(services: Services, _: Form, __: str) -> View:
    """Show the workers that are alive and the jobs.

    Raises:
        PageNotFound: The sessions are in files, which no fleet works on.
        StoreError: The store does not answer.
    """
    store = services.places.store
    if not services.in_database or store is None:
        raise PageNotFound("/fleet")
    with open_fleet(store, direct=services.places.direct) as fleet:
        workers, jobs = _workers(fleet), _jobs(fleet)
    return View(
        title="Fleet",
        topics=(FLEET,),
        content=[
            element("h1", "Fleet", id="heading", class_="visually-hidden"),
            part("workers", workers, title="Workers"),
            part("jobs", jobs, title="Jobs"),
        ],
    )


def _workers(fleet: FleetView) -> Element:
    found = fleet.workers()
    if not found:
        return element(
            "p", "No worker is alive. To start one: ", element("code", "agentforge worker")
        )
    return table(
        "Workers that are alive",
        ("Host", "Process", "Queues", "Runs", "Heartbeat", "Since", "Release", "Problem"),
        (
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
            for one in found
        ),
    )


def _jobs(fleet: FleetView) -> list[Element]:
    found, total = fleet.jobs(limit=_JOBS)
    if not found:
        return [element("p", "There is no job.", class_="muted")]
    shown = table(
        "Jobs",
        ("Session", "Job", "Since", "Attempts", "Queue", "Session is", "Phase", "Worker", "Reason"),
        (
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
        ),
    )
    if total <= len(found):
        return [shown]
    return [shown, note(f"The first {len(found):,} of {counted(total, 'job')}.")]
