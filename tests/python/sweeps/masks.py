"""Masks of attention: which are taken, and which are mistakes."""


def fill(m):
    for i, (_, p) in enumerate(sorted(m.state_dict().items())):
        p.copy_(T.tensor(np.random.default_rng(i).uniform(-0.5, 0.5, tuple(p.shape)).astype("float32")))
    return m


ones = lambda *s: T.ones(*s, dtype=T.bool)
upper = lambda n: T.triu(ones(n, n), 1)
MASKS = {
    "none": lambda: {},
    "causal": lambda: dict(attn_mask=upper(3)),
    "causal hint": lambda: dict(attn_mask=upper(3), is_causal=True),
    "hint alone": lambda: dict(is_causal=True),
    "float": lambda: dict(attn_mask=arr(3, 3)),
    "heads": lambda: dict(attn_mask=arr(4, 3, 3)),
    "padding": lambda: dict(key_padding_mask=T.tensor([[False, False, True], [False, True, True]])),
    "padding float": lambda: dict(key_padding_mask=arr(2, 3)),
    "both": lambda: dict(attn_mask=upper(3), key_padding_mask=T.tensor([[False, False, True], [False, True, True]])),
    "mixed": lambda: dict(attn_mask=arr(3, 3), key_padding_mask=~ones(2, 3)),
    "integers": lambda: dict(attn_mask=T.ones(3, 3, dtype=T.int64)),
    "integer padding": lambda: dict(key_padding_mask=T.ones(2, 3, dtype=T.int64)),
    "wide": lambda: dict(attn_mask=arr(4, 4)),
    "few heads": lambda: dict(attn_mask=arr(2, 3, 3)),
    "flat": lambda: dict(attn_mask=arr(3)),
    "flat padding": lambda: dict(key_padding_mask=~ones(3)),
    "other batch": lambda: dict(key_padding_mask=~ones(3, 3)),
    "other length": lambda: dict(key_padding_mask=~ones(2, 4)),
}
for name, made in MASKS.items():
    for weights in (True, False):
        attend = lambda x: fill(nn.MultiheadAttention(8, 2, batch_first=True))(x, x, x, need_weights=weights, **made())
        case(f"attention {name} {weights}", lambda: [y for y in attend(arr(2, 3, 8)) if y is not None])


def encoded(given):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    named = {"attn_mask": "mask", "key_padding_mask": "src_key_padding_mask"}
    return fill(nn.TransformerEncoder(layer, 2))(arr(2, 3, 8), **{named.get(k, k): v for k, v in given.items()})


for name, made in MASKS.items():
    case(f"encoder {name}", lambda: encoded(made()))
for name in ("causal", "float"):
    one = lambda x: fill(nn.MultiheadAttention(8, 2))(x, x, x, **MASKS[name]())
    case(f"one sequence {name}", lambda: one(arr(3, 8)))
case("one sequence, heads", lambda: fill(nn.MultiheadAttention(8, 2))(*[arr(3, 8)] * 3, attn_mask=arr(2, 3, 3)))
case(
    "one sequence, batch of padding",
    lambda: nn.MultiheadAttention(8, 2)(*[arr(3, 8)] * 3, key_padding_mask=~ones(1, 3)),
)
