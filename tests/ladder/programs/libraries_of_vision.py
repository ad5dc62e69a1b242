"""Libraries of models that see, from PyPI: vit-pytorch's models and others, each trained a few steps."""

import importlib

import torch
from common import fill, fit, named, numbers, on_images, program, run_programs, still, told, train
from torch import nn

SMALL = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}
LINE = {
    "seq_len": 64,
    "patch_size": 8,
    "num_classes": 10,
    "dim": 32,
    "depth": 2,
    "heads": 2,
    "mlp_dim": 64,
    "channels": 3,
}
FRAMES = {"image_size": 32, "image_patch_size": 8, "frames": 4, "frame_patch_size": 2, "num_classes": 10, "dim": 32}


def stages(names, **each):
    return {f"s{i + 1}_{k}": v for i in range(names) for k, v in each.items()}


VITS = {  # module: class, size of its images, options
    "simple_vit_1d": ("SimpleViT", (2, 3, 64), LINE),
    "vit_1d": ("ViT", (2, 3, 64), LINE),
    "deepvit": ("DeepViT", 32, SMALL),
    "cait": ("CaiT", 32, {**SMALL, "cls_depth": 1}),
    "t2t": ("T2TViT", 32, {"image_size": 32, "num_classes": 10, "dim": 32, "depth": 1, "heads": 2, "mlp_dim": 64, "t2t_layers": ((7, 4), (3, 2))}),
    "cct": ("CCT", 32, {
        "img_size": 32, "num_classes": 10, "embedding_dim": 32, "n_conv_layers": 1, "kernel_size": 3, "stride": 2, "padding": 1,
        "pooling_kernel_size": 3, "pooling_stride": 2, "pooling_padding": 1, "num_layers": 2, "num_heads": 2, "mlp_ratio": 2.0,
        "positional_embedding": "learnable", "stochastic_depth_rate": 0.0,
    }),
    "cross_vit": ("CrossViT", 32, {
        "image_size": 32, "num_classes": 10, "depth": 1, "cross_attn_depth": 1, "cross_attn_heads": 2,
        "sm_dim": 16, "sm_patch_size": 8, "sm_enc_depth": 1, "sm_enc_heads": 2, "sm_enc_mlp_dim": 32,
        "lg_dim": 32, "lg_patch_size": 16, "lg_enc_depth": 1, "lg_enc_heads": 2, "lg_enc_mlp_dim": 32,
    }),
    "pit": ("PiT", 56, {"image_size": 56, "patch_size": 14, "dim": 32, "num_classes": 10, "depth": (1, 1, 1), "heads": 2, "mlp_dim": 32}),
    "levit": ("LeViT", 64, {"image_size": 64, "num_classes": 10, "stages": 3, "dim": (16, 24, 32), "depth": 1, "heads": (2, 2, 2), "mlp_mult": 2}),
    "cvt": ("CvT", 32, {"num_classes": 10, **stages(3, emb_dim=16, depth=1, heads=1)}),
    "twins_svt": ("TwinsSVT", 64, {"num_classes": 10, **stages(4, emb_dim=16, patch_size=2, local_patch_size=4, global_k=4, depth=1)}),
    "regionvit": ("RegionViT", 64, {"dim": (16, 16, 16, 16), "depth": (1, 1, 1, 1), "window_size": 2, "num_classes": 10}),
    "scalable_vit": ("ScalableViT", 64, {
        "num_classes": 10, "dim": 16, "heads": (1, 1, 1, 1), "depth": (1, 1, 1, 1), "ssa_dim_key": (8, 8, 8, 8),
        "reduction_factor": (2, 1, 1, 1), "window_size": (4, 4, None, None),
    }),
    "nest": ("NesT", 32, {"image_size": 32, "patch_size": 4, "dim": 16, "heads": 2, "num_hierarchies": 2, "block_repeats": (1, 1), "num_classes": 10}),
    "mobile_vit": ("MobileViT", 64, {"image_size": (64, 64), "dims": [16, 16, 16], "channels": [*[8] * 10, 16], "num_classes": 10}),
    "xcit": ("XCiT", 32, {**SMALL, "cls_depth": 1, "local_patch_kernel_size": 3}),
    "max_vit": ("MaxViT", 64, {"num_classes": 10, "dim_conv_stem": 8, "dim": 16, "dim_head": 8, "depth": (1, 1), "window_size": 4, "mbconv_expansion_rate": 2}),
    "sep_vit": ("SepViT", 224, {"num_classes": 10, "dim": 16, "dim_head": 8, "heads": (1, 1, 1, 1), "depth": (1, 1, 1, 1), "window_size": 7}),
    "vit_for_small_dataset": ("ViT", 32, SMALL),
    "rvt": ("RvT", 32, SMALL),
    "parallel_vit": ("ViT", 32, SMALL),
    "simple_vit_with_register_tokens": ("SimpleViT", 32, {**SMALL, "num_register_tokens": 2}),
    "simple_vit_with_fft": ("SimpleViT", 32, {**SMALL, "freq_patch_size": 8}),
    "vit_with_patch_merger": ("ViT", 32, {**SMALL, "patch_merge_layer": 1, "patch_merge_num_tokens": 4}),
    "look_vit": ("LookViT", 32, {
        "dim": 32, "image_size": 32, "num_classes": 10, "depth": 2, "patch_size": 8, "heads": 2, "mlp_factor": 2, "dim_head": 16,
        "highres_patch_size": 4, "highres_mlp_factor": 2, "cross_attn_heads": 2, "cross_attn_dim_head": 16, "patch_conv_kernel_size": 3,
    }),
    "vivit": ("ViViT", (2, 3, 4, 32, 32), {**FRAMES, "spatial_depth": 1, "temporal_depth": 1, "heads": 2, "mlp_dim": 32}),
    "vit_3d": ("ViT", (2, 3, 4, 32, 32), {**FRAMES, "depth": 1, "heads": 2, "mlp_dim": 32}),
    "normalized_vit": ("nViT", 32, SMALL),
    "ats_vit": ("ViT", 32, {**SMALL, "max_tokens_per_depth": (16, 8)}),
}  # fmt: skip


def vit(module, kind, of, options):
    model = getattr(importlib.import_module(f"vit_pytorch.{module}"), kind)(**options)
    return on_images(model, shape=of) if isinstance(of, tuple) else on_images(model, of)


for module, (kind, of, options) in VITS.items():
    named(f"vit_pytorch {module}", lambda *args: vit(*args), module, kind, of, options)


@program
def vit_pytorch_distilled():
    from torchvision.models import resnet18
    from vit_pytorch.distill import DistillableViT, DistillWrapper

    teacher = resnet18(num_classes=10).eval()
    model = DistillWrapper(student=DistillableViT(**SMALL), teacher=teacher, temperature=3, alpha=0.5, hard=False)
    x, y = numbers(2, 3, 32, 32), torch.arange(2)
    fill(model)
    return train(model, lambda: model(x, y), 2)


@program
def vit_pytorch_recorder_and_extractor():
    from vit_pytorch import ViT
    from vit_pytorch.extractor import Extractor
    from vit_pytorch.recorder import Recorder

    model, x = fill(ViT(**SMALL)), numbers(2, 3, 32, 32)
    recorder = Recorder(model)
    out = recorder(x)
    return told(out, Extractor(recorder.eject())(x))


@program
def vit_pytorch_na_vit():
    from vit_pytorch.na_vit import NaViT

    model = fill(NaViT(**{**SMALL, "image_size": 64})).eval()
    with torch.no_grad():
        return told(model([[numbers(3, 32, 64), numbers(3, 16, 16)], [numbers(3, 32, 32)]]))


@program
def segmentation_models():
    import segmentation_models_pytorch as smp

    out, x, y = [], numbers(2, 3, 64, 64), (numbers(2, 2, 64, 64) > 0).float()
    for kind, options in (
        ("Unet", {"decoder_channels": (32, 16, 16, 8, 8)}),
        ("FPN", {}),
        ("PSPNet", {}),
        ("Linknet", {}),
    ):
        model = still(fill(getattr(smp, kind)("resnet18", encoder_weights=None, classes=2, **options))).eval()
        loss = smp.losses.DiceLoss("multilabel")
        out += train(model, lambda: loss(model(x), y), 2)  # noqa: B023
    return out


TIMM = [
    "swin_tiny_patch4_window7_224",
    "mixer_s32_224",
    "gmlp_ti16_224",
    "resmlp_12_224",
    "poolformer_s12",
    "regnetx_002",
    "densenet121",
    "vgg11",
    "xception41",
    "ghostnet_050",
    "mnasnet_050",
    "rexnet_100",
    "repvgg_a0",
    "edgenext_xx_small",
    "mobileone_s0",
    "fastvit_t8",
    "pvt_v2_b0",
    "coat_lite_tiny",
    "twins_svt_small",
    "levit_128s",
    "efficientformer_l1",
    "mobilevit_xxs",
    "crossvit_tiny_240",
    "cspresnet50",
    "eca_resnet33ts",
    "lcnet_050",
    "tinynet_e",
    "volo_d1_224",
    "maxvit_pico_rw_256",
    "hardcorenas_a",
    "selecsls42",
    "dla34",
    "res2net50_26w_4s",
    "nf_regnet_b0",
    "botnet26t_256",
    "gcresnext26ts",
    "lambda_resnet26t",
    "focalnet_tiny_srf",
    "davit_tiny",
    "nextvit_small",
    "hgnet_tiny",
    "inception_v3",
    "dpn48b",
    "tresnet_m",
    "visformer_tiny",
    "xcit_nano_12_p16_224",
    "beit_base_patch16_224",
    "eva02_tiny_patch14_224",
    "hiera_tiny_224",
    "starnet_s1",
    "rdnet_tiny",
    "efficientvit_b0",
    "mambaout_femto",
    "repghostnet_050",
    "gcvit_xxtiny",
    "cait_xxs24_224",
    "deit3_small_patch16_224",
]


def timm_model(name):
    import timm

    sizes = {"inception_v3": 96, "crossvit_tiny_240": 240, "botnet26t_256": 256, "maxvit_pico_rw_256": 256}
    model = timm.create_model(name, num_classes=10, drop_rate=0.0)
    size = sizes.get(name) or (
        model.pretrained_cfg["input_size"][-1] if model.pretrained_cfg.get("fixed_input_size") else 64
    )
    x = numbers(1, 3, size, size)
    model = still(fill(model)).eval()
    out = model(x)
    out.pow(2).mean().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [*told(out), float(sum(g.double().abs().sum() for g in gradients))]


for name in TIMM:
    named(f"timm {name}", timm_model, name)


TORCHVISION = [
    "alexnet",
    "vgg11_bn",
    "squeezenet1_1",
    "densenet121",
    "googlenet",
    "shufflenet_v2_x0_5",
    "mnasnet0_5",
    "efficientnet_b0",
    "regnet_y_400mf",
    "convnext_tiny",
    "swin_t",
    "swin_v2_t",
    "maxvit_t",
    "vit_b_32",
    "mobilenet_v2",
    "resnext50_32x4d",
]


def torchvision_model(name):
    import torchvision

    size = 224 if name in ("maxvit_t", "vit_b_32") else 64
    model = still(fill(getattr(torchvision.models, name)(num_classes=10))).eval()
    out = model(numbers(1, 3, size, size))
    out.pow(2).mean().backward()
    return [*told(out), float(sum(p.grad.double().abs().sum() for p in model.parameters() if p.grad is not None))]


for name in TORCHVISION:
    named(f"torchvision {name}", torchvision_model, name)


@program
def torchvision_segmentation_and_video():
    from torchvision.models import segmentation, video

    out = []
    for kind in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
        model = still(fill(getattr(segmentation, kind)(weights=None, weights_backbone=None, num_classes=3))).eval()
        with torch.no_grad():
            out += told(model(numbers(1, 3, 64, 64))["out"])
    model = fill(video.r2plus1d_18(num_classes=4)).eval()
    with torch.no_grad():
        return [*out, *told(model(numbers(1, 3, 4, 32, 32)))]


@program
def torchvision_detection():
    from torchvision.models import detection

    boxes = torch.tensor([[8.0, 8, 60, 50], [40, 20, 90, 80]]).double()
    out, targets = [], [{"boxes": boxes, "labels": torch.tensor([1, 2])}]
    image = numbers(3, 96, 128).abs().double()
    for kind in (
        "retinanet_resnet50_fpn",
        "fasterrcnn_mobilenet_v3_large_320_fpn",
        "fcos_resnet50_fpn",
        "ssdlite320_mobilenet_v3_large",
    ):
        draws_none = kind in ("retinanet_resnet50_fpn", "fcos_resnet50_fpn")  # no boxes at random in its losses
        options = {"min_size": 96} if draws_none else {}
        model = getattr(detection, kind)(weights=None, weights_backbone=None, num_classes=3, **options)
        model = fill(model).double().eval()
        with torch.no_grad():  # many boxes have the same score, and which of these come first is nobody's to say
            out += told(model([image])[0]["scores"][:20])
        if draws_none:
            for part in (model.head, model.transform, model):
                part.training = True
            losses = model([image], targets)
            out += told(losses)
            sum(losses.values()).backward()
            out += told(next(p.grad for n, p in model.named_parameters() if "head" in n and p.grad is not None))
    return out


@program
def metric_learning():
    from pytorch_metric_learning import distances, losses, miners

    x, y, out = numbers(16, 8), torch.arange(16) % 4, []
    for kind in (
        "TripletMarginLoss",
        "ContrastiveLoss",
        "NTXentLoss",
        "MultiSimilarityLoss",
        "CircleLoss",
        "SupConLoss",
        "NPairsLoss",
        "LiftedStructureLoss",
    ):
        net, loss = fill(nn.Linear(8, 4)), getattr(losses, kind)()
        out += train(net, lambda: loss(net(x), y), 2)  # noqa: B023
    out += told(*miners.BatchHardMiner()(net(x), y), distances.CosineSimilarity()(net(x)))
    proxy = fill(losses.ArcFaceLoss(4, 4))
    return [*out, *fit(nn.ModuleList([net, proxy]), lambda: proxy(net(x), y), 3)]


@program
def attacks_on_classifiers():
    import torchattacks

    model = fill(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))).eval()
    x, y, out = numbers(4, 3, 8, 8).sigmoid(), torch.arange(4) % 3, []
    for kind, options in (
        ("FGSM", {}),
        ("PGD", {"steps": 3, "random_start": False}),
        ("MIFGSM", {"steps": 2}),
        ("CW", {"steps": 3}),
        ("BIM", {"steps": 2}),
    ):
        out += told(getattr(torchattacks, kind)(model, **options)(x, y))
    return out


@program
def likeness_of_images():
    import piq
    from pytorch_msssim import ms_ssim, ssim

    a, b = numbers(2, 3, 48, 48).sigmoid().requires_grad_(), numbers(2, 3, 48, 48).sin().sigmoid()
    out = [
        ssim(a, b, data_range=1.0),
        ssim(a, b, data_range=1.0, size_average=False),
        piq.psnr(a, b),
        piq.gmsd(a, b),
        piq.vif_p(a, b),
        piq.fsim(a, b),
        piq.total_variation(a),
        piq.haarpsi(a, b),
        piq.mdsi(a, b),
        piq.srsim(a, b),
    ]
    sum(o.sum() for o in out).backward()
    wide = numbers(1, 1, 170, 170).sigmoid()
    return told(out, a.grad, ms_ssim(wide, wide.sin(), data_range=1.0))


@program
def wavelets():
    from pytorch_wavelets import DTCWTForward, DWTForward, DWTInverse

    x, forth, back = (
        numbers(1, 2, 16, 16),
        DWTForward(J=2, wave="db2", mode="zero"),
        DWTInverse(wave="db2", mode="zero"),
    )
    low, high = forth(x)
    return told(low, high, back((low, high)), DTCWTForward(J=2)(x)[0])


@program
def medical_images():
    from monai.losses import DiceCELoss, FocalLoss, TverskyLoss
    from monai.networks.nets import AttentionUnet, SegResNet, UNet
    from monai.transforms import Compose, Flip, GaussianSmooth, NormalizeIntensity, Resize, Rotate, ScaleIntensity, Zoom

    net = fill(
        UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)
    )
    x, y, loss = (
        numbers(1, 1, 16, 16, 16),
        (numbers(1, 1, 16, 16, 16) > 0).long(),
        DiceCELoss(to_onehot_y=True, softmax=True),
    )
    out = train(net, lambda: loss(net(x), y), 2)
    out += told(FocalLoss(to_onehot_y=True)(net(x), y), TverskyLoss(to_onehot_y=True, softmax=True)(net(x), y))
    flat = numbers(1, 1, 32, 32)
    out += told(fill(SegResNet(spatial_dims=2, init_filters=8, in_channels=1, out_channels=2)).eval()(flat))
    out += told(fill(AttentionUnet(2, 1, 2, (4, 8), (2,))).eval()(flat))
    steps = [
        ScaleIntensity(),
        Rotate(0.3),
        Zoom(1.2),
        GaussianSmooth(1.0),
        NormalizeIntensity(),
        Flip(0),
        Resize((20, 20)),
    ]
    return [*out, *told(Compose(steps)(flat[0]))]


def made(package, kind, options, shape, steps=3):
    """A model of a package, trained to make its output small."""
    model = still(fill(getattr(importlib.import_module(package), kind)(**options)))
    x = numbers(*shape)

    def loss():
        out = model(x)
        out = out[0] if isinstance(out, tuple) else out
        return (out - 0.1).pow(2).mean()

    return train(model, loss, steps)


SEE = {
    "mlp_mixer_pytorch MLPMixer": ({"image_size": 32, "channels": 3, "patch_size": 8, "dim": 16, "depth": 2, "num_classes": 5}, (2, 3, 32, 32)),
    "g_mlp_pytorch gMLPVision": ({"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 16, "depth": 2}, (2, 3, 32, 32)),
    "res_mlp_pytorch ResMLP": ({"image_size": 32, "patch_size": 8, "dim": 16, "depth": 2, "num_classes": 5}, (2, 3, 32, 32)),
    "timesformer_pytorch TimeSformer": (
        {"dim": 16, "image_size": 16, "patch_size": 8, "num_frames": 2, "num_classes": 5, "depth": 1, "heads": 2, "dim_head": 8}, (1, 2, 3, 16, 16)
    ),
    "nystrom_attention Nystromformer": ({"dim": 16, "dim_head": 8, "heads": 2, "depth": 1, "num_landmarks": 4, "pinv_iterations": 3}, (1, 16, 16)),
    "linformer Linformer": ({"dim": 16, "seq_len": 12, "depth": 1, "heads": 2, "k": 4}, (1, 12, 16)),
    "linear_attention_transformer LinearAttentionTransformer": ({"dim": 16, "heads": 2, "depth": 1, "max_seq_len": 16}, (1, 16, 16)),
    "axial_attention AxialImageTransformer": ({"dim": 8, "depth": 1, "heads": 2, "reversible": False}, (1, 8, 6, 5)),
    "memory_efficient_attention_pytorch Attention": ({"dim": 16, "dim_head": 8, "heads": 2, "memory_efficient": True, "q_bucket_size": 4, "k_bucket_size": 4}, (1, 12, 16)),
    "flash_pytorch GAU": ({"dim": 16, "query_key_dim": 8, "causal": True}, (1, 12, 16)),
    "flash_pytorch FLASH": ({"dim": 16, "group_size": 4, "causal": True, "query_key_dim": 8}, (1, 12, 16)),
    "soft_moe_pytorch SoftMoE": ({"dim": 16, "seq_len": 12, "num_experts": 3}, (1, 12, 16)),
    "mixture_of_experts MoE": ({"dim": 16, "num_experts": 4}, (2, 12, 16)),
    "glom_pytorch Glom": ({"dim": 16, "levels": 3, "image_size": 16, "patch_size": 4}, (1, 3, 16, 16)),
    "gateloop_transformer SimpleGateLoopLayer": ({"dim": 16}, (1, 12, 16)),
    "gateloop_transformer GateLoopedAttention": ({"dim": 16, "heads": 2}, (1, 12, 16)),
    "conformer ConformerBlock": ({"dim": 16, "dim_head": 8, "heads": 2}, (1, 12, 16)),
    "perceiver_pytorch Perceiver": (
        {
            "input_channels": 3, "input_axis": 2, "num_freq_bands": 3, "max_freq": 10.0, "depth": 1, "num_latents": 6, "latent_dim": 16,
            "cross_heads": 1, "latent_heads": 2, "cross_dim_head": 8, "latent_dim_head": 8, "num_classes": 4,
        },
        (1, 8, 8, 3),
    ),
    "PEER_pytorch PEER": ({"dim": 16, "heads": 2, "num_experts": 16, "num_experts_per_head": 2, "dim_key": 8}, (1, 6, 16)),
    "pytorch_tcn TCN": ({"num_inputs": 4, "num_channels": [8, 8], "kernel_size": 3, "dropout": 0.0}, (2, 4, 12)),
    "mambapy.mamba Mamba": (None, (2, 10, 16)),
    "rtdl_num_embeddings PeriodicEmbeddings": ({"n_features": 4, "d_embedding": 6, "lite": False}, (5, 4)),
    "rtdl_revisiting_models MLP": ({"d_in": 6, "d_out": 2, "n_blocks": 2, "d_block": 8, "dropout": 0.0}, (5, 6)),
    "rtdl_revisiting_models ResNet": ({"d_in": 6, "d_out": 2, "n_blocks": 2, "d_block": 8, "d_hidden": None, "d_hidden_multiplier": 2.0, "dropout1": 0.0, "dropout2": 0.0}, (5, 6)),
}  # fmt: skip


def seen(what):
    package, kind = what.split()
    options, shape = SEE[what]
    if options is None:
        from mambapy.mamba import MambaConfig

        options = {"config": MambaConfig(d_model=16, n_layers=2)}
    return made(package, kind, options, shape)


for what in SEE:
    named(what.replace("_pytorch", ""), seen, what)


if __name__ == "__main__":
    run_programs()
