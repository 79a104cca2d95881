"""How verl starts rollout ``hf_cpu`` and brings it new weights: a replica's server actor, the adapter in each trainer.

Weights travel through Ray's object store in pieces of ``checkpoint_engine.update_weights_bucket_megabytes``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica
from verl.workers.rollout.utils import ensure_async_iterator

from agent_env.errors import InputError
from agent_env.training.verl.cpu.rollout import ROLLOUT

ANSWER_TIMEOUT = 600.0
"""Seconds within which a server must have taken a piece of the weights."""


def server_name(replica_rank: int, kind: str = "", suffix: str = "") -> str:
    """The Ray name of a replica's server."""
    return f"{ROLLOUT}_server_{kind}{replica_rank}{suffix}"


class Replica(RolloutReplica):
    """A rollout server on the node of its trainer worker. One replica is one process: no tensor parallelism."""

    def rollout_worker_use_gpu(self) -> bool:
        return False

    async def launch_servers(self) -> None:
        """Start the server actor; returns when its model is loaded.

        Raises:
            InputError: the configuration asks for a replica of several ranks.
        """
        if self.world_size != 1:
            raise InputError("rollout hf_cpu runs one process a replica: set tensor_model_parallel_size=1 and the like")
        from agent_env.training.verl.cpu.server import RolloutServer

        node = await self.workers[0].__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())
        kind = "reward_" if self.is_reward_model else "teacher_" if self.is_teacher_model else ""
        name = server_name(self.replica_rank, kind, self.name_suffix)
        server = (
            ray.remote(RolloutServer)
            .options(
                name=name,
                num_cpus=0,
                max_concurrency=self.max_concurrency,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False),
            )
            .remote(self.config, self.model_config, self.replica_rank)
        )
        await server.ready.remote()
        self.servers = [server]
        self._server_handle, self._server_address = server, name


class WeightSync(BaseRollout):
    """Lives in a trainer worker, and pushes its weights to the server of its replica."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1, **_: Any) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank
        self.is_leader_rank = True  # a replica has one rank

    async def resume(self, tags: list[str]) -> None:
        await self._call("wake_up", tags=tags)

    async def release(self) -> None:
        await self._call("sleep")

    async def update_weights(
        self,
        weights: Any,
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        peft_config: dict[str, Any] | None = None,
        base_sync_done: bool = True,
        **_: Any,
    ) -> None:
        """Push all weights, or the adapter alone when the base is there already.

        Args:
            weights: pairs of name and tensor; with several trainer ranks, taking the next one is a collective, so all
                of them are taken before anything is awaited that may fail on one rank only.
            peft_config: of an adapter that isn't merged.
            base_sync_done: whether `weights` are the adapter's (True) or the base's.

        Raises:
            InputError: weights in a format that isn't names and tensors.
        """
        if wire_format != "named_tensors":
            raise InputError(f"rollout hf_cpu takes tensors, not {wire_format}: set checkpoint_engine.backend=naive")
        if peft_config is not None and base_sync_done:
            adapter = {name: tensor async for name, tensor in _on_cpu(weights)}
            await self._call("load_adapter", adapter, peft_config)
        else:
            piece: dict[str, torch.Tensor] = {}
            limit = self.config.checkpoint_engine.update_weights_bucket_megabytes << 20
            async for name, tensor in _on_cpu(weights):
                if piece and sum(t.nbytes for t in piece.values()) + tensor.nbytes > limit:
                    await self._call("load_weights", piece, last=False)
                    piece = {}
                piece[name] = tensor
            await self._call("load_weights", piece, last=True)
        await self._call("set_global_steps", global_steps)

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> None:
        server = ray.get_actor(server_name(self.replica_rank))
        await asyncio.wait_for(getattr(server, method).remote(*args, **kwargs), ANSWER_TIMEOUT)


async def _on_cpu(weights: Any) -> AsyncIterator[tuple[str, torch.Tensor]]:
    """The tensors as copies of their own: what the trainer yields may alias memory that changes."""
    async for name, tensor in ensure_async_iterator(weights):
        yield name, tensor.detach().to("cpu", copy=True).contiguous()
