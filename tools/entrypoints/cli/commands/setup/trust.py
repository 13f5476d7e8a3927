"""The command by which a person says that a project's configuration may act: trust."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...context import Cli, cli_of
from ...options import AsJson, argument, option

if TYPE_CHECKING:
    from .....base.reading.faults import Faults
    from .....base.settings.trust_records import TrustRecord
    from ...trusting import NamedFile


def add_to(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.command("trust", short_help="Show what a project's configuration would allow; allow it.")(
        trust
    )


def trust(
    context: typer.Context,
    folder: Annotated[
        Path | None, argument("DIR", "The project's folder; the one of this folder by default.")
    ] = None,
    yes: Annotated[bool, option("--yes, -y", "Trust it without asking.")] = False,
    show: Annotated[bool, option("--show", "Only show what it would allow.")] = False,
    revoke: Annotated[bool, option("--revoke", "Trust it no more.")] = False,
    listed: Annotated[bool, option("--list", "List what is trusted on this machine.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a project's configuration would run, send, read and create; allow it if you agree.

    A configuration that came with a repository is data until then. What you trust is this content
    at this place: any change, a copy elsewhere or another owner asks anew.
    """
    cli = cli_of(context, json=as_json)
    if sum((show, revoke, listed)) > 1 or (yes and (show or revoke or listed)):
        raise typer.BadParameter(
            "use one of --yes, --show, --revoke and --list", param_hint="--show"
        )
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
        cli.output.ask(f"Allow this to {path}?", operation="trust", yes=yes)
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
    if cli.output.json:
        cli.output.document({"trusted": [_document(one) for one in found]})
        return
    for one in found:
        cli.output.line(f"{one.path}  since {one.trusted_at}")
    if not found:
        cli.output.line("No project's configuration is trusted on this machine.")


def _document(record: TrustRecord) -> dict[str, object]:
    return {
        "path": record.path,
        "owner": record.owner,
        "sha256": record.sha256,
        "trusted_at": record.trusted_at,
    }
