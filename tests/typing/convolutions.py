"""A convolutional network in the style of examples for torch, with functional calls."""

import smolder
import smolder.nn as nn
import smolder.nn.functional as F
from smolder import Tensor


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 8, kernel_size=(3, 3), stride=2)
        self.dropout = nn.Dropout2d(0.25)
        self.fc = nn.Linear(8, 10)
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv1(x)))
        x = F.max_pool2d(x, 2)
        x = F.gelu(self.conv2(x), approximate="tanh")
        x = self.dropout(x)
        x = F.adaptive_avg_pool2d(x, (1, 1)).flatten(1)
        states, last = self.gru(x.unsqueeze(1))
        return F.log_softmax(self.fc(states[:, -1] + last[0]), dim=1)


net = Net()
images = smolder.rand(2, 1, 12, 12)
out = net(images)
loss = F.nll_loss(out, smolder.tensor([1, 2])) + F.mse_loss(out, smolder.zeros_like(out), reduction="sum")
loss.backward()
stride: int | tuple[int, ...] = net.conv2.stride
bias = net.conv1.bias
weight: Tensor = net.conv1.weight
similarity: Tensor = F.cosine_similarity(out, out, dim=1)
padded: Tensor = F.pad(images, (1, 1, 1, 1), mode="reflect")
bigger: Tensor = F.interpolate(images, scale_factor=2.0, mode="bilinear", align_corners=False)
attended: Tensor = F.scaled_dot_product_attention(padded, padded, padded, is_causal=True)
table: Tensor = F.embedding(smolder.tensor([0, 1]), smolder.rand(3, 4))
hot: Tensor = F.one_hot(smolder.tensor([0, 2]), num_classes=3)
normed: Tensor = F.layer_norm(table, (4,))
print(loss, stride, bias, weight.shape, similarity, bigger.shape, attended.shape, hot, normed)
