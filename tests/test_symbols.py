"""The page of symbols is what the lessons say, and in one lesson a letter has one meaning."""

import symbols

LINE = (
    r"$x$ one row; $\mu$ its mean, $\sigma^{2}$ its variance, so that $\sigma$ is a size; "
    r"$l$ and $u$ two limits of $y$; $g_{i} = 2 x_{i}$ a gradient. By hand, $D = 2$ is enough."
)


def test_a_line_is_read_into_its_entries():
    found = symbols.entries_of("09", LINE)
    assert [(entry.letter, entry.meaning) for entry in found] == [
        ("x", "one row"),
        (r"\mu", "its mean"),
        (r"\sigma", r"its variance, so that $\sigma$ is a size"),
        ("l", "two limits of $y$"),
        ("u", "two limits of $y$"),
        ("g", "a gradient"),
    ]


def test_an_accent_and_a_named_index_make_another_symbol():
    letters = [
        symbols.letter_of(f) for f in (r"$\hat{x}_{n}$", r"$\sigma_{\mathrm{max}}$", "$x_{i}$")
    ]
    assert letters == [r"\hat{x}", r"\sigma_{\mathrm{max}}", "x"]


def test_a_second_meaning_is_found():
    found = symbols.entries_of("09", "$c$ a channel; $d$ a distance.")
    again = symbols.entries_of("09", "$c_{i}$ a constant; $d$ a distance.")
    elsewhere = symbols.entries_of("08", "$d$ a width.")
    (clash,) = symbols.clashes(found + again + elsewhere)
    assert "lesson 09: c is 'a channel' and 'a constant'" in clash


def test_the_page_is_what_the_lessons_say():
    """After a change of a lesson's symbols: `python tools/symbols.py`."""
    assert symbols.PAGE.read_text("utf-8") == symbols.page(symbols.entries())


def test_in_one_lesson_a_letter_has_one_meaning():
    clashes = symbols.clashes(symbols.entries())
    assert not clashes, "\n".join(clashes)
