"""Tensors and modules print as torch's do. The expectations were printed by torch 2.15."""

import operator

import pytest

import smolder

# fmt: off
EXPECTED = [
    ('t.tensor(3)', 'tensor(3)'),
    ('t.tensor(2.5)', 'tensor(2.5000)'),
    ('t.tensor(True)', 'tensor(True)'),
    ('t.tensor([])', 'tensor([])'),
    ('t.zeros(0, 3)', 'tensor([], size=(0, 3))'),
    ('t.zeros(0, dtype=t.int64)', 'tensor([], dtype=torch.int64)'),
    ('t.tensor([1.0, 2.5, -3.25])', 'tensor([ 1.0000,  2.5000, -3.2500])'),
    ('t.tensor([1.0, 2.0, -3.0])', 'tensor([ 1.,  2., -3.])'),
    ('t.tensor([1, -20, 300])', 'tensor([  1, -20, 300])'),
    ('t.tensor([[True, False], [False, True]])', """tensor([[ True, False],
        [False,  True]])"""),
    ('t.tensor([1e-5, 1.0])', 'tensor([1.0000e-05, 1.0000e+00])'),
    ('t.tensor([1e9, 1.0])', 'tensor([1.0000e+09, 1.0000e+00])'),
    ('t.tensor([1.5, 2000.25, 0.001])', 'tensor([1.5000e+00, 2.0002e+03, 1.0000e-03])'),
    ("t.tensor([float('nan'), 1.0, float('inf'), -float('inf')])", 'tensor([nan, 1., inf, -inf])'),
    ("t.tensor([float('nan'), float('inf')])", 'tensor([nan, inf])'),
    ('t.tensor([0.0, 0.0])', 'tensor([0., 0.])'),
    ('t.tensor([1e-8])', 'tensor([1.0000e-08])'),
    ('t.tensor([123456789.0])', 'tensor([1.2346e+08])'),
    ('t.tensor([0.1], dtype=t.float64)', 'tensor([0.1000], dtype=torch.float64)'),
    ('t.tensor([1, 2], dtype=t.int32)', 'tensor([1, 2], dtype=torch.int32)'),
    ('t.tensor([1.5, 2.0], dtype=t.float16)', 'tensor([1.5000, 2.0000], dtype=torch.float16)'),
    ('t.tensor([1.5, 2.0], dtype=t.bfloat16)', 'tensor([1.5000, 2.0000], dtype=torch.bfloat16)'),
    ('t.tensor([7], dtype=t.uint8)', 'tensor([7], dtype=torch.uint8)'),
    ('t.tensor([7, -128], dtype=t.int8)', 'tensor([   7, -128], dtype=torch.int8)'),
    ('t.tensor([-300, 5], dtype=t.int16)', 'tensor([-300,    5], dtype=torch.int16)'),
    ('t.arange(24).reshape(2, 3, 4)', """tensor([[[ 0,  1,  2,  3],
         [ 4,  5,  6,  7],
         [ 8,  9, 10, 11]],

        [[12, 13, 14, 15],
         [16, 17, 18, 19],
         [20, 21, 22, 23]]])"""),
    ('t.arange(60).reshape(3, 20)', """tensor([[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
         18, 19],
        [20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37,
         38, 39],
        [40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57,
         58, 59]])"""),
    ('t.arange(1001)', 'tensor([   0,    1,    2,  ...,  998,  999, 1000])'),
    ('t.arange(1000)[:7]', 'tensor([0, 1, 2, 3, 4, 5, 6])'),
    ('t.arange(2000).reshape(20, 100)', """tensor([[   0,    1,    2,  ...,   97,   98,   99],
        [ 100,  101,  102,  ...,  197,  198,  199],
        [ 200,  201,  202,  ...,  297,  298,  299],
        ...,
        [1700, 1701, 1702,  ..., 1797, 1798, 1799],
        [1800, 1801, 1802,  ..., 1897, 1898, 1899],
        [1900, 1901, 1902,  ..., 1997, 1998, 1999]])"""),
    ('t.arange(1200).reshape(2, 2, 300) / 8', """tensor([[[0.0000e+00, 1.2500e-01, 2.5000e-01,  ..., 3.7125e+01,
          3.7250e+01, 3.7375e+01],
         [3.7500e+01, 3.7625e+01, 3.7750e+01,  ..., 7.4625e+01,
          7.4750e+01, 7.4875e+01]],

        [[7.5000e+01, 7.5125e+01, 7.5250e+01,  ..., 1.1212e+02,
          1.1225e+02, 1.1238e+02],
         [1.1250e+02, 1.1262e+02, 1.1275e+02,  ..., 1.4962e+02,
          1.4975e+02, 1.4988e+02]]])"""),
    ('t.arange(3000, dtype=t.float32).reshape(10, 10, 30)', """tensor([[[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 2.7000e+01,
          2.8000e+01, 2.9000e+01],
         [3.0000e+01, 3.1000e+01, 3.2000e+01,  ..., 5.7000e+01,
          5.8000e+01, 5.9000e+01],
         [6.0000e+01, 6.1000e+01, 6.2000e+01,  ..., 8.7000e+01,
          8.8000e+01, 8.9000e+01],
         ...,
         [2.1000e+02, 2.1100e+02, 2.1200e+02,  ..., 2.3700e+02,
          2.3800e+02, 2.3900e+02],
         [2.4000e+02, 2.4100e+02, 2.4200e+02,  ..., 2.6700e+02,
          2.6800e+02, 2.6900e+02],
         [2.7000e+02, 2.7100e+02, 2.7200e+02,  ..., 2.9700e+02,
          2.9800e+02, 2.9900e+02]],

        [[3.0000e+02, 3.0100e+02, 3.0200e+02,  ..., 3.2700e+02,
          3.2800e+02, 3.2900e+02],
         [3.3000e+02, 3.3100e+02, 3.3200e+02,  ..., 3.5700e+02,
          3.5800e+02, 3.5900e+02],
         [3.6000e+02, 3.6100e+02, 3.6200e+02,  ..., 3.8700e+02,
          3.8800e+02, 3.8900e+02],
         ...,
         [5.1000e+02, 5.1100e+02, 5.1200e+02,  ..., 5.3700e+02,
          5.3800e+02, 5.3900e+02],
         [5.4000e+02, 5.4100e+02, 5.4200e+02,  ..., 5.6700e+02,
          5.6800e+02, 5.6900e+02],
         [5.7000e+02, 5.7100e+02, 5.7200e+02,  ..., 5.9700e+02,
          5.9800e+02, 5.9900e+02]],

        [[6.0000e+02, 6.0100e+02, 6.0200e+02,  ..., 6.2700e+02,
          6.2800e+02, 6.2900e+02],
         [6.3000e+02, 6.3100e+02, 6.3200e+02,  ..., 6.5700e+02,
          6.5800e+02, 6.5900e+02],
         [6.6000e+02, 6.6100e+02, 6.6200e+02,  ..., 6.8700e+02,
          6.8800e+02, 6.8900e+02],
         ...,
         [8.1000e+02, 8.1100e+02, 8.1200e+02,  ..., 8.3700e+02,
          8.3800e+02, 8.3900e+02],
         [8.4000e+02, 8.4100e+02, 8.4200e+02,  ..., 8.6700e+02,
          8.6800e+02, 8.6900e+02],
         [8.7000e+02, 8.7100e+02, 8.7200e+02,  ..., 8.9700e+02,
          8.9800e+02, 8.9900e+02]],

        ...,

        [[2.1000e+03, 2.1010e+03, 2.1020e+03,  ..., 2.1270e+03,
          2.1280e+03, 2.1290e+03],
         [2.1300e+03, 2.1310e+03, 2.1320e+03,  ..., 2.1570e+03,
          2.1580e+03, 2.1590e+03],
         [2.1600e+03, 2.1610e+03, 2.1620e+03,  ..., 2.1870e+03,
          2.1880e+03, 2.1890e+03],
         ...,
         [2.3100e+03, 2.3110e+03, 2.3120e+03,  ..., 2.3370e+03,
          2.3380e+03, 2.3390e+03],
         [2.3400e+03, 2.3410e+03, 2.3420e+03,  ..., 2.3670e+03,
          2.3680e+03, 2.3690e+03],
         [2.3700e+03, 2.3710e+03, 2.3720e+03,  ..., 2.3970e+03,
          2.3980e+03, 2.3990e+03]],

        [[2.4000e+03, 2.4010e+03, 2.4020e+03,  ..., 2.4270e+03,
          2.4280e+03, 2.4290e+03],
         [2.4300e+03, 2.4310e+03, 2.4320e+03,  ..., 2.4570e+03,
          2.4580e+03, 2.4590e+03],
         [2.4600e+03, 2.4610e+03, 2.4620e+03,  ..., 2.4870e+03,
          2.4880e+03, 2.4890e+03],
         ...,
         [2.6100e+03, 2.6110e+03, 2.6120e+03,  ..., 2.6370e+03,
          2.6380e+03, 2.6390e+03],
         [2.6400e+03, 2.6410e+03, 2.6420e+03,  ..., 2.6670e+03,
          2.6680e+03, 2.6690e+03],
         [2.6700e+03, 2.6710e+03, 2.6720e+03,  ..., 2.6970e+03,
          2.6980e+03, 2.6990e+03]],

        [[2.7000e+03, 2.7010e+03, 2.7020e+03,  ..., 2.7270e+03,
          2.7280e+03, 2.7290e+03],
         [2.7300e+03, 2.7310e+03, 2.7320e+03,  ..., 2.7570e+03,
          2.7580e+03, 2.7590e+03],
         [2.7600e+03, 2.7610e+03, 2.7620e+03,  ..., 2.7870e+03,
          2.7880e+03, 2.7890e+03],
         ...,
         [2.9100e+03, 2.9110e+03, 2.9120e+03,  ..., 2.9370e+03,
          2.9380e+03, 2.9390e+03],
         [2.9400e+03, 2.9410e+03, 2.9420e+03,  ..., 2.9670e+03,
          2.9680e+03, 2.9690e+03],
         [2.9700e+03, 2.9710e+03, 2.9720e+03,  ..., 2.9970e+03,
          2.9980e+03, 2.9990e+03]]])"""),
    ('t.arange(100) / 3', """tensor([ 0.0000,  0.3333,  0.6667,  1.0000,  1.3333,  1.6667,  2.0000,  2.3333,
         2.6667,  3.0000,  3.3333,  3.6667,  4.0000,  4.3333,  4.6667,  5.0000,
         5.3333,  5.6667,  6.0000,  6.3333,  6.6667,  7.0000,  7.3333,  7.6667,
         8.0000,  8.3333,  8.6667,  9.0000,  9.3333,  9.6667, 10.0000, 10.3333,
        10.6667, 11.0000, 11.3333, 11.6667, 12.0000, 12.3333, 12.6667, 13.0000,
        13.3333, 13.6667, 14.0000, 14.3333, 14.6667, 15.0000, 15.3333, 15.6667,
        16.0000, 16.3333, 16.6667, 17.0000, 17.3333, 17.6667, 18.0000, 18.3333,
        18.6667, 19.0000, 19.3333, 19.6667, 20.0000, 20.3333, 20.6667, 21.0000,
        21.3333, 21.6667, 22.0000, 22.3333, 22.6667, 23.0000, 23.3333, 23.6667,
        24.0000, 24.3333, 24.6667, 25.0000, 25.3333, 25.6667, 26.0000, 26.3333,
        26.6667, 27.0000, 27.3333, 27.6667, 28.0000, 28.3333, 28.6667, 29.0000,
        29.3333, 29.6667, 30.0000, 30.3333, 30.6667, 31.0000, 31.3333, 31.6667,
        32.0000, 32.3333, 32.6667, 33.0000])"""),
    ('t.ones(3, requires_grad=True)', 'tensor([1., 1., 1.], requires_grad=True)'),
    ('t.ones(3, requires_grad=True) * 2', 'tensor([2., 2., 2.], grad_fn=<MulBackward0>)'),
    ('t.ones(2, 2, requires_grad=True).sum()', 'tensor(4., grad_fn=<SumBackward0>)'),
    ('t.linspace(0, 1, 30).reshape(1, 30).requires_grad_()', """tensor([[0.0000, 0.0345, 0.0690, 0.1034, 0.1379, 0.1724, 0.2069, 0.2414, 0.2759,
         0.3103, 0.3448, 0.3793, 0.4138, 0.4483, 0.4828, 0.5172, 0.5517, 0.5862,
         0.6207, 0.6552, 0.6897, 0.7241, 0.7586, 0.7931, 0.8276, 0.8621, 0.8966,
         0.9310, 0.9655, 1.0000]], requires_grad=True)"""),
    ('t.nn.Parameter(t.ones(2, 2))', """Parameter containing:
tensor([[1., 1.],
        [1., 1.]], requires_grad=True)"""),
    ('t.nn.Parameter(t.arange(4.0), requires_grad=False)', """Parameter containing:
tensor([0., 1., 2., 3.])"""),
    ('t.zeros(2, 0, 3)', 'tensor([], size=(2, 0, 3))'),
    ('t.tensor([[1e-10, 1.0], [1e10, -1.0]], dtype=t.float64)', """tensor([[ 1.0000e-10,  1.0000e+00],
        [ 1.0000e+10, -1.0000e+00]], dtype=torch.float64)"""),
    ('t.arange(25.0).reshape(5, 5).exp()', """tensor([[1.0000e+00, 2.7183e+00, 7.3891e+00, 2.0086e+01, 5.4598e+01],
        [1.4841e+02, 4.0343e+02, 1.0966e+03, 2.9810e+03, 8.1031e+03],
        [2.2026e+04, 5.9874e+04, 1.6275e+05, 4.4241e+05, 1.2026e+06],
        [3.2690e+06, 8.8861e+06, 2.4155e+07, 6.5660e+07, 1.7848e+08],
        [4.8517e+08, 1.3188e+09, 3.5849e+09, 9.7448e+09, 2.6489e+10]])"""),
    ('t.nn.Linear(3, 4)', 'Linear(in_features=3, out_features=4, bias=True)'),
    ('t.nn.Linear(3, 4, bias=False)', 'Linear(in_features=3, out_features=4, bias=False)'),
    ('t.nn.Sequential()', 'Sequential()'),
    ('t.nn.Sequential(t.nn.Linear(2, 3), t.nn.ReLU(), t.nn.Sequential(t.nn.Flatten(), t.nn.GELU()))', """Sequential(
  (0): Linear(in_features=2, out_features=3, bias=True)
  (1): ReLU()
  (2): Sequential(
    (0): Flatten(start_dim=1, end_dim=-1)
    (1): GELU(approximate='none')
  )
)"""),
    ('t.nn.ModuleList([t.nn.Linear(2, 2), t.nn.Linear(2, 2), t.nn.Tanh()])', """ModuleList(
  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)
  (2): Tanh()
)"""),
    ("t.nn.ModuleDict({'a': t.nn.Identity(), 'b': t.nn.SiLU()})", """ModuleDict(
  (a): Identity()
  (b): SiLU()
)"""),
    ('t.nn.Embedding(5, 3, padding_idx=1)', 'Embedding(5, 3, padding_idx=1)'),
    ('t.nn.LayerNorm(4)', 'LayerNorm((4,), eps=1e-05, elementwise_affine=True)'),
    ('t.nn.LayerNorm((2, 4), elementwise_affine=False)', 'LayerNorm((2, 4), eps=1e-05, elementwise_affine=False)'),
    ('t.nn.Dropout(0.25)', 'Dropout(p=0.25, inplace=False)'),
    ('t.nn.Softmax(dim=1)', 'Softmax(dim=1)'),
    ('t.nn.LogSoftmax(dim=-1)', 'LogSoftmax(dim=-1)'),
    ("t.nn.GELU(approximate='tanh')", "GELU(approximate='tanh')"),
    ('t.nn.ReLU(inplace=True)', 'ReLU(inplace=True)'),
    ('t.nn.MultiheadAttention(8, 2)', """MultiheadAttention(
  (out_proj): NonDynamicallyQuantizableLinear(in_features=8, out_features=8, bias=True)
)"""),
    ('t.nn.TransformerEncoderLayer(8, 2)', """TransformerEncoderLayer(
  (self_attn): MultiheadAttention(
    (out_proj): NonDynamicallyQuantizableLinear(in_features=8, out_features=8, bias=True)
  )
  (linear1): Linear(in_features=8, out_features=2048, bias=True)
  (dropout): Dropout(p=0.1, inplace=False)
  (linear2): Linear(in_features=2048, out_features=8, bias=True)
  (norm1): LayerNorm((8,), eps=1e-05, elementwise_affine=True)
  (norm2): LayerNorm((8,), eps=1e-05, elementwise_affine=True)
  (dropout1): Dropout(p=0.1, inplace=False)
  (dropout2): Dropout(p=0.1, inplace=False)
)"""),
    ('t.nn.CrossEntropyLoss()', 'CrossEntropyLoss()'),
    ('t.nn.ModuleList()', 'ModuleList()'),
    ("t.optim.SGD(t.nn.Linear(1, 1).parameters(), lr=0.1).param_groups[0]['lr']", '0.1'),
]
# fmt: on


@pytest.mark.parametrize(("expression", "expected"), EXPECTED, ids=[e for e, _ in EXPECTED])
def test_prints_as_torch(expression, expected):
    shown = repr(eval(expression, {"t": smolder, "float": float}))
    assert shown.replace("smolder.", "torch.") == expected


def test_print_options():
    t = smolder.tensor([1.23456789, 2.0])
    try:
        smolder.set_printoptions(precision=2)
        assert repr(t) == "tensor([1.23, 2.00])"
        smolder.set_printoptions(sci_mode=True, precision=1)
        assert repr(t) == "tensor([1.2e+00, 2.0e+00])"
        smolder.set_printoptions(profile="default", threshold=4, edgeitems=1)
        assert repr(smolder.arange(5)) == "tensor([0,  ..., 4])"
    finally:
        smolder.set_printoptions(profile="default")
    assert repr(smolder.Size([2, 3])) == "smolder.Size([2, 3])"
    assert [repr(d) for d in (smolder.float32, smolder.bool)] == ["smolder.float32", "smolder.bool"]


def test_dtype_suffix_names_this_library():
    assert repr(smolder.tensor([1], dtype=smolder.int32)) == "tensor([1], dtype=smolder.int32)"


def test_sums_and_multiples_of_sizes_are_sizes():
    size = smolder.Size([2, 3])
    assert repr(operator.add(size, (1,))) == "smolder.Size([2, 3, 1])"
    assert repr(operator.add((1,), size)) == "smolder.Size([1, 2, 3])"
    assert repr(size * 2) == repr(2 * size) == "smolder.Size([2, 3, 2, 3])"
    with pytest.raises(TypeError):
        operator.add([1], size)


def test_groups_of_an_optimizer_are_apart():
    p, q = (smolder.ones(1, requires_grad=True) for _ in range(2))
    text = repr(smolder.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.5}], lr=0.1))
    first, second = text.split("\n\n")
    assert first.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert second.startswith("Parameter Group 1\n") and second.endswith(")")
    assert "    lr: 0.1\n" in first and "    lr: 0.5\n" in second
