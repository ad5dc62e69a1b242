"""Models of transformers from configurations: training, generation, saving and loading."""

import sys
import tempfile

import torch
import transformers as t
from common import fill, numbers, say, tokens, train

torch.manual_seed(0)
TEXT = {"vocab_size": 96, "pad_token_id": 0}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
IDS = tokens(2, 12, 96)


def causal(config, generates=True):
    model = fill(t.AutoModelForCausalLM.from_config(config))
    model.train()
    losses = train(model, lambda: model(input_ids=IDS, labels=IDS).loss)
    model.eval()
    if not generates:
        return losses, None
    out = model.generate(IDS[:, :4], max_new_tokens=6, do_sample=False, pad_token_id=0)
    return losses, out.tolist()


def saved(config):
    model = fill(t.AutoModelForCausalLM.from_config(config)).eval()
    before = model(input_ids=IDS).logits
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder).eval()
    return [float((again(input_ids=IDS).logits - before).abs().max())], None


def encoder(config, kind="ForMaskedLM"):
    model = fill(getattr(t, f"AutoModel{kind}").from_config(config)).train()
    labels = IDS if kind == "ForMaskedLM" else torch.tensor([0, 1])
    return train(model, lambda: model(input_ids=IDS, labels=labels).loss), None


def images(config):
    model = fill(t.AutoModelForImageClassification.from_config(config)).train()
    x, y = numbers(2, 3, 32, 32), torch.tensor([0, 1])
    return train(model, lambda: model(pixel_values=x, labels=y).loss), None


def t5():
    config = t.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, dropout_rate=0.0, **TEXT
    )
    model = fill(t.T5ForConditionalGeneration(config)).train()
    losses = train(model, lambda: model(input_ids=IDS, labels=IDS).loss)
    return losses, model.eval().generate(IDS, max_new_tokens=5).tolist()


GPT2 = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}
NONE = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
KV = {"num_key_value_heads": 2}
MODELS = {
    "gpt2": lambda: causal(t.GPT2Config(**GPT2, **TEXT)),
    "gpt2 saved": lambda: saved(t.GPT2Config(**GPT2, **TEXT)),
    "llama": lambda: causal(t.LlamaConfig(**SMALL, **KV, **TEXT)),
    "mistral": lambda: causal(t.MistralConfig(**SMALL, **KV, **TEXT)),
    "qwen2": lambda: causal(t.Qwen2Config(**SMALL, **KV, **TEXT)),
    "gemma": lambda: causal(t.GemmaConfig(**SMALL, **KV, head_dim=8, **TEXT)),
    "phi": lambda: causal(t.PhiConfig(**SMALL, resid_pdrop=0.0, **TEXT)),
    "gpt_neox": lambda: causal(t.GPTNeoXConfig(**SMALL, **TEXT)),
    "opt": lambda: causal(
        t.OPTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=64,
            dropout=0.0,
            word_embed_proj_dim=32,
            max_position_embeddings=64,
            **TEXT,
        )
    ),
    "bloom": lambda: causal(t.BloomConfig(hidden_size=32, n_layer=2, n_head=4, **TEXT)),
    "mamba": lambda: causal(t.MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=8, **TEXT)),
    "bert": lambda: encoder(t.BertConfig(**SMALL, **NONE, **TEXT)),
    "bert classifier": lambda: encoder(t.BertConfig(**SMALL, **NONE, **TEXT), "ForSequenceClassification"),
    "roberta": lambda: encoder(t.RobertaConfig(**SMALL, **NONE, vocab_size=96, pad_token_id=1)),
    "distilbert": lambda: encoder(
        t.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=64, dropout=0.0, attention_dropout=0.0, **TEXT)
    ),
    "electra": lambda: encoder(t.ElectraConfig(**SMALL, **NONE, embedding_size=16, **TEXT)),
    "albert": lambda: encoder(t.AlbertConfig(**SMALL, embedding_size=16, **TEXT)),
    "t5": t5,
    "vit": lambda: images(t.ViTConfig(**SMALL, image_size=32, patch_size=8)),
    "convnext": lambda: images(t.ConvNextConfig(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], image_size=32)),
    "resnet": lambda: images(t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")),
}

wanted = sys.argv[1:] or MODELS
for name in wanted:
    try:
        losses, made = MODELS[name]()
        say(program=f"transformers {name}", losses=losses, made=made)
    except Exception as error:
        import traceback

        say(
            program=f"transformers {name}",
            error=f"{type(error).__name__}: {error}"[:300],
            at=traceback.format_exc().splitlines()[-6:],
        )
