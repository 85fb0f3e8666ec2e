"""Time that moves only when a test moves it."""

from __future__ import annotations

import asyncio


class VirtualClock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._changed = asyncio.Event()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, wake))
        self._changed.set()
        await wake

    async def until_sleeping(self, sleepers: int = 1) -> None:
        """Waits until that many are asleep."""
        while len([wake for _, wake in self._sleepers if not wake.done()]) < sleepers:
            self._changed.clear()
            await self._changed.wait()

    async def advance(self, seconds: float, sleepers: int = 1) -> None:
        """Once that many are asleep, lets time pass and wakes those whose time has come."""
        await self.until_sleeping(sleepers)
        self.now += seconds
        for deadline, wake in self._sleepers:
            if deadline <= self.now and not wake.done():
                wake.set_result(None)
        self._sleepers = [(deadline, wake) for deadline, wake in self._sleepers if not wake.done()]


class ImpatientClock(VirtualClock):
    """Every sleep takes no real time and moves the clock on."""

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)
