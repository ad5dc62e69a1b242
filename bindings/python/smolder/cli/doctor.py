"""Says what is installed, where each library was found, what is missing and how to install it, how the kernel cache is,
and whether a small training step gives the same numbers compiled as run op by op.

Exit status: 0 all that this machine can use works; 1 something does not.
"""

import json
import os
import platform
import shutil
import sys
import time

import smolder
from smolder import _core, nn, optim
from smolder._terminal import milliseconds, size

_BIG = 256 << 20  # bytes of a cache that is not read through


def add_arguments(parser):
    """Adds the arguments of `smolder doctor`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


# -- what there is


def _loaded_from(stem):
    """The file that a library was loaded from."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[5].strip() for line in maps if stem in line}
    except OSError:
        return ""
    return next((p for p in sorted(paths) if os.path.basename(p).startswith(stem)), "")


def _processor():
    """The processor by name, and what vectors it has."""
    model, flags = platform.processor() or platform.machine(), set()
    try:
        with open("/proc/cpuinfo") as info:
            for line in info:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    model = value.strip()
                elif key.strip() == "flags":
                    flags = set(value.split())
                    break
    except OSError:
        pass
    known = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "bf16", "avx512_fp16": "fp16", "amx_tile": "AMX"}
    return model, [name for flag, name in known.items() if flag in flags]


def _library(entry, why):
    """One line of the report; `why` names what it is for."""
    found = not entry["reason"]
    return {
        "name": entry["name"],
        "found": found,
        "version": entry["version"],
        "path": _loaded_from(entry["file"]) if found else "",
        "reason": entry["reason"],
        "for": why,
    }


_REMEDIES = {
    "code generator": "install Smolder again; in a build folder: cmake --build <build> --target smolder_plugins",
    "CUDA driver": "install NVIDIA's driver (Debian: apt-get install nvidia-driver)",
    "NVRTC": "pip install nvidia-cuda-nvrtc",
    "cuBLASLt": "pip install nvidia-cublas",
    "cuDNN": "pip install nvidia-cudnn-cu13",
    "cuSOLVER": "pip install nvidia-cusolver",
    "cuFFT": "pip install nvidia-cufft",
    "disassembler": "apt-get install binutils",
    "SASS disassembler": "pip install nvidia-cuda-nvdisasm, and put it on the PATH",
}


def _has_gpu():
    return os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/nvidiactl")


def _libraries():
    """Each library, and whether this machine needs it."""
    generator = _library(_core._find_code_generator(), "kernels of the CPU")
    generator["version"] = " ".join(generator["version"].split()[:3])  # the rest is every feature of the processor
    out = [generator | {"needed": True}]
    gpu = _has_gpu()
    uses = ["tensors on a GPU", "kernels of a GPU", "products on a GPU"]
    uses += ["convolutions and attention on a GPU", "linear algebra on a GPU", "Fourier transforms on a GPU"]
    for entry, why in zip(_core._find_cuda(), uses, strict=True):
        out.append(_library(entry, why) | {"needed": gpu and entry["name"] not in ("cuDNN", "cuSOLVER", "cuFFT")})
    for name, tools in (
        ("disassembler", ["objdump", "llvm-objdump"]),
        ("SASS disassembler", ["nvdisasm", "cuobjdump"]),
    ):
        path = next(filter(None, map(shutil.which, tools)), "")
        reason = "" if path else f"{' or '.join(tools)} is not on the PATH"
        entry = {"name": name, "found": bool(path), "version": "", "path": path, "reason": reason, "needed": False}
        out.append(entry | {"for": "smolder cache show --asm"})
    for entry in out:
        entry["remedy"] = "" if entry["found"] else _REMEDIES[entry["name"]]
    return out


# -- the cache


def _cache():
    """How the kernel cache is; `problem` is empty when it is well."""
    try:
        options = _core._cache_options()
    except ValueError as e:
        return {"enabled": False, "path": "", "problem": str(e), "remedy": "set the variable to what it says"}
    out = {**options, "rows": 0, "bytes": 0, "checked": False, "problem": "", "remedy": ""}
    folder = os.path.dirname(options["path"])
    there = folder
    while not os.path.exists(there):
        there = os.path.dirname(there)
    out["free_bytes"] = shutil.disk_usage(there).free
    if not options["enabled"]:
        return out
    if not os.access(there, os.W_OK | os.X_OK):
        out["problem"] = f"{there} cannot be written"
        out["remedy"] = "set SMOLDER_CACHE_DIR to a directory on a local disk that can be"
        return out
    if not os.path.exists(options["path"]):
        return out
    try:
        file = _core._CacheFile(options["path"])
        stats = file.stats()
        out["rows"], out["bytes"] = stats["rows"], stats["live_bytes"]
        if stats["file_bytes"] <= _BIG:
            report = file.verify()
            out["checked"] = True
            if not report["sound"]:
                out["problem"] = report["complaints"] or f"{report['broken']} rows are broken"
    except RuntimeError as e:
        out["problem"] = str(e)
    if out["problem"]:
        out["remedy"] = "smolder cache verify --repair"
    return out


# -- the self-test


def _train(device, steps=4):
    """Losses and weights of a small classifier after a few steps, and seconds a step after the first."""
    with smolder.device(device):
        smolder.manual_seed(7)
        model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
        optimizer = optim.AdamW(model.parameters(), lr=1e-2)
        x = smolder.randn(64, 16)
        y = smolder.arange(64) % 4
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        smolder.mark_step()
        value = loss.item()
        seconds.append(time.perf_counter() - start)
    weights = [p.detach().cpu().flatten().tolist() for p in model.parameters()]
    return [value, *(w for values in weights for w in values)], seconds


def _self_test(device):
    """A training step compiled against one that runs op by op."""
    out = {"device": device, "passed": False, "error": ""}
    before = smolder.metrics()["counters"]
    behind = _core._set_compiling(False)
    try:
        compiled, seconds = _train(device)
        after = smolder.metrics()["counters"]
        with smolder.eager():
            eager, eager_seconds = _train(device)
    except Exception as e:  # whatever it is, that is the finding
        return out | {"error": f"{type(e).__name__}: {e}"}
    finally:
        _core._set_compiling(behind)
    difference = max(abs(a - b) for a, b in zip(compiled, eager, strict=True))
    fell_back = after.get("steps.op_by_op", 0) - before.get("steps.op_by_op", 0)
    # On the CPU tiers agree bit for bit; on a device products may be other kernels when they run by themselves.
    allowed = 0 if device == "cpu" else 1e-3
    out |= {
        "difference": difference,
        "first_ms": seconds[0] * 1000,
        "step_ms": min(seconds) * 1000,
        "eager_ms": min(eager_seconds) * 1000,
        "kernels_built": after.get("kernels.compiled", 0) - before.get("kernels.compiled", 0),
    }
    if fell_back:
        out["error"] = "a step could not run as a plan and ran op by op: see smolder.metrics_report()"
    elif not difference <= allowed:
        out["error"] = f"compiled and eager steps differ by {difference:.3g}"
    return out | {"passed": not out["error"]}


# -- the report


def _examine():
    model, vectors = _processor()
    return {
        "smolder": smolder.__version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "package": os.path.dirname(smolder.__file__),
        "system": platform.platform(),
        "processor": model,
        "vectors": vectors,
        "threads": smolder.get_num_threads(),
        "gpus": [smolder.cuda.get_device_name(i) for i in range(_core._cuda_device_count())],
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith("SMOLDER_")},
        "libraries": _libraries(),
        "cache": _cache(),
        "tests": [_self_test(d) for d in (["cpu", "cuda"] if smolder.cuda.is_available() else ["cpu"])],
    }


def _problems(found):
    """The things that do not work, each with what to do."""
    out = [(f"{x['name']}: {x['reason']}", x["remedy"]) for x in found["libraries"] if x["needed"] and not x["found"]]
    if found["cache"]["problem"]:
        out.append((f"kernel cache: {found['cache']['problem']}", found["cache"]["remedy"]))
    out += [
        (f"self-test on {t['device']}: {t['error']}", "report it, with this report")
        for t in found["tests"]
        if t["error"]
    ]
    if "AVX2" not in found["vectors"] and platform.machine() in ("x86_64", "AMD64"):
        out.append(
            ("processor: it has no AVX2, which generated code needs", "SMOLDER_BACKEND=interpret runs without, slowly")
        )
    return out


def _print(found):
    line = "{:<15}{}".format
    print(line("smolder", f"{found['smolder']}, {found['package']}"))
    print(line("python", found["python"]))
    print(line("system", found["system"]))
    print(
        line(
            "processor", f"{found['processor']}; {', '.join(found['vectors']) or 'no AVX2'}; {found['threads']} threads"
        )
    )
    print(line("GPU", ", ".join(found["gpus"]) or ("one is there, and cannot be used" if _has_gpu() else "none")))
    for name, value in found["environment"].items():
        print(line("set", f"{name}={value}"))
    print("\nlibraries")
    for x in found["libraries"]:
        mark = "ok" if x["found"] else "MISSING" if x["needed"] else "absent"
        if x["found"]:
            print(f"  {mark:<8}{x['name']:<18}{' '.join(filter(None, [x['version'], x['path']]))}")
        else:
            print(f"  {mark:<8}{x['name']:<18}for {x['for']}: {x['remedy']}")
    cache = found["cache"]
    print("\nkernel cache")
    if not cache["enabled"]:
        print("  off: kernels are built anew in each process")
    else:
        checked = ", each checked" if cache["checked"] else ""
        print(f"  {cache['path']}: {cache['rows']} rows{checked}; {size(cache['bytes'])} of {size(cache['max_bytes'])}")
    print("\nself-test: a training step compiled, against one run op by op")
    for t in found["tests"]:
        if t["error"]:
            print(f"  FAILED  {t['device']}")
        else:
            same = "same bits" if t["difference"] == 0 else f"differ by {t['difference']:.2g} at most"
            print(
                f"  ok      {t['device']}: {same}; first step {milliseconds(t['first_ms'])} ({t['kernels_built']} kernels "
                f"built), then {milliseconds(t['step_ms'])}; op by op {milliseconds(t['eager_ms'])}"
            )
    problems = _problems(found)
    print("\nall is well" if not problems else f"\nproblems: {len(problems)}")
    for what, remedy in problems:
        print(f"  {what}\n    -> {remedy}")


def run(args):
    """Examines, and reports; the exit status is 1 when something does not work."""
    found = _examine()
    if args.json:
        print(json.dumps(found | {"problems": [{"what": w, "remedy": r} for w, r in _problems(found)]}, indent=1))
    else:
        _print(found)
    return 1 if _problems(found) else 0
