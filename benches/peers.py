#!/usr/bin/env python3
"""picoformer beside its peers: the same weights, one thread on one core, the same answers.

    benches/peers.py [--core N] [--quick] [--only minilm|transformer|attention] [--weights f32|int8] [--vnni]

Makes its own virtual environment in the target folder (the first time, some gigabytes: PyTorch
comes with its CUDA libraries), builds picoformer, converts the weights, then times in rounds
A B C … A B C …, so that a slow moment falls on everybody. MiniLM is models/minilm, which
tests/fetch-models.sh fetches; the Transformer is PyTorch's nn.Transformer, base size, of a
fixed seed; the attention is peers_attention.py. Every output is compared with PyTorch's before it counts: numbers within 1e-4 of
the largest, generated tokens exactly.

With `--weights int8` every engine quantizes the weights itself, PyTorch stays f32: numbers must have
a cosine of 0.97 to its, and tokens are only counted, for of two that are almost as good each engine
may take the other. `--vnni` keeps the libraries from the matrix unit AMX that some CPUs have, and to the
AVX-512 instructions that picoformer has kernels for.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
WORK = TARGET / "peers"
PACKAGES = "onnxruntime openvino ctranslate2 torch transformers onnx onnxscript numpy safetensors".split()
OURS = "picoformer"

CASES = {
    "minilm": [("encode", 1, 8), ("encode", 1, 32), ("encode", 1, 128), ("encode", 32, 32)],
    "transformer": [("forward", 32, 10), ("forward", 1, 10), ("generate", 1, 10), ("generate", 32, 10)],
}


def in_own_environment():
    """Runs this file again in the virtual environment, made if it is not there."""
    environment = WORK / "venv"
    if Path(sys.prefix).resolve() == environment.resolve():
        return
    stamp = environment / "installed"
    if not stamp.exists() or stamp.read_text().split() != PACKAGES:
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([environment / "bin/pip", "install", "--quiet", *PACKAGES], check=True)
        stamp.write_text(" ".join(PACKAGES))
    python = environment / "bin/python"
    vnni = {"MKL_ENABLE_INSTRUCTIONS": "AVX512_E1", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}
    # Libraries read these when they are loaded.
    settings = {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    os.execve(python, [str(python), __file__, *sys.argv[1:]], os.environ | settings | (vnni if ASKED.vnni else {}))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the one to run on")
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--only", choices=[*CASES, "attention"])
    parser.add_argument("--weights", choices=["f32", "int8"], default="f32")
    parser.add_argument("--vnni", action="store_true", help="peers without AMX")
    return parser.parse_args()


if __name__ == "__main__":
    ASKED = arguments()
    in_own_environment()
    # Before the libraries are loaded: their threads stay where they are started.
    os.sched_setaffinity(0, {ASKED.core})

import ctranslate2
import numpy as np
import onnxruntime as ort
import openvino
import torch
from openvino._offline_transformations import apply_make_stateful_transformation as make_stateful

from onnxruntime.quantization import QuantType, quantize_dynamic

import peers_attention
from peers_models import (
    BOS, D, EOS, HEADS, LAYERS, NEW, VOCAB, Bert, Encode, Step, empty_caches, export, specification, translator, vocabulary,
)


def tokens(batch, length, vocab):
    """The tokens that `picoformer bench` runs on (its `token`)."""
    return [[4 + (i * 131 + j * 7919) % (vocab - 4) for j in range(length)] for i in range(batch)]


def onnx(what, batch):
    """The ONNX file; the Transformer's parts are a file for each batch."""
    return WORK / (f"{what}.onnx" if what in ("minilm", "step") else f"{what}{batch}.onnx")


def arrays(what, batch, length):
    """The inputs of an ONNX model."""
    vocab = Bert.vocab if what == "minilm" else VOCAB
    inputs = {"source": np.array(tokens(batch, length, vocab))}
    return inputs | ({"target": np.array(tokens(batch, NEW, VOCAB))} if what == "transformer" else {})


# Each engine below is a class: its constructor loads one model, `prepare(what, batch, length)`
# gives a function to time and one that reads the result: [numbers of the last row] or tokens.


class Picoformer:
    def __init__(self, model, weights="f32"):
        self.image = WORK / f"{model}-{weights}.pf"
        self.binary = TARGET / "release/picoformer"
        trained = {"minilm": ("bert", ROOT / "models/minilm/model.safetensors"), "transformer": ("torch", WORK / "transformer/model.safetensors")}
        command = [self.binary, "convert", *trained[model], self.image, "--weights", weights]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    def seconds(self, what, batch, length):
        """It times itself: the median of its samples, and the result."""
        more = {"encode": [], "forward": ["--target", str(NEW)], "generate": ["--generate", str(NEW)]}[what]
        command = [self.binary, "bench", "--json", "--model", self.image, "--batch", str(batch), "--source", str(length)]
        found = json.loads(subprocess.run([*command, *more], check=True, capture_output=True).stdout)
        return found["seconds"], found["tokens"] or found["output"]


class PyTorch:
    def __init__(self, model):
        self.model = Bert(ROOT / "models/minilm") if model == "minilm" else translator()

    def prepare(self, what, batch, length):
        if what == "encode":
            ids = torch.tensor(tokens(batch, length, self.model.vocab))
            return lambda: self.model(ids), lambda out: out[-1, -1].numpy()
        source = torch.tensor(tokens(batch, length, VOCAB))
        if what == "forward":
            target = torch.tensor(tokens(batch, NEW, VOCAB))
            return lambda: self.model(source, target), lambda out: out[-1, -1].numpy()
        encode, step = Encode(self.model), Step(self.model)

        def generate():
            cross, own = encode(source), empty_caches(batch)
            token, found = torch.full((batch,), BOS), []
            for at in range(NEW):
                token, *own = step(token, torch.tensor([at]), *own, *cross)
                found.append(token)
            return torch.stack(found)

        return generate, lambda found: found.flatten().tolist()


class OnnxRuntime:
    def __init__(self, model):
        self.model = model
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.open = lambda *of: ort.InferenceSession(self.file(*of), options, providers=["CPUExecutionProvider"])

    @staticmethod
    def file(what, batch):
        path = onnx(what, batch)
        if ASKED.weights == "f32":
            return path
        quantized = path.with_suffix(".int8.onnx")
        quantize_dynamic(path, quantized, weight_type=QuantType.QInt8, per_channel=True)
        return quantized

    def prepare(self, what, batch, length):
        if what != "generate":
            session, feeds = self.open(self.model, batch), arrays(self.model, batch, length)
            return lambda: session.run(None, feeds)[0], lambda out: out[-1, -1]
        encode, step, value = self.open("encode", batch), self.open("step", batch), ort.OrtValue.ortvalue_from_numpy
        source = arrays("encode", batch, length)
        names = [x.name for x in step.get_inputs()]
        begin, ats = value(np.full(batch, BOS)), [value(np.array([at])) for at in range(NEW)]
        own, outputs = [value(x.numpy()) for x in empty_caches(batch)], [x.name for x in step.get_outputs()]

        def generate():
            cross = encode.run_with_ort_values(None, {"source": value(source["source"])})
            state, token, found = own, begin, []
            for at in ats:
                token, *state = step.run_with_ort_values(outputs, dict(zip(names, [token, at, *state, *cross])))
                found.append(token)
            return found

        return generate, lambda found: np.concatenate([x.numpy() for x in found]).tolist()


class OpenVino:
    def __init__(self, model):
        self.model, self.core = model, openvino.Core()
        # This says f32: CPUs with AMX would take bf16.
        self.properties = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False}

    def compile(self, model):
        return self.core.compile_model(model, "CPU", self.properties).create_infer_request()

    def prepare(self, what, batch, length):
        if what != "generate":
            request, feeds = self.compile(onnx(self.model, batch)), arrays(self.model, batch, length)
            return lambda: request.infer(feeds, share_inputs=True)[0], lambda out: out[-1, -1]
        encode, step = self.compile(onnx("encode", batch)), self.core.read_model(onnx("step", batch))
        # The decoder's own caches become state that stays inside; its batch must then be known.
        caches = [f"{kind}{i}" for i in range(LAYERS) for kind in "kv"]
        step.reshape({f"own_{name}": [batch, HEADS, -1, D // HEADS] for name in caches})
        make_stateful(step, {f"own_{name}": f"new_{name}" for name in caches})
        step, source = self.compile(step), arrays("encode", batch, length)

        def generate():
            encode.infer(source, share_inputs=True)
            for i, name in enumerate(caches):
                step.set_tensor(f"cross_{name}", encode.get_output_tensor(i))
            step.reset_state()
            token, found = np.full(batch, BOS), []
            for at in range(NEW):
                step.infer({"token": token, "at": np.array([at])})
                token = step.get_tensor("next").data.copy()
                found.append(token)
            return found

        return generate, lambda found: np.concatenate(found).tolist()


COMPUTE = {"f32": "float32", "int8": "int8"}


class CTranslate2:
    def __init__(self, model):
        folder = str(WORK / f"{model}.ct2")
        options = {"device": "cpu", "compute_type": COMPUTE[ASKED.weights], "inter_threads": 1, "intra_threads": 1}
        if model == "minilm":
            ctranslate2.converters.TransformersConverter(str(ROOT / "models/minilm")).convert(folder, force=True)
            self.model = ctranslate2.Encoder(folder, **options)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            self.torch = translator()
            specification(self.torch).save(folder)
            self.model = ctranslate2.Translator(folder, **options)

    def prepare(self, what, batch, length):
        if what == "encode":
            ids = tokens(batch, length, Bert.vocab)
            return lambda: self.model.forward_batch(ids), lambda out: np.array(out.last_hidden_state)[-1, -1]
        text = lambda rows: [[names[token] for token in row] for row in rows]
        names = vocabulary()
        source = text(tokens(batch, length, VOCAB))
        if what == "generate":
            options = {"beam_size": 1, "max_decoding_length": NEW, "min_decoding_length": NEW, "max_batch_size": 0}
            generate = lambda: self.model.translate_batch(source, **options)
            # Sequence by sequence; the others give step by step.
            return generate, lambda found: [int(s.hypotheses[0][at]) for at in range(NEW) for s in found]
        # It gives no logits: the probability of each token of a target, which takes all of them. It puts
        # the begin token in front and the end token behind, so its positions are one more.
        ids = [row[1:] for row in tokens(batch, NEW, VOCAB)]
        target = text(ids)
        logits = self.torch(torch.tensor(tokens(batch, length, VOCAB)), torch.tensor([[BOS, *row] for row in ids]))
        self.expected = logits[-1].log_softmax(-1)[range(NEW), [*ids[-1], EOS]].numpy()
        return lambda: self.model.score_batch(source, target, max_batch_size=0), lambda found: np.array(found[-1].log_probs)


class Absent:
    """An engine that cannot have a model: it says why for every case."""

    def __init__(self, error):
        self.error = error

    def prepare(self, *case):
        raise self.error

    seconds = prepare


ENGINES = {OURS: Picoformer, "pytorch": PyTorch, "onnxruntime": OnnxRuntime, "openvino": OpenVino, "ctranslate2": CTranslate2}
if ASKED.weights == "int8":
    ours = {OURS: lambda model: Picoformer(model, "int8"), f"{OURS}-64": lambda model: Picoformer(model, "int8-64")}
    ENGINES = ours | {"pytorch f32": PyTorch, "onnxruntime": OnnxRuntime, "ctranslate2": CTranslate2}


def sample(run, least):
    """The median seconds of some runs, and the last result."""
    times, start = [], time.perf_counter()
    while not times or (time.perf_counter() - start < least and len(times) < 50):
        before = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - before)
    return median(times), result


def compare(found, expected):
    """Fails unless an engine computed what PyTorch did."""
    if expected is None:
        raise ValueError("nothing to compare with")
    if isinstance(expected, list):
        if ASKED.weights == "int8" and len(found) == len(expected):
            return
        if found != expected:
            raise ValueError(f"{sum(x != y for x, y in zip(found, expected))} of {len(expected)} tokens differ")
        return
    expected = np.asarray(expected)[: len(found)]
    if ASKED.weights == "int8":
        found = np.asarray(found)
        cosine = float(found @ expected / np.linalg.norm(found) / np.linalg.norm(expected))
        if not cosine >= 0.97:
            raise ValueError(f"cosine {cosine:.3f}")
        return
    off = float(np.abs(np.asarray(found) - expected).max() / np.abs(expected).max())
    if not off <= 1e-4:
        raise ValueError(f"off by {off:.1e} of the largest")


@torch.inference_mode()
def measure(engines, case, rounds, least=None):
    """Medians of all engines in rounds (some time themselves); a cell is seconds, or why there are none."""
    print(*case, "…", file=sys.stderr)
    itself = lambda name: hasattr(engines[name], "seconds")
    times, runs, reasons, expected = {name: [] for name in engines}, {}, {}, None
    for name in sorted(engines, key=lambda name: "pytorch" not in name):
        try:
            if itself(name):
                found = engines[name].seconds(*case)[1]
            else:
                runs[name], read = engines[name].prepare(*case)
                found = read(runs[name]())
            if "pytorch" in name:
                expected = found
            # CTranslate2 scores a target of its own making, see there.
            compare(found, getattr(engines[name], "expected", expected) if case[0] == "forward" else expected)
        except Exception as error:  # One peer that cannot do one thing does not end the rest.
            reasons[name] = f"{error}".split("\n")[0] or type(error).__name__
    for _ in range(rounds):
        for name in engines:
            if name not in reasons:
                times[name].append(engines[name].seconds(*case)[0] if itself(name) else sample(runs[name], least)[0])
    return {name: reasons.get(name) or median(times[name]) for name in engines}


def model_line(what, batch, length):
    """A case's name and how its seconds are shown."""
    size = f"{batch} × {length}" if what == "encode" else f"{batch} × ({length}, {NEW})"
    return f"{what} {size}", lambda seconds: seconds * 1e3


def table(rows, unit, line_of):
    """All medians; a cell without one is a number that the notes below explain, or nothing was asked.

    `line_of(*case)` gives a case's name and a function from seconds to what is shown.
    """
    names, notes = list(ENGINES), []
    print(f"\n{unit + ', median':30}" + "".join(f"{name:>14}" for name in names) + f"{'ours : best of the others':>30}")
    for case, cells in rows:
        label, number = line_of(*case)
        line = f"{label:30}"
        for name in names:
            cell = cells.get(name)
            if isinstance(cell, str):
                notes.append(f"[{len(notes) + 1}] {label}, {name}: {cell}")
                line += f"{f'[{len(notes)}]':>14}"
            else:
                line += f"{'-':>14}" if cell is None else f"{number(cell):>14.3f}"
        others = {name: cell for name, cell in cells.items() if OURS not in name and not isinstance(cell, str)}
        if others and not isinstance(cells[OURS], str):
            best = min(others, key=others.get)
            times = others[best] / cells[OURS]
            word = f"{times:.2f} × as fast as {best}"
            line += f"{word:>34}"
        print(line, flush=True)
    print("\n".join(notes))


def main():
    torch.set_num_threads(1)
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "picoformer"], cwd=ROOT, check=True)
    rounds = 2 if ASKED.quick else 7
    versions = ", ".join(f"{m.__name__} {m.__version__.split('-')[0]}" for m in (torch, ort, openvino, ctranslate2))
    print(f"core {ASKED.core}, one thread, {ASKED.weights}, {rounds} rounds; {versions}")
    if ASKED.only != "attention":
        table(models([ASKED.only] if ASKED.only else CASES, rounds, 0.1 if ASKED.quick else 0.4), "ms", model_line)
    if ASKED.only in (None, "attention") and ASKED.weights == "f32":
        engines = peers_attention.engines(TARGET / "release/picoformer")
        table(((case, measure(engines, case, rounds)) for case in peers_attention.CASES), "GFLOP/s", peers_attention.line)


def models(names, rounds, least):
    """Each case with its medians, as they are measured."""
    for model in names:
        if model == "minilm" and not (ROOT / "models/minilm/model.safetensors").exists():
            print("SKIPPED: models/minilm is not there; tests/fetch-models.sh fetches it", file=sys.stderr)
            continue
        export(model, ROOT, WORK)
        engines = {}
        for name, engine in ENGINES.items():
            try:
                engines[name] = engine(model)
            except Exception as error:
                engines[name] = Absent(error)
        for case in CASES[model]:
            yield case, measure(engines, case, rounds, least)


if __name__ == "__main__":
    main()
