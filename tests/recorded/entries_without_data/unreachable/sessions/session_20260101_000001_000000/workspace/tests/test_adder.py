from adder import add


def test_ac_01_two_numbers_are_added():
    assert add(1, 2) == 3
