"""examples/generate.py: what a Llama answers does not depend on how requests are put together."""

import json
import sys
import types
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import smolder

PROMPTS = ["def ", "class Att", "x"]


@pytest.fixture(scope="module")
def example():
    spec = spec_from_file_location("generate", Path(__file__).resolve().parents[2] / "examples/generate.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model(example):
    smolder.manual_seed(0)
    return example.Llama(example.SMALL).eval()


def answers(example, model, prompts, tokens=5):
    """The best tokens after each prompt."""
    new = list(example.generate(model, [list(p.encode()) for p in prompts], tokens, temperature=0))
    return [list(row) for row in zip(*new, strict=True)]


def test_prompts_of_several_lengths_are_answered_as_each_alone(example, model):
    together = answers(example, model, PROMPTS)
    assert together == [answers(example, model, [p])[0] for p in PROMPTS]


def test_the_cache_changes_no_answer(example, model):
    tokens = list(b"class Att")
    for best in answers(example, model, ["class Att"])[0]:
        with smolder.no_grad():
            text = smolder.tensor([tokens])
            scores = model(text, smolder.arange(len(tokens)).unsqueeze(0))
        assert best == scores[0, -1].argmax().item()
        tokens.append(best)


def test_tokens_beyond_top_p_are_never_drawn(example):
    scores = smolder.tensor([[0.0, 5.0, 4.9, -1.0]]).expand(200, 4)
    drawn = example.sample(scores, temperature=1.0, top_k=3, top_p=0.9)
    assert set(drawn.tolist()) == {1, 2}
    assert set(example.sample(scores, temperature=1.0, top_k=3, top_p=0.0).tolist()) == {1}


@pytest.mark.parametrize("rows", [1, 8, 9, 30])
def test_int8_layers_are_near_the_layers_they_stand_for(example, rows):
    smolder.manual_seed(1)
    linear = smolder.nn.Linear(64, 48, bias=False)
    x = smolder.randn(2, rows, 64)
    got, wanted = example.Int8Linear(linear)(x), linear(x)
    assert got.shape == wanted.shape
    assert (got - wanted).abs().max().item() < 0.02 * wanted.abs().max().item()


class BytesTokenizer:
    """Stands in for the class of the package tokenizers."""

    @staticmethod
    def from_file(path):
        assert json.loads(Path(path).read_text()) == {}
        return BytesTokenizer()

    def encode(self, text):
        return types.SimpleNamespace(ids=list(text.encode()))

    def decode(self, tokens):
        return bytes(tokens).decode(errors="replace")


@pytest.mark.parametrize("more", [[], ["--int8"]], ids=["float32", "int8"])
def test_a_folder_laid_out_as_on_the_hub_is_served(example, model, tmp_path, monkeypatch, capsys, more):
    (tmp_path / "config.json").write_text(json.dumps(example.SMALL))
    (tmp_path / "tokenizer.json").write_text("{}")
    weights = model.state_dict()
    names = sorted(weights)
    for i, part in enumerate((names[::2], names[1::2])):
        smolder.safetensors.save_file({n: weights[n] for n in part}, tmp_path / f"model-{i}.safetensors")
    monkeypatch.setitem(sys.modules, "tokenizers", types.SimpleNamespace(Tokenizer=BytesTokenizer))
    argv = ["--model", str(tmp_path), "--dtype", "float32", "--tokens", "5", "--temperature", "0", *more]
    example.main([*argv, "def ", "x"])
    out = capsys.readouterr().out
    if not more:
        first, second = answers(example, model, ["def ", "x"])
        decode = BytesTokenizer().decode
        assert out == f"{decode(list(b'def ') + first)}\n---\n{decode(list(b'x') + second)}\n"
    assert out.startswith("def ")


def test_a_small_model_is_trained_where_no_folder_is_given(example, capsys):
    example.main(["--steps", "3", "--tokens", "4", "def "])
    assert capsys.readouterr().out.startswith("def ")


def test_an_empty_prompt_is_refused(example, capsys):
    with pytest.raises(SystemExit):
        example.main(["--steps", "1", ""])
    assert "a prompt is empty" in capsys.readouterr().err
