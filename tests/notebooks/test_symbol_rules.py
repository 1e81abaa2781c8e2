"""Lines of symbols are read as they are meant."""

from tests.notebooks.symbol_rules import entries_of, letter_of

LINE = (
    r"$x$ one row; $\mu$ its mean, $\sigma^{2}$ its variance, so that $\sigma$ is a size; "
    r"$l$ and $u$ two limits of $y$; $g_{i} = 2 x_{i}$ a gradient. By hand, $D = 2$ is enough."
)


def test_a_line_is_read_into_its_entries():
    assert entries_of(LINE) == [
        ("x", "one row"),
        (r"\mu", "its mean"),
        (r"\sigma", r"its variance, so that $\sigma$ is a size"),
        ("l", "two limits of $y$"),
        ("u", "two limits of $y$"),
        ("g", "a gradient"),
    ]


def test_an_accent_and_a_named_index_make_another_symbol():
    letters = [letter_of(f) for f in (r"$\hat{x}_{n}$", r"$\sigma_{\mathrm{max}}$", "$x_{i}$")]
    assert letters == [r"\hat{x}", r"\sigma_{\mathrm{max}}", "x"]
