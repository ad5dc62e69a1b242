"""Libraries of one idea each, as repositories of papers have them, from PyPI."""

import torch
from common import fill, net, numbers, program, run_programs, still, tokens, told, train
from torch import nn
from torch.nn import functional as F

X, Y, T = numbers(16, 8), torch.arange(16) % 3, tokens(2, 32, 50)


def filled(model):
    """The same numbers in buffers of floats too, as libraries draw those."""
    fill(model)
    for i, (_, b) in enumerate(sorted(model.named_buffers())):
        if b.is_floating_point() and b.dim() > 1:
            b.copy_(torch.cos(torch.arange(b.numel()) * 1.7 + i).reshape(b.shape))
    return still(model)


def on_tokens(model, vocabulary=50):
    """Losses of a model of tokens that gives scores of them."""
    return train(model, lambda: F.cross_entropy(model(T).reshape(-1, vocabulary), T.reshape(-1)), 3)


def on_sequences(model, dim=16, length=32):
    """Losses of a layer from sequences to sequences."""
    x = numbers(2, length, dim)
    return train(model, lambda: (model(x) - x.sin()).pow(2).mean(), 3)


@program
def denoising_diffusion():
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    unet = fill(Unet(dim=8, dim_mults=(1, 2), flash_attn=False, channels=3))
    diffusion = GaussianDiffusion(unet, image_size=16, timesteps=10, auto_normalize=False)
    x, t, e = numbers(2, 3, 16, 16), torch.tensor([2, 7]), numbers(2, 3, 16, 16).sin()
    return train(unet, lambda: diffusion.p_losses(x, t, noise=e), 3)


@program
def bootstrapped_latents():
    from byol_pytorch import BYOL
    from torchvision.models import resnet18

    learner = BYOL(
        fill(resnet18(num_classes=8)), image_size=32, hidden_layer="avgpool", projection_size=8,
        projection_hidden_size=16, augment_fn=nn.Identity(), augment_fn2=nn.Identity(),
    )  # fmt: skip
    x = numbers(4, 3, 32, 32)
    fill(learner).double()
    learner.target_encoder = None
    return train(learner, lambda: learner(x.double()), 2)


@program
def performers():
    from performer_pytorch import PerformerLM

    return on_tokens(filled(PerformerLM(num_tokens=50, max_seq_len=32, dim=16, depth=1, heads=2, nb_features=8)))


@program
def hierarchical_transformer():
    from h_transformer_1d import HTransformer1D

    model = HTransformer1D(
        num_tokens=50, dim=16, depth=1, causal=False, max_seq_len=32, heads=2, dim_head=8, block_size=8
    )
    return on_tokens(filled(model))


@program
def lambda_layers():
    from lambda_networks import LambdaLayer

    model, x = filled(LambdaLayer(dim=8, dim_out=8, n=8, dim_k=4, heads=2, dim_u=1)).double(), numbers(2, 8, 8, 8)
    return train(model, lambda: model(x.double()).pow(2).mean(), 3)


@program
def sines_as_activations():
    from siren_pytorch import SirenNet

    model, x = (
        SirenNet(dim_in=2, dim_hidden=16, dim_out=3, num_layers=2, final_activation=nn.Identity()),
        numbers(20, 2),
    )
    return train(fill(model), lambda: (model(x) - x.sum(1, keepdim=True)).pow(2).mean())


@program
def recurrent_memory():
    from recurrent_memory_transformer_pytorch import RecurrentMemoryTransformer

    model = fill(
        RecurrentMemoryTransformer(
            num_tokens=50, num_memory_tokens=4, dim=16, depth=1, causal=True, dim_head=8, heads=2, seq_len=32,
            use_flash_attn=False,
        )
    )  # fmt: skip
    return train(model, lambda: F.cross_entropy(model(T)[0].reshape(-1, 50), T.reshape(-1)), 3)


@program
def native_sparse_attention():
    from native_sparse_attention_pytorch import SparseAttention

    return on_sequences(
        fill(
            SparseAttention(
                dim=16, dim_head=8, heads=2, sliding_window_size=2, compress_block_size=4,
                compress_block_sliding_stride=2, selection_block_size=4, num_selected_blocks=2,
            )
        )
    )  # fmt: skip


@program
def attention_in_rings():
    from ring_attention_pytorch import RingAttention

    return on_sequences(fill(RingAttention(dim=16, dim_head=8, heads=2, causal=True, ring_attn=False)))


@program
def minimal_recurrence():
    from minGRU_pytorch import minGRU

    return on_sequences(fill(minGRU(dim=16)))


@program
def points_of_proteins():
    from invariant_point_attention import IPABlock

    model, x = fill(IPABlock(dim=16, heads=2, require_pairwise_repr=False)), numbers(1, 12, 16)
    r, t = torch.linalg.qr(numbers(1, 12, 3, 3) + 2 * torch.eye(3))[0], numbers(1, 12, 3)
    return train(model, lambda: model(x, rotations=r, translations=t).pow(2).mean(), 3)


@program
def layers_of_annotated_papers():
    from labml_nn.hypernetworks.hyper_lstm import HyperLSTM
    from labml_nn.optimizers.ada_belief import AdaBelief
    from labml_nn.recurrent_highway_networks import RHN

    x, out = numbers(6, 2, 8), []
    for model in (HyperLSTM(8, 8, 6, 4, 1), RHN(8, 8, 2, 1)):
        fill(model)
        out += train(model, lambda: model(x)[0].pow(2).mean(), 2)  # noqa: B023
    model = net(8, 16, 3)
    optimizer = AdaBelief(model.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X), Y)
        loss.backward()
        optimizer.step()
        out.append(float(loss))
    return out


@program
def pruning_by_dependencies():
    import torch_pruning as tp
    from torchvision.models import resnet18

    model, x = fill(resnet18(num_classes=4)).eval(), numbers(1, 3, 32, 32)
    before = tp.utils.count_ops_and_params(model, x)
    pruner = tp.pruner.MagnitudePruner(
        model, x, importance=tp.importance.MagnitudeImportance(p=2), pruning_ratio=0.5, ignored_layers=[model.fc]
    )
    pruner.step()
    return [*before, *tp.utils.count_ops_and_params(model, x), model.conv1.out_channels, *told(model(x))]


@program
def loops_within_loops():
    import higher

    model = net(8, 16, 3)
    outer, inner = torch.optim.Adam(model.parameters(), lr=1e-2), torch.optim.SGD(model.parameters(), lr=0.1)
    out = []
    for _ in range(3):
        outer.zero_grad()
        with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (fast, step):
            for _ in range(2):
                step.step(F.cross_entropy(fast(X[:8]), Y[:8]))
            loss = F.cross_entropy(fast(X[8:]), Y[8:])
            loss.backward()
        outer.step()
        out.append(float(loss))
    return out


@program
def spectra_by_convolutions():
    from nnAudio import features

    wave, out = numbers(1, 4096), []
    for layer in (
        features.STFT(n_fft=256, hop_length=128, output_format="Magnitude", verbose=False),
        features.MelSpectrogram(sr=8000, n_fft=256, n_mels=16, hop_length=128, verbose=False),
        features.MFCC(sr=8000, n_mfcc=8, n_fft=256, n_mels=16, hop_length=128, verbose=False),
        features.Gammatonegram(sr=8000, n_fft=256, n_bins=16, hop_length=128, verbose=False),
    ):
        out += told(layer(wave))
    return out


@program
def slots_and_halos():
    from bottleneck_transformer_pytorch import BottleStack
    from halonet_pytorch import HaloAttention
    from slot_attention import SlotAttention

    x = numbers(2, 16, 8, 8)
    halo = fill(HaloAttention(dim=16, block_size=4, halo_size=2, dim_head=8, heads=2))
    stack = fill(
        BottleStack(dim=16, fmap_size=8, dim_out=32, proj_factor=4, downsample=True, heads=2, dim_head=4, num_layers=2)
    ).double()
    out = train(halo, lambda: (halo(x) - x).pow(2).mean(), 2)
    out += train(stack, lambda: stack(x.double()).pow(2).mean(), 2)
    slots = fill(SlotAttention(num_slots=3, dim=16, iters=2))
    slots.slots_logsigma.data.fill_(-30.0)  # the noise that it draws is none then
    return out + train(slots, lambda: slots(numbers(2, 10, 16)).pow(2).mean(), 2)


@program
def transformers_of_graphs():
    from graph_transformer_pytorch import GraphTransformer

    model = fill(GraphTransformer(dim=16, depth=2, edge_dim=8, with_feedforwards=True, heads=2, dim_head=8))
    nodes, edges = numbers(1, 9, 16), numbers(1, 9, 9, 8)
    return train(model, lambda: model(nodes, edges, mask=torch.ones(1, 9).bool())[0].pow(2).mean(), 3)


@program
def segment_anything():
    from segment_anything.modeling import ImageEncoderViT, MaskDecoder, PromptEncoder, TwoWayTransformer

    encoder = ImageEncoderViT(
        img_size=64, patch_size=16, embed_dim=16, depth=2, num_heads=2, out_chans=16, use_rel_pos=True, window_size=2,
        global_attn_indexes=(1,),
    )  # fmt: skip
    prompts = PromptEncoder(embed_dim=16, image_embedding_size=(4, 4), input_image_size=(64, 64), mask_in_chans=4)
    decoder = MaskDecoder(
        transformer_dim=16, num_multimask_outputs=3, iou_head_hidden_dim=16,
        transformer=TwoWayTransformer(depth=2, embedding_dim=16, mlp_dim=32, num_heads=2),
    )  # fmt: skip
    whole, x = filled(nn.ModuleList([encoder, prompts, decoder])), numbers(1, 3, 64, 64)

    def loss():
        sparse, dense = prompts((numbers(1, 2, 2).abs() * 60, torch.ones(1, 2)), None, None)
        masks, scores = decoder(encoder(x), prompts.get_dense_pe(), sparse, dense, True)
        return masks.pow(2).mean() + scores.mean()

    return train(whole, loss, 3)


@program
def clicks():
    from deepctr_torch.inputs import DenseFeat, SparseFeat
    from deepctr_torch.models import DCN, DeepFM, xDeepFM

    columns, out = [SparseFeat("a", 5, 4), SparseFeat("b", 7, 4), DenseFeat("c", 1)], []
    x = torch.stack([torch.arange(32) % 5, torch.arange(32) % 7, numbers(32)], 1).float()
    y = (torch.arange(32) % 2).float()
    for kind in (DeepFM, DCN, xDeepFM):
        model = fill(kind(columns, columns, dnn_hidden_units=(8,), device="cpu"))
        out += train(model, lambda: F.binary_cross_entropy(model(x).squeeze(), y), 2)  # noqa: B023
    return out


@program
def rotations_and_poses():
    import pypose as pp
    import roma

    q = roma.rotvec_to_unitquat(numbers(6, 3))
    r = roma.unitquat_to_rotmat(q)
    out = told(
        r, roma.rotmat_to_rotvec(r), roma.special_gramschmidt(numbers(6, 3, 3)), roma.procrustes(numbers(6, 3, 3))[0]
    )
    x = pp.Parameter(pp.so3(numbers(6, 3) * 0.3))
    loss = (x.Exp() * pp.so3(numbers(6, 3).sin()).Exp()).Log().tensor().pow(2).sum()
    loss.backward()
    pose = pp.se3(numbers(4, 6) * 0.5).Exp()
    return out + told(loss, x.grad, pose.matrix(), (pose.Inv() @ pose).tensor(), pose.Log().tensor())


@program
def minimizers_of_functions():
    from torchmin import minimize

    start, out = torch.tensor([-1.2, 1.0, 0.8]).double(), []

    def rosen(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    for method in ("bfgs", "l-bfgs", "cg", "newton-cg", "newton-exact", "trust-ncg", "dogleg"):
        if method != "dogleg":
            out += told(minimize(rosen, start, method=method, max_iter=15).x)
    return out


@program
def trains_of_tensors():
    import tntorch as tn

    x = numbers(6, 7, 8).double()
    t = tn.Tensor(x, ranks_tt=3)
    return told(t.torch(), tn.norm(t), tn.dot(t, t), (t + t).torch(), (t * t).torch(), tn.mean(t), t[2:5].torch())


@program
def transport_of_measures():
    import ot

    a, b, x, y = torch.full((8,), 1 / 8).double(), torch.full((9,), 1 / 9).double(), numbers(8, 2), numbers(9, 2).sin()
    cost = ot.dist(x.double(), y.double())
    cost.requires_grad_()
    loss = ot.sinkhorn2(a, b, cost, 1.0)
    loss.backward()
    sliced = ot.sliced_wasserstein_distance(x.double(), y.double(), projections=numbers(2, 10).double())
    return told(loss, cost.grad, ot.emd2(a, b, cost.detach()), sliced, ot.bregman.sinkhorn(a, b, cost.detach(), 0.5))


@program
def ordinal_ranks():
    from coral_pytorch.dataset import levels_from_labelbatch
    from coral_pytorch.layers import CoralLayer
    from coral_pytorch.losses import coral_loss, corn_loss

    model = fill(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), CoralLayer(16, 5)))
    levels = levels_from_labelbatch(torch.arange(16) % 5, 5)
    out = train(model, lambda: coral_loss(model(X), levels), 3)
    model = net(8, 16, 4)
    return out + train(model, lambda: corn_loss(model(X), torch.arange(16) % 5, 5), 3)


@program
def probabilities_in_parts():
    from pomegranate.distributions import Normal
    from pomegranate.gmm import GeneralMixtureModel
    from pomegranate.hmm import DenseHMM

    x = numbers(40, 2)
    mixture = GeneralMixtureModel(
        [
            Normal([0.5, 0.2], [0.5, 0.7], covariance_type="diag"),
            Normal([-0.5, 0.1], [0.6, 0.4], covariance_type="diag"),
        ],
        max_iter=5,
    ).fit(x)
    chain = DenseHMM(
        [Normal([0.5, 0.2], [0.5, 0.7], covariance_type="diag"), Normal([-0.5, 0.1], [0.6, 0.4], covariance_type="diag")],
        edges=[[0.7, 0.3], [0.4, 0.6]], starts=[0.5, 0.5], ends=[0.1, 0.1], max_iter=3,
    )  # fmt: skip
    chain.fit(x.reshape(4, 10, 2))
    return told(mixture.log_probability(x), mixture.predict_proba(x), chain.log_probability(x.reshape(4, 10, 2)))


@program
def networks_looked_into():
    from ptflops import get_model_complexity_info
    from thop import profile
    from torchsummary import summary
    from torchvision.models import resnet18

    model, x = fill(resnet18(num_classes=4)).eval(), numbers(1, 3, 32, 32)
    macs, weights = get_model_complexity_info(
        model, (3, 32, 32), as_strings=False, print_per_layer_stat=False, backend="pytorch"
    )
    small = fill(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3600, 3)))
    summary(small, (3, 32, 32), device="cpu")
    return [macs, weights, *profile(model, (x,), verbose=False)]


@program
def attacks_of_two_toolboxes():
    import foolbox
    import numpy as np
    from art.attacks.evasion import FastGradientMethod, ProjectedGradientDescent
    from art.estimators.classification import PyTorchClassifier

    model, x, y = net(8, 16, 3).eval(), (X + 1) / 2, Y
    attacked = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
    out = []
    for attack in (foolbox.attacks.LinfFastGradientAttack(), foolbox.attacks.L2PGD(steps=3, random_start=False)):
        _, clipped, success = attack(attacked, x, y, epsilons=[0.1])
        out += told(clipped[0], success.float())
    classifier = PyTorchClassifier(
        model, nn.CrossEntropyLoss(), (8,), 3, optimizer=torch.optim.Adam(model.parameters(), 0.01), clip_values=(0, 1)
    )
    classifier.fit(x.numpy(), np.eye(3)[y.numpy()], batch_size=16, nb_epochs=2, shuffle=False)
    for attack in (FastGradientMethod(classifier, eps=0.1), ProjectedGradientDescent(classifier, eps=0.1, max_iter=3)):
        out += [float(attack.generate(x.numpy()).sum())]
    return out


@program
def weights_with_spreads():
    import torchbnn as bnn
    from blitz.modules import BayesianLinear
    from blitz.utils import variational_estimator

    model = nn.Sequential(bnn.BayesLinear(0, 0.1, 8, 16), nn.ReLU(), bnn.BayesLinear(0, 0.1, 16, 3))
    fill(model)
    model.apply(lambda m: m.freeze() if hasattr(m, "freeze") else None)
    divergence = bnn.BKLLoss(reduction="mean", last_layer_only=False)
    out = told(divergence(model))

    @variational_estimator
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = BayesianLinear(8, 16), BayesianLinear(16, 3)

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    net_of = fill(Net())
    net_of.freeze_()
    return out + told(net_of(X))


@program
def widths_that_transfer():
    import mup

    def mlp(width):
        return nn.Sequential(
            nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), mup.MuReadout(width, 3)
        )

    base, delta, model = mlp(4), mlp(8), mlp(16)
    mup.set_base_shapes(model, base, delta=delta)
    fill(model)
    optimizer, out = mup.MuAdam(model.parameters(), lr=1e-2), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X), Y)
        loss.backward()
        optimizer.step()
        out.append(float(loss))
    return out


@program
def longer_memory():
    from xlstm import (
        mLSTMBlockConfig,
        mLSTMLayerConfig,
        sLSTMBlockConfig,
        sLSTMLayerConfig,
        xLSTMBlockStack,
        xLSTMBlockStackConfig,
    )

    config = xLSTMBlockStackConfig(
        mlstm_block=mLSTMBlockConfig(mlstm=mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=2)),
        slstm_block=sLSTMBlockConfig(slstm=sLSTMLayerConfig(backend="vanilla", num_heads=2, conv1d_kernel_size=4)),
        context_length=16, num_blocks=2, embedding_dim=16, slstm_at=[1],
    )  # fmt: skip
    return on_sequences(fill(xLSTMBlockStack(config)), 16, 16)


@program
def weights_of_eight_bits():
    from optimum.quanto import freeze, qint8, quantize

    model = net(8, 16, 3)
    quantize(model, weights=qint8)
    freeze(model)
    return told(model(X))


@program
def trained_by_helpers():
    from poutyne import Model

    network = net(8, 16, 3)
    model = Model(network, torch.optim.Adam(network.parameters(), lr=1e-2), "cross_entropy", batch_metrics=["accuracy"])
    out = []
    for _ in range(3):
        out += [float(model.train_on_batch(X.numpy(), Y.numpy())[0])]
    return out


@program
def optimizers_of_papers():
    from adabelief_pytorch import AdaBelief
    from dadaptation import DAdaptAdam, DAdaptSGD
    from madgrad import MADGRAD
    from prodigyopt import Prodigy

    out = []
    for make in (
        lambda p: AdaBelief(p, lr=1e-2, print_change_log=False), DAdaptAdam, DAdaptSGD, lambda p: MADGRAD(p, lr=1e-2),
        Prodigy,
    ):  # fmt: skip
        model = net(8, 16, 3)
        optimizer = make(model.parameters())
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(X), Y)
            loss.backward()
            optimizer.step()
            out.append(float(loss))
    return out


@program
def cosine_transforms():
    import torch_dct as dct

    x = numbers(4, 16)
    return told(dct.dct(x), dct.idct(x), dct.dct(x, norm="ortho"), dct.dct_2d(x), dct.idct_2d(x))


@program
def differential_equations_by_networks():
    from neurodiffeq import diff
    from neurodiffeq.conditions import IVP
    from neurodiffeq.networks import FCNN

    model, t = fill(FCNN(1, 1, hidden_units=(16, 16))), torch.linspace(0, 1, 20).reshape(-1, 1).requires_grad_()
    condition = IVP(t_0=0.0, u_0=1.0, u_0_prime=0.0)

    def loss():
        u = condition.enforce(model, t)
        return (diff(u, t, order=2) + u).pow(2).mean()

    return train(model, loss, 3)


@program
def scattering_of_waves():
    from kymatio.scattering1d.frontend.torch_frontend import ScatteringTorch1D as Scattering1D
    from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D as Scattering2D

    return told(
        Scattering1D(J=3, shape=256, Q=4)(numbers(2, 256)), Scattering2D(J=2, shape=(32, 32))(numbers(1, 32, 32))
    )


@program
def inverse_problems():
    import deepinv as dinv

    x = numbers(1, 1, 16, 16).abs().double()
    blur = dinv.physics.Blur(filter=numbers(1, 1, 3, 3).abs().double(), padding="circular")
    y = blur(x)
    tv = dinv.optim.TVPrior(n_it_max=10)
    return told(y, blur.A_adjoint(y), blur.A_dagger(y), tv.prox(x, gamma=0.1), dinv.loss.metric.PSNR()(x, y))


if __name__ == "__main__":
    run_programs()
