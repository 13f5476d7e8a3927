import pytest

from durations import parse


@pytest.mark.parametrize(("text", "seconds"), [("45s", 45), ("1h30m", 5400), ("2d", 172_800)])
def test_a_duration_has_seconds(text: str, seconds: int) -> None:
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1h and a bit"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse(text)
