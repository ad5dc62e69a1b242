"""Layers of batches without elements: results have a history, and statistics stay what they are."""

import pytest

import smolder
from smolder import nn


@pytest.mark.parametrize("kind", (nn.LSTM, nn.GRU, nn.RNN))
@pytest.mark.parametrize("given", (False, True))
def test_gradients_of_recurrent_layers(kind, given):
    layer = kind(3, 4, bidirectional=True)
    x = smolder.zeros(5, 0, 3, requires_grad=True)
    h = smolder.zeros(2, 0, 4)
    out, last = layer(x, ((h, h) if kind is nn.LSTM else h) if given else None)
    assert out.shape == (5, 0, 8)
    last = last[0] if kind is nn.LSTM else last
    (out.sum() + last.sum()).backward()
    assert x.grad.shape == x.shape and all((p.grad == 0).all() for p in layer.parameters())


@pytest.mark.parametrize("kind", (nn.LSTMCell, nn.GRUCell, nn.RNNCell))
def test_recurrent_cells(kind):
    cell = kind(3, 4)
    found = cell(smolder.zeros(0, 3))
    found = found[0] if kind is nn.LSTMCell else found
    found.sum().backward()
    assert found.shape == (0, 4) and (cell.weight_hh.grad == 0).all()
    with pytest.raises(RuntimeError, match="input has inconsistent input_size: got 2 expected 3"):
        cell(smolder.zeros(1, 2))
    with pytest.raises(RuntimeError, match="Input batch size 0 doesn't match hidden0 batch size 7"):
        h = smolder.zeros(7, 4)
        cell(smolder.zeros(0, 3), (h, h) if kind is nn.LSTMCell else h)


@pytest.mark.parametrize("momentum", (0.1, None))
@pytest.mark.parametrize("shape", ((0, 3, 2), (4, 3, 0)))
@pytest.mark.parametrize("kind", (nn.BatchNorm1d, nn.InstanceNorm1d))
def test_running_statistics_are_not_moved(kind, shape, momentum):
    layer = kind(3, momentum=momentum, track_running_stats=True)
    layer(smolder.arange(24.0).reshape(4, 3, 2))
    before = {k: v.clone() for k, v in layer.state_dict().items() if k.startswith("running")}
    assert layer(smolder.zeros(shape)).shape == shape
    assert all(smolder.equal(layer.state_dict()[k], v) for k, v in before.items())


def test_normalization_asks_for_both_statistics_and_a_positive_eps():
    x = smolder.arange(6.0).reshape(2, 3)
    with pytest.raises(ValueError, match="running_mean and running_var must either both be None or neither be None"):
        nn.functional.batch_norm(x, smolder.zeros(3), None, training=True)
    with pytest.raises(ValueError, match="batch_norm eps must be positive"):
        nn.functional.batch_norm(x, None, None, training=True, eps=0.0)


def test_attention_to_no_source_but_those_that_are_added():
    layer = nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True)
    none = smolder.zeros(0, 2, 4)
    padding = smolder.zeros(2, 0, dtype=smolder.bool)
    out, weights = layer(smolder.ones(3, 2, 4), none, none, key_padding_mask=padding)
    assert out.shape == (3, 2, 4) and weights.shape == (2, 3, 2)
    assert smolder.allclose(weights.sum(-1), smolder.ones(2, 3))


def test_flat_weights_are_the_parameters_in_order():
    layer = nn.LSTM(3, 4, num_layers=2, proj_size=2)
    assert all(a is b for a, b in zip(layer._flat_weights, layer.parameters(), strict=True))


@pytest.mark.parametrize("shape", ((0, 2, 4), (5, 0, 4)))
def test_ctc_loss_of_nothing_raises(shape):
    steps, batch, _ = shape
    lengths = smolder.full((batch,), steps)
    with pytest.raises(RuntimeError, match="log_probs tensor must not be empty"):
        nn.functional.ctc_loss(smolder.zeros(shape), smolder.ones(batch, 2, dtype=smolder.int64), lengths, lengths)
