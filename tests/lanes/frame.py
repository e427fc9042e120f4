"""A call of an XLA FFI handler as XLA makes it, from XLA's C header: for handlers that no device here can run."""

import ctypes
from typing import Any

import numpy as np

EXECUTE = 3  # the stage
POINTER = ctypes.c_void_p
FUNCTION = ctypes.CFUNCTYPE(POINTER, POINTER)
# where things are, in bytes
API, CONTEXT, STAGE, OPERANDS, RESULTS, ATTRIBUTES, FRAME_BYTES = 16, 24, 32, 72, 112, 160, 176
ERROR_CREATE, STREAM_GET, SCHEDULE, THREADS, API_BYTES = 48, 80, 136, 144, 192
INVALID_ARGUMENT = 3


class Frame:
    """Operands, results and attributes of a call, the stream that XLA would name, and the error that the handler made.

    The pool of threads is one thread that does at once what it is ordered to do: after `ordered`, if there is one.
    """

    def __init__(self, operands: list[np.ndarray], results: list[np.ndarray], attributes: tuple[int, ...] = ()):
        self.stream: int | None = 1
        self.threads, self.orders, self.ordered = 1, 0, lambda: None
        self._error: tuple[int, str] | None = None
        functions = {ERROR_CREATE: self._create, STREAM_GET: self._stream}
        functions |= {SCHEDULE: self._schedule, THREADS: self._count}
        own = {place: FUNCTION(function) for place, function in functions.items()}
        self._kept: list[Any] = [own, operands, results]
        self._api = self._block(API_BYTES, {place: self._address(function) for place, function in own.items()})
        numbers = np.array(attributes, np.int64)
        scalars = [self._block(16, {8: numbers.ctypes.data + 8 * k}).ctypes.data for k in range(len(numbers))]
        pointers = np.array(scalars, np.int64)
        self._kept += [numbers, pointers]
        self._frame = self._block(
            FRAME_BYTES,
            {
                API: self._api.ctypes.data,
                CONTEXT: 4242,
                STAGE: EXECUTE,
                OPERANDS: self._list(operands),
                RESULTS: self._list(results),
                ATTRIBUTES: pointers.ctypes.data,
            },
        )

    def call(self, handler: int) -> tuple[int, str] | None:
        """The code and the words of the error that the handler returns, or None."""
        self._error = None
        returned = FUNCTION(handler)(self._frame.ctypes.data)
        assert (returned is None) == (self._error is None)
        return self._error

    def _create(self, arguments: int) -> int:
        size, _, words = (ctypes.c_int64.from_address(arguments + 8 * k).value for k in range(3))
        assert size == 28
        text = ctypes.string_at(words).decode()
        self._error = ctypes.c_int32.from_address(arguments + 24).value, text
        return 1  # anything but null

    def _stream(self, arguments: int) -> int | None:
        assert ctypes.c_int64.from_address(arguments + 16).value == 4242
        if self.stream is None:
            self._error = INVALID_ARGUMENT, "no stream"
            return 1
        ctypes.c_int64.from_address(arguments + 24).value = self.stream
        return None

    def _count(self, arguments: int) -> None:
        place = ctypes.c_int64.from_address(arguments + 24).value
        ctypes.c_int64.from_address(place).value = self.threads

    def _schedule(self, arguments: int) -> None:
        task, job = (ctypes.c_int64.from_address(arguments + k).value for k in (24, 32))
        self.orders += 1
        self.ordered()
        ctypes.CFUNCTYPE(None, POINTER)(task)(job)

    def _block(self, size: int, values: dict[int, int]) -> np.ndarray:
        block = np.zeros(size // 8, np.int64)
        for offset, value in values.items():
            block[offset // 8] = value
        self._kept.append(block)
        return block

    def _list(self, arrays: list[np.ndarray]) -> int:
        buffers = []
        for x in arrays:
            shape = np.array(x.shape, np.int64)
            self._kept.append(shape)
            buffers.append(self._block(48, {24: x.ctypes.data, 32: x.ndim, 40: shape.ctypes.data}).ctypes.data)
        pointers = np.array(buffers, np.int64)
        self._kept.append(pointers)
        return pointers.ctypes.data

    def _address(self, function: Any) -> int:
        return ctypes.cast(function, POINTER).value or 0
