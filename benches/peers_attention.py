"""peers.py's attention: softmax(q · kᵀ / √size) · v, batch 1, beside the engines that have it as one operator.

Ours gets keys and values packed, which the KV cache does once for each token. The peers get them dense:
PyTorch as [1, heads, n, size]; ONNX Runtime as [1, n, heads * size] or as [1, heads, n, size], whichever
is faster. What a call from Python costs is not the operator's: small ones are a chain, each on the
output of the one before, as they are inside a model.
"""

import json
import subprocess
import time
from statistics import median

import numpy as np
import onnxruntime as ort
import torch
from onnx import TensorProto, helper
from torch.nn import functional as F

HEADS = 12
CASES = [
    case
    for size in (32, 64)
    for case in (
        *(("attention", size, n, n) for n in (16, 32, 64, 128, 256, 512)),
        *(("causal", size, n, n) for n in (64, 128, 512)),
        ("attention", size, 1, 128),
    )
]


def flops(what, size, queries, keys):
    """Two products, of the pairs that are seen."""
    pairs = queries * keys if what == "attention" else queries * (queries + 1) // 2
    return 4 * HEADS * size * pairs


def line(what, size, queries, keys):
    """A case's name and how its seconds are shown."""
    work = flops(what, size, queries, keys)
    return f"{what} {HEADS} × {size}, {queries} × {keys}", lambda seconds: work / seconds * 1e-9


def random(seed, rows, size):
    """The numbers of `Buffer::random`: SplitMix64 counts, so that each can be had without those before."""
    z = np.uint64(seed * 0xA0761D6478BD642F % 2**64) + np.arange(1, rows * HEADS * size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = (z ^ (z >> np.uint64(31))) >> np.uint64(40)
    return (z.astype(np.float32) / np.float32(2**23) - np.float32(1)).reshape(1, rows, HEADS * size)


def inputs(size, queries, keys):
    return random(1, queries, size), random(2, keys, size), random(3, keys, size)


def by_head(x, size):
    """[1, n, heads * size] as [1, heads, n, size]."""
    return np.ascontiguousarray(x.reshape(1, -1, HEADS, size).transpose(0, 2, 1, 3))


def shown(rows):
    """The numbers that `picoformer bench` prints. The last row sees all keys; the middle one shows the mask."""
    return np.concatenate([rows[-1][:64], rows[len(rows) // 2][:64]])


def links(*case):
    """The length of the chain: large ones need none."""
    return int(min(max(2e7 // flops(*case), 1), 16))


def timed(run):
    """Median seconds of a run, in samples of about 5 ms, as ours; slow ones have fewer samples."""
    run()
    times, samples, start = 1, [], time.perf_counter()
    while len(samples) < 20 and (not samples or time.perf_counter() - start < 0.3):
        before = time.perf_counter()
        for _ in range(times):
            run()
        samples.append((time.perf_counter() - before) / times)
        if times == 1 and samples[-1] < 2.5e-3:
            times = int(5e-3 / samples.pop())
    return median(samples)


class Picoformer:
    def __init__(self, binary):
        self.binary = binary

    def seconds(self, what, size, queries, keys):
        shape = f"{HEADS}x{size}x{queries}x{keys}"
        command = [self.binary, "bench", "--json", "--attention", shape, *(["--causal"] if what == "causal" else [])]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return found["seconds"], np.array(found["output"] + found["middle"])


@torch.jit.script
def chain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, times: int):
    for _ in range(times):
        q = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return q


class PyTorch:
    def seconds(self, what, size, queries, keys):
        q, k, v = (torch.from_numpy(by_head(x, size)) for x in inputs(size, queries, keys))
        rows = chain(q, k, v, what == "causal", 1)[0].transpose(0, 1).reshape(queries, -1).numpy()
        times = links(what, size, queries, keys)
        return timed(lambda: chain(q, k, v, what == "causal", times)) / times, shown(rows)


class OnnxRuntime:
    def __init__(self):
        self.options = ort.SessionOptions()
        self.options.intra_op_num_threads = self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 3

    def bound(self, causal, times, q, k, v):
        """A session of so many attentions with its inputs and its output in place."""
        domain, tensor = "com.microsoft", helper.make_tensor_value_info
        node = lambda i: helper.make_node(
            "MultiHeadAttention", [f"x{i}", "k", "v"], [f"x{i + 1}"], domain=domain, num_heads=HEADS, unidirectional=int(causal)
        )
        info = lambda name, x: tensor(name, TensorProto.FLOAT, x.shape)
        graph = helper.make_graph(
            [node(i) for i in range(times)], "attention", [info("x0", q), info("k", k), info("v", v)], [info(f"x{times}", q)]
        )
        # Versions that every ONNX Runtime of the last years reads.
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        session = ort.InferenceSession(model, self.options, providers=["CPUExecutionProvider"])
        binding, out = session.io_binding(), ort.OrtValue.ortvalue_from_numpy(np.zeros_like(q))
        for name, x in (("x0", q), ("k", k), ("v", v)):
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(x))
        binding.bind_ortvalue_output(f"x{times}", out)
        return lambda: session.run_with_iobinding(binding), out

    def seconds(self, what, size, queries, keys):
        q, k, v = inputs(size, queries, keys)
        run, out = self.bound(what == "causal", 1, q, k, v)
        run()
        times = links(what, size, queries, keys)
        forms = ((k, v), (by_head(k, size), by_head(v, size)))
        best = min(timed(self.bound(what == "causal", times, q, *form)[0]) for form in forms)
        return best / times, shown(out.numpy()[0])


def engines(binary):
    """By name. The others have no such operator by itself, or none that is called without a model."""
    return {"picoformer": Picoformer(binary), "pytorch": PyTorch(), "onnxruntime": OnnxRuntime()}
