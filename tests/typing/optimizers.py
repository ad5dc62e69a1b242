"""Training loops: optimizers, closures, schedules, averages of weights."""

from typing import Any

import smolder
from smolder import Tensor, nn, optim
from smolder.optim import lr_scheduler
from smolder.optim.swa_utils import AveragedModel

model = nn.Linear(3, 1)
x, y = smolder.randn(8, 3), smolder.randn(8, 1)
every: list[optim.Optimizer] = [
    optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.99)),
    optim.AdamW([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias]}], weight_decay=0.01),
    optim.RMSprop(model.named_parameters()),
    optim.Adagrad(model.parameters()),
]
for optimizer in every:
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    group: dict[str, Any] = optimizer.param_groups[0]
    group["lr"] = 0.01
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)

lbfgs = optim.LBFGS(model.parameters(), max_iter=2)


def closure() -> Tensor:
    lbfgs.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    return loss


last: Tensor = lbfgs.step(closure)
sgd = optim.SGD(model.parameters(), lr=0.1)
schedules: list[lr_scheduler.LRScheduler] = [
    lr_scheduler.StepLR(sgd, step_size=2, gamma=0.5),
    lr_scheduler.CosineAnnealingLR(sgd, T_max=10),
    lr_scheduler.LambdaLR(sgd, lambda epoch: 0.9**epoch),
    lr_scheduler.OneCycleLR(sgd, max_lr=0.1, total_steps=10),
]
sgd.step()
for schedule in schedules:
    schedule.step()
rates = schedules[0].get_last_lr()
plateau = lr_scheduler.ReduceLROnPlateau(sgd, patience=2)
plateau.step(last.item())
averaged = AveragedModel(model)
averaged.update_parameters(model)
print(last, rates, averaged(x).shape)
