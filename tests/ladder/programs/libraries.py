"""Libraries from PyPI, each with a small model of its kind: the losses of a few steps, or what it computes."""

import sys
import tempfile
import traceback

import torch
from common import fill, net, numbers, say, tokens, train
from torch import nn
from torch.nn import functional as F

X, Y = numbers(16, 8), torch.arange(16) % 3


def classifier():
    return fill(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)))


def trained_on_images(model, size=32, classes=10):
    # In float64: a batch norm of two values makes much of the last bits, in PyTorch as here.
    x, y = numbers(2, 3, size, size).double(), torch.arange(2) % classes
    model = fill(model).double().train()
    return train(model, lambda: F.cross_entropy(model(x), y))


def einops():
    from einops import rearrange, reduce, repeat
    from einops.layers.torch import Rearrange

    model = nn.Sequential(Rearrange("b (h w) -> b h w", h=2), nn.Flatten(), classifier())
    out = train(model, lambda: F.cross_entropy(model(X), Y))
    x = rearrange(X, "(a b) c -> a c b", a=4)
    return [*out, float(reduce(x, "a c b -> c", "max").sum()), float(repeat(x, "a c b -> a c b k", k=2).mean())]


def torchdiffeq():
    from torchdiffeq import odeint, odeint_adjoint

    net = fill(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)))
    func = nn.Module()
    func.net = net
    func.forward = lambda t, y: net(y)
    t = torch.linspace(0, 1, 5)
    losses = train(net, lambda: odeint(func, X, t, method="rk4")[-1].pow(2).mean())
    return losses + train(
        net, lambda: odeint_adjoint(func, X, t, adjoint_params=tuple(net.parameters()))[-1].pow(2).mean(), 2
    )


def torchmetrics():
    import torchmetrics as tm

    scores, out = numbers(16, 3).softmax(-1), []
    for metric in (
        tm.Accuracy(task="multiclass", num_classes=3),
        tm.F1Score(task="multiclass", num_classes=3, average="macro"),
        tm.AUROC(task="multiclass", num_classes=3),
    ):
        metric.update(scores[:8], Y[:8])
        metric.update(scores[8:], Y[8:])
        out.append(float(metric.compute()))
    error = tm.MeanSquaredError()
    return [*out, float(error(X[:, 0], X[:, 1])), float(error.compute())]


def peft():
    import transformers as t
    from peft import LoraConfig, get_peft_model

    config = t.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=96
    )
    model = fill(
        get_peft_model(t.LlamaForCausalLM(config), LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
    )
    ids = tokens(2, 12, 96)
    losses = train(model, lambda: model(input_ids=ids, labels=ids).loss, lr=1e-2)
    return [*losses, float(model.merge_and_unload()(input_ids=ids, labels=ids).loss)]


def accelerate():
    from accelerate import Accelerator

    helper, model = Accelerator(cpu=True), classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=8)
    model, optimizer, loader = helper.prepare(model, optimizer, loader)
    losses = []
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            helper.backward(loss)
            optimizer.step()
            losses.append(float(loss))
    return losses


def safetensors():
    from safetensors.torch import load_file, save_file

    state = classifier().state_dict() | {"half": X.half(), "ids": Y, "bits": X > 0, "b": X.bfloat16()}
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        save_file(state, file.name)
        again = load_file(file.name)
    return [float((again[k].float() - v.float()).abs().max()) for k, v in state.items()]


def timm(name, **options):
    import timm

    return trained_on_images(timm.create_model(name, num_classes=10, **options))


def torchvision(name, size=32):
    import torchvision

    return trained_on_images(getattr(torchvision.models, name)(num_classes=10), size)


def transforms():
    from torchvision.transforms import v2

    image = (numbers(3, 20, 24) * 127 + 128).clamp(0, 255).to(torch.uint8)
    steps = v2.Compose(
        [
            v2.Resize((16, 16), antialias=True),
            v2.CenterCrop(12),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    out = steps(image)
    return [float(out.mean()), float(out.std()), float(v2.functional.horizontal_flip(out)[0, 0, 0])]


def lightning():
    import lightning as pl

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.losses = classifier(), []

        def training_step(self, batch, _):
            loss = F.cross_entropy(self.net(batch[0]), batch[1])
            self.losses.append(float(loss))
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    model = Model()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=8)
    with tempfile.TemporaryDirectory() as folder:
        quiet = {
            "logger": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "enable_checkpointing": False,
        }
        pl.Trainer(max_epochs=3, accelerator="cpu", default_root_dir=folder, **quiet).fit(model, loader)
    return model.losses


def skorch():
    from skorch import NeuralNetClassifier

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = classifier()

        def forward(self, x):
            return self.net(x).softmax(-1)

    net = NeuralNetClassifier(Net, max_epochs=4, lr=0.1, train_split=None, iterator_train__shuffle=False, verbose=0)
    net.fit(X.numpy(), Y.numpy())
    return [row["train_loss"] for row in net.history]


def captum():
    from captum.attr import DeepLift, IntegratedGradients, LayerConductance, Saliency

    model, out = classifier().eval(), []
    for kind in (IntegratedGradients, Saliency, DeepLift):
        out.append(float(kind(model).attribute(X.clone().requires_grad_(), target=1).abs().sum()))
    return [*out, float(LayerConductance(model, model[0]).attribute(X, target=1).sum())]


def kornia():
    import kornia

    image = numbers(1, 3, 16, 16).abs()
    return [
        float(kornia.filters.gaussian_blur2d(image, (3, 3), (1.0, 1.0)).mean()),
        float(kornia.color.rgb_to_hsv(image).sum()),
    ]


def torch_geometric(layer):
    from torch_geometric import nn as gnn
    from torch_geometric.data import Data

    edges = torch.stack([tokens(1, 40, 16)[0], (tokens(1, 40, 16)[0] * 3 + 1) % 16])
    data = Data(x=X, edge_index=edges, y=Y)
    first, second = getattr(gnn, layer)(8, 16), getattr(gnn, layer)(16, 3)
    model = fill(nn.ModuleList([first, second]))
    return train(model, lambda: F.cross_entropy(second(first(data.x, data.edge_index).relu(), data.edge_index), data.y))


def pyro():
    import pyro
    import pyro.distributions as dist

    pyro.clear_param_store()
    pyro.set_rng_seed(0)

    def model(x):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(x)):
            pyro.sample("x", dist.Normal(mean, 1.0), obs=x)

    guide = pyro.infer.autoguide.AutoDelta(model)
    svi = pyro.infer.SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), pyro.infer.Trace_ELBO())
    return [float(svi.step(X[:, 0])) for _ in range(5)]


def gpytorch():
    import gpytorch

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean, self.kernel = (
                gpytorch.means.ConstantMean(),
                gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()),
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(X, X[:, 0].sin(), likelihood).train()
    score = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return train(model, lambda: -score(model(X), X[:, 0].sin()), lr=0.1)


def stable_baselines3():
    import stable_baselines3 as sb3

    agent = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, seed=0, device="cpu")
    fill(agent.policy)
    agent.learn(128)
    return [float(sum(p.numel() for p in agent.policy.parameters())), float(agent.num_timesteps)]


def x_transformers():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=96, max_seq_len=64, attn_layers=Decoder(dim=32, depth=2, heads=4, attn_dim_head=8)
    )
    model, ids = fill(AutoregressiveWrapper(model)), tokens(2, 12, 96)
    return train(model, lambda: model(ids))


def vit_pytorch():
    from vit_pytorch import SimpleViT, ViT

    sizes = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 64}
    return trained_on_images(ViT(**sizes)) + trained_on_images(SimpleViT(**sizes))


def diffusers():
    from diffusers import DDPMScheduler, UNet2DModel

    unet = UNet2DModel(
        sample_size=16, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    fill(unet)
    x, noise, at = numbers(2, 3, 16, 16), numbers(2, 3, 16, 16).sin(), torch.tensor([10, 500])
    noisy = DDPMScheduler().add_noise(x, noise, at)
    return train(unet, lambda: F.mse_loss(unet(noisy, at).sample, noise), 3)


def tensordict():
    import tempfile

    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    layers = TensorDictModule(net(4, 8), ["x"], ["h"]), TensorDictModule(net(8, 1), ["h"], ["y"])
    model, data = TensorDictSequential(*layers), TensorDict({"x": numbers(10, 4), "to": {"y": numbers(10, 1)}}, [10])
    losses = train(model, lambda: F.mse_loss(model(data.clone())["y"], data["to", "y"]))
    zeros = TensorDict.from_module(model).apply(torch.zeros_like)
    with zeros.to_module(model):
        losses.append(float(model(data.clone())["y"].sum()))
    with tempfile.TemporaryDirectory() as folder:
        data.memmap(folder)
        losses.append(float(TensorDict.load_memmap(folder)["x"].sum()))
    both = torch.stack([data, data * 2 + 1])
    losses += [float(v.sum()) for v in both.gather(1, torch.tensor([[2, 0], [1, 1]])).flatten_keys().values()]
    return [*losses, *torch.vmap(lambda d: d["x"].sum())(both[1, :3]).tolist()]


PROGRAMS = {
    "einops": einops,
    "torchdiffeq": torchdiffeq,
    "torchmetrics": torchmetrics,
    "peft": peft,
    "accelerate": accelerate,
    "safetensors": safetensors,
    "timm resnet10t": lambda: timm("resnet10t"),
    "timm vit_tiny": lambda: timm("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2),
    "timm convnext": lambda: timm("convnext_atto"),
    "timm mobilenetv3": lambda: timm("mobilenetv3_small_050"),
    "timm efficientnet": lambda: timm("efficientnet_b0"),
    "torchvision resnet18": lambda: torchvision("resnet18"),
    "torchvision mobilenet_v3_small": lambda: torchvision("mobilenet_v3_small"),
    "torchvision transforms": transforms,
    "lightning": lightning,
    "skorch": skorch,
    "captum": captum,
    "kornia": kornia,
    "torch_geometric GCNConv": lambda: torch_geometric("GCNConv"),
    "torch_geometric GATConv": lambda: torch_geometric("GATConv"),
    "torch_geometric SAGEConv": lambda: torch_geometric("SAGEConv"),
    "pyro": pyro,
    "gpytorch": gpytorch,
    "stable_baselines3": stable_baselines3,
    "x_transformers": x_transformers,
    "vit_pytorch": vit_pytorch,
    "diffusers": diffusers,
    "tensordict": tensordict,
}

for name in sys.argv[1:] or PROGRAMS:
    torch.manual_seed(0)
    try:
        say(program=name, losses=PROGRAMS[name](), made=None)
    except BaseException as error:
        say(program=name, error=f"{type(error).__name__}: {error}"[:300], at=traceback.format_exc().splitlines()[-6:])
