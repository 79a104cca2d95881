"""verl's platform "cpu", and the one change to verl that has to be there before its other modules are imported."""

from __future__ import annotations

import functools
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry


class _Event:
    """An event on a device that computes at once: it has always happened."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, *_: Any) -> None:
        pass

    def wait(self, *_: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, _: Any) -> float:
        return 0.0


class CpuDevice(ModuleType):
    """``torch.cpu``, with the functions of ``torch.cuda`` that verl calls unasked: memory and random state.

    Memory is the process's resident memory, in bytes. ``is_available`` is False: verl takes it for "there is an
    accelerator whose caches can be emptied".
    """

    Event = _Event

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def is_available(self) -> bool:
        return False

    def get_device_name(self, device: Any = None) -> str:
        return "CPU"

    def empty_cache(self) -> None:
        pass

    def ipc_collect(self) -> None:
        pass

    def memory_allocated(self, device: Any = None) -> int:
        return int(psutil.Process().memory_info().rss)

    memory_reserved = memory_allocated

    def max_memory_allocated(self, device: Any = None) -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    max_memory_reserved = max_memory_allocated

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        pass

    def set_per_process_memory_fraction(self, fraction: float, device: Any = None) -> None:
        pass

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Free and total bytes of the machine."""
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed


class PlatformCPU(PlatformBase):
    """One CPU, as one device.

    Ray is told of a "GPU" for each worker (`ray_resource_name`): verl checks a cluster's resources by the names GPU and
    NPU only, so the CPU profile declares as many to ``ray.init`` as it has workers. `current_device` is a
    ``torch.device``, because verl passes it to ``Tensor.to``, where the number 0 would mean an accelerator.
    """

    _device = CpuDevice("agent_env.cpu")

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> ModuleType:
        return self._device

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Never detected: a CPU is there everywhere, and only ``VERL_PLATFORM=cpu`` asks for it."""
        return False

    def current_device(self) -> Any:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None


def install() -> None:
    """Register the platform and give verl's process groups a backend that one device can have. Safe to call again.

    verl names the backends of its default group "cpu:gloo,<device>:<backend>", which for a CPU names the CPU twice;
    torch refuses that. Modules of verl take the function by name, so it is replaced before they are imported.
    """
    PlatformRegistry.register("cpu")(PlatformCPU)

    from verl.utils import distributed

    original = distributed.initialize_global_process_group_ray
    if getattr(original, "_agent_env", False):
        return

    @functools.wraps(original)
    def initialize(timeout_second: int | None = None, backend: str | None = None) -> None:
        original(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    initialize._agent_env = True  # type: ignore[attr-defined]
    distributed.initialize_global_process_group_ray = initialize
