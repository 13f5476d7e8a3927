"""What a person's agents spent, by session, project and day, and the limits of that.

    $XDG_STATE_HOME/agentforge/spending.db

Limits are in the person's own configuration (`base.settings.spending`), extensions in this file. It
follows the sessions, which record each charge themselves: a write that is lost is made up for by
the session's next one.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ..base.data_folder import state_folder
from ..base.settings.spending import SCOPES, Amount, Limit, read_spending

if TYPE_CHECKING:
    import sqlite3

_FILE: Final = "spending.db"
_WAIT_S: Final = 2.0
_NEAR_PERCENT: Final = 80
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS spent(project TEXT, session TEXT, day TEXT, tokens INTEGER NOT NULL,
    micro_usd INTEGER NOT NULL, PRIMARY KEY(project, session, day)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS recorded(project TEXT, session TEXT, tokens INTEGER NOT NULL,
    micro_usd INTEGER NOT NULL, PRIMARY KEY(project, session)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS extended(scope TEXT, name TEXT,
    tokens INTEGER NOT NULL, micro_usd INTEGER NOT NULL, PRIMARY KEY(scope, name)) WITHOUT ROWID;
"""
SCOPE_NAMES: Final = {
    "session": "this session",
    "project": "this project",
    "day": "today",
    "person": "all your agents",
}
AMOUNTS: Final = "tokens, as 200000 or 200k, or dollars, as 5usd or $2.50"
"""What `amount_of` reads, in words."""


class Payer(NamedTuple):
    """What a charge is charged to.

    Attributes:
        session: The session's id, or an empty text.
        project: The real path of the directory of the project's sessions.
        day: The person's date.
    """

    session: str
    project: str
    day: str

    def name(self, scope: str) -> str:
        """Return the name under which a scope is extended."""
        own = f"{self.project}/{self.session}"
        names = {"session": own, "project": self.project, "day": self.day}
        return names.get(scope, "")


class Standing(NamedTuple):
    """How much of a limit is spent.

    Attributes:
        scope: "session", "project", "day" or "person".
        unit: "tokens" or "micro_usd".
        spent: The amount spent.
        most: The limit.
    """

    scope: str
    unit: str
    spent: int
    most: int

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self.most

    @property
    def is_near(self) -> bool:
        """Whether 80 % or more is spent."""
        return self.spent * 100 >= self.most * _NEAR_PERCENT

    def extension(self, session_id: str) -> str:
        """Return the command by which a person extends it."""
        more = "5usd" if self.unit == "micro_usd" else "TOKENS"
        return f"agentforge session budget {session_id} --of {self.scope} --extend {more}"

    def __str__(self) -> str:
        """Return it in words: "$4.20 of $5.00 for today"."""
        from ..harness.domain.history_events import dollars  # few calls say it

        spent, most = (
            dollars(one) if self.unit == "micro_usd" else f"{one:,} tokens"
            for one in (self.spent, self.most)
        )
        return f"{spent} of {most} for {SCOPE_NAMES[self.scope]}"


def amount_of(text: str) -> Amount | None:
    """Return the tokens or the dollars that a text names; None if it is neither, or 0."""
    import re  # only a person names amounts

    tokens = "([0-9]{1,3}(?:[,_ ][0-9]{3}){1,6}|[0-9]{1,19})(k|m)?"
    dollars = r"\$?([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(?:usd)?"
    found = re.fullmatch(f"(?i){tokens}|{dollars}", text.strip())
    if found is None:
        return None
    if found[1]:
        count = int(re.sub("[,_ ]", "", found[1]))
        amount = Amount(count * 1000 ** " km".index((found[2] or " ").lower()))
    else:
        amount = Amount(micro_usd=round(float(found[3]) * 1_000_000))
    return None if amount == Amount() else amount


def extend_limit(
    scope: str, payer: Payer, more: Amount, environment: Mapping[str, str] = os.environ
) -> str | None:
    """Extend a limit of the person; return why it can't be, or None if it is extended.

    Raises:
        WriteError: It could not be recorded, so nothing was extended.
    """
    unit, key = ("tokens", "tokens") if more.tokens else ("micro_usd", "usd")
    if getattr(read_spending(environment).limits.get(scope), unit, None) is None:
        return f"your configuration sets no limit {scope}_{key} in [budget]"
    try:
        with opened(environment) as ledger:
            ledger.extend(scope, payer, more)
    except OSError as error:
        from ..base.files import WriteError  # only a failure needs it

        path = state_folder(environment) / _FILE
        raise WriteError(path=path, operation="write", cause=error) from error
    return None


@contextmanager
def opened(environment: Mapping[str, str]) -> "Iterator[Ledger]":
    """Open the ledger for the block; its file is created if it is missing.

    Raises:
        OSError: The file can't be opened, read or written, or is none of ours.
    """
    import sqlite3  # a call that charges nothing does not need it

    path = state_folder(environment) / _FILE
    os.makedirs(path.parent, mode=0o700, exist_ok=True)
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as base:
            base.executescript(f"PRAGMA synchronous = NORMAL; {_TABLES}")
            yield Ledger(base)
    except sqlite3.Error as error:
        raise OSError(errno.EIO, str(error), str(path)) from error


class Ledger:
    """What is spent, on disk."""

    def __init__(self, base: "sqlite3.Connection") -> None:
        self._base = base

    def recorded(self, payer: Payer) -> Amount | None:
        """Return what is recorded of a session; None before its first charge."""
        query = "SELECT tokens, micro_usd FROM recorded WHERE project = ? AND session = ?"
        return self._amount(query, payer.project, payer.session)

    def spent(self, payer: Payer) -> dict[str, Amount]:
        """Return what is spent, by scope, without the session's."""
        found = {}
        for scope, where in (("project", "project = ?"), ("day", "day = ?"), ("person", "? = ''")):
            query = f"SELECT total(tokens), total(micro_usd) FROM spent WHERE {where}"  # noqa: S608 (ours)
            found[scope] = self._amount(query, payer.name(scope)) or Amount()
        return found

    def extended(self, limits: Mapping[str, Limit], payer: Payer) -> dict[str, Limit]:
        """Return limits with their extensions."""
        query = "SELECT tokens, micro_usd FROM extended WHERE scope = ? AND name = ?"
        found = {}
        for scope, limit in limits.items():
            more = self._amount(query, scope, payer.name(scope)) or Amount()
            tokens, cost = limit
            found[scope] = Limit(
                None if tokens is None else tokens + more.tokens,
                None if cost is None else cost + more.micro_usd,
            )
        return found

    def charge(self, payer: Payer, before: Amount, after: Amount) -> None:
        """Record what a session spent.

        Args:
            payer: The session, its project and the day.
            before: What it had spent before this charge; what it began with if it is a fork.
            after: What it has spent now.
        """
        with self._base:
            self._base.execute("BEGIN IMMEDIATE")
            more = after.minus(self.recorded(payer) or before)
            self._base.execute(
                "INSERT INTO spent VALUES(?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "tokens = tokens + excluded.tokens, micro_usd = micro_usd + excluded.micro_usd",
                (payer.project, payer.session, payer.day, *more),
            )
            query = "INSERT OR REPLACE INTO recorded VALUES(?, ?, ?, ?)"
            self._base.execute(query, (payer.project, payer.session, *after))

    def session(self, payer: Payer) -> Amount:
        """Return what is recorded of a session, with what runs of it spent."""
        return (self.recorded(payer) or Amount()).plus(self.of_runs(payer))

    def of_runs(self, payer: Payer) -> Amount:
        """Return what runs of a session spent."""
        return self.recorded(_runs_of(payer)) or Amount()

    def charge_call(self, payer: Payer, more: Amount) -> None:
        """Record what a run of a session spent in one call of an agent."""
        known = self.of_runs(payer)
        self.charge(_runs_of(payer), known, known.plus(more))
        with self._base:  # the session's own record of its tokens has these, too
            query = "UPDATE recorded SET tokens = tokens + ? WHERE project = ? AND session = ?"
            self._base.execute(query, (more.tokens, payer.project, payer.session))

    def extend(self, scope: str, payer: Payer, more: Amount) -> None:
        """Extend a scope's limit."""
        self._base.execute(
            "INSERT INTO extended VALUES(?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "tokens = tokens + excluded.tokens, micro_usd = micro_usd + excluded.micro_usd",
            (scope, payer.name(scope), *more),
        )

    def _amount(self, query: str, *values: str) -> Amount | None:
        row = self._base.execute(query, values).fetchone()
        return None if row is None else Amount(*map(int, row))


def _runs_of(payer: Payer) -> Payer:
    return payer._replace(session=f"{payer.session}/runs")


def spent_on(now: datetime, environment: Mapping[str, str]) -> Amount:
    """Return what a person's agents spent on the day of a time; nothing if that is unknown."""
    payer = Payer("", "", day_of(now))
    if os.path.exists(state_folder(environment) / _FILE):
        with suppress(OSError), opened(environment) as ledger:
            return ledger.spent(payer)["day"]
    return Amount()


def day_of(now: datetime) -> str:
    """Return the person's date at a time."""
    return now.astimezone().date().isoformat()


def standings(limits: Mapping[str, Limit], spent: Mapping[str, Amount]) -> list[Standing]:
    """Return how much of each limit is spent, narrowest scope first."""
    return [
        Standing(scope, unit, getattr(spent[scope], unit), most)
        for scope in SCOPES
        for unit, most in limits.get(scope, Limit())._asdict().items()
        if most is not None and scope in spent
    ]


def limits_of(
    payer: Payer, spent: Amount, environment: Mapping[str, str] = os.environ
) -> Sequence[Standing]:
    """Return how much of each limit of the person is spent, given what the session spent."""
    limits = read_spending(environment).limits
    return Purse(payer, limits, environment).standings(spent, spent)[1]


class Purse:
    """The person's limits, as one call of the hook applies them to one session.

    Attributes:
        environment: Locates the person's files.
    """

    def __init__(
        self, payer: Payer, limits: Mapping[str, Limit], environment: Mapping[str, str]
    ) -> None:
        self._payer = payer
        self._limits = limits
        self.environment = environment

    def standings(
        self, before: Amount, after: Amount
    ) -> tuple[Sequence[Standing], Sequence[Standing]]:
        """Return how much of each limit is spent before and after a charge of the session.

        If the file can't be read, only the session's own limit is known.
        """
        if not self._limits:
            return (), ()
        limits, spent, missing = self._limits, {"session": before}, Amount()
        with suppress(OSError), opened(self.environment) as ledger:
            missing = before.minus(ledger.recorded(self._payer) or before)
            limits = ledger.extended(limits, self._payer)
            known = ledger.spent(self._payer)
            spent = {one: known[one].plus(missing) for one in known}
            spent["session"] = before.plus(ledger.of_runs(self._payer))
        more = after.minus(before)
        return (
            standings(limits, spent),
            standings(limits, {scope: one.plus(more) for scope, one in spent.items()}),
        )

    def charge(self, before: Amount, after: Amount) -> None:
        """Record a charge of the session; if that fails, its next one makes up for it."""
        if before == after:
            return
        with suppress(OSError), opened(self.environment) as ledger:
            ledger.charge(self._payer, before, after)


def purse_of(
    session: str, base: Path | str, now: datetime, environment: Mapping[str, str]
) -> Purse:
    """Return the person's limits for a session.

    Args:
        session: The session's id, or an empty text.
        base: The directory of the project's sessions.
        now: The time.
        environment: Locates the person's files.
    """
    payer = Payer(session, os.path.realpath(base), day_of(now))
    return Purse(payer, read_spending(environment).limits, environment)
