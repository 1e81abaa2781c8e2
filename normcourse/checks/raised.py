"""What an error of Python or torch means, in plain words, behind its own message.

A reader who is new to torch meets the same few again and again. A key is a part of the message;
the first one that stands in it counts.
"""

MEANS = {
    "could not infer output dtype": (
        "true and false, or whole numbers, have no mean; .double() makes numbers of them"
    ),
    "Boolean value of Tensor": (
        "`if`, `or`, `and`, `any(…)` and `max(…)` take one true or false, and that is a tensor of "
        "them. Compare one number of each, or use &, |, .any(-1)"
    ),
    "to numerator/denominator": (
        "statistics.mean wants a list of numbers. A tensor has .mean() and .std(); where each "
        "entry is a list or None, pick one number of it first"
    ),
    "'list' object has no attribute": "that is a list: use len, sum, max, or make a tensor of it",
    "for /: 'list'": "a list cannot be divided: divide each of its numbers",
    "torch.return_types": "sort, max and cummax return two tensors; the numbers are .values",
    "converted to an index": (
        "a list takes no tensor as index; and sort, max and cummax return two tensors, of which "
        "the numbers are .values"
    ),
    "'NoneType'": "something there is None: a `return` is missing, or a value that not all have",
    "index out of range": "a list, or a shape, is shorter there than your code expects",
    "StopIteration": "next(…) found nothing: what does your code do then",
    "is an empty sequence": "there is nothing to choose from: what does your code do then",
    "at least one data point": "there is nothing to average: what does your code do then",
    "must match the size": "two parts that meet there are not equally long",
    "must have the same dtype": "the two types differ: take that of the tensor you were given",
    "slice indices must be integers": "half of a number is written n // 2",
    "recursion depth": "your function calls itself without an end: at which size does it stop",
    "only one element tensors": "math.sqrt takes one number; a tensor has .sqrt()",
    "positional arguments but": (
        "a function has other arguments than it was given; the check gives those of the stub"
    ),
    "active drivers": "Triton finds no GPU, and the check's device knows the ten lines alone",
    "module 'triton.language' has no attribute": "build it of tl.sum, tl.where and tl.rsqrt",
    "'tensor' object has no attribute": "in a kernel the functions are tl.sum, tl.where, tl.rsqrt",
    "axis 1 out of bounds": "a block has one axis, number 0",
}


def one_line(error: BaseException) -> str:
    """The type of an error, the first line of its message, and what that means if we know it."""
    lines = str(error).splitlines()
    said = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
    meaning = next((words for part, words in MEANS.items() if part in said), None)
    return said if meaning is None else f"{said} ({meaning}.)"
