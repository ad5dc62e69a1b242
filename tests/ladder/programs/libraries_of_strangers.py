"""Libraries of many fields, from PyPI: sound, vision, molecules, planning, recommendation, quantities of networks."""

import numpy as np
import torch
from common import Noise, fill, net, numbers, program, run_programs, stepped, still, tokens, told, train
from torch import nn
from torch.nn import functional as F

X, Y, T = numbers(16, 8), torch.arange(16) % 3, tokens(2, 32, 50)
noise = Noise(1)


def filled(model):
    """The same numbers in buffers of floats too, as libraries draw those."""
    fill(model)
    for i, (_, b) in enumerate(sorted(model.named_buffers())):
        if b.is_floating_point() and b.dim() > 1:
            b.copy_(torch.cos(torch.arange(b.numel()) * 1.7 + i).reshape(b.shape))
    return still(model)


@program
def optimizers_guided_by_confidence():
    from came_pytorch import CAME

    return stepped(CAME, lr=1e-2, betas=(0.9, 0.999, 0.9999))


@program
def evolution_strategies():
    from evotorch import Problem
    from evotorch.algorithms import SNES

    def sphere(x):
        return (x * x).sum(-1)

    problem = Problem("min", sphere, solution_length=4, initial_bounds=(-1, 1), vectorized=True)
    search = SNES(problem, stdev_init=0.5, popsize=40)
    first = None
    for _ in range(60):
        search.step()
        first = float(search.status["mean_eval"]) if first is None else first
    return [1.0 if float(search.status["best_eval"]) < 1e-3 * first else 0.0]


@program
def likeness_as_perceived():
    import lpips

    model = lpips.LPIPS(net="alex", pretrained=False, pnet_rand=True, verbose=False).eval()
    filled(model)
    a, b = numbers(2, 3, 64, 64), numbers(2, 3, 64, 64).sin().requires_grad_()
    out = model(a, b)
    out.sum().backward()
    return told(out, b.grad)


@program
def faces():
    from facenet_pytorch import InceptionResnetV1

    model = filled(InceptionResnetV1(pretrained=None, classify=True, num_classes=5)).double().eval()
    x = numbers(2, 3, 96, 96).double()
    return train(model, lambda: F.cross_entropy(model(x), torch.arange(2)), 2)


@program
def adapters_of_low_rank():
    import loralib as lora

    model = fill(
        nn.Sequential(
            lora.Linear(8, 16, r=2),
            nn.Tanh(),
            lora.MergedLinear(16, 6, r=2, enable_lora=[True, False, True]),
            lora.Linear(6, 3, r=1),
        )
    )
    lora.mark_only_lora_as_trainable(model)
    losses = train(model, lambda: F.cross_entropy(model(X), Y))
    model.eval()
    return losses + told(model(X), len(lora.lora_state_dict(model)))


@program
def equilibria():
    from torchdeq import get_deq

    layer = fill(nn.Linear(8, 8))
    deq = get_deq(f_solver="fixed_point_iter", b_solver="fixed_point_iter", f_max_iter=30, b_max_iter=30)

    def loss():
        z, _ = deq(lambda z: torch.tanh(layer(z) * 0.3 + X), torch.zeros_like(X))
        return (z[-1] - X.sin()).square().mean()

    return train(layer, loss, 3)


@program
def equilibria_by_anderson():
    from torchdeq import get_deq

    layer = fill(nn.Linear(8, 8)).double()
    x = X.double()
    deq = get_deq(f_solver="anderson", b_solver="anderson", f_max_iter=20, b_max_iter=20, ift=True)

    def loss():
        z, _ = deq(lambda z: torch.tanh(layer(z) * 0.3 + x), torch.zeros_like(x))
        return (z[-1] - x.sin()).square().mean()

    return train(layer, loss, 3)


@program
def dynamics_by_neural_equations():
    from torchdyn.core import NeuralODE

    field = net(8, 16, 8)
    model = NeuralODE(field, sensitivity="autograd", solver="rk4", return_t_eval=False)
    span = torch.linspace(0, 1, 5)
    return train(model, lambda: (model(X, span)[-1] - X.cos()).square().mean(), 3)


@program
def dynamics_through_an_adjoint():
    from torchdyn.core import NeuralODE

    field = net(8, 16, 8)
    model = NeuralODE(field, sensitivity="adjoint", solver="dopri5", atol=1e-4, rtol=1e-4, return_t_eval=False)
    span = torch.linspace(0, 1, 3)
    return train(model, lambda: (model(X, span)[-1] - X.cos()).square().mean(), 3)


@program
def molecules_by_atoms():
    from torchani import AEVComputer

    computer = AEVComputer.like_2x() if hasattr(AEVComputer, "like_2x") else None
    species = torch.tensor([[0, 1, 2, 0, 0]])
    xyz = (numbers(1, 5, 3) * 1.5).requires_grad_()
    out = computer(species, xyz)
    out = out[1] if isinstance(out, tuple) else out
    out.square().sum().backward()
    return told(out, xyz.grad)


@program
def factorization_machines():
    from torchfm.model.dcn import DeepCrossNetworkModel
    from torchfm.model.dfm import DeepFactorizationMachineModel
    from torchfm.model.fm import FactorizationMachineModel
    from torchfm.model.wd import WideAndDeepModel
    from torchfm.model.xdfm import ExtremeDeepFactorizationMachineModel

    fields, out = [5, 7, 3], []
    x = torch.stack([tokens(1, 16, n)[0] for n in fields], 1)
    y = (torch.arange(16) % 2).float()
    for model in (
        FactorizationMachineModel(fields, 4),
        DeepFactorizationMachineModel(fields, 4, (8,), 0.0),
        WideAndDeepModel(fields, 4, (8,), 0.0),
        DeepCrossNetworkModel(fields, 4, 2, (8,), 0.0),
        ExtremeDeepFactorizationMachineModel(fields, 4, (8,), 0.0, (4, 4)),
    ):
        still(fill(model)).double()
        out += train(model, lambda model=model: F.binary_cross_entropy(model(x), y.double()), 3)
    return out


@program
def many_members_by_voting():
    from torch.utils.data import DataLoader, TensorDataset
    from torchensemble import GradientBoostingClassifier, VotingClassifier

    loader = DataLoader(TensorDataset(X, Y), batch_size=8)
    out = []
    for kind in (VotingClassifier, GradientBoostingClassifier):
        model = kind(estimator=Small, n_estimators=2, cuda=False)
        model.set_optimizer("SGD", lr=0.1)
        model.fit(loader, epochs=1, save_model=False)
        out += told(torch.as_tensor(model.predict(X))[:, 1])
    return out


class Small(nn.Module):
    """A classifier for ensembles, which make it themselves."""

    def __init__(self):
        super().__init__()
        self.net = net(8, 16, 3)

    def forward(self, x):
        return self.net(x)


@program
def resnets_that_explain():
    from zennit.attribution import Gradient
    from zennit.composites import EpsilonGammaBox, EpsilonPlusFlat

    model = fill(
        nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 12 * 12, 5)
        )
    )
    x, out = numbers(2, 3, 16, 16), []
    for composite in (EpsilonPlusFlat(), EpsilonGammaBox(low=-3.0, high=3.0)):
        with Gradient(model=model, composite=composite) as attributor:
            out += told(*attributor(x.clone(), torch.eye(5)[[0, 3]]))
    return out


@program
def maps_of_attention():
    from pytorch_grad_cam import EigenCAM, GradCAM, GradCAMPlusPlus, LayerCAM, XGradCAM
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    model = fill(
        nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 12 * 12, 5)
        )
    ).eval()
    x, out = numbers(2, 3, 16, 16), []
    for kind in (GradCAM, GradCAMPlusPlus, XGradCAM, LayerCAM, EigenCAM):
        with kind(model=model, target_layers=[model[2]]) as cam:
            maps = cam(input_tensor=x, targets=[ClassifierOutputTarget(1)] * 2)
            out += [float(maps.sum()), float(np.abs(maps).max())]
    return out


@program
def transformers_looked_into():
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    model = HookedTransformer(
        HookedTransformerConfig(
            n_layers=2, d_model=16, n_ctx=32, d_head=8, n_heads=2, d_mlp=32, d_vocab=50, act_fn="gelu", seed=0
        )
    )
    fill(model)
    logits, cache = model.run_with_cache(T)
    loss = model.run_with_hooks(
        T, return_type="loss", fwd_hooks=[("blocks.0.hook_resid_post", lambda a, hook: a * 0.5)]
    )
    losses = train(model, lambda: model(T, return_type="loss"), 3)
    return losses + told(logits, loss, cache["pattern", 1], cache["resid_post", -1])


@program
def objects_in_view():
    from ultralytics.nn.tasks import ClassificationModel, DetectionModel, SegmentationModel

    out = []
    for kind, config, size in (
        (DetectionModel, "yolov8n.yaml", 64),
        (SegmentationModel, "yolov8n-seg.yaml", 64),
        (ClassificationModel, "yolov8n-cls.yaml", 64),
        (DetectionModel, "yolo11n.yaml", 64),
    ):
        model = filled(kind(config, verbose=False)).double().eval()
        with torch.no_grad():
            found = model(numbers(1, 3, size, size).double())
        out += told(found[0] if isinstance(found, (tuple, list)) else found)
    return out


@program
def a_detector_trained():

    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    model = fill(DetectionModel("yolov8n.yaml", nc=3, verbose=False)).double().train()
    model.args = get_cfg()
    batch = {
        "img": numbers(2, 3, 64, 64).double(), "cls": torch.tensor([[0.0], [2.0]]), "batch_idx": torch.tensor([0.0, 1.0]),
        "bboxes": torch.tensor([[0.5, 0.5, 0.3, 0.4], [0.4, 0.6, 0.5, 0.5]]),
    }  # fmt: skip
    return train(model, lambda: model(batch)[0].sum(), 2)


@program
def voices_from_spectra():
    from vocos.heads import ISTFTHead
    from vocos.models import VocosBackbone

    backbone = fill(VocosBackbone(input_channels=20, dim=16, intermediate_dim=32, num_layers=2))
    head = fill(ISTFTHead(dim=16, n_fft=64, hop_length=16))
    model, mel = nn.Sequential(backbone, head), numbers(2, 20, 12)
    return train(model, lambda: model(mel).square().mean(), 3)


@program
def words_from_sound():
    from whisper.audio import log_mel_spectrogram
    from whisper.model import ModelDimensions, Whisper

    model = fill(
        Whisper(
            ModelDimensions(
                n_mels=80,
                n_audio_ctx=50,
                n_audio_state=16,
                n_audio_head=2,
                n_audio_layer=1,
                n_vocab=60,
                n_text_ctx=32,
                n_text_state=16,
                n_text_head=2,
                n_text_layer=1,
            )
        )
    )
    mel = numbers(2, 80, 100)
    return train(model, lambda: F.cross_entropy(model(mel, T).flatten(0, 1), T.flatten()), 3) + told(
        log_mel_spectrogram(numbers(16000))
    )


@program
def signals_of_speech():
    import diffsptk

    x = numbers(2, 400)
    frames = diffsptk.Frame(80, 40)(x)
    window = diffsptk.Window(80)(frames)
    lpc = diffsptk.LPC(80, 8).double()(window.double())  # what it solves makes much of the last bits
    stft = diffsptk.STFT(frame_length=80, frame_period=40, fft_length=128)
    spectrum = stft(x)
    mgc = diffsptk.MelCepstralAnalysis(fft_length=128, cep_order=8, alpha=0.3, n_iter=2)(spectrum)
    return told(frames, window, lpc, spectrum, mgc)


@program
def pitch_by_networks():
    from torchcrepe.model import Crepe

    model = filled(Crepe("tiny")).double().eval()
    return told(model(numbers(2, 1024).double()))


@program
def sound_augmented():
    from torch_audiomentations import Compose, PolarityInversion

    augment = Compose([PolarityInversion(p=1.0, output_type="tensor")], output_type="tensor")
    return told(augment(numbers(2, 1, 800), sample_rate=8000))


@program
def transformers_that_hash():
    from reformer_pytorch import ReformerLM

    model = filled(
        ReformerLM(
            num_tokens=50,
            dim=16,
            depth=1,
            max_seq_len=32,
            heads=2,
            bucket_size=8,
            n_hashes=2,
            causal=True,
            full_attn_thres=64,
        )
    )
    return train(model, lambda: F.cross_entropy(model(T).transpose(1, 2), T), 3)


@program
def transformers_that_sort():
    from sinkhorn_transformer import SinkhornTransformerLM

    model = filled(
        SinkhornTransformerLM(num_tokens=50, dim=16, heads=2, depth=1, bucket_size=8, max_seq_len=32, causal=True)
    )
    return told(model.eval()(T))


@program
def transformers_of_space():
    from se3_transformer_pytorch import SE3Transformer

    model = fill(SE3Transformer(dim=8, heads=2, depth=1, dim_head=4, num_degrees=2, valid_radius=10)).double()
    feats, xyz = numbers(1, 8, 8).double(), numbers(1, 8, 3).double() * 2
    return told(model(feats, xyz, torch.ones(1, 8).bool(), return_type=0))


@program
def memory_at_test_time():
    from titans_pytorch import NeuralMemory

    model = fill(NeuralMemory(dim=16, chunk_size=8))
    x = numbers(2, 32, 16)
    return train(model, lambda: model(x)[0].square().mean(), 2)


@program
def experts_of_switches():
    from st_moe_pytorch import MoE

    model = fill(MoE(dim=16, num_experts=4, gating_top_n=2, threshold_train=0.0, threshold_eval=0.0)).eval()
    out = model(numbers(2, 16, 16))
    return told(out[0])


@program
def captions_by_contrast():
    from coca_pytorch.coca_pytorch import CoCa

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 16, 8, stride=8)

        def forward(self, x):
            return self.patch(x).flatten(2).transpose(1, 2)

    model = filled(
        CoCa(
            dim=16,
            img_encoder=Encoder(),
            image_dim=16,
            num_tokens=50,
            unimodal_depth=1,
            multimodal_depth=1,
            dim_head=8,
            heads=2,
        )
    )
    x = numbers(2, 3, 32, 32)
    return train(model, lambda: model(text=T, images=x, return_loss=True), 3)


@program
def integrals_of_many_dimensions():
    from torchquad import Boole, Simpson, Trapezoid

    def f(x):
        return torch.sin(x[:, 0]) + torch.exp(x[:, 1])

    domain = torch.tensor([[0.0, 1.0], [-1.0, 1.0]])
    return told(
        *(
            kind().integrate(f, dim=2, N=441, integration_domain=domain, backend="torch")
            for kind in (Trapezoid, Simpson, Boole)
        )
    )


@program
def functions_solved_with_gradients():
    from xitorch.optimize import rootfinder

    a = torch.tensor([[1.1, 0.4], [0.3, 0.8]], dtype=torch.float64).requires_grad_()
    y0 = torch.zeros(2, 1, dtype=torch.float64)
    root = rootfinder(lambda y, a: torch.tanh(a @ y + 0.1) + y / 2.0, y0, params=(a,))
    root.sum().backward()
    return told(root, a.grad)


@program
def colours_of_stains():
    import torchstain

    x = (numbers(3, 32, 32).abs() * 255).to(torch.uint8)
    n = torchstain.normalizers.ReinhardNormalizer(backend="torch")
    n.fit(x)
    return told(n.normalize(I=x).float())


@program
def networks_that_do_not_know():
    from torch_uncertainty.layers import PackedLinear

    model = fill(
        nn.Sequential(
            PackedLinear(8, 16, alpha=2, num_estimators=2, first=True),
            nn.ReLU(),
            PackedLinear(16, 3, alpha=2, num_estimators=2, last=True),
        )
    )
    return train(model, lambda: F.cross_entropy(model(X), Y.repeat(2)), 3)


@program
def experiences_of_agents():
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, ReplayBuffer
    from torchrl.objectives.value.functional import generalized_advantage_estimate

    buffer = ReplayBuffer(storage=LazyTensorStorage(32), batch_size=4)
    buffer.extend(TensorDict({"x": X, "y": Y}, [16]))
    done = torch.zeros(16, 1, dtype=torch.bool)
    done[7] = True
    advantage, target = generalized_advantage_estimate(
        0.9, 0.95, numbers(16, 1), numbers(16, 1).sin(), numbers(16, 1).cos(), done
    )
    return [float(len(buffer)), float(buffer.sample().shape[0]), *told(advantage, target)]


@program
def agents_by_value():
    from pfrl.nn import MLP, Branched

    model = fill(nn.Sequential(MLP(8, 16, (16,)), Branched(nn.Linear(16, 2), nn.Linear(16, 1))))
    return train(model, lambda: sum(o.square().mean() for o in model(X)), 3)


@program
def agents_of_skill():
    from skrl.resources.preprocessors.torch import RunningStandardScaler
    from skrl.resources.schedulers.torch import KLAdaptiveLR

    scaler = RunningStandardScaler(size=8, device="cpu")
    out = told(scaler(X, train=True), scaler(X.sin()), scaler(X, inverse=True))
    p = nn.Parameter(torch.ones(2))
    schedule = KLAdaptiveLR(torch.optim.Adam([p], lr=1e-3))
    schedule.step(torch.tensor(0.5))
    return [*out, schedule.get_last_lr()[0]]


@program
def proteins_as_sentences():
    import esm

    alphabet = esm.data.Alphabet.from_architecture("ESM-1b")
    model = fill(esm.model.esm2.ESM2(num_layers=2, embed_dim=32, attention_heads=2, alphabet=alphabet)).eval()
    _, _, x = alphabet.get_batch_converter()([("a", "MKTVRQERLK"), ("b", "MKT<mask>RQE")])
    out = model(x, repr_layers=[2], return_contacts=True)
    return told(out["logits"], out["representations"][2], out["contacts"])


@program
def medical_networks():
    from dynamic_network_architectures.architectures.unet import PlainConvUNet, ResidualEncoderUNet

    out = []
    for kind, more in ((PlainConvUNet, {"n_conv_per_stage": 1}), (ResidualEncoderUNet, {"n_blocks_per_stage": 1})):
        model = fill(
            kind(
                1,
                3,
                (4, 8, 8),
                nn.Conv2d,
                3,
                (1, 2, 2),
                num_classes=2,
                n_conv_per_stage_decoder=1,
                conv_bias=True,
                norm_op=nn.InstanceNorm2d,
                norm_op_kwargs={"affine": True},
                nonlin=nn.LeakyReLU,
                nonlin_kwargs={"inplace": True},
                **more,
            )
        )
        x = numbers(1, 1, 16, 16)
        out += train(model, lambda model=model, x=x: model(x).square().mean(), 2)
    return out


@program
def detectors_of_efficiency():
    from effdet import EfficientDet, get_efficientdet_config

    config = get_efficientdet_config("tf_efficientdet_lite0")
    config.image_size, config.num_classes = (128, 128), 3
    model = filled(EfficientDet(config, pretrained_backbone=False)).double().eval()
    with torch.no_grad():
        return told(*model(numbers(1, 3, 128, 128).double()))


@program
def equations_of_physics():
    import os

    os.environ["DDE_BACKEND"] = "pytorch"
    import deepxde as dde

    geometry = dde.geometry.Interval(-1, 1)

    def pde(x, y):
        return -dde.grad.hessian(y, x) - np.pi**2 * torch.sin(np.pi * x)

    condition = dde.icbc.DirichletBC(geometry, lambda x: 0, lambda x, on: on)
    data = dde.data.PDE(geometry, pde, condition, 16, 2, num_test=16, train_distribution="uniform")
    network = dde.nn.FNN([1, 16, 1], "tanh", "Glorot uniform")
    fill(network)
    model = dde.Model(data, network)
    model.compile("adam", lr=1e-3, verbose=0)
    losses, _ = model.train(iterations=5, display_every=1, verbose=0)
    return [float(x) for row in losses.loss_train for x in row]


@program
def circuits_with_torch_inside():
    import pennylane as qml

    device = qml.device("default.qubit", wires=2)

    @qml.qnode(device, interface="torch", diff_method="backprop")
    def circuit(w, x):
        qml.RX(x, wires=0)
        qml.RY(w[0], wires=1)
        qml.CNOT(wires=[0, 1])
        qml.RZ(w[1], wires=1)
        return qml.expval(qml.PauliZ(1))

    w = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    losses = []
    for _ in range(3):
        loss = (circuit(w, torch.tensor(0.4)) - 0.2) ** 2
        loss.backward()
        losses.append(float(loss.detach()))
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
    return losses + told(w)


@program
def lattices():
    from pytorch_lattice.layers import Lattice, NumericalCalibrator

    a = fill(NumericalCalibrator(np.linspace(-1, 1, 5)))
    lattice = fill(Lattice([2, 3]))
    model = nn.ModuleList([a, lattice])
    x = X[:, :1]
    return train(model, lambda: lattice(torch.cat([a(x).sigmoid(), a(x).sigmoid()], 1)).square().mean(), 3)


@program
def quantized_by_torchao():
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = fill(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)))
    quantize_(model, Int8WeightOnlyConfig())
    return told(model(numbers(4, 32)))


@program
def low_rank_of_many_kinds():
    from lycoris import LycorisNetwork, create_lycoris

    model = net(8, 16, 3)
    LycorisNetwork.apply_preset({"target_module": ["Sequential"]})
    network = create_lycoris(model, 1.0, linear_dim=2, linear_alpha=1.0, algo="lora")
    network.apply_to()
    fill(network)
    return train(network, lambda: F.cross_entropy(model(X), Y), 3)


@program
def gpt_of_lightning():
    from litgpt import GPT, Config

    out = []
    for name in ("pythia-14m", "Llama-3.2-1B", "Gemma-2-2b"):
        config = Config.from_name(
            name,
            n_layer=2,
            n_embd=32,
            n_head=4,
            n_query_groups=2 if name != "pythia-14m" else 4,
            head_size=8,
            intermediate_size=64,
            padded_vocab_size=50,
            block_size=32,
        )
        model = fill(GPT(config))
        out += train(model, lambda model=model: F.cross_entropy(model(T).flatten(0, 1).float(), T.flatten()), 2)
    return out


@program
def steering_of_interventions():
    import nnsight

    model = nnsight.NNsight(net(8, 16, 3))
    with model.trace(X):
        hidden = model[0].output.save()
        model[0].output[:] = 0
        out = model.output.save()
    return told(hidden, out)


@program
def matched_by_sentences():
    from sentence_transformers import models, util

    pooled = models.Pooling(16, pooling_mode="mean")
    out = pooled({"token_embeddings": numbers(2, 5, 16), "attention_mask": torch.ones(2, 5).long()})[
        "sentence_embedding"
    ]
    return told(out, util.cos_sim(out, out), util.semantic_search(out, out, top_k=1)[0][0]["score"])


@program
def rewards_from_people():
    from trl.trainer.utils import selective_log_softmax

    return told(selective_log_softmax(numbers(2, 32, 50), T))


@program
def training_with_an_engine():

    from mmengine.model import BaseModel
    from mmengine.optim import OptimWrapper

    class Classifier(BaseModel):
        def __init__(self):
            super().__init__()
            self.net = net(8, 16, 3)

        def forward(self, x, y, mode="loss"):
            out = self.net(x)
            return {"loss": F.cross_entropy(out, y)} if mode == "loss" else out

    model = Classifier()
    wrapper, losses = OptimWrapper(torch.optim.AdamW(model.parameters(), lr=1e-2)), []
    for _ in range(3):
        losses.append(float(model.train_step({"x": X, "y": Y}, wrapper)["loss"].detach()))
    return losses


@program
def lessons_by_fastai():
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.optimizer import Adam
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(X, Y), batch_size=8)
    learner = Learner(
        DataLoaders(loader, loader), net(8, 16, 3), loss_func=nn.CrossEntropyLoss(), opt_func=Adam, lr=1e-2
    )
    import fastai.callback.progress  # noqa: F401

    with learner.no_bar(), learner.no_logging():
        learner.fit(2)
    return [float(x) for x in learner.recorder.losses] + told(*learner.validate())


@program
def forecasts_by_neural_networks():
    from neuralforecast.losses.pytorch import MAE, MQLoss
    from neuralforecast.models import MLP as Forecaster  # noqa: F401

    y, z = numbers(4, 6, 1), numbers(4, 6, 1).sin()
    return told(MAE()(y, z), MQLoss(level=[80])(y, numbers(4, 6, 1, 3)))


@program
def forests_as_tensors():
    from hummingbird.ml import convert
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=5, max_depth=3, random_state=0).fit(X.numpy(), Y.numpy())
    return [float(x) for x in convert(forest, "torch", X.numpy()).predict_proba(X.numpy()).ravel()]


@program
def scans_in_three_dimensions():
    import torchio as tio

    subject = tio.Subject(
        t1=tio.ScalarImage(tensor=numbers(1, 8, 8, 8)),
        label=tio.LabelMap(tensor=(numbers(1, 8, 8, 8) > 0).to(torch.uint8)),
    )
    out = tio.Compose(
        [
            tio.ZNormalization(),
            tio.CropOrPad(6),
            tio.Flip(axes=(0,)) if hasattr(tio, "Flip") else tio.RandomFlip(axes=(0,), flip_probability=1.0),
        ]
    )(subject)
    return told(out.t1.data, out.label.data.float())


@program
def steps_of_many_optimizers():
    import heavyball

    heavyball.utils.compile_mode, out = None, []
    for kind in ("AdamW", "SOAP", "LaProp", "ADOPT", "Muon"):
        out += stepped(getattr(heavyball, kind), 3, lr=1e-2)
    return out


if __name__ == "__main__":
    run_programs()
