"""The decks are sound, and faults planted in a small one are named with their file and line.

The small deck has all faults at once and is built once. No browser runs.
"""

import base64
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from editions.extension.decks import lesson, numbers, own, polls, spare
from normcourse.lesson import Notebook
from tools import deck, grade, lectures

DOT = (  # the smallest PNG: one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
TWO, TOW = (f"EQ-{name}" for name in ("TWO", "TOW"))  # tags of no lesson
ROOT = Path(__file__).parents[1]
WORDS = f"**[{TWO}]**\n$$\ny = a x, \\qquad\nz = b\n$$"


def code(name, source, *outputs):
    return {"id": name, "cell_type": "code", "metadata": {}, "source": source, "outputs": outputs}


def stream(text):
    return {"output_type": "stream", "name": "stdout", "text": text}


def drawing(width, panels):
    about = {"image/png": {"alt": "A dot, and 42% of it.", "width": width, "panels": panels}}
    return {"output_type": "display_data", "data": {"image/png": DOT}, "metadata": about}


CELLS = [
    {"id": "words", "cell_type": "markdown", "metadata": {}, "source": WORDS},
    code("lines", "a = 1\nb = 2\nprint(a)", stream("first 12.5\nsecond 77 %\n")),
    code("runs", "", stream("deep\nnone 21 to 56 %\nlayer_norm 61 to 64 %\nflat\nnone 0 to 9 %\n")),
    code("even", "", stream("all of them 3\nlast of them -3\n")),
    code("long", f"x = '{'long ' * 30}'"),
    code("picture", "plot()", drawing(1, [[0, 0, 1, 1], [0, 0, 1, 1]])),
    code("whole", "plot()", drawing(1, [])),
    code("wide", "plot()", drawing(2000, [[0, 0, 1, 1]])),
]

HEAD = """---
minutes: 4
plan:
  Start: What is $y$?
  End: What then?
---
# A deck

:::{plan}
:::

:::{notes} 1
Welcome.
:::

## A result

:::{begins} Start
:::

"""
PARTS = f""":::{{figure-of}} picture
:steps:
:::

:::{{eq-of}} {TWO}
:mark: a x
:::

:::{{formula-of}} words
:number: 1
:::

:::{{code-of}} lines
:from: b = 2
:to: print
:::

:::{{output-of}} lines
:to: first
:::

It is {{value}}`lines /second (\\d+ %)/`, and {{value}}`words /y = (\\w)/`.

:::{{poll}}
:answer: B
:seen: lines /first (\\S+)/

- about three
- 12
- something else
:::

:::{{poll}}
:answer: A
:seen: lines

- all {{if}}`/second 7/`
- none {{if}}`/second 0/`
:::

:::{{chart-of}} lines
:rows: /(?P<name>\\w+) (?P<value>[\\d.]+)/
:unit: how many, of 77
:axis: 0 100
:colours: first = dyt; second = teal
:steps:
:::

:::{{chart-of}} runs lines
:rows: /^(?P<name>\\w+) (?P<low>\\d+) to (?P<high>\\d+) %/
:groups: /^(deep|flat)$/
:say: none = nothing
:unit: %
:height: 600
:::

:::{{beside}} 60
:::

:::{{chart-of}} picture
:rows: /A (?P<name>dot), and (?P<value>\\d+)%/
:unit: % of it
:::

:::{{table-of}} runs
:rows: /^(\\w+) (\\d+) to (\\d+) %/
:heads: norm | worst | best
:steps: 2
:::

:::{{then}}
:::

The rest.

:::{{sources}} 1910.07467 10.1093/biomet/6.1.1
[Somebody 2016, arXiv 1607.06450](https://arxiv.org/abs/1607.06450)
:::

:::{{notes}} 2
It says 12.5 and 42%.
:::

"""
END = """## Two exercises for the room

:::{begins} End
:::

:::{summary}
- It is 3.
- Nothing.
:::

1. One.
2. Two.

:::{answer}
:::
$25 / 2 = 12.5$, and {value}`lines /first (\\S+)/` is measured.

:::{notes} 1
Go.
:::
"""
FINE = HEAD + PARTS + END

# name -> what is replaced in the deck, by what, and what the build says of it
FAULTS = {
    "cell": ("{figure-of} picture", "{figure-of} pictur", "no cell 'pictur'; near it: picture"),
    "cell-of-code": ("{code-of} lines", "{code-of} line", "no cell 'line'; near it: lines"),
    "tag": (f"{{eq-of}} {TWO}", f"{{eq-of}} {TOW}", f"no formula '{TOW}'; near it: {TWO}"),
    "formula-cell": ("{formula-of} words", "{formula-of} word", "no cell 'word'; near it: words"),
    "formula": (":number: 1", ":number: 2", "formula 2, but words displays 1"),
    "mark": (":mark: a x", ":mark: c x", f"'c x' is no part of {TWO}"),
    "no-figure": ("{figure-of} picture", "{figure-of} lines", "cell lines shows no figure"),
    "no-panels": ("{figure-of} picture", "{figure-of} whole", "a picture without panels"),
    "panel": (":steps:", ":panel: 3", "panel 3, but the picture has 2 panels"),
    "labels": ("{figure-of} picture", "{figure-of} wide", "the smallest labels of wide would be"),
    "steps": (":steps:", ":step:", "step"),
    "from": (":from: b = 2", ":from: b = 3", ":from: 'b = 3' stands in none of its lines"),
    "to": (":to: first", ":to: third", ":to: 'third' stands in none of its lines"),
    "without": (":to: first", ":without: third", ":without: 'third' stands in none of its lines"),
    "long-line": ("{code-of} lines\n:from: b = 2\n:to: print", "{code-of} long", "too long for a"),
    "nothing": ("{output-of} lines\n:to: first", "{output-of} long", "cell long printed nothing"),
    "value-cell": ("{value}`lines", "{value}`line", "no cell 'line'; near it: lines"),
    "value": ("/second (", "/third (", "is not in what lines shows: first 12.5"),
    "value-in-words": ("/y = (", "/y == (", f"is not in what words shows: **[{TWO}]**"),
    "no-pattern": ("{value}`lines /second (\\d+ %)/`", "{value}`lines`", "a cell and a /pattern/"),
    "number": ("The rest.", "The rest is 43 %.", "43 stands in none of the slide's cells"),
    "number-in-a-longer-one": ("The rest.", "The rest is 2.5.", "2.5 stands in none of the slide"),
    "number-in-notes": ("says 12.5", "says 12.6", "12.6 stands in none of the slide's cells"),
    "answer": (":answer: B", ":answer: D", "the answer is D, and the options are A, B, C"),
    "answer-nearest": (":answer: B", ":answer: A", "the answer is A, but lines shows option B"),
    "answer-of-a-share": ("lines /first (\\S+)/", "lines /second (.+)/", "shows option C"),
    "answer-described": (":answer: A", ":answer: B", "the answer is B, but lines shows option A"),
    "answer-unseen": (":seen: lines\n", "", ":seen: CELL /pattern/ says where the lesson shows"),
    "answer-cell": (":seen: lines\n", ":seen: line\n", "no cell 'line'; near it: lines"),
    "answer-pattern": (
        "/first (\\S+)/",
        "/third (\\S+)/",
        "is not in what lines shows: first 12.5",
    ),
    "no-option": ("/second 7/", "/second 8/", "the answer is A, but lines shows none"),
    "two-options": ("/second 0/", "/second/", "the answer is A, but lines shows none"),
    "part-in-words": ("The rest.", "Nine tenths.", "'Nine tenths' is no number of the slide or"),
    "number-in-words": ("It says", "Twenty-five, and", "'Twenty-five' is no number of the slide"),
    "minutes-missing": ("{notes} 2", "{notes}", "1 argument(s) required"),
    "minutes-in-words": ("{notes} 2", "{notes} two", "the minutes of their slide, not 'two'"),
    "minutes-in-sum": ("{notes} 2", "{notes} 20", "take 22 minutes, the deck says 4"),
    "minutes-in-head": ("minutes: 4", "lesson: 4", "the deck says no minutes in its head"),
    "notes-missing": (":::{notes} 1\nGo.\n:::\n", "", "a slide needs notes with its minutes"),
    "notes-too-long": ("Go.", "Go on. " * 100, "200 words, 1.5 minutes of speech, and the"),
    "no-directive": ("{then}", "{pause}", "pause"),
    "no-role": ("{value}`lines", "{valu}`lines", "valu"),
    "third-level": (
        "The rest.",
        "### Aside\n\nThe rest.",
        "3 headings of level 1 or 2, but 4 slides",
    ),
    "open-then": (":::{then}\n:::\n", ":::{then}\n", "then"),
    "open-notes": ("Welcome.\n:::", "Welcome.", "a heading or notes between the fences"),
    "open-figure": (":steps:\n:::", ":steps:", "Has content, but none permitted"),
    "stray-fence": ("The rest.", "The rest.:::", "left in the words"),
    "old-markup": ("The rest.", "{{eq:two}}", "left in the words"),
    "dead-link": ("The rest.", "[a page](../nowhere.md)", "nowhere.md"),
    "no-label": ("The rest.", "[a tag](#eq-nowhere)", "eq-nowhere"),
    "chart-rows": ("(?P<name>\\w+) (?P<v", "(?P<name>x+) (?P<v", "matches none of these lines"),
    "chart-of-alt": ("A (?P<name>dot)", "A (?P<name>dog)", "none of these lines: A dot, and 42%"),
    "chart-pattern": ("(?P<name>\\w+) (?P<v", "(?P<name>\\w+ (?P<v", "is no regular expression"),
    "chart-groups": ("(?P<name>\\w+) (?P<v", "(?P<word>\\w+) (?P<v", "the pattern's groups are"),
    "chart-cell": ("{chart-of} runs", "{chart-of} run", "no cell 'run'; near it: runs"),
    "chart-unit": (":unit: how many, of 77\n", "", ":unit: says what the numbers of a chart are"),
    "chart-number": ("how many, of 77", "how many, of 76", "76 stands in none of the cells"),
    "chart-axis": (":axis: 0 100", ":axis: 0 50", ":axis: 0 50 leaves out 12.5 or 77"),
    "chart-ends": (":axis: 0 100", ":axis: 0", ":axis: wants two numbers, low and high, not '0'"),
    "chart-colour": ("= teal", "= pink", "no colour is called 'pink'; there are none, batch_norm"),
    "chart-say": (":say: none = nothing", ":say: none", "'none' should be: printed = said"),
    "chart-heads": ("deep|flat", "wide|high", ":groups: /^(wide|high)$/ matches none of these"),
    "chart-zero": (":unit: %", ":unit: %\n:log:", ":log: wants numbers above 0, and one is 0"),
    "chart-high": (":height: 600", ":height: 180", "3 rows are too many for one chart"),
    "table-heads": ("| worst | best", "| worst", "2 :heads:, but the pattern has 3 groups"),
    "beside": ("{beside} 60", "{beside} 90", "takes 20 to 80 percent of the width, not '90'"),
    "plan-missing": (":::{plan}\n:::\n", "", "a deck with a plan has one {plan}, not 0"),
    "plan-not-begun": ("{begins} End", "{begins} Ende", "{begins} names ['Start', 'Ende']"),
    "plan-too-long": ("  End: What", f"  {'Very long ' * 7}: What", "has room for 60 letters"),
    "no-plan": ("plan:\n  Start: What is $y$?\n  End: What then?\n", "", "head has no plan"),
    "summary-short": ("- Nothing.\n", "", "1 answers, but the plan has 2 points"),
    "source": ("{sources} 1910.07467", "{sources} 1910.07476", "no '1910.07476'; near it: 1910"),
    "interactive": ("{figure-of} picture\n:steps:", "{interactive-of} picture", "has no figure"),
    "exercise-uncalculated": ("$25 / 2 = 12.5$, and", "It is", "12.5 answers an exercise, and no"),
    "one-exercise": ("2. Two.\n", "", "the last slide has no list of two exercises"),
}


OWN_HEAD = "---\nlogo: dot.png\nlesson: 00_small\n---\n% 42 words that no slide says\n\n"
OWN_SLIDES = """# Monday

:::{mine}
:::

I have 314 norms, about nine tenths of all. ![A dot.](dot.png)

:::{poll}
:answer: B

- all
- some
:::

:::{notes} 1
:::

:::{slides-of} 00_small
A result
Two exercises for the room
:::

## From the lesson

:::{output-of} lines
:::

The first is 12.5.

:::{notes} 1
:::
"""
OWN_FINE = OWN_HEAD + OWN_SLIDES
# decks of one's own that are fine: 02 without one slide is a few lines
OWN = {
    "begun": deck.started(Path("begun.md"), ["02_layer_norm", "05_dyt"], ROOT / "lectures"),
    "code": OWN_FINE.replace("I have", "```python\n# no heading\n```\n\nI have"),
    "monday": OWN_FINE,
    "taken-minutes": OWN_FINE.replace("\nA result\n", "\nA result  % 2 min\n"),
    "without": ":::{slides-of} 00_small\n:without:\n\nA result\n:::\n",
    "whole": ":::{slides-of} 00_small\n:::\n",
    "minutes": f"---\nminutes: 5\n---\n{OWN_SLIDES}".replace("314", "3")
    .replace("## From the lesson", "## Mine\n\n:::{mine}\n:::\n")
    .replace(":::{output-of} lines\n:::\n", ""),
}
# name -> what is replaced in OWN_FINE, by what, what the build says of it, and in which file
OWN_FAULTS = {
    "deck": ("{slides-of} 00_small", "{slides-of} 00_smal", "no deck lectures/00_smal.md; near it"),
    "slide": ("\nA result", "\nA resul", "has no slide 'A resul'; near it: A result"),
    "nothing-left": (
        OWN_SLIDES,
        ":::{slides-of} 00_short\n:without:\n\nA short deck\n:::",
        "no slide",
    ),
    "without-what": (
        "00_small\nA result\nTwo exercises for the room",
        "00_small\n:without:",
        "wants",
    ),
    "not-marked": (":::{mine}\n:::\n\n", "", "314 stands in none of the slide's cells"),
    "whose-picture": (":::{mine}\n:::\n\n", "", "write :::{mine} on this slide"),
    "whose-poll": (":::{mine}\n:::\n\n", "", "without it write :::{mine} on this slide"),
    "poll-letter": (":answer: B", ":answer: C", "the answer is C, and the options are A, B"),
    "no-lesson": ("lesson: 00_small\n", "", "names no lesson to take it from"),
    "whose": ("lesson: 00_small\n", "", "or :::{mine} on this slide if it is your own"),
    "no-title": ("# Monday", "## Monday", "the deck begins without a title"),
    "taken-without-title": (
        OWN_SLIDES,
        ":::{slides-of} 00_small\nA result\n:::",
        "without a title",
    ),
    "no-alt": ("![A dot.]", "![]", "has no text for those who do not see it"),
    "network": ("(dot.png)", "(https://example.org/dot.png)", "needs a network"),
    "no-picture": ("(dot.png)", "(dott.png)", "dott.png"),
    "no-logo": ("logo: dot.png", "logo: dott.png", "dott.png"),
    "no-slide": ("## From the lesson\n", "", "no slide has this: write a heading"),
    "own-notes": (":::{notes} 1\n:::\n\n:::{s", ":::{s", "a slide needs notes with its minutes"),
    "own-minutes": ("lesson: 00_small", "lesson: 00_small\nminutes: 9", "the deck says 9"),
    "number-by-the-rules": ("is 12.5", "is 12.6", "12.6 stands in none of the slide's cells"),
}


DECKS = {path.stem: path for path in sorted((ROOT / "lectures").glob("[0-9]*.md"))}


def deck_name(fault):
    return f"00_small--{fault}"


def planted(fault):
    old, new, _ = FAULTS[fault]
    assert old in FINE, fault
    return FINE.replace(old, new, 1)


def own_name(fault):
    return f"my/lectures/{fault}"


def own_planted(fault):
    old, new, _ = OWN_FAULTS[fault]
    assert old in OWN_FINE, fault
    return OWN_FINE.replace(old, new, 1)


@pytest.fixture(scope="module")
def complaints(tmp_path_factory):
    """{deck: what the build says of it}, from one build of all decks."""
    folder = tmp_path_factory.mktemp("decks")
    notebook = {"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "00_small.ipynb").write_text(json.dumps(notebook))
    for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"):
        (folder / path.name).symlink_to(path)
    texts = {"00_small": FINE, "09_nobody": FINE} | {
        name: path.read_text("utf-8") for name, path in DECKS.items()
    }
    texts |= {deck_name(fault): planted(fault) for fault in FAULTS}
    texts |= {
        "00_short": FINE.partition("## ")[0],
        "00_small--mine": FINE.replace("The", ":::{mine}\n:::\nThe"),
    }
    own = {f"my/lectures/{name}": text for name, text in OWN.items()}
    own |= {own_name(fault): own_planted(fault) for fault in OWN_FAULTS}
    own["my/lectures/through"] = OWN_FINE.replace(
        "{slides-of} 00_small", "{slides-of} 00_small--number"
    )
    (folder / "my" / "lectures").mkdir(parents=True)
    (folder / "my" / "lectures" / "dot.png").write_bytes(base64.b64decode(DOT))
    texts |= own
    decks = []
    for name, text in texts.items():
        decks.append(folder / f"{name}.md")
        decks[-1].write_text(text, "utf-8")
    without_npm = ["-b", "dummy", "-D", "html_static_path=static", "-D", f"course_decks={folder}"]
    with pytest.MonkeyPatch.context() as elsewhere:  # as on a CI server, or on a desk in Ankara
        elsewhere.setenv("FORCE_COLOR", "1")
        elsewhere.setenv("LC_ALL", "tr_TR.UTF-8")
        lines = "\n".join(lectures.draft(decks, folder, folder / "build", *without_npm))
    found = {name: [] for name in texts}
    for part in re.split(r"\n(?=(?:my/)?lectures/)", f"\n{lines}"):
        name = re.match(r"(?:lectures/)?((?:my/lectures/)?[\w-]+)\.md", part)
        if name:
            found[name[1]].append(part)
    return found


@pytest.mark.parametrize("name", ["00_small", *DECKS, *map(own_name, OWN)])
def test_a_deck_without_faults_is_built(complaints, name):
    assert complaints[name] == []


def test_there_are_decks():
    assert len(DECKS) >= 9


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_with_its_line(complaints, fault):
    said = complaints[deck_name(fault)]
    expected = FAULTS[fault][2]
    assert any(expected in line for line in said), said
    assert any(re.match(r"lectures/\S+\.md:\d+: ", line) for line in said), said


@pytest.mark.parametrize("fault", OWN_FAULTS)
def test_each_fault_of_a_deck_of_ones_own_is_named_with_its_line(complaints, fault):
    said = complaints[own_name(fault)]
    expected = OWN_FAULTS[fault][2]
    assert any(expected in line for line in said), said
    assert any(re.match(r"my/lectures/\S+\.md:\d+: ", line) for line in said), said


def test_a_fault_of_a_slide_that_was_taken_is_named_in_its_own_file(complaints):
    (here, there) = complaints[deck_name("number")]
    assert here == there
    assert complaints["my/lectures/through"] == []


def test_a_deck_of_the_course_is_nobodys_own(complaints):
    (line,) = complaints["00_small--mine"]
    assert "{mine} is for a deck of your own, in my/lectures" in line


def test_a_deck_without_a_lesson_is_named(complaints):
    assert any("there is no notebook 09_nobody.ipynb" in line for line in complaints["09_nobody"])


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("about a third", 1 / 3), ("nine tenths", 0.9), ("23 to 37 %", 0.3), ("−8 and 8", 8),
        ("between 3 and 4", 3.5), ("four thousand", 4000), ("sixty-four", 64), ("1.1e-12", 1.1e-12),
        ("nothing", 0), ("half as many", 0.5), ("it depends on the row", None), ("160 µs", 160),
    ],
)  # fmt: skip
def test_the_number_of_an_option(words, value):
    found = numbers.value_of(words)
    assert found == (value if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("found", "options", "right"),
    [
        (["0.1"], ["1", "one half", "one tenth", "0"], 2),
        (["0.00"], ["nothing", "a quarter", "nearly all"], 0),
        (["1e-12"], ["1", "0.001", "much less"], 2),
        (["43%", "0.03%"], ["as many", "half as many", "none"], 2),
        (["5"], ["1", "2"], None),  # near to neither
        (["5"], ["1", "more", "less"], None),
    ],
)
def test_the_option_that_the_lesson_decides_for(found, options, right):
    assert polls.nearest(found, options) == right


README = (ROOT / "lectures" / "README.md").read_text("utf-8")


def test_each_deck_says_in_the_readme_what_it_presumes():
    """In the head of the deck, and word by word in lectures/README.md."""
    for name, path in DECKS.items():
        head, _ = lesson.head_and_slides(path.read_text("utf-8"))
        assert f"| [{name}]({name}.md) | {head['presumes']} |" in README, name


def test_the_slides_that_the_readme_would_show_again_are_there():
    found = re.findall(r"\b(\d\d): ((?:“[^”|]+”(?:, )?)+)", README)
    assert len(found) > 9
    for number, headings in found:
        (path,) = (path for name, path in DECKS.items() if name.startswith(number))
        there = own.slides_in(path.read_text("utf-8"))
        assert set(re.findall("“(.+?)”", headings)) <= set(there), number


@pytest.mark.parametrize("name", DECKS)
def test_each_deck_says_what_can_be_left_out_and_what_laptops_are_for(name):
    """In its head and in lectures/README.md; the exercise needs no cell but the setup."""
    page = Notebook(ROOT / "notebooks" / f"{name}.ipynb")
    found = spare.spare(DECKS[name].read_text("utf-8"), page)
    assert found.row(name) in README
    course = grade.lesson_at(page.path)
    solved = Notebook(ROOT / "notebooks" / "solutions" / f"{name}.ipynb")
    stub = f"ex{found.exercise}-stub"
    answers = {cell.id: cell.source for cell in solved.cells if cell.id in course.stubs}
    for asked in course.asked:
        if asked.cell == f"ex{found.exercise}-check":
            needed = grade.needed_cells(course.cells, asked, answers)
            assert [cell.id for cell in needed] == ["setup", stub]


@pytest.mark.parametrize(
    ("there", "instead", "said"),
    [
        ("behind: A result", "behind: A resul", "names a slide 'A resul'; near it: A result"),
        ("exercise: 1", "exercise: 7", "names exercise 7, and 00_small has none of it"),
        ("{notes} 2", "{notes} 1", "exercise 1 takes 3 minutes, and the slides that the head"),
    ],
)
def test_what_a_head_leaves_out_is_there_and_long_enough(there, instead, said):
    page = SimpleNamespace(name="00_small", exercises=[SimpleNamespace(number=1, minutes=3)])
    text = FINE.replace("plan:", "late: [A result]\nlaptop: {exercise: 1, behind: A result}\nplan:")
    found = spare.spare(text.replace("behind: A result", "behind: 'A result'"), page)
    assert "leave out “A result”: 2 minutes" in found.sentences()
    assert "Behind “A result” pairs solve exercise 1" in found.sentences()
    assert there in text
    with pytest.raises(lesson.Misfit, match=re.escape(said)):
        spare.spare(text.replace(there, instead), page)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["monday"], "is there already, and stays as it is: choose another NAME"),
        (["a/b"], "A deck's name has letters, digits, _ and -, not 'a/b'"),
        (["sunday", "02_layer"], "there is no deck lectures/02_layer.md; near it: 02_layer_norm"),
    ],
)
def test_a_deck_that_cannot_be_begun(tmp_path, arguments, said):
    (tmp_path / "monday.md").write_text("mine")
    with pytest.raises(SystemExit, match=re.escape(said)):
        deck.main(arguments, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["monday.md"]
    assert (tmp_path / "monday.md").read_text() == "mine"


def test_a_printed_deck_does_not_tell_when_it_was_printed():
    pdf = b"<</CreationDate (D:20261122055500+00'00')\n/ModDate (D:20261122055500+00'00')>>"
    assert b"20261122" not in lectures.as_if_first(pdf)
    assert len(lectures.as_if_first(pdf)) == len(pdf)


def test_the_headings_of_a_printed_table_are_counted_from_the_deck_s_own_first():
    pages = [b"(node00005537) (node00005540) [(node00005537)]", b"(node00000001) (node00000004)"]
    assert lectures.as_if_first(pages[0]) == b"(node00000000) (node00000001) [(node00000000)]"
    assert lectures.as_if_first(pages[1]) == b"(node00000000) (node00000001)"
