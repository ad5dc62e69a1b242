"""Draws what a device did as a picture: a row for what is computed, one for collectives beside it.

`python benchmarks/timeline_svg.py TRACE.json PICTURE.svg [--from MS] [--ms MS] [--title TEXT]`

The trace is one that `profile.export_chrome_trace` wrote, Smolder's or PyTorch's. Time runs to the right; what is under the
pointer is named. The last row has the moments in which a collective is under way and nothing is computed.
"""

import argparse
import gzip
import json
from xml.sax.saxutils import escape, quoteattr

__all__ = ["intervals_of", "picture", "share_hidden"]

WIDTH, HEIGHT, LEFT = 1400, 26, 120
ROWS = (("computed", "#4878a8"), ("collectives", "#c8743c"), ("not hidden", "#b03030"))


def intervals_of(path):
    """(begin, end, name) in milliseconds of what a device computed, and of its collectives."""
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    computed, collectives = [], []
    for e in events:
        if e.get("ph") != "X" or e.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        span = (e["ts"] / 1e3, (e["ts"] + e["dur"]) / 1e3, e["name"])
        if e["name"].startswith(("nccl: ", "ncclDev", "ncclKernel")):
            collectives.append(span)
        elif not e["name"].startswith("dist::"):  # where the queue only waits
            computed.append(span)
    return sorted(computed), sorted(collectives)


def _joined(spans):
    out = []
    for begin, end, *_ in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def _without(spans, others):
    """The parts of joined spans that are in none of the others."""
    out, others = [], _joined(others)
    for begin, end in _joined(spans):
        for a, b in others:
            if b <= begin or a >= end:
                continue
            if a > begin:
                out.append([begin, a])
            begin = max(begin, b)
        if begin < end:
            out.append([begin, end])
    return out


def share_hidden(computed, collectives):
    """Milliseconds in which collectives are under way, and the share of these in which something is computed, too."""
    under_way = sum(end - begin for begin, end in _joined(collectives))
    alone = sum(end - begin for begin, end in _without(collectives, computed))
    return under_way, 1.0 - alone / under_way if under_way else 1.0


def picture(computed, collectives, title="", begin=None, length=None):
    """SVG, as text."""
    first = min((s[0] for s in computed + collectives), default=0.0) if begin is None else begin
    last = max((s[1] for s in computed + collectives), default=1.0) if length is None else first + length
    scale = (WIDTH - LEFT) / max(last - first, 1e-9)
    exposed = [(a, b, "nothing is computed") for a, b in _without(collectives, computed)]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT * 5 + 20}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="4" y="16">{escape(title)}</text>',
    ]
    for row, ((name, colour), spans) in enumerate(zip(ROWS, (computed, collectives, exposed), strict=True)):
        y = 26 + row * (HEIGHT + 6)
        out.append(f'<text x="4" y="{y + 17}">{name}</text>')
        for a, b, what in spans:
            if b < first or a > last:
                continue
            x, w = LEFT + (max(a, first) - first) * scale, (min(b, last) - max(a, first)) * scale
            label = f"{what}: {(b - a) * 1e3:.1f} us"
            out.append(
                f'<rect x="{x:.2f}" y="{y}" width="{max(w, 0.15):.2f}" height="{HEIGHT}" fill="{colour}"><title>'
                f"{escape(label)}</title></rect>"
            )
    y = 26 + 3 * (HEIGHT + 6) + 12
    for k in range(11):
        x = LEFT + k * (WIDTH - LEFT) / 10
        anchor = "end" if k == 10 else "middle"
        out.append(
            f"<text x={quoteattr(f'{x:.0f}')} y='{y}' text-anchor='{anchor}'>{(last - first) * k / 10:.1f} ms</text>"
        )
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("picture")
    parser.add_argument("--from", dest="begin", type=float, help="milliseconds after the first event")
    parser.add_argument("--ms", type=float, help="how many are drawn; all, if not said")
    parser.add_argument("--title", default="")
    args = parser.parse_args()
    computed, collectives = intervals_of(args.trace)
    first = min(s[0] for s in computed + collectives)
    text = picture(computed, collectives, args.title, first + (args.begin or 0.0), args.ms)
    with open(args.picture, "w") as file:
        file.write(text)
    under_way, hidden = share_hidden(computed, collectives)
    print(f"collectives {under_way:.2f} ms, {hidden:.1%} beside what is computed")


if __name__ == "__main__":
    main()
