"""Libraries for language, tables, graphs, agents and sound, from PyPI."""

import torch
from common import Noise, fill, fit, net, numbers, program, run_programs, still, tokens, told, train
from torch import nn
from torch.nn import functional as F

X, Y = numbers(16, 8), torch.arange(16) % 3
noise = Noise(1)


def small():
    return net(8, 16, 3)


@program
def conditional_random_fields_of_a_library():
    from torchcrf import CRF

    model, scores, y = fill(CRF(5, batch_first=True)), numbers(3, 6, 5).requires_grad_(), tokens(3, 6, 5)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6, [1, 1, 0, 0, 0, 0]], dtype=torch.bool)
    loss = -model(scores, y, mask=mask)
    loss.backward()
    return [*told(loss, scores.grad), *(i for row in model.decode(scores, mask=mask) for i in row)]


@program
def sparse_softmax():
    from entmax import Entmax15Loss, SparsemaxLoss, entmax15, entmax_bisect, sparsemax

    x, y = numbers(4, 9).requires_grad_(), torch.arange(4)
    outs = [sparsemax(x, dim=-1), entmax15(x, dim=-1), entmax_bisect(x, alpha=1.3)]
    loss = (SparsemaxLoss()(x, y) + Entmax15Loss()(x, y)).sum() + outs[2].pow(2).sum()
    loss.backward()
    return told(outs, loss, x.grad)


@program
def quantized_vectors():
    from vector_quantize_pytorch import FSQ, LFQ

    x = numbers(2, 10, 3).requires_grad_()
    out, index = FSQ(levels=[4, 3, 3])(x)
    out.sum().backward()
    free = LFQ(codebook_size=16, dim=4)(numbers(2, 6, 4))
    return told(out, index, x.grad, free[0], free[1])


@program
def kinds_of_transformers():
    from x_transformers import Decoder, TransformerWrapper

    kinds = [
        {"rotary_pos_emb": True}, {"alibi_pos_bias": True}, {"rel_pos_bias": True}, {"use_rmsnorm": True, "ff_glu": True, "ff_swish": True},
        {"attn_num_mem_kv": 2}, {"attn_qk_norm": True}, {"attn_one_kv_head": True}, {"macaron": True}, {"shift_tokens": 1}, {"sandwich_norm": True},
        {"use_scalenorm": True}, {"attn_gate_values": True}, {"attn_kv_heads": 1}, {"residual_attn": True}, {"attn_flash": True}, {"attn_sparse_topk": 3},
        {"ff_relu_squared": True}, {"gate_residual": True}, {"rotary_xpos": True}, {"dynamic_pos_bias": True},
    ]  # fmt: skip
    out, ids = [], tokens(2, 12, 20)
    for options in kinds:
        layers = Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, **options)
        model = fill(TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers))
        out += train(model, lambda: F.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:]), 2)  # noqa: B023
    return out


@program
def attention_of_other_kinds():
    from local_attention import LocalAttention
    from local_attention.transformer import LocalTransformer
    from rotary_embedding_torch import RotaryEmbedding

    q, k, v = numbers(2, 12, 8), numbers(2, 12, 8).sin(), numbers(2, 12, 8).cos()
    model = fill(
        LocalTransformer(num_tokens=20, dim=16, depth=2, max_seq_len=32, causal=True, local_attn_window_size=4)
    )
    ids, rotary = tokens(2, 17, 20), RotaryEmbedding(dim=8)
    long = RotaryEmbedding(dim=8, use_xpos=True).rotate_queries_and_keys(
        numbers(1, 2, 6, 16), numbers(1, 2, 6, 16).sin()
    )
    out = told(
        LocalAttention(dim=8, window_size=4, causal=True, autopad=True)(q, k, v),
        rotary.rotate_queries_or_keys(numbers(1, 2, 10, 16)),
        long,
    )
    return out + train(model, lambda: model(ids, return_loss=True), 2)


@program
def clip_of_openai():
    import open_clip

    vision = {"image_size": 32, "patch_size": 8, "width": 32, "layers": 2, "head_width": 16}
    text = {"context_length": 10, "vocab_size": 50, "width": 32, "heads": 2, "layers": 2}
    model = fill(open_clip.model.CLIP(16, vision, text))
    loss = open_clip.loss.ClipLoss()
    images, words = numbers(3, 3, 32, 32), tokens(3, 10, 50)
    return train(model, lambda: loss(*model(images, words)), 3)


@program
def tables_by_attention():
    from pytorch_tabnet.tab_network import TabNet

    model = fill(TabNet(6, 3, n_d=4, n_a=4, n_steps=2, virtual_batch_size=8, group_attention_matrix=torch.eye(6)))
    x = numbers(16, 6)
    return fit(model, lambda: F.cross_entropy(model(x)[0], Y), 3)


@program
def tables_of_many_members():
    from tabm import TabM

    model = TabM.make(n_num_features=4, cat_cardinalities=[3], d_out=2, k=4, n_blocks=2, d_block=8, dropout=0.0)
    fill(model)
    return fit(model, lambda: model(numbers(6, 4), tokens(6, 1, 3)).pow(2).mean(), 3)


@program
def tables_by_transformers():
    from tab_transformer_pytorch import FTTransformer, TabTransformer

    options = {"categories": (4, 5), "num_continuous": 3, "dim": 8, "depth": 2, "heads": 2}
    out, kinds, x = [], torch.stack([torch.arange(6) % 4, torch.arange(6) % 5], 1), numbers(6, 3)
    for kind, more in ((FTTransformer, {}), (TabTransformer, {"mlp_act": nn.ReLU()})):
        model = still(fill(kind(**options, **more)))
        out += train(model, lambda: model(kinds, x).pow(2).mean(), 3)  # noqa: B023
    return out


@program
def series_by_inverted_attention():
    from iTransformer import iTransformer

    model = still(
        fill(
            iTransformer(
                num_variates=3,
                lookback_len=12,
                dim=16,
                depth=2,
                heads=2,
                dim_head=8,
                pred_length=4,
                num_tokens_per_variate=1,
            )
        )
    )
    x, y = numbers(2, 12, 3), numbers(2, 4, 3).sin()

    def loss():
        out = model(x)
        return F.mse_loss(out[4] if isinstance(out, dict) else out, y)

    return train(model, loss, 3)


@program
def liquid_time_constants():
    from ncps.torch import LTC, CfC
    from ncps.wirings import AutoNCP

    out, x = [], numbers(2, 6, 4)
    for kind in (CfC, LTC):
        model = kind(4, AutoNCP(12, 2), batch_first=True)
        fill(model)
        out += train(model, lambda: model(x)[0].pow(2).mean(), 2)  # noqa: B023
    return out


@program
def spiking_networks():
    import snntorch as snn
    from snntorch import surrogate

    a, b = fill(nn.Linear(8, 12)), fill(nn.Linear(12, 3))
    one, two = (
        snn.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid()),
        snn.Leaky(beta=0.8, spike_grad=surrogate.atan()),
    )

    def loss():
        m1, m2, out = one.init_leaky(), two.init_leaky(), []
        for _ in range(5):
            s1, m1 = one(a(X * 8), m1)
            _, m2 = two(b(s1), m2)
            out.append(m2)
        return F.cross_entropy(torch.stack(out).sum(0), Y)

    return fit(nn.ModuleList([a, b]), loss, 3)


@program
def spiking_networks_of_spikingjelly():
    from spikingjelly.activation_based import functional, layer, neuron

    stack = nn.Sequential(layer.Linear(8, 12), neuron.LIFNode(), layer.Linear(12, 3), neuron.IFNode())
    fill(stack)
    functional.set_step_mode(stack, "m")

    def other():
        functional.reset_net(stack)
        return stack((X * 30).expand(4, -1, -1)).mean(0).sub(F.one_hot(Y, 3)).pow(2).mean()

    return fit(stack, other, 3)


@program
def graphs_of_many_kinds():
    from torch_geometric import nn as g
    from torch_geometric.data import Batch, Data
    from torch_geometric.utils import degree, softmax, to_dense_adj

    edges = torch.stack([tokens(1, 40, 16)[0], (tokens(1, 40, 16)[0] * 3 + 1) % 16])
    out = []
    kinds = {
        "GINConv": lambda: g.GINConv(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))), "GATv2Conv": lambda: g.GATv2Conv(8, 3, heads=2, concat=False),
        "TransformerConv": lambda: g.TransformerConv(8, 3), "ChebConv": lambda: g.ChebConv(8, 3, K=3), "GraphConv": lambda: g.GraphConv(8, 3), "TAGConv": lambda: g.TAGConv(8, 3),
        "SGConv": lambda: g.SGConv(8, 3, K=2), "ARMAConv": lambda: g.ARMAConv(8, 3), "PNAConv": lambda: g.PNAConv(8, 3, ["mean", "max", "std"], ["identity", "amplification"], torch.ones(8, dtype=torch.long)),
        "APPNP": lambda: nn.ModuleList([g.APPNP(3, 0.1)])[0], "GENConv": lambda: g.GENConv(8, 3), "ResGatedGraphConv": lambda: g.ResGatedGraphConv(8, 3),
        "GatedGraphConv": lambda: g.GatedGraphConv(8, 2), "SuperGATConv": lambda: g.SuperGATConv(8, 3), "FAConv": lambda: None, "LEConv": lambda: g.LEConv(8, 3), "ClusterGCNConv": lambda: g.ClusterGCNConv(8, 3),
        "MFConv": lambda: g.MFConv(8, 3), "GeneralConv": lambda: g.GeneralConv(8, 3), "EGConv": lambda: g.EGConv(8, 4, num_heads=2), "GCN2Conv": lambda: None, "EdgeConv": lambda: g.EdgeConv(nn.Linear(16, 3)),
    }  # fmt: skip
    for make in kinds.values():
        layer = make()
        if layer is None:
            continue
        model = still(fill(layer)).eval()
        y = model(X, edges)
        out += told(y)
        if list(model.parameters()):
            out += told(
                torch.autograd.grad(
                    y.pow(2).sum(), [p for p in model.parameters() if p.requires_grad], allow_unused=True
                )
            )
    batch = Batch.from_data_list(
        [
            Data(x=X[:5], edge_index=edges[:, (edges < 5).all(0)]),
            Data(x=X[5:9], edge_index=torch.tensor([[0, 1], [1, 2]])),
        ]
    )
    pools = [g.global_mean_pool, g.global_max_pool, g.global_add_pool]
    out += told(
        [pool(batch.x, batch.batch) for pool in pools], degree(edges[0], 16), to_dense_adj(edges), softmax(X[:, 0], Y)
    )
    lstm = fill(g.aggr.LSTMAggregation(8, 4))
    return [*out, *told(lstm(X, torch.arange(16) // 4), g.BatchNorm(8)(X), g.GraphNorm(8)(X), g.PairNorm()(X))]


@program
def knowledge_graphs():
    from torchkge.models import ComplExModel, DistMultModel, TransEModel, TransHModel

    h, t, r, out = tokens(1, 8, 10)[0], (tokens(1, 8, 10)[0] + 3) % 10, torch.arange(8) % 3, []
    for model in (TransEModel(6, 10, 3), DistMultModel(6, 10, 3), ComplExModel(6, 10, 3), TransHModel(6, 10, 3)):
        fill(model)

        def loss(model=model):
            return F.margin_ranking_loss(*model(h, t, r, (h + 1) % 10, t), target=torch.ones(8), margin=0.5)

        out += train(model, loss, 3)
    return out


@program
def engines_and_events():
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, ConfusionMatrix, Loss

    model = small()
    data = [(X[i : i + 4], Y[i : i + 4]) for i in range(0, 16, 4)]
    trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), 0.1), nn.CrossEntropyLoss())
    losses = []
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda e: losses.append(e.state.output))
    trainer.run(data, 2)
    tested = create_supervised_evaluator(
        model, {"a": Accuracy(), "l": Loss(nn.CrossEntropyLoss()), "c": ConfusionMatrix(3)}
    )
    return [*losses, *told(tested.run(data).metrics)]


@program
def gradients_of_each_sample():
    from backpack import backpack, extend
    from backpack.extensions import BatchGrad, BatchL2Grad, DiagGGNExact, DiagHessian, Variance
    from opacus.grad_sample import GradSampleModule

    model = extend(nn.Sequential(nn.Linear(8, 5), nn.Sigmoid(), nn.Linear(5, 3)))
    fill(model)
    loss = extend(nn.CrossEntropyLoss())(model(X), Y)
    with backpack(BatchGrad(), DiagGGNExact(), Variance(), BatchL2Grad(), DiagHessian()):
        loss.backward()
    out = told([(p.grad_batch, p.diag_ggn_exact, p.variance, p.batch_l2, p.diag_h) for p in model.parameters()])
    parts = nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))
    private = GradSampleModule(fill(parts))
    F.cross_entropy(private(numbers(5, 1, 8, 8)), torch.arange(5) % 3).backward()
    return [*out, *told([p.grad_sample for p in private.parameters()])]


@program
def privacy_engine():
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(X, Y), batch_size=16),
        noise_multiplier=0.0,
        max_grad_norm=0.5,
        poisson_sampling=False,
    )
    out = []
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            out.append(float(loss))
    return out


@program
def counts_of_what_runs():
    from fvcore.nn import parameter_count
    from torchinfo import summary

    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    info = summary(model, input_size=(1, 1, 8, 8), verbose=0)
    return [
        float(info.total_params),
        float(info.total_mult_adds),
        float(len(str(info))),
        float(parameter_count(model)[""]),
    ]


@program
def self_supervised_losses():
    from lightly import loss as l
    from lightly.models.modules import SimCLRProjectionHead

    head = fill(SimCLRProjectionHead(8, 8, 4)).double()
    a, b, out = numbers(16, 8).double(), numbers(16, 8).sin().double(), []
    for kind, options in (
        ("NTXentLoss", {}),
        ("BarlowTwinsLoss", {}),
        ("NegativeCosineSimilarity", {}),
        ("VICRegLoss", {}),
        ("DCLLoss", {}),
        ("TiCoLoss", {}),
    ):
        made = getattr(l, kind)(**options)
        out += fit(head, lambda: made(head(a), head(b)), 2)  # noqa: B023
    return out


@program
def keras_with_torch_behind():
    import os

    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import numpy as np

    model = keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)]
    )
    model.set_weights([np.cos(np.arange(w.size) * 7.31).reshape(w.shape) * 0.2 for w in model.get_weights()])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    seen = model.fit(X.numpy(), Y.numpy(), batch_size=8, epochs=3, shuffle=False, verbose=0).history
    return [*seen["loss"], *seen["accuracy"], *told(torch.from_numpy(model.predict(X.numpy(), verbose=0)))]


# -- sound


@program
def losses_of_sound():
    import auraloss
    from asteroid_filterbanks import STFTFB, Decoder, Encoder

    a, b = (
        (numbers(2, 1, 2048) + noise.randn(2, 1, 2048)).requires_grad_(),
        numbers(2, 1, 2048).sin() + noise.randn(2, 1, 2048),
    )
    loss = auraloss.freq.STFTLoss(fft_size=256, hop_size=64, win_length=256)(a, b) + auraloss.time.SISDRLoss()(a, b)
    loss = loss + auraloss.time.LogCoshLoss()(a, b) + auraloss.freq.MultiResolutionSTFTLoss([128], [32], [128])(a, b)
    loss.backward()
    bank = STFTFB(n_filters=64, kernel_size=64, stride=32)
    s = Encoder(bank)(b[:1, :, :512])
    return told(loss, a.grad, s, Decoder(bank)(s))


@program
def torchaudio_transforms_and_models():
    import torchaudio as t

    wave, out = numbers(1, 4000), []
    for kind, options in (
        ("Spectrogram", {"n_fft": 256}), ("MelSpectrogram", {"n_fft": 256, "n_mels": 20}), ("MFCC", {"n_mfcc": 10, "melkwargs": {"n_fft": 256, "n_mels": 20}}),
        ("AmplitudeToDB", {}), ("Resample", {"orig_freq": 16000, "new_freq": 8000}), ("MuLawEncoding", {}), ("ComputeDeltas", {}), ("LFCC", {"n_lfcc": 10, "speckwargs": {"n_fft": 256}}),
    ):  # fmt: skip
        out += told(getattr(t.transforms, kind)(**options)(wave))
    out += told(
        t.functional.highpass_biquad(wave, 16000, 500.0),
        t.functional.lfilter(wave, torch.tensor([1.0, 0.2]), torch.tensor([0.5, 0.3])),
    )
    model = still(
        fill(t.models.Conformer(input_dim=8, num_heads=2, ffn_dim=16, num_layers=1, depthwise_conv_kernel_size=3))
    ).eval()
    out += told(model(numbers(2, 10, 8), torch.tensor([10, 7])))
    tas = fill(
        t.models.ConvTasNet(
            num_sources=2,
            enc_kernel_size=8,
            enc_num_feats=16,
            msk_kernel_size=3,
            msk_num_feats=8,
            msk_num_hidden_feats=16,
            msk_num_layers=2,
            msk_num_stacks=1,
        )
    )
    return [*out, *told(tas(numbers(1, 1, 400)))]


@program
def codecs_of_sound():
    from encodec.modules import SEANetDecoder, SEANetEncoder

    enc, dec = (
        SEANetEncoder(dimension=8, n_filters=4, ratios=[4, 2]),
        SEANetDecoder(dimension=8, n_filters=4, ratios=[4, 2]),
    )
    fill(enc), fill(dec)
    x = numbers(1, 1, 320)
    return train(nn.ModuleList([enc, dec]), lambda: (dec(enc(x)) - x).pow(2).mean(), 2)


@program
def codec_of_descript():
    from dac.model.dac import DAC

    model = fill(
        DAC(
            encoder_dim=4,
            encoder_rates=[2, 4],
            latent_dim=8,
            decoder_dim=16,
            decoder_rates=[4, 2],
            n_codebooks=2,
            sample_rate=16000,
            codebook_size=16,
            codebook_dim=4,
        )
    )
    model.eval()
    with torch.no_grad():
        out = model(numbers(1, 1, 512), 16000)
    return told(out["audio"], out["codes"], out["vq/commitment_loss"])


@program
def sources_of_music():
    from demucs.demucs import Demucs
    from demucs.hdemucs import HDemucs

    a = fill(Demucs(["a", "b"], audio_channels=1, channels=4, depth=2, resample=False, lstm_layers=1)).eval()
    x = numbers(1, 1, 1200)
    x = F.pad(x, (0, a.valid_length(1200) - 1200))
    b = fill(HDemucs(["a", "b"], audio_channels=1, channels=4, depth=2, nfft=256, hybrid=False, dconv_mode=0)).eval()
    with torch.no_grad():
        return told(a(x), b(numbers(1, 1, 2048)))


@program
def speech_networks():
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
    from speechbrain.processing.features import STFT, Filterbank

    model = still(
        fill(
            ECAPA_TDNN(
                8,
                channels=[8, 8, 8, 8, 24],
                lin_neurons=6,
                attention_channels=4,
                res2net_scale=2,
                se_channels=4,
                kernel_sizes=[5, 3, 3, 3, 1],
            )
        )
    ).eval()
    x = numbers(2, 20, 8)
    mag = STFT(sample_rate=16000)(numbers(1, 3200)).pow(2).sum(-1)
    return told(model(x), Filterbank(n_mels=10)(mag))


@program
def separation_networks():
    from asteroid.losses import PITLossWrapper, pairwise_neg_sisdr
    from asteroid.models import ConvTasNet, DPRNNTasNet

    x, out = numbers(1, 400), []
    for model in (
        ConvTasNet(2, n_filters=16, n_repeats=1, n_blocks=2, bn_chan=8, hid_chan=16, skip_chan=8),
        DPRNNTasNet(2, n_filters=8, bn_chan=8, hid_size=8, chunk_size=20, n_repeats=1),
    ):
        fill(model)
        out += told(model(x))
    want = torch.stack([numbers(1, 400).sin(), numbers(1, 400).cos()], 1)
    loss = PITLossWrapper(pairwise_neg_sisdr, pit_from="pw_mtx")
    return [*out, *told(loss(model(x), want))]


if __name__ == "__main__":
    run_programs()
