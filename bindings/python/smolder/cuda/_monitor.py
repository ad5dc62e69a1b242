"""Readings of a device by NVIDIA's management library, through the package pynvml."""

from __future__ import annotations

from smolder._typing import Device
from smolder.cuda._index import index_of

__all__ = ["clock_rate", "device_memory_used", "list_gpu_processes", "memory_usage", "power_draw", "temperature"]
__all__ += ["utilization"]


def _opened(device):
    try:
        import pynvml
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed or it can't be imported.") from e
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_DriverNotLoaded as e:
        raise RuntimeError("cuda driver can't be loaded, is cuda enabled?") from e
    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(index_of(device))


def utilization(device: Device = None) -> int:
    """Percent of the last sample period in which a kernel ran."""
    nvml, handle = _opened(device)
    return nvml.nvmlDeviceGetUtilizationRates(handle).gpu


def memory_usage(device: Device = None) -> int:
    """Percent of the last sample period in which memory was read or written."""
    nvml, handle = _opened(device)
    return nvml.nvmlDeviceGetUtilizationRates(handle).memory


def device_memory_used(device: Device = None) -> int:
    """Bytes of a device's memory that processes hold, all together."""
    nvml, handle = _opened(device)
    return nvml.nvmlDeviceGetMemoryInfo(handle).used


def temperature(device: Device = None) -> int:
    """Degrees Celsius."""
    nvml, handle = _opened(device)
    return nvml.nvmlDeviceGetTemperature(handle, 0)


def power_draw(device: Device = None) -> int:
    """Milliwatts."""
    nvml, handle = _opened(device)
    return nvml.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device: Device = None) -> int:
    """MHz of the multiprocessors' clock."""
    nvml, handle = _opened(device)
    return nvml.nvmlDeviceGetClockInfo(handle, 1)


def list_gpu_processes(device: Device = None) -> str:
    """The processes on a device and what they hold, as text."""
    nvml, handle = _opened(device)
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    lines = [f"GPU:{index_of(device)}"]
    lines += [f"process {p.pid:>10d} uses {p.usedGpuMemory / (1 << 20):>12.3f} MB GPU memory" for p in processes]
    return "\n".join(lines if processes else [*lines, "no processes are running"])
