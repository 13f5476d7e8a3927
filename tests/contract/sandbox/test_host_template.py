"""Templates of the own host: what begins with one is equal to it, and to nothing else."""

from __future__ import annotations

import os
import random

import pytest

from agentforge_sessions.sandbox.host.template import Template, TemplateImage
from tests.support.wasm_probe import PAGE, Probe

SIZE = 32 * PAGE


def prepared() -> Template:
    probe = Probe()
    chance = random.Random(1)
    for _ in range(20):
        probe.put(chance.randbytes(3000), chance.randrange(SIZE - 3000))
    template = Template(TemplateImage.of(probe.instance))
    probe.close()
    return template


@pytest.fixture
def template() -> Template:
    return prepared()


def test_an_instance_begins_with_the_templates_memory(template: Template) -> None:
    for _ in range(3):
        probe = Probe()
        template.begin(probe.instance)
        assert template.is_memory_of(probe.instance)
        probe.close()


def test_what_one_instance_writes_no_other_sees(template: Template) -> None:
    one, other = Probe(), Probe()
    template.begin(one.instance)
    template.begin(other.instance)
    one.put(b"of one alone", 5000)
    assert not template.is_memory_of(one.instance)
    assert template.is_memory_of(other.instance)
    later = Probe()
    template.begin(later.instance)
    assert template.is_memory_of(later.instance)
    for probe in (one, other, later):
        probe.close()


def test_a_template_cannot_be_changed(template: Template) -> None:
    with pytest.raises(PermissionError):
        os.pwrite(template._fd, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(template._fd, 0)


def test_an_instance_is_the_template_again_whatever_it_wrote(template: Template) -> None:
    probe = Probe()
    template.begin(probe.instance)
    chance = random.Random(2)
    for turn in range(30):
        for _ in range(turn):
            probe.put(chance.randbytes(chance.randrange(9000)), chance.randrange(SIZE - 9000))
        assert template.restore(probe.instance)
        assert template.is_memory_of(probe.instance)
    probe.close()


def test_an_instance_that_grew_is_not_restored(template: Template) -> None:
    probe = Probe()
    template.begin(probe.instance)
    probe.call("grow", 1)
    assert not template.restore(probe.instance)
    probe.close()


def test_a_template_that_is_larger_than_a_new_instance_is_grown_into() -> None:
    grown = Probe()
    grown.call("grow", 3)
    grown.put(b"at the end", SIZE + 3 * PAGE - 10)
    template = Template(TemplateImage.of(grown.instance))
    probe = Probe()
    template.begin(probe.instance)
    assert bytes(probe.instance.memory.view(SIZE + 3 * PAGE - 10, 10)) == b"at the end"
    assert template.is_memory_of(probe.instance)
    grown.close()
    probe.close()
