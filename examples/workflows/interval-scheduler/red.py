"""Phase `red`: turn the specification into tests and see every one of them fail.

The tests are written from the data in `spec/component.yaml`: one test for each example, one for
each property, named after the criterion they check. Then they run. As there is no component yet,
each must fail for that reason and no other.

Exit codes: 1 when all tests ran and failed because the component is missing, which is what this
phase is for; 2 when anything else is the case.
"""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from pprint import pformat
from textwrap import fill, indent
from typing import Any

WORKSPACE = Path("/app")
sys.path.insert(0, str(WORKSPACE / "kit"))

import tdkit  # noqa: E402
import yaml  # noqa: E402

PHASE = "red"
FAILED_AS_IT_SHOULD = 1
SOMETHING_ELSE = 2
WIDTH = 96

Spec = dict[str, Any]


class SpecError(Exception):
    """The specification cannot be turned into tests."""


# --- data to source ------------------------------------------------------------------------


def identifier(text: str) -> str:
    """Return words as a Python name."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text.strip())
    name = re.sub(r"\W+", "_", words).strip("_").lower()
    if not name or keyword.iskeyword(name):
        raise SpecError(f"no test can be named after {text!r}")
    return name


def test_name(criterion: Spec, name: str) -> str:
    """Return the name of a test: the criterion's id, then what the test is about."""
    return f"test_{identifier(criterion['id'])}_{identifier(name)}"


def as_source(value: Any) -> str:
    """Return the source of a value; runs of intervals become pairs or a call of `series`."""
    if isinstance(value, dict) and set(value) == {"series"}:
        arguments = ", ".join(f"{key}={value['series'][key]!r}" for key in value["series"])
        return f"series({arguments})"
    if isinstance(value, list):
        value = [tuple(item) if isinstance(item, list) else item for item in value]
    return pformat(value, width=WIDTH - 16)


def call(function: str, arguments: Spec) -> str:
    """Return the source of a call, on several lines when one is too long."""
    parts = [f"{name}={as_source(value)}" for name, value in arguments.items()]
    line = f"{function}({', '.join(parts)})"
    if len(line) <= WIDTH - 24 and "\n" not in line:
        return line
    return f"{function}(\n" + "".join(indent(part, "    ") + ",\n" for part in parts) + ")"


def equal(actual: str, expected: str) -> str:
    """Return the source of an equality check, on several lines when one is too long."""
    line = f"self.assertEqual({actual}, {expected})"
    if len(line) <= WIDTH - 8 and "\n" not in line:
        return line
    return f"self.assertEqual(\n    {actual},\n{indent(expected, '    ')},\n)"


def method(name: str, documentation: str, body: list[str]) -> str:
    """Return the source of one test method."""
    lines = [f"def {name}(self) -> None:", f'    """{documentation}"""']
    lines += [indent(part, "    ") for part in body]
    return indent("\n".join(lines), "    ") + "\n"


# --- examples ------------------------------------------------------------------------------


def action(example: Spec) -> tuple[list[str], str, bool]:
    """Return what sets the stage, the call under test, and whether an agenda is involved."""
    name = example["when"]["call"]
    given = example["given"]
    if name in ("merge", "free_slots"):
        return [], call(f"self.component.{name}", given), False
    if name in ("book", "cancel", "agenda_free_slots"):
        stage = {"hours": given["hours"], "bookings": given["bookings"]}
        if given.get("cancelled"):
            stage["cancelled"] = tuple(given["cancelled"])
        member = name.removeprefix("agenda_")
        return (
            [f"scheduler = {call('self.filled', stage)}"],
            call(f"scheduler.{member}", example["when"]["with"]),
            True,
        )
    raise SpecError(f"example {example['name']!r} calls {name!r}, which no test can be written for")


def expectation(example: Spec, act: str) -> list[str]:
    """Return the lines that make the call and judge its result or its error."""
    then = example["then"]
    if "raises" in then:
        caught = " as caught" if "conflicts" in then else ""
        lines = [
            f"with self.assertRaises(self.component.{then['raises']}){caught}:\n"
            + indent(act, "    ")
        ]
        if "conflicts" in then:
            lines.append(equal("pairs(caught.exception.conflicts)", as_source(then["conflicts"])))
        return lines
    if isinstance(then["returns"], dict) and "booking_id" in then["returns"]:
        fields = then["returns"]
        actual = f"({', '.join(f'booking.{name}' for name in fields)})"
        return [f"booking = {act}", equal(actual, as_source(tuple(fields.values())))]
    return [f"spans = {act}", equal("pairs(spans)", as_source(then["returns"]))]


def example_test(criterion: Spec, example: Spec) -> str:
    """Return the source of the test of one example."""
    stage, act, has_agenda = action(example)
    body = stage + expectation(example, act)
    if has_agenda and "agenda" in example["then"]:
        body.append(equal("self.agenda_of(scheduler)", as_source(example["then"]["agenda"])))
    return method(
        test_name(criterion, example["name"]), f"{criterion['id']}: {example['name']}.", body
    )


def signature_tests(criterion: Spec, spec: Spec) -> list[str]:
    """Return a test for each declared signature."""
    tests = []
    for declared in spec["methods"]:
        parameters = declared["parameters"]
        if "." in declared["name"]:
            parameters = ["self", *parameters]
        body = [
            f"parameters = list(signature(self.component.{declared['name']}).parameters)",
            equal("parameters", as_source(parameters)),
        ]
        title = f"{criterion['id']}: {declared['name']}."
        tests.append(method(test_name(criterion, declared["name"]), title, body))
    return tests


def error_tests(criterion: Spec, spec: Spec) -> list[str]:
    """Return a test for each declared error."""
    tests = []
    for declared in spec["errors"]:
        base = declared["base"]
        if base != "Exception":
            base = f"self.component.{base}"
        body = [
            f"error = self.component.{declared['name']}",
            f"self.assertTrue(issubclass(error, {base}))",
        ]
        title = f"{criterion['id']}: {declared['name']} derives from {declared['base']}."
        tests.append(method(test_name(criterion, declared["name"]), title, body))
    return tests


# --- properties ----------------------------------------------------------------------------

LAWS = {
    "merge_matches_model": """
for _ in range(ROUNDS):
    spans = model.random_spans(random, most=9, low=-20, high=60, longest=15)
    self.assertEqual(pairs(self.component.merge(spans)), model.merged(spans), spans)
""",
    "merge_is_idempotent": """
for _ in range(ROUNDS):
    spans = model.random_spans(random, most=12, low=-500, high=500, longest=90)
    once = pairs(self.component.merge(spans))
    self.assertEqual(pairs(self.component.merge(once)), once, spans)
""",
    "merge_ignores_order": """
for _ in range(ROUNDS):
    spans = model.random_spans(random, most=12, low=-500, high=500, longest=90)
    shuffled = random.sample(spans, len(spans))
    expected = pairs(self.component.merge(spans))
    self.assertEqual(pairs(self.component.merge(shuffled)), expected, spans)
""",
    "slots_match_model": """
for _ in range(ROUNDS):
    busy = model.random_spans(random, most=7, low=-10, high=70, longest=12)
    hours = model.random_spans(random, most=3, low=0, high=50, longest=30)
    minimum = random.randint(1, 9)
    slots = pairs(self.component.free_slots(busy, hours, minimum))
    self.assertEqual(slots, model.free(busy, hours, minimum), (busy, hours, minimum))
""",
    "slots_complement_busy": """
for _ in range(ROUNDS):
    busy = model.random_spans(random, most=7, low=-10, high=70, longest=12)
    hours = model.random_spans(random, most=3, low=0, high=50, longest=30)
    slots = model.minutes(pairs(self.component.free_slots(busy, hours, 1)))
    self.assertFalse(slots & model.minutes(busy), (busy, hours))
    worked = model.minutes(busy) & model.minutes(hours)
    self.assertEqual(slots | worked, model.minutes(hours), (busy, hours))
""",
    "listing_is_a_copy": """
for _ in range(ROUNDS):
    start = random.randint(0, 50)
    scheduler = self.filled(hours=[(0, 100)], bookings=[(start, start + 10), (80, 90)])
    scheduler.bookings().clear()
    self.assertEqual(self.agenda_of(scheduler), [(start, start + 10), (80, 90)])
""",
    "agenda_follows_model": """
hours = [(0, 90), (120, 200)]
for _ in range(ROUNDS):
    scheduler = self.component.Scheduler(hours)
    agenda: dict[str, tuple[int, int]] = {}
    for _ in range(60):
        if agenda and random.random() < 0.3:
            booking_id = random.choice(sorted(agenda))
            scheduler.cancel(booking_id)
            del agenda[booking_id]
        else:
            start = random.randint(-5, 200)
            wanted = (start, start + random.randint(1, 25))
            clashes = model.conflicts(wanted, agenda.values())
            if not model.within(wanted, hours):
                with self.assertRaises(self.component.OutsideHoursError):
                    scheduler.book(*wanted)
            elif clashes:
                with self.assertRaises(self.component.BookingConflictError) as caught:
                    scheduler.book(*wanted)
                self.assertEqual(pairs(caught.exception.conflicts), clashes)
            else:
                booking_id = scheduler.book(*wanted).booking_id
                self.assertNotIn(booking_id, agenda)
                agenda[booking_id] = wanted
        self.assertEqual(self.agenda_of(scheduler), sorted(agenda.values()))
    slots = pairs(scheduler.free_slots(10))
    self.assertEqual(slots, model.free(agenda.values(), hours, 10))
""",
    "free_slots_are_bookable": """
for _ in range(ROUNDS):
    scheduler = self.component.Scheduler([(0, 60), (80, 140)])
    for _ in range(random.randint(0, 8)):
        start = random.randint(0, 139)
        try:
            scheduler.book(start, start + random.randint(1, 12))
        except self.component.SchedulerError:
            continue
    for start, end in pairs(scheduler.free_slots(1)):
        scheduler.book(start, end)
    self.assertEqual(pairs(scheduler.free_slots(1)), [])
    taken = model.minutes(self.agenda_of(scheduler))
    self.assertEqual(model.runs(taken), [(0, 60), (80, 140)])
""",
}


def property_test(criterion: Spec, declared: Spec) -> str:
    """Return the source of the test of one property."""
    try:
        law = LAWS[declared["law"]]
    except KeyError:
        raise SpecError(f"no test can be written for the law {declared['law']!r}") from None
    body = [
        f"random = Random({int(declared['seed'])})",
        law.strip().replace("ROUNDS", str(int(declared["rounds"]))),
    ]
    return method(
        test_name(criterion, declared["name"]), f"{criterion['id']}: {declared['name']}.", body
    )


# --- whole files ---------------------------------------------------------------------------


def test_class(criterion: Spec, tests: list[str]) -> str:
    """Return the source of the class that holds the tests of one criterion."""
    name = criterion["id"].title().replace("-", "") + "Tests"
    text = fill(criterion["text"], width=WIDTH - 4)
    documentation = indent(f'"""{criterion["title"]}.\n\n{text}\n"""', "    ")
    return f"class {name}(ComponentCase):\n{documentation}\n\n" + "\n".join(tests)


def example_file(spec: Spec) -> tuple[str, int]:
    """Return the source of the file with all example tests, and how many there are."""
    classes, count = [], 0
    for criterion in spec["criteria"]:
        if criterion.get("check") == "signatures":
            tests = signature_tests(criterion, spec)
        elif criterion.get("check") == "errors":
            tests = error_tests(criterion, spec)
        else:
            tests = [example_test(criterion, example) for example in criterion.get("examples", ())]
        if tests:
            classes.append(test_class(criterion, tests))
            count += len(tests)
    head = (
        f'"""The examples of {spec["component"]} {spec["version"]}, written from its '
        'specification."""\n\n'
        "from inspect import signature\n\n"
        "from tdkit import ComponentCase, pairs, series\n\n\n"
    )
    return head + "\n\n".join(classes), count


def property_file(spec: Spec) -> tuple[str, int]:
    """Return the source of the file with all property tests, and how many there are."""
    classes, count = [], 0
    for criterion in spec["criteria"]:
        tests = [property_test(criterion, declared) for declared in criterion.get("properties", ())]
        if tests:
            classes.append(test_class(criterion, tests))
            count += len(tests)
    head = (
        f'"""The properties of {spec["component"]} {spec["version"]}, checked on random input '
        'with fixed seeds."""\n\n'
        "from random import Random\n\n"
        "import model\n"
        "from tdkit import ComponentCase, pairs\n\n\n"
    )
    return head + "\n\n".join(classes), count


def read_spec() -> Spec:
    """Return the specification.

    Raises:
        SpecError: It is missing, not YAML, or lacks a part.
    """
    try:
        spec: Spec = yaml.safe_load((WORKSPACE / tdkit.SPEC).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SpecError(f"{tdkit.SPEC} cannot be read: {error}") from error
    missing = {"component", "version", "module", "methods", "errors", "criteria"} - set(spec or {})
    if missing:
        raise SpecError(f"{tdkit.SPEC} lacks {', '.join(sorted(missing))}")
    if spec["module"] != tdkit.COMPONENT_MODULE:
        raise SpecError(f"the component is to be {tdkit.COMPONENT_MODULE}, not {spec['module']}")
    return spec


def write_tests(spec: Spec) -> int:
    """Write both test files and return how many tests they hold.

    Raises:
        SpecError: What came out is not Python, or two tests have one name.
    """
    total = 0
    for path, (source, count) in (
        (tdkit.EXAMPLE_TESTS, example_file(spec)),
        (tdkit.PROPERTY_TESTS, property_file(spec)),
    ):
        try:
            compile(source, path, "exec")
        except SyntaxError as error:
            raise SpecError(f"the tests in {path} are not valid Python: {error}") from error
        names = re.findall(r"def (test_\w+)\(", source)
        if len(set(names)) != count:
            raise SpecError(f"{path} holds {len(set(names))} names for {count} tests")
        tdkit.write_text(path, source)
        tdkit.say(PHASE, f"wrote {path}: {count} tests")
        total += count
    return total


def main() -> int:
    """Write the tests, run them and judge how they failed."""
    try:
        spec = read_spec()
        tdkit.say(
            PHASE,
            f"{spec['component']} {spec['version']}: {len(spec['criteria'])} criteria to meet",
        )
        if (WORKSPACE / tdkit.COMPONENT_FILE).exists():
            raise SpecError(f"{tdkit.COMPONENT_FILE} is there already, so no test can fail first")
        planned = write_tests(spec)
        report = tdkit.run_tests(PHASE)
    except (SpecError, tdkit.PhaseError) as error:
        tdkit.say(PHASE, f"stopped: {error}")
        return SOMETHING_ELSE
    report["component"] = f"{spec['component']} {spec['version']}"
    report["criteria"] = [
        {"id": criterion["id"], "title": criterion["title"]} for criterion in spec["criteria"]
    ]
    path = tdkit.write_report(PHASE, report)
    counts = report["counts"]
    as_it_should = counts["collected"] == planned == counts["component_missing"] > 0
    tdkit.say(
        PHASE,
        f"ran {counts['collected']} tests in {report['duration_s']:.2f} s: "
        f"{counts['component_missing']} fail because the component is missing, "
        f"{counts['collected'] - counts['component_missing']} end otherwise",
    )
    if not as_it_should:
        tdkit.say_failures(PHASE, report)
    tdkit.say(PHASE, f"report in {path}")
    return FAILED_AS_IT_SHOULD if as_it_should else SOMETHING_ELSE


if __name__ == "__main__":
    sys.exit(main())
