"""tools/density.py counts what it says, on every Python alike."""

from tools import density

SOURCE = '''"""A module
of two lines."""

# a comment
a, b = f(1), g(2)  # packed
c, d = 1, 2


def h(x):
    """A docstring."""
    return f"{x + 1} and {x:>{2}}"
'''


def test_comments_and_docstrings_are_not_counted_and_an_f_string_is_one_token():
    counted = density.Density()
    assert counted.add(SOURCE) == 4
    # a , b = f ( 1 ) , g ( 2 ); c , d = 1 , 2; def h ( x ) :; return and the string
    assert counted.tokens == 13 + 7 + 6 + 2
    assert counted.packed == 1
    assert counted.wide == 0


def test_a_line_of_101_columns_is_wide():
    counted = density.Density()
    counted.add("x = " + "1" * 96 + "\n")
    counted.add("x = " + "1" * 97 + "\n")
    assert counted.wide == 1
