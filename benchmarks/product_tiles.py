"""Times the tiles of src/jit/cuda/native/product_tiles.def beside PyTorch's products: what its table is made from.

`python benchmarks/product_tiles.py [--dtype f32|f64|bf16|f16] [BATCHxMxNxK...]` on a machine with a GPU, PyTorch and
NVRTC. Microseconds a product, of many in a graph that follow each other; each is checked against float64 first.
"""

import argparse
import ctypes
import glob
import re
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent / "src/jit/cuda"
FLAGS = [b"--fmad=false", b"--std=c++17", b"--device-as-default-execution-space", b"--disable-warnings"]
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
SHAPES = """1x32x256x784 1x32x128x256 1x32x10x128 1x128x256x32 1x256x784x32 1x16x1024x1024 1x64x512x512 1x128x512x512
1x256x256x256 1x256x512x512 1x512x512x512 1x512x512x64 128x64x64x64 128x128x128x64 128x128x64x128 64x256x256x64"""
FIELDS = ["kM", "kN", "kDepth", "kEachM", "kEachN", "kTeams", "kUnroll", "kStages", "kBlocks"]
driver = ctypes.CDLL("libcuda.so.1")


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16)]


class Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint)]
    _fields_ += [("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


def text_of(name):
    lines = (ROOT / "device" / f"{name}.cuh").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("//!", "//@")))


def nvrtc():
    for pattern in ("/usr/local/cuda*/lib*/libnvrtc.so.1?", "/usr/**/libnvrtc.so.1?", "/opt/**/libnvrtc.so.1?"):
        for path in glob.glob(pattern, recursive=True):
            return ctypes.CDLL(path)
    raise SystemExit("there is no NVRTC")


def compile_program(library, text):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"tile.cu", 0, None, None)
    major, minor = torch.cuda.get_device_capability()
    flags = [*FLAGS, b"--gpu-architecture=sm_%d%d" % (major, minor)]
    status = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    if status != 0:
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        raise SystemExit(log.value.decode())
    library.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    library.nvrtcGetCUBIN(program, cubin)
    return cubin.raw


class Tile:
    def __init__(self, library, name, values, element):
        self.name = name
        self.__dict__.update(zip(FIELDS, values, strict=True))
        wide = 8 if element == "f64" else 4
        pitches = [x + (2 if x == 8 and each <= 2 else 4) for x, each in zip(values[:2], values[3:5], strict=True)]
        stages = self.kStages * self.kDepth * sum(pitches)
        self.shared = wide * max(stages, self.kTeams * self.kM * self.kN if self.kTeams > 1 else 0)
        self.threads = self.kM // self.kEachM * (self.kN // self.kEachN) * self.kTeams
        head = f"typedef {element} Element;\ntypedef {element} Result;\ntypedef {'f64' if wide == 8 else 'f32'} Sum;\n"
        head += "constexpr int " + ", ".join(f"{k} = {v}" for k, v in zip(FIELDS, values, strict=True)) + ";\n"
        text = text_of("prelude") + text_of("native") + head + text_of("float_product")
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(driver.cuModuleLoadData(ctypes.byref(module), compile_program(library, text)))
        self.check(driver.cuModuleGetFunction(ctypes.byref(self.function), module, b"multiply"))
        self.check(driver.cuFuncSetAttribute(self.function, 8, self.shared))

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"{self.name}: CUDA error {status}")

    def launch(self, p):
        blocks = p.batch * -(-p.m // self.kM) * -(-p.n // self.kN)
        addresses = [p.a.data_ptr(), p.b.data_ptr(), 0, p.c.data_ptr()]
        strides = [p.k, 1, 1, p.k, p.n, p.batch, p.batch, 0, p.m * p.k, 0, p.n * p.k, 0, p.m * p.n]
        words = (ctypes.c_int64 * 21)(*addresses, p.m, p.n, p.k, *strides, p.flags)
        follows = Attribute(6, 0)
        follows.value[0] = 1
        stream = torch.cuda.current_stream().cuda_stream
        config = Config((blocks, 1, 1), (self.threads, 1, 1), self.shared, stream, ctypes.pointer(follows), 1)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(words))
        self.check(driver.cuLaunchKernelEx(ctypes.byref(config), self.function, parameters, None))


class Product:
    """C = A B, where A lies in rows and B in columns, as the weight of a linear layer does."""

    def __init__(self, shape, dtype):
        self.batch, self.m, self.n, self.k = (int(x) for x in shape.split("x"))
        self.a = torch.randn(self.batch, self.m, self.k, device="cuda").to(dtype)
        self.b = torch.randn(self.batch, self.n, self.k, device="cuda").to(dtype)
        self.c = torch.empty(self.batch, self.m, self.n, device="cuda", dtype=dtype)
        self.flags = (1 if self.k % 4 == 0 else 0) * 5 | 2 | 8 | (16 if self.n % 4 == 0 else 0)

    def by_torch(self):
        torch.bmm(self.a, self.b.mT, out=self.c)

    def error(self):
        a, b = self.a.double(), self.b.double().mT
        return ((self.c.double() - a @ b).abs() / (a.abs() @ b.abs())).max().item()


def microseconds(run, turns=20):
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(turns):
            run()
    times = []
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / turns)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="BATCHxMxNxK", default=SHAPES.split())
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")
    rows = re.findall(r"^TILE\((\w+), ([\d, ]+)\)", (ROOT / "native/product_tiles.def").read_text(), re.M)
    library = nvrtc()
    tiles = []
    for name, values in rows:
        tile = Tile(library, name, [int(v) for v in values.split(",")], options.dtype)
        tiles.append(tile)
    print("".join(f"{x:>15}" for x in ["", "torch", *(t.name for t in tiles)]))
    limit = {"f64": 1e-14, "f32": 2e-6, "f16": 1e-3, "bf16": 6e-3}[options.dtype]
    for shape in options.shapes:
        product = Product(shape, DTYPES[options.dtype])
        line = f"{shape:>15}{microseconds(product.by_torch):15.2f}"
        for tile in tiles:
            product.c.fill_(float("nan"))
            tile.launch(product)
            error = product.error()
            good = error < limit
            line += f"{microseconds(lambda tile=tile, p=product: tile.launch(p)):15.2f}" if good else f"{'wrong':>15}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
