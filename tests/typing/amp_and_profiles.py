"""Mixed precision, devices, the profiler, memory."""

from typing import Any

import smolder
from smolder import Tensor, nn, optim
from smolder.amp import GradScaler, autocast
from smolder.profiler import ProfilerActivity, profile, record_function, schedule
from smolder.utils.benchmark import Timer
from smolder.utils.checkpoint import checkpoint

device = smolder.device("cuda" if smolder.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1)
scaler = GradScaler(device.type, enabled=device.type == "cuda")
x: Tensor = smolder.randn(8, 4, device=device)
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=1)) as prof:
    for _ in range(2):
        optimizer.zero_grad()
        with record_function("forward"), autocast(device.type, dtype=smolder.bfloat16):
            loss: Tensor = model(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        prof.step()
table: str = prof.key_averages().table(sort_by="cpu_time_total", row_limit=5)
scale: float = scaler.get_scale()
count: int = smolder.cuda.device_count()
if smolder.cuda.is_available():
    smolder.cuda.synchronize()
    stream = smolder.cuda.Stream()
    with smolder.cuda.stream(stream):
        used: int = smolder.cuda.memory_allocated()
counters: dict[str, Any] = smolder.metrics()
report: str = smolder.metrics_report()
held: str = smolder.memory.report()
hidden: Tensor = checkpoint(model, x, use_reentrant=False)
timed = Timer("x + 1", globals={"x": smolder.ones(3)}).timeit(2)
median: float = timed.median
smolder.mark_step()
print(len(table), scale, count, len(counters), len(report), len(held), hidden.shape, median)
