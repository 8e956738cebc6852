"""Process with a CUDA device without hardware, for builds of torch without CUDA."""

import ctypes
import subprocess
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

SOURCE = Path(__file__).parent / "fake_cuda_guard.cpp"


def compile_device(compiler: str, folder: Path) -> Path:
    """Return the shared library of the device, compiled into a folder."""
    import torch
    from torch.utils.cpp_extension import include_paths

    library, torch_libraries = folder / "fake_cuda.so", Path(torch.__file__).parent / "lib"
    command = [compiler, "-shared", "-fPIC", "-std=c++20", str(SOURCE), "-o", str(library)]
    headers = [f"-I{path}" for path in include_paths()]
    linked = [f"-L{torch_libraries}", f"-Wl,-rpath,{torch_libraries}"]
    subprocess.run(
        [*command, *headers, *linked, "-lc10", "-ltorch", "-ltorch_cpu"], check=True, text=True
    )
    return library


def fake_cuda_process(library: Path) -> ProcessPoolExecutor:
    """Return a new process whose torch has the device; torch reads its devices only once."""
    return ProcessPoolExecutor(1, get_context("spawn"), _start, (library,))


def _start(library: Path) -> None:
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)  # before the first import of torch
    import_module("tests.training.kernels").install()
