"""The arena of a plan as SVG: launches from left to right, bytes upwards, a rectangle for each value."""

import html
import zlib

_WIDTH = 1000
_HEIGHT = 520
_LEFT = 80
_TOP = 56
_BOTTOM = 60
_CHARACTER = 6.2  # points that one takes, about


def draw(plan):
    """SVG of a plan's report (smolder._core)."""
    launches, total = max(plan["launches"], 1), plan["arena_bytes"]
    owners = _owners(plan)
    x_of = lambda launch: _LEFT + _WIDTH * launch / launches  # noqa: E731
    y_of = lambda offset: _TOP + _HEIGHT * (1 - offset / total)  # noqa: E731
    values = [(i, b) for i, b in enumerate(plan["buffers"]) if "offset" in b]
    needed = [_covered(b for _, b in values if _spans(b, launch)) for launch in range(launches)]
    peak = max(range(launches), key=needed.__getitem__)
    title = (
        f"Arena of plan {plan['plan']}: {_size(total)} for {len(values)} values of "
        f"{_size(sum(b['bytes'] for _, b in values))}, {launches} launches"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {_TOP + _HEIGHT + _BOTTOM}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{html.escape(title)}</text>',
        f'<text x="{_LEFT}" y="42" fill="#666">most is needed in launch {peak}, {html.escape(_launch(plan, peak))}: '
        f"{_size(needed[peak])}</text>",
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="#f6f6f4" stroke="#bbb"/>',
    ]
    for i in range(5):
        y = y_of(total * i / 4)
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_size(total * i / 4)}</text>')
    every = max(1, launches // 20)
    for launch in range(0, launches, every):
        x = x_of(launch + 0.5)
        parts.append(f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">{launch}</text>')
    parts.append(f'<text x="{_LEFT + _WIDTH / 2}" y="{_TOP + _HEIGHT + 36}" text-anchor="middle">launch</text>')
    for number, value in values:
        handed_over = (
            [_takes_over(value, other) for _, other in values],
            [_takes_over(other, value) for _, other in values],
        )
        parts.append(_rectangle(plan, value, owners.get(number, ("", "")), x_of, y_of, *map(any, handed_over)))
    parts.append(
        f'<rect x="{x_of(peak):.1f}" y="{_TOP}" width="{_WIDTH / launches:.1f}" height="{_HEIGHT}" fill="none" '
        'stroke="#c33" stroke-dasharray="4 3"/>'
    )
    return "\n".join([*parts, "</svg>\n"])


def _spans(value, launch):
    return value["launches"][0] <= launch <= value["launches"][1]


def _covered(values):
    """Bytes that values take together: one that is written over another has its bytes."""
    total = end = 0
    for begin, size in sorted((v["offset"], v["bytes"]) for v in values):
        total += max(0, begin + size - max(begin, end))
        end = max(end, begin + size)
    return total


def _takes_over(heir, other):
    """Whether a value is written over another, in the launch that reads that for the last time."""
    overlap = heir["offset"] < other["offset"] + other["bytes"] and other["offset"] < heir["offset"] + heir["bytes"]
    return heir is not other and overlap and heir["launches"][0] == other["launches"][1]


def _rectangle(plan, value, owner, x_of, y_of, is_heir, has_heir):
    op, where = owner
    first, last = value["launches"]
    x, y = x_of(first + 0.5 * is_heir), y_of(value["offset"] + value["bytes"])
    width, height = x_of(last + 1 - 0.5 * has_heir) - x, y_of(value["offset"]) - y
    shape = ", ".join(map(str, value["shape"]))
    text = f"{op}: {value['dtype']}[{shape}], {_size(value['bytes'])}"
    about = f"{text}\n{where}\nwritten in launch {first} ({_launch(plan, first)})\nread last in {last}"
    hue = zlib.crc32(op.encode()) % 360
    out = (
        f'<g><title>{html.escape(about)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" fill="hsl({hue} 55% 72%)" stroke="hsl({hue} 45% 40%)" stroke-width="0.7"/>'
    )
    room = int((width - 8) / _CHARACTER)
    if height >= 13 and room >= 4:
        shown = text if len(text) <= room else text[: room - 1] + "…"
        out += f'<text x="{x + 4:.1f}" y="{y + height / 2 + 4:.1f}" pointer-events="none">{html.escape(shown)}</text>'
    return out + "</g>"


def _owners(plan):
    """By buffer: the op whose value it holds, and its line."""
    out = {}
    for step in plan["steps"]:
        for number, _ in step["writes"]:
            out.setdefault(number, (step["name"], step["where"]))
        for op in step["ops"]:
            for number in op["writes"]:
                out[number] = (op["name"], op["where"])
    return out


def _launch(plan, number):
    return ", ".join(step["name"] for step in plan["steps"] if step["launch"] == number)


def _size(count):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"
