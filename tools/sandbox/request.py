"""The request of one execution, checked before anything is touched."""

# No deferred annotations here: as strings, each field's would have to be compiled.

import json
import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypedDict

from ..base.cancellation import CancelToken
from ..base.errors import shown
from .errors import InvalidExecution
from .guest.guest_code import GuestScript
from .guest_paths import MAX_DEPTH, MAX_GUEST_PATH_BYTES, is_hidden
from .policy import (
    DEFAULT_FUEL,
    MAX_FUEL,
    ExecutionPolicy,
    integer_fault,
    seconds_fault,
    text_fault,
)

MAX_CODE_BYTES: Final = 256 << 20
"""The longest code, and the longest injected variables, in bytes."""

_MAX_NAME_BYTES: Final = 255


class ExecutionOptions(TypedDict, total=False):
    """The options of `Sandbox.execute` and `Sandbox.execute_async`; documented there."""

    stdin: bytes | str | None
    files: Mapping[str, bytes | str] | None
    inject: Mapping[str, Any] | None
    timeout: float | None
    fuel: int | None
    argv: Sequence[str]
    on_stdout: Callable[[str], object] | None
    on_stderr: Callable[[str], object] | None
    cancel: CancelToken | None


class ResumeOptions(TypedDict, total=False):
    """The options of `Sandbox.resume`, which are also options of `Sandbox.execute`."""

    timeout: float | None
    on_stdout: Callable[[str], object] | None
    on_stderr: Callable[[str], object] | None
    cancel: CancelToken | None


class Request(NamedTuple):
    """One execution, with its arguments checked and its limits determined.

    Attributes:
        script: The code and its inputs.
        code_bytes: The length of the code.
        stdin: Its standard input.
        files: The files to write into the workspace before it runs.
        deadline_s: Wall-clock seconds it may run.
        fuel: WebAssembly instructions it may execute.
        callbacks: Called with its output while it runs, by stream.
        answers: What a suspended program goes on with, instead of the script; else None.
    """

    script: GuestScript
    code_bytes: int
    stdin: bytes
    files: Mapping[str, bytes]
    deadline_s: float
    fuel: int
    callbacks: Mapping[str, Callable[[str], object]]
    answers: Mapping[int, Mapping[str, Any]] | None = None

    @property
    def is_metered(self) -> bool:
        """Whether its fuel must be counted: it is not the default."""
        return self.fuel != DEFAULT_FUEL


def checked_request(
    policy: ExecutionPolicy,
    *,
    stateful: bool,
    code: Any,
    stdin: Any = None,
    files: Any = None,
    inject: Any = None,
    timeout: Any = None,
    fuel: Any = None,
    argv: Any = (),
    on_stdout: Any = None,
    on_stderr: Any = None,
    cancel: Any = None,
) -> Request:
    """Return an execution's code and options as a request, under a policy's limits.

    Raises:
        InvalidExecution: Some are refused; `.faults` names each of them.
    """
    faults = _code_faults(code)
    if stdin is not None:
        faults += _stdin_faults(stdin, stateful)
    if files is not None:
        faults += _files_faults(files)
    variables = None
    if inject is not None:
        variables, inject_faults = _injected(inject)
        faults += inject_faults
    if timeout is not None and (fault := seconds_fault("timeout", timeout)) is not None:
        faults.append(fault)
    if fuel is not None:
        fault = integer_fault("fuel", fuel, 1, MAX_FUEL, "units of fuel")
        faults += [] if fault is None else [fault]
    if argv != ():
        faults += _argv_faults(argv)
    callbacks = {}
    for name, callback in (("stdout", on_stdout), ("stderr", on_stderr)):
        if callback is None:
            continue
        if not callable(callback):
            faults.append(f"on_{name} must be callable or None, not {type(callback).__name__}")
        callbacks[name] = callback
    if cancel is not None and not isinstance(cancel, CancelToken):
        faults.append(f"cancel must be a CancelToken or None, not {type(cancel).__name__}")
    if faults:
        raise InvalidExecution(faults)
    return Request(
        script=GuestScript(
            source=code, argv=tuple(argv), inject=variables, streams=tuple(callbacks)
        ),
        code_bytes=len(code.encode("utf-8")),
        stdin=_as_bytes(stdin or b""),
        files={path: _as_bytes(data) for path, data in files.items()} if files else {},
        deadline_s=policy.deadline_s if timeout is None else float(timeout),
        fuel=policy.fuel_budget if fuel is None else fuel,
        callbacks=callbacks,
    )


def _as_bytes(data: Any) -> bytes:
    return data.encode("utf-8") if isinstance(data, str) else bytes(data)


def relative_path_fault(where: str, path: Any) -> str | None:
    """Return why a text is not a workspace-relative file path, or None; `where` names it."""
    fault = text_fault(where, path)
    if fault is not None:
        return fault
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return f"{where} {shown(path)} is not a relative path in its simplest form"
    if any(len(part.encode()) > _MAX_NAME_BYTES for part in parts):
        return f"{where} {shown(path)} has a name longer than {_MAX_NAME_BYTES} bytes"
    if len(path.encode()) >= MAX_GUEST_PATH_BYTES or len(parts) > MAX_DEPTH:
        return (
            f"{where} {shown(path)} is longer than {MAX_GUEST_PATH_BYTES - 1} bytes or has more "
            f"than {MAX_DEPTH} names"
        )
    if is_hidden(parts[0]):
        return f"{where} {shown(path)} is the host's own file"
    return None


def _code_faults(code: Any) -> list[str]:
    fault = text_fault("code", code)
    if fault is None and len(code) > MAX_CODE_BYTES:
        fault = f"code is longer than {MAX_CODE_BYTES} characters"
    return [] if fault is None else [fault]


def _stdin_faults(stdin: Any, stateful: bool) -> Iterator[str]:
    if isinstance(stdin, str):
        fault = None if "\0" in stdin else text_fault("stdin", stdin)
        if fault is not None:
            yield fault
    elif not isinstance(stdin, (bytes, bytearray, memoryview)):
        yield f"stdin must be bytes, str or None, not {type(stdin).__name__}"
        return
    if stdin and stateful:
        yield "stdin cannot be given to a sandbox that keeps its interpreter; use files or inject"


def _files_faults(files: Any) -> Iterator[str]:
    if not isinstance(files, Mapping):
        yield f"files must be a mapping of path to bytes or str, not {type(files).__name__}"
        return
    for path, data in files.items():
        fault = relative_path_fault("the path of an input file", path)
        if fault is not None:
            yield fault
        if isinstance(data, str):
            try:
                data.encode("utf-8")
            except UnicodeEncodeError:
                yield f"the input file {shown(path)} has a lone surrogate, so it is no UTF-8"
        elif not isinstance(data, (bytes, bytearray, memoryview)):
            yield f"the input file {shown(path)} must be bytes or str, not {type(data).__name__}"


def _injected(inject: Any) -> tuple[str | None, list[str]]:
    if not isinstance(inject, Mapping):
        return None, [f"inject must be a mapping of name to value, not {type(inject).__name__}"]
    faults = []
    plain: dict[str, Any] = {}
    for name, value in inject.items():
        if (
            not isinstance(name, str)
            or not name.isidentifier()
            or keyword.iskeyword(name)
            or name.startswith("__")
        ):
            faults.append(f"the injected name {shown(name)} is no name of a variable")
            continue
        try:
            plain[name] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            faults.append(f"the injected value of {shown(name)} is no JSON: {error}")
    text = json.dumps(plain)
    if len(text) > MAX_CODE_BYTES:
        faults.append(f"the injected values are longer than {MAX_CODE_BYTES} bytes as JSON")
    return text, faults


def _argv_faults(argv: Any) -> Iterator[str]:
    if isinstance(argv, (str, bytes)) or not isinstance(argv, Sequence):
        yield f"argv must be a sequence of str, not {type(argv).__name__}"
        return
    for i, value in enumerate(argv):
        fault = text_fault(f"argv[{i}]", value)
        if fault is not None:
            yield fault
