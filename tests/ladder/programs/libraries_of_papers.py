"""Papers as one library each, from PyPI: models as their pages show them, of small sizes."""

import importlib

import torch
from common import fill, named, numbers, program, run_programs, stepped, still, tokens, told, train
from torch.nn import functional as F


def made(path, **options):
    """A class of a library, called, with weights of the ladder's."""
    module, _, name = path.rpartition(".")
    return still(fill(getattr(importlib.import_module(module), name)(**options)))


def first(out):
    """The tensor that a model returns, perhaps first among others."""
    while not isinstance(out, torch.Tensor):
        out = out[0]
    return out


def on(path, options, *inputs, **more):
    """Losses of a model that is trained to return little."""
    model = made(path, **options)
    return train(model, lambda: first(model(*inputs, **more)).square().mean(), 3)


def on_double(path, options, *inputs):
    """The same in float64, of what makes much of the last bits."""
    model = made(path, **options).double()
    return train(model, lambda: first(model(*(x.double() for x in inputs))).square().mean(), 3)


def next_tokens(path, options, length=16, rows=2):
    """Losses of a model of sequences, whose tokens are below 64."""
    model, x = made(path, **options), tokens(rows, length, 64)
    return train(model, lambda: F.cross_entropy(first(model(x)).flatten(0, 1), x.roll(-1, 1).flatten()), 3)


def labelled(path, options):
    """Losses that a model of sequences returns itself."""
    model, x = made(path, **options), tokens(2, 16, 64)
    return train(model, lambda: first(model(x, labels=x.roll(-1, 1))), 3)


def image(size=32, rows=2):
    return numbers(rows, 3, size, size)


SEQUENCE = {"num_tokens": 64, "dim": 16, "depth": 2, "heads": 2}

# By library and class: how it is trained, its options, and what it is called with.
MODELS = {
    "mega_pytorch Mega": (next_tokens, {"num_tokens": 64, "dim": 16, "depth": 2, "attn_dim_qk": 8, "attn_dim_value": 16}),
    "block_recurrent_transformer_pytorch BlockRecurrentTransformer": (
        next_tokens,
        {"num_tokens": 64, "dim": 16, "depth": 2, "dim_head": 8, "heads": 2, "max_seq_len": 16, "block_width": 8, "num_state_vectors": 8, "recurrent_layers": (2,), "use_flash_attn": False},
    ),
    "compressive_transformer_pytorch CompressiveTransformer": (
        next_tokens,
        {**SEQUENCE, "emb_dim": 16, "seq_len": 16, "mem_len": 16, "cmem_len": 4, "cmem_ratio": 4, "memory_layers": [1, 2]},
    ),
    "memory_transformer_xl MemoryTransformerXL": (
        next_tokens,
        {**SEQUENCE, "seq_len": 16, "mem_len": 16, "lmem_len": 16, "memory_layers": [1, 2]},
    ),
    "feedback_transformer_pytorch FeedbackTransformer": (
        next_tokens,
        {**SEQUENCE, "dim_head": 8, "seq_len": 4, "mem_len": 8},
    ),
    "simple_hierarchical_transformer HierarchicalTransformer": (
        next_tokens,
        {"num_tokens": 64, "dim": 16, "depth": 2, "dim_head": 8, "heads": 2, "seq_len": 16, "window_sizes": 8, "use_flash_attn": False},
    ),
    "perceiver_ar_pytorch PerceiverAR": (
        on,
        {**SEQUENCE, "dim_head": 32, "max_seq_len": 32, "cross_attn_seq_len": 8},
        tokens(2, 24, 64),
    ),
    "token_shift_gpt TokenShiftGPT": (next_tokens, {"num_tokens": 64, "dim": 64, "max_seq_len": 16, "depth": 2}),
    "remixer_pytorch RemixerBlock": (on, {"dim": 16, "seq_len": 12}, numbers(2, 12, 16)),
    "hourglass_transformer_pytorch HourglassTransformerLM": (
        next_tokens,
        {"num_tokens": 64, "dim": 16, "max_seq_len": 16, "shorten_factor": 2, "depth": (1, 1, 1), "heads": 2, "dim_head": 8},
    ),
    "infini_transformer_pytorch InfiniTransformer": (
        next_tokens,
        {"num_tokens": 64, "dim": 16, "depth": 1, "dim_head": 8, "heads": 2, "use_mem_delta_rule": True},
    ),
    "charformer_pytorch GBST": (
        on,
        {"num_tokens": 64, "dim": 16, "max_block_size": 4, "downsample_factor": 4, "score_consensus_attn": True},
        tokens(2, 16, 64),
    ),
    "coordinate_descent_attention Transformer": (next_tokens, {**SEQUENCE, "dim_head": 8, "seq_len": 16}),
    "rela_transformer ReLATransformer": (next_tokens, {**SEQUENCE, "max_seq_len": 16, "dim_head": 8}),
    "ponder_transformer PonderTransformer": (labelled, {"num_tokens": 64, "dim": 16, "max_seq_len": 16, "dim_head": 8, "heads": 2}),
    "isab_pytorch ISAB": (on, {"dim": 16, "heads": 2, "num_latents": 4}, numbers(2, 12, 16)),
    "gsa_pytorch GSA": (on, {"dim": 8, "dim_out": 8, "dim_key": 4, "heads": 2, "rel_pos_length": 8}, numbers(2, 8, 8, 8)),
    "kronecker_attention_pytorch KroneckerSelfAttention": (
        on,
        {"dim": 8, "heads": 2, "dim_heads": 4},
        numbers(2, 8, 8, 8),
    ),
    "mogrifier Mogrifier": (on, {"dim": 16, "iters": 4, "factorize_k": 4}, numbers(2, 3, 16), numbers(2, 3, 16).sin()),
    "segformer_pytorch Segformer": (
        on,
        {"dims": (8, 8, 16, 16), "heads": (1, 1, 2, 2), "ff_expansion": (2, 2, 2, 2), "reduction_ratio": (8, 4, 2, 1), "num_layers": 1, "decoder_dim": 16, "num_classes": 4},
        image(64),
    ),
    "uniformer_pytorch Uniformer": (
        on,
        {"num_classes": 5, "dims": (8, 8, 16, 16), "depths": (1, 1, 1, 1), "dim_head": 8, "mhsa_types": ("l", "l", "g", "g")},
        numbers(2, 3, 4, 32, 32),
    ),
    "deformable_attention DeformableAttention": (
        on,
        {"dim": 16, "dim_head": 8, "heads": 2, "downsample_factor": 4, "offset_scale": 4, "offset_kernel_size": 6},
        numbers(1, 16, 16, 16),
    ),
    "stam_pytorch STAM": (
        on,
        {"dim": 16, "image_size": 32, "patch_size": 16, "num_frames": 3, "space_depth": 1, "space_heads": 2, "space_mlp_dim": 16, "time_depth": 1, "time_heads": 2, "time_mlp_dim": 16, "num_classes": 4, "space_dim_head": 8, "time_dim_head": 8},
        numbers(2, 3, 3, 32, 32),
    ),
    "en_transformer EnTransformer": (
        on,
        {"dim": 16, "depth": 2, "dim_head": 32, "heads": 2, "neighbors": 4},
        numbers(1, 8, 16),
        numbers(1, 8, 3).sin(),
    ),
    "adjacent_attention_network AdjacentAttentionNetwork": (
        on,
        {"dim": 16, "depth": 1, "heads": 2},
        numbers(1, 8, 16),
        (torch.arange(64).reshape(1, 8, 8) * 7 % 5 < 2),
    ),
    "htm_pytorch HTMAttention": (
        on,
        {"dim": 16, "heads": 2, "topk_mems": 2, "mem_chunk_size": 4},
        numbers(1, 4, 16),
        numbers(1, 16, 16).sin(),
    ),
    "discrete_key_value_bottleneck_pytorch DiscreteKeyValueBottleneck": (
        on,
        {"dim": 16, "num_memories": 8, "dim_memory": 4, "num_memory_codebooks": 2, "decay": 0.9},
        numbers(1, 12, 16),
    ),
    "mixture_of_attention MixtureOfAttention": (
        on_double,
        {"dim": 16, "dim_context": 16, "num_routed_queries": 4, "num_routed_key_values": 4, "num_experts": 2, "dim_head": 8, "heads": 2, "use_triton": False, "flash_attn": False},
        numbers(1, 16, 16),
    ),
    "taylor_series_linear_attention TaylorSeriesLinearAttn": (
        on,
        {"dim": 16, "dim_head": 4, "heads": 2},
        numbers(1, 12, 16),
    ),
    "colt5_attention ConditionalRoutedFeedForward": (
        on,
        {"dim": 16, "light_ff_mult": 0.5, "heavy_ff_mult": 4, "num_heavy_tokens": 4, "use_triton": False},
        numbers(2, 16, 16),
    ),
    "bs_roformer BSRoformer": (
        on,
        {"dim": 16, "depth": 1, "time_transformer_depth": 1, "freq_transformer_depth": 1, "heads": 2, "dim_head": 8, "flash_attn": False, "dim_freqs_in": 65, "freqs_per_bands": (5, 20, 40), "stft_n_fft": 128, "stft_hop_length": 32, "stft_win_length": 128},
        numbers(1, 1024),
    ),
    "video_diffusion_pytorch Unet3D": (on, {"dim": 8, "dim_mults": (1, 2)}, numbers(1, 3, 2, 16, 16), torch.tensor([3])),
}  # fmt: skip
for name, (how, options, *inputs) in MODELS.items():
    named(name, how, name.replace(" ", "."), options, *inputs)


@program
def optimizers_that_restart():
    from adam_atan2_pytorch import AdamAtan2
    from adan_pytorch import Adan
    from grokfast_pytorch import GrokFastAdamW

    return [
        *stepped(Adan, lr=1e-2, betas=(0.1, 0.1, 0.001), weight_decay=0.02),
        *stepped(AdamAtan2, lr=1e-2, regen_reg_rate=1e-2),
        *stepped(GrokFastAdamW, lr=1e-2, weight_decay=1e-2),
    ]


@program
def vectors_and_scalars_of_molecules():
    from geometric_vector_perceptron import GVP, GVPLayerNorm

    model = fill(GVP(dim_vectors_in=8, dim_feats_in=12, dim_vectors_out=4, dim_feats_out=6))
    norm = fill(GVPLayerNorm(6))
    feats, vectors = numbers(3, 12), numbers(3, 8, 3).sin()

    def loss():
        f, v = norm(*model((feats, vectors)))
        return f.square().mean() + v.square().mean()

    return train(model, loss, 3)


@program
def an_enformer_of_genomes():
    from enformer_pytorch import Enformer

    model = still(
        Enformer.from_hparams(
            dim=48, depth=1, heads=2, output_heads={"human": 5}, target_length=4, num_downsamples=3, dim_divisible_by=12
        )
    )
    model = fill(model).double().eval()
    x = F.one_hot(tokens(1, 256, 4), 4).double()
    return told(model(x)["human"])


@program
def captions_by_flamingo():
    from flamingo_pytorch import GatedCrossAttentionBlock, PerceiverResampler

    resampler = fill(PerceiverResampler(dim=16, depth=1, dim_head=8, heads=2, num_latents=4))
    block = fill(GatedCrossAttentionBlock(dim=16, dim_head=8, heads=2))
    media, text = numbers(1, 2, 6, 16), numbers(1, 12, 16).sin()
    where = torch.zeros(1, 12, dtype=torch.bool)
    where[:, [0, 6]] = True
    model = torch.nn.ModuleList([resampler, block])
    return train(model, lambda: block(text, resampler(media), media_locations=where).square().mean(), 3)


@program
def straight_flows_of_images():
    from rectified_flow_pytorch import Unet

    model = still(fill(Unet(dim=8, dim_mults=(1, 2)))).double()
    x, t = numbers(2, 3, 16, 16).double(), torch.tensor([0.2, 0.7]).double()
    noise = x.sin()
    between = noise + (x - noise) * t.reshape(2, 1, 1, 1)
    return train(model, lambda: (model(between, times=t) - (x - noise)).square().mean(), 2)


@program
def rewards_of_palms():
    from palm_rlhf_pytorch import PaLM, RewardModel

    palm = still(fill(PaLM(num_tokens=64, dim=16, depth=2, heads=2, dim_head=8, flash_attn=False)))
    x = tokens(2, 16, 64)
    losses = train(palm, lambda: palm(x, return_loss=True), 3)
    reward = still(fill(RewardModel(palm, num_binned_output=5)))
    return losses + told(reward(x, prompt_mask=torch.arange(16).expand(2, 16) < 5, labels=torch.tensor([1, 3])))


@program
def pictures_by_words_contrasted():
    from x_clip import CLIP

    model = still(
        fill(
            CLIP(
                dim_text=16,
                dim_image=16,
                dim_latent=16,
                num_text_tokens=64,
                text_enc_depth=1,
                text_seq_len=16,
                text_heads=2,
                text_dim_head=8,
                visual_enc_depth=1,
                visual_image_size=32,
                visual_patch_size=16,
                visual_heads=2,
                visual_dim_head=8,
                visual_patch_dropout=0.0,
                use_all_token_embeds=True,
            )
        )
    )
    return train(model, lambda: model(tokens(2, 16, 64), image(), return_loss=True), 2)


@program
def symbols_in_memory():
    from esbn_pytorch import ESBN

    model = fill(ESBN(value_dim=16, key_dim=16, hidden_dim=24, output_dim=4))
    return train(model, lambda: model(numbers(4, 2, 3, 32, 32)).square().mean(), 2)


@program
def films_and_frames():
    from make_a_video_pytorch import PseudoConv3d, SpatioTemporalAttention

    conv, attend = fill(PseudoConv3d(dim=8, kernel_size=3)), fill(SpatioTemporalAttention(dim=8, dim_head=4, heads=2))
    x = numbers(1, 8, 3, 8, 8)
    return train(torch.nn.ModuleList([conv, attend]), lambda: attend(conv(x)).square().mean(), 3)


@program
def orders_of_scans():
    from assoc_scan import AssocScan

    gates, x = numbers(2, 16, 4).sigmoid().requires_grad_(), numbers(2, 16, 4).sin().requires_grad_()
    out = AssocScan()(gates, x)
    out.square().sum().backward()
    return told(out, gates.grad, x.grad)


if __name__ == "__main__":
    run_programs()
