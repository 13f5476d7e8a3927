"""The command by which a person says that a project's configuration may act: trust."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

from ...context import Cli
from ...options import argument, flag, misuse
from ...output.documents import selected

if TYPE_CHECKING:
    from .....base.reading.faults import Faults
    from ...trusting import NamedFile


def trust(
    cli: Cli,
    folder: Path | None = argument(
        "DIR", "The project's folder; the one of this folder by default.", None
    ),
    yes: bool = flag("--yes, -y", "Trust it without asking."),
    show: bool = flag("--show", "Only show what it would allow."),
    revoke: bool = flag("--revoke", "Trust it no more."),
    listed: bool = flag("--list", "List what is trusted on this machine."),
) -> None:
    """Show what a project's configuration would run, send, read and create; allow it if you agree.

    A configuration that came with a repository is data until then. What you trust is this content
    at this place: any change, a copy elsewhere or another owner asks anew.
    """
    if sum((show, revoke, listed)) > 1 or (yes and (show or revoke or listed)):
        raise misuse("--show", "use one of --yes, --show, --revoke and --list")
    if listed:
        _list(cli)
        return
    place = _place(folder)
    if revoke:
        _revoke(cli, place)
        return
    _trust(cli, place, yes=yes, only_show=show)


def _place(folder: Path | None) -> Path:
    """Return the configuration file of a project."""
    from .....base.data_folder import NAME, find_data_folder
    from .....base.settings.configuration_file import FILE_NAME

    start = Path.cwd() if folder is None else Path.cwd() / folder
    found = find_data_folder(start) if folder is None else None
    return (found if found is not None else start / NAME) / FILE_NAME


def _trust(cli: Cli, path: Path, *, yes: bool, only_show: bool) -> None:
    from .....base.files import OsFileSystem, read_regular_file
    from .....base.settings.configuration_file import MAX_BYTES, document_of, own_document
    from .....base.settings.trust_records import TrustRecords, real_place
    from .....base.settings.trust_table import allowances
    from ...output.errors import NothingToTrust
    from ...trusting import named_files, trust_file

    data = read_regular_file(OsFileSystem(), str(path), path=path, max_bytes=MAX_BYTES)
    if data is None:
        raise NothingToTrust(path)
    values, faults = document_of(data)
    _require_no_faults(path, values, faults)
    lines = allowances(values, own_document())
    named = named_files(values, path.parent.parent)  # what is shown of it is what is trusted
    trusted = TrustRecords().find(path, data) is not None
    if not cli.output.json:
        _show(cli, real_place(path) or str(path), lines, named, trusted=trusted)
    if not only_show and not trusted and lines:
        cli.output.ask(f"Allow this to {path}?", yes=yes)
        trust_file(path, data, named, now=cli.outside.clock())
        trusted = True
        if not cli.output.json:
            cli.output.line(f"{path} is trusted as it is now; a change of it asks anew.")
    if cli.output.json:
        shown = {key: one.content.decode("utf-8", "replace") for key, one in named.items()}
        cli.output.document(
            {"path": str(path), "trusted": trusted, "allows": lines, "names": shown}
        )


def _require_no_faults(path: Path, values: dict[str, Any], faults: Faults) -> None:
    """Judge all sections as they would be once the file is trusted."""
    from .....base.settings.configuration import checked_configuration
    from .....base.settings.configuration_file import ConfigurationFile
    from .....questions.config import config_of

    file = ConfigurationFile(
        path=path, root=path.parent.parent, exists=True, above=False, values=values, faults=faults
    )
    config_of(file)
    checked_configuration(file)


def _show(
    cli: Cli, path: str, lines: list[str], named: Mapping[str, NamedFile], *, trusted: bool
) -> None:
    if not lines:
        cli.output.line(f"{path} asks for nothing that needs trust.")
        return
    cli.output.line(f"{path} {'allows' if trusted else 'would allow'}:")
    for line in lines:
        cli.output.line(f"  {line}")
    for key, one in named.items():
        cli.output.line(f"{key} says, in {one.path}:")
        cli.output.lines(indent(one.content.decode("utf-8", "replace").rstrip(), "  "))
    if trusted:
        cli.output.line("It is trusted as it is; --revoke ends that.")


def _revoke(cli: Cli, path: Path) -> None:
    from .....base.settings.trust_records import TrustRecords

    was = TrustRecords().remove(path)
    said = "is not trusted any more" if was else "was not trusted; nothing was changed"
    cli.output.outcome({"path": str(path), "trusted": False, "changed": was}, f"{path} {said}.")


def _list(cli: Cli) -> None:
    from .....base.settings.trust_records import TrustRecords

    found = list(TrustRecords().all())
    documents = [selected(one, "path owner sha256 trusted_at") for one in found]
    lines = [f"{one.path}  since {one.trusted_at}" for one in found]
    nothing = "No project's configuration is trusted on this machine."
    cli.output.outcome({"trusted": documents}, *(lines or [nothing]))
