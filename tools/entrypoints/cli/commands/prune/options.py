"""Options that select the sessions of `prune` and its subcommands, and checks of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

from attrs import frozen

from ...context import Cli
from ...options import QUESTIONS_OPTION, QuestionsDirectory, misuse, option

if TYPE_CHECKING:
    from .....prune import Outside, PruneTarget
    from .....wiring.pruning import PruneKind

ALL: Final = "all"
ROOT_OPTION: Final = "--workspace-root"

WorkspaceRoot = Annotated[
    str | None,
    option(f"{ROOT_OPTION} DIR", "Directory of the sandbox sessions; ./workspace by default."),
]


@frozen
class KindOptions:
    """Options that select the kinds of sessions a command applies to."""

    kind: Annotated[
        str,
        option(
            "--kind KIND",
            "The kind of sessions: sandbox, harness, questions or all.",
            ALL,
            show_default=True,
        ),
    ]
    workspace_root: WorkspaceRoot
    questions: QuestionsDirectory

    def known(self, cli: Cli) -> dict[str, PruneKind]:
        """Return all kinds, by name.

        Raises:
            typer.BadParameter: The name of a directory is empty.
        """
        from .....wiring.pruning import prune_kinds

        require_text({ROOT_OPTION: self.workspace_root, QUESTIONS_OPTION: self.questions})
        return prune_kinds(
            store=cli.store(), workspace_root=self.workspace_root, questions_dir=self.questions
        )

    def select(self, cli: Cli, *, with_missing: bool = False) -> dict[str, PruneKind]:
        """Return the kinds that `--kind` names.

        `all` leaves out a kind whose default directory does not exist, unless `with_missing`.

        Raises:
            typer.BadParameter: There is no such kind, or the name of a directory is empty.
        """
        kinds = self.known(cli)
        if self.kind == ALL:
            named = {"sandbox": self.workspace_root, "questions": self.questions}
            return {
                name: one
                for name, one in kinds.items()
                if with_missing or named.get(name) is not None or one.is_there
            }
        if self.kind not in kinds:
            known = ", ".join([*kinds, ALL])
            raise misuse("--kind", f"{self.kind!r} is none of {known}")
        return {self.kind: kinds[self.kind]}


def outside_of(cli: Cli) -> Outside:
    """Return the environment of a prune, with the command's clock."""
    from .....prune import Outside

    return Outside(clock=cli.outside.clock)


def require_text(given: Mapping[str, str | None]) -> None:
    """Reject empty values, such as an unset variable gives: they would mean something else.

    Raises:
        typer.BadParameter: A value is empty.
    """
    for name, value in given.items():
        if value is not None and not value.strip():
            raise misuse(name, "it is empty; nothing was done")


def directories_of(kinds: Mapping[str, PruneKind]) -> list[PruneTarget]:
    """Return the kinds whose sessions are directories; a database has no trash.

    Raises:
        typer.BadParameter: Kinds are given, but none has directories.
    """
    found = [one.directories for one in kinds.values() if one.directories is not None]
    if kinds and not found:
        raise misuse(
            "--kind",
            "these sessions are in a database, which has no trash; an archive brings them back: "
            "restore it into a folder, and copy it from there (agentforge store copy)",
        )
    return found
