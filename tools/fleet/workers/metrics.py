"""A worker's metrics, for Prometheus; in a registry of its own."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .messages import Ending, Look

_BUCKETS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0)


class FleetMetrics:
    """Counts a worker's actions since its start, and shows the waiting jobs."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._looks = self._counter(
            "agentforge_jobs", "Jobs that ended, by how their look at the session did.", "outcome"
        )
        self._running = self._gauge("agentforge_jobs_running", "Sessions that run now.")
        self._waiting = self._gauge(
            "agentforge_jobs_waiting", "Jobs of this worker's queues that could run now."
        )
        self._oldest = self._gauge(
            "agentforge_job_oldest_waiting_seconds", "How long the oldest of them has waited."
        )
        self._job_seconds = self._histogram("agentforge_job_seconds", "How long jobs took.")
        self._phase_seconds = self._histogram(
            "agentforge_phase_seconds", "How long finished phases took."
        )
        self._tokens = self._counter("agentforge_tokens_spent", "Tokens that sessions spent.")
        self._budget = self._counter(
            "agentforge_budget_stops", "Runs that stopped because the budget did not cover more."
        )
        self._conflicts = self._counter(
            "agentforge_conflicts", "Runs whose save was refused: another worker has the session."
        )
        self._retries = self._counter(
            "agentforge_retries", "Looks that were put off, by why.", "reason"
        )
        self._recoveries = self._counter(
            "agentforge_recoveries", "Sessions of silent workers that were handed to others."
        )
        self._restarts = self._counter(
            "agentforge_worker_restarts", "How often this worker lost the store and began again."
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, registry=self.registry, buckets=_BUCKETS)

    def began(self) -> None:
        """Count a started job."""
        self._running.inc()

    def ended(self, outcome: str, seconds: float) -> None:
        """Record an ended job."""
        self._running.dec()
        self._looks.labels(outcome).inc()
        self._job_seconds.observe(seconds)

    def looked(self, look: Look) -> None:
        """Record an ended look at a session."""
        self._tokens.inc(look.tokens)
        for _name, seconds in look.phases:
            self._phase_seconds.observe(seconds)
        if look.cause == "budget":
            self._budget.inc()
        if look.ending is Ending.FENCED:
            self._conflicts.inc()

    def put_off(self, reason: str) -> None:
        """Count a look that was postponed."""
        self._retries.labels(reason).inc()

    def recovered(self, sessions: int) -> None:
        """Count sessions of silent workers that were handed to others."""
        self._recoveries.inc(sessions)

    def restarted(self) -> None:
        """Count a restart after the loss of the store."""
        self._restarts.inc()

    def waits(self, jobs: int, oldest_s: float) -> None:
        """Set the number of waiting jobs, and the age of the oldest in seconds."""
        self._waiting.set(jobs)
        self._oldest.set(oldest_s)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
