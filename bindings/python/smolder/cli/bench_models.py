"""The programs of the rows of `smolder bench`, for smolder or torch: each function returns one step.

The API is the same for both, so a peer runs the very same lines. `finish` waits for the results; for torch there is
nothing to wait for.
"""

import itertools

MLP_WIDTHS = (784, 256, 128, 10)
CONV_LAYERS = ((3, 32, 1), (32, 64, 2), (64, 128, 2))  # channels, filters, stride; kernels are 3x3
CONV_CLASSES = 10


def _finish(lib):
    return getattr(lib, "mark_step", lambda: None)


def chain(lib, n):
    """gelu in 8 elementwise ops, without its factor 1/2."""
    x = lib.randn(n)
    finish = _finish(lib)

    def step():
        with lib.no_grad():
            y = gelu_chain(x, lib.tanh)
        finish()
        return y

    return step


def gelu_chain(x, tanh):
    """The chain itself, for any array."""
    return (tanh((x * x * x * 0.044715 + x) * 0.7978845608) + 1.0) * x


def softmax(lib, rows, columns):
    """softmax over the last axis, and its gradient."""
    x, dy = lib.randn(rows, columns).requires_grad_(), lib.randn(rows, columns)
    finish = _finish(lib)

    def step():
        y = lib.softmax(x, -1)
        (dx,) = lib.autograd.grad(y, [x], [dy])
        finish()
        return y, dx

    return step


def layer_norm(lib, rows, columns):
    """layer_norm over the last axis with weight and bias, and its gradients."""
    x, dy = lib.randn(rows, columns).requires_grad_(), lib.randn(rows, columns)
    w, b = lib.ones(columns).requires_grad_(), lib.zeros(columns).requires_grad_()
    finish = _finish(lib)

    def step():
        y = lib.nn.functional.layer_norm(x, (columns,), w, b)
        grads = lib.autograd.grad(y, [x, w, b], [dy])
        finish()
        return y, grads

    return step


def sums(lib, rows, columns, axis):
    """Sums over axis 0, or over everything."""
    x = lib.randn(rows, columns)
    finish = _finish(lib)

    def step():
        with lib.no_grad():
            y = x.sum() if axis is None else x.sum(axis)
        finish()
        return y

    return step


def _once(lib, make):
    finish = _finish(lib)

    def step():
        with lib.no_grad():
            out = make()
        finish()
        return out

    return step


def sort(lib, n):
    """A sort of a vector, with where its elements were."""
    x = lib.randn(n)
    return _once(lib, lambda: lib.sort(x))


def cumsum(lib, n):
    """Running sums of a vector."""
    x = lib.randn(n)
    return _once(lib, lambda: lib.cumsum(x, 0))


def index_put(lib, rows, width, written):
    """Rows of a matrix written at random numbers, in place."""
    x, at, values = lib.zeros(rows, width), lib.randint(0, rows, (written,)), lib.randn(written, width)

    def write():
        x[at] = values

    return _once(lib, write)


def _optimizer(lib, parameters):
    fused = {} if hasattr(lib, "mark_step") else {"fused": True}  # torch's fastest
    return lib.optim.AdamW(parameters, lr=1e-3, **fused)


def adamw(lib, tensors, size):
    """AdamW on equal tensors whose gradients are given."""
    parameters = [lib.nn.Parameter(lib.randn(size)) for _ in range(tensors)]
    for p in parameters:
        p.grad = lib.randn(size)
    optimizer, finish = _optimizer(lib, parameters), _finish(lib)

    def step():
        optimizer.step()
        finish()

    return step


def mlp(lib, train, batch):
    """A step of a perceptron with two hidden layers: forward, or training with AdamW."""
    nn = lib.nn
    layers = []
    for i, (inputs, outputs) in enumerate(itertools.pairwise(MLP_WIDTHS)):
        layers += [nn.ReLU()] * (i > 0) + [nn.Linear(inputs, outputs)]
    model = nn.Sequential(*layers)
    x, y = lib.randn(batch, MLP_WIDTHS[0]), lib.randint(0, MLP_WIDTHS[-1], (batch,))
    return _step(lib, model, x, lambda out: nn.functional.cross_entropy(out, y), train)


def block(lib, train, batch, length, width, heads, hidden):
    """A step of a pre-norm transformer block: forward, or training with AdamW."""
    model = lib.nn.TransformerEncoderLayer(
        width, heads, hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    x = lib.randn(batch, length, width)
    return _step(lib, model, x, lambda out: (out * out).mean(), train)


def conv(lib, train, batch, size):
    """A step of a small convolutional net on square images: forward, or training with AdamW."""
    nn = lib.nn
    layers = []
    for channels, filters, stride in CONV_LAYERS:
        layers += [nn.Conv2d(channels, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU()]
    head = nn.Linear(CONV_LAYERS[-1][1], CONV_CLASSES)
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
    model.train(train)
    x, y = lib.randn(batch, CONV_LAYERS[0][0], size, size), lib.randint(0, CONV_CLASSES, (batch,))
    return _step(lib, model, x, lambda out: nn.functional.cross_entropy(out, y), train)


def _step(lib, model, x, loss_of, train):
    finish = _finish(lib)
    if not train:

        def forward():
            with lib.no_grad():
                out = model(x)
            finish()
            return out

        return forward
    optimizer = _optimizer(lib, model.parameters())

    def training():
        loss = loss_of(model(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        finish()
        return loss

    return training
