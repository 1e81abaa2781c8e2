"""Colors and markers of the course's figures: a norm has its own, in a lesson as on a slide."""

# norm: (color, marker); cool colors use statistics of the data, warm ones act pointwise
STYLE = {
    "none": ("#555555", ""),
    "batch_norm": ("#00875F", "s"),
    "layer_norm": ("#0A3F67", "o"),
    "rms_norm": ("#1E8CFF", "^"),
    "group_norm": ("#4B0FFF", "P"),
    "instance_norm": ("#3C0F00", "X"),
    "dyt": ("#D55E00", "D"),
    "dyisru": ("#C577AB", "v"),
    "derf": ("#FF3D3D", "8"),
    "weight_norm": ("#7A6A00", "h"),
    "dyt_sqrt_d": ("#8A3D00", "d"),
    "dyisru_sqrt_d": ("#8E3B78", ">"),
    "softcap": ("#A30000", "p"),
    "qk_norm": ("#006B8F", "<"),
    "rms_norm_qk": ("#0055AA", "*"),
}
COLOURS = {  # for series that are no norm
    "black": "#222222",
    "grey": "#8A8A8A",
    "blue": "#33608C",
    "rose": "#B5475A",
    "olive": "#8A6D00",
    "violet": "#6A51A3",
    "teal": "#2A7F86",
}


def ink(color: str) -> str:
    """The color #rrggbb, dark enough for text: a contrast of 4.5 on white or more."""
    channels = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return "#" + "".join(f"{round(0.75 * channel * 255):02x}" for channel in channels)
