"""The register of plugins: other packages' entry points, and this package's own plugins.

The groups are those of the packaging standard's entry points: `agentforge.stores`, `.executors`,
`.agents`, `.observers`, `.commands`. This package's own plugins have the same form and are loaded
the same way; they are in a table beside their consumer instead of in the metadata, which takes
longer to read than most commands take to run.
"""

# Annotations are evaluated here: as texts, each field's would have to be compiled.

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .errors import AgentForgeError, ErrorKind

if TYPE_CHECKING:
    from importlib.metadata import Distribution

GROUPS: Final = ("stores", "executors", "agents", "observers", "commands")
"""What a package can add to this one."""
_PREFIX: Final = "agentforge."


class PluginUnusable(AgentForgeError, kind=ErrorKind.NOT_DONE):
    """A plugin can't be loaded; nothing was done."""

    message = """the plugin {plugin} of {package} ({group}) can't be used: {reason}. Nothing was
    done; upgrade or uninstall that package."""
    plugin: str
    group: str
    package: str
    reason: str


class PluginAmbiguous(AgentForgeError, kind=ErrorKind.AMBIGUOUS):
    """Several packages add a plugin of the same name; none of them is used."""

    message = """several packages add {plugin} ({group}): {packages:,}. Nothing was done; uninstall
    all but one of them."""
    plugin: str
    group: str
    packages: Sequence[str]


class Plugin(NamedTuple):
    """One plugin, which is not loaded yet.

    Attributes:
        name: The name that a person uses: a store's scheme, an agent's or executor's name, a
            command.
        group: One of `GROUPS`.
        target: Its location, as `module:attribute`.
        package: Its distribution, with the version.
    """

    name: str
    group: str
    target: str
    package: str = "agentforge-sessions"

    def load(self) -> Any:
        """Import the plugin and return it.

        Raises:
            PluginUnusable: It can't be imported, or the attribute does not exist.
        """
        module, _, attribute = self.target.partition(":")
        try:
            return attrgetter(attribute)(import_module(module))
        except Exception as error:
            raise self.unusable(f"{type(error).__name__}: {error}") from error

    def unusable(self, reason: str) -> PluginUnusable:
        """Return the error that says why this plugin can't be used."""
        return PluginUnusable(self.name, self.group, self.package, reason)


class Register:
    """The plugins of one group. Other packages can't replace a name of this package."""

    def __init__(self, group: str, own: Mapping[str, str]) -> None:
        """Remember the group, and this package's own plugins in it, as `module:attribute`.

        Other packages can't add to a group without a name.
        """
        self._group = group
        self.own: Final = own

    def find(self, name: str) -> Plugin | None:
        """Return the plugin of a name, or None; the metadata is read only if it is not our own.

        Raises:
            PluginAmbiguous: Several packages add it.
        """
        if name in self.own:
            return Plugin(name, self._group, self.own[name])
        found = [one for one in self.foreign() if one.name == name]
        if len(found) > 1:
            raise PluginAmbiguous(name, self._group, tuple(one.package for one in found))
        return found[0] if found else None

    def foreign(self) -> tuple[Plugin, ...]:
        """Return the plugins that other packages add to this one's, by name."""
        found = sorted(foreign_plugins()) if self._group else ()
        return tuple(one for one in found if one.group == self._group and one.name not in self.own)

    def names(self) -> tuple[str, ...]:
        """Return the names of all plugins, this package's first."""
        return (*self.own, *dict.fromkeys(one.name for one in self.foreign()))


def foreign_plugins() -> tuple[Plugin, ...]:
    """Return all installed plugins of other packages, none of them loaded.

    The working directory is left out where Python searches it for modules, as with `python -m`: it
    may be a stranger's repository, whose metadata is not installed by the person.
    """
    return tuple(
        Plugin(one.name, one.group.removeprefix(_PREFIX), one.value, _named(distribution))
        for distribution in _installed()
        for one in distribution.entry_points
        if one.group.removeprefix(_PREFIX) in GROUPS and one.group.startswith(_PREFIX)
    )


def _installed() -> "Iterator[Distribution]":
    from importlib.metadata import distributions

    here = os.path.realpath(os.curdir)
    path = [one for one in sys.path if os.path.isabs(one) and os.path.realpath(one) != here]
    seen = set()
    for distribution in distributions(path=path):
        name = distribution.metadata["Name"]
        if name and name not in seen:  # a second one of the same name is shadowed by the first
            seen.add(name)
            yield distribution


def _named(distribution: "Distribution") -> str:
    return f"{distribution.metadata['Name']} {distribution.version}"
