"""Serves a Llama: answers several prompts at once, a token at a time, from weights in safetensors files.

    python examples/generate.py [--model FOLDER] [--int8] [--device cuda] [--tokens N] [PROMPT ...]

FOLDER is laid out as on the Hugging Face hub: config.json, *.safetensors and tokenizer.json, which the package
`tokenizers` reads. Without one a small model of bytes is trained on this file for a moment, to have something to say.
Keys and values of earlier tokens stay in a cache of fixed size, so that every token is the same step. --int8 keeps
the weights of the products as eight-bit integers.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import smolder
from smolder import nn
from smolder.nn import functional as F

SMALL = {
    "vocab_size": 256,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


class Int8Linear(nn.Module):
    """A product with a weight of int8, each row of which has a scale."""

    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.abs().amax(1).clamp_min(1e-8) / 127
        self.register_buffer("weight", (linear.weight / scale.unsqueeze(1)).round().to(smolder.int8))
        self.register_buffer("scale", scale)

    def forward(self, x):
        rows = smolder._weight_int8pack_mm(x.flatten(0, -2), self.weight, self.scale)
        return rows.unflatten(0, x.shape[:-1])


def to_int8(module):
    """Turns the linear layers of a module into layers of int8 weights."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            to_int8(child)


class Cache:
    """Keys and values of a layer's earlier tokens, [requests, heads, length, width]."""

    def __init__(self, requests, heads, length, width, dtype):
        self.k = smolder.zeros(requests, heads, length, width, dtype=dtype)
        self.v = smolder.zeros(requests, heads, length, width, dtype=dtype)

    def put(self, at, k, v):
        """Writes those of tokens at places [requests, tokens]; returns all."""
        at = at[:, None, :, None].expand_as(k)
        return self.k.scatter_(2, at, k), self.v.scatter_(2, at, v)


def turn(x, cos, sin):
    """Rotary positions (Su et al. 2021), halves beside each other as in Llama's files."""
    a, b = x.chunk(2, -1)
    return smolder.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, self.heads, self.kv_heads = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
        self.width = c.get("head_dim") or width // self.heads
        self.q_proj = nn.Linear(width, self.heads * self.width, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * self.width, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * self.width, bias=False)
        self.o_proj = nn.Linear(self.heads * self.width, width, bias=False)

    def forward(self, x, at, cos, sin, mask, cache):
        q, k, v = (
            p(x).unflatten(-1, (-1, self.width)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        if cache is not None:
            k, v = cache.put(at, k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn, self.mlp = Attention(c), Mlp(c)
        self.input_layernorm = nn.RMSNorm(c["hidden_size"], c.get("rms_norm_eps", 1e-5))
        self.post_attention_layernorm = nn.RMSNorm(c["hidden_size"], c.get("rms_norm_eps", 1e-5))

    def forward(self, x, *attention):
        x = x + self.self_attn(self.input_layernorm(x), *attention)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Scores of the next token, [requests, tokens, vocabulary]; parameters have the names of Llama's files."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.model.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.model.norm = nn.RMSNorm(c["hidden_size"], c.get("rms_norm_eps", 1e-5))
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        if c.get("tie_word_embeddings"):
            self.lm_head.weight = self.model.embed_tokens.weight

    def caches(self, requests, length):
        """An empty cache for each layer."""
        a, dtype = self.model.layers[0].self_attn, self.model.embed_tokens.weight.dtype
        return [Cache(requests, a.kv_heads, length, a.width, dtype) for _ in self.model.layers]

    def forward(self, tokens, at, caches=None):
        """Tokens at places `at`, both [requests, tokens], each of which sees the places up to its own."""
        x = self.model.embed_tokens(tokens)
        width = self.model.layers[0].self_attn.width
        turns = self.c.get("rope_theta", 10000.0) ** (-smolder.arange(0, width, 2) / width)
        angles = (at[..., None] * turns).unsqueeze(1)  # [requests, 1, tokens, width / 2]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        length = caches[0].k.size(2) if caches else tokens.size(1)
        mask = (smolder.arange(length) <= at[..., None]).unsqueeze(1)
        for i, layer in enumerate(self.model.layers):
            x = layer(x, at, cos, sin, mask, caches[i] if caches else None)
        return self.lm_head(self.model.norm(x))


def sample(scores, temperature, top_k, top_p):
    """One token of each row of scores, [requests]. A temperature of 0 takes the best."""
    if temperature == 0:
        return scores.argmax(-1)
    best, order = (scores.float() / temperature).topk(min(top_k, scores.size(-1)))
    p = best.softmax(-1)
    p = p.masked_fill(p.cumsum(-1) - p > top_p, 0.0)  # the best always stays
    return order.gather(-1, smolder.multinomial(p, 1)).squeeze(-1)


def generate(model, prompts, tokens, temperature=0.8, top_k=50, top_p=0.95):
    """Yields the next token of all requests, a list of their numbers, `tokens` times.

    Prompts of any lengths, lists of tokens, are one batch: shorter ones are filled up behind, and what stands there is
    overwritten before anything sees it.
    """
    with smolder.no_grad():
        lengths = smolder.tensor([len(p) for p in prompts])
        longest = max(map(len, prompts))
        text = smolder.tensor([p + [0] * (longest - len(p)) for p in prompts])
        caches = model.caches(len(prompts), longest + tokens)
        scores = model(text, smolder.arange(longest).expand_as(text), caches)
        scores = scores[smolder.arange(len(prompts)), lengths - 1]
        for n in range(tokens):
            new = sample(scores, temperature, top_k, top_p)
            yield new.tolist()
            scores = model(new.unsqueeze(1), (lengths + n).unsqueeze(1), caches)[:, 0]


def small_model(steps):
    """A model of bytes that has read this file, and its encoder and decoder."""
    model = Llama(SMALL)
    text = smolder.tensor(list(Path(__file__).read_bytes()))
    optimizer = smolder.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        at = smolder.randint(0, len(text) - 65, (16, 1)) + smolder.arange(65)
        scores = model(text[at[:, :-1]], smolder.arange(64).expand(16, 64))
        loss = F.cross_entropy(scores.flatten(0, 1), text[at[:, 1:]].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        smolder.mark_step()
    return model, lambda s: list(s.encode()), lambda t: bytes(t).decode(errors="replace")


def load_model(folder, dtype):
    """A model of a folder as on the hub, and its tokenizer's encoder and decoder."""
    from tokenizers import Tokenizer

    with smolder.device("meta"):
        model = Llama(json.loads((folder / "config.json").read_text()))
    weights = {}
    for file in sorted(folder.glob("*.safetensors")):
        weights |= {name: w.to(dtype) for name, w in smolder.safetensors.load_file(file).items()}
    if model.c.get("tie_word_embeddings"):
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, assign=True)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return model, lambda s: tokenizer.encode(s).ids, tokenizer.decode


def serve(args):
    """Answers the prompts; the first one's answer is shown as it comes."""
    smolder.manual_seed(args.seed)
    if args.model:
        model, encode, decode = load_model(args.model, getattr(smolder, args.dtype))
    else:
        model, encode, decode = small_model(args.steps)
    model.eval()
    if args.int8:
        to_int8(model)
    prompts = [encode(p) for p in args.prompt]
    answers, shown, times = [[] for _ in prompts], 0, []
    for new in generate(model, prompts, args.tokens, args.temperature, args.top_k, args.top_p):
        times.append(time.perf_counter())
        for answer, token in zip(answers, new, strict=True):
            answer.append(token)
        text = decode(prompts[0] + answers[0])
        whole = len(text.rstrip("\ufffd"))  # a character may take several tokens
        print(text[shown:whole], end="", flush=True)
        shown = max(shown, whole)
    print(text[shown:])
    for prompt, answer in list(zip(prompts, answers, strict=True))[1:]:
        print("---", decode(prompt + answer), sep="\n")
    if len(times) > 8:
        each = (times[-1] - times[3]) / (len(times) - 4)
        print(f"{each * 1e3:.2f} ms a token for {len(prompts)} requests", file=sys.stderr)


def main(argv=None):
    """Reads the command line, and serves on the device that it names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompt", nargs="*", default=["def ", "class Att"], help="texts to go on with")
    parser.add_argument("--model", type=Path, help="a folder with config.json, *.safetensors and tokenizer.json")
    parser.add_argument("--dtype", default="bfloat16", help="dtype of the weights of --model")
    parser.add_argument("--steps", type=int, default=300, help="training steps of the small model")
    parser.add_argument("--int8", action="store_true", help="keep weights of products as eight-bit integers")
    parser.add_argument("--tokens", type=int, default=100, help="how many to generate")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 takes the best token")
    parser.add_argument("--top-k", type=int, default=50)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    args = parser.parse_args(argv)
    if not all(args.prompt):
        parser.error("a prompt is empty")
    with smolder.device(args.device):
        serve(args)


if __name__ == "__main__":
    main()
