"""A file that is made in one look at the database and sent at the pace of whoever takes it.

It waits on the disk meanwhile: neither its length nor that pace holds memory, a connection or a transaction.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO

from django.core.handlers.asgi import ASGIRequest
from django.db import connections, transaction
from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

from criogen_threads.engine.journal.statements import database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from django.http import HttpRequest

CHUNK = 64 * 1024
"""Bytes that are sent at once."""


@contextmanager
def one_picture() -> Iterator[None]:
    """Reads that all see the database as it stood at the first of them; SQLite lets nobody write until they are done.

    Inside a transaction of the caller's they see what that sees.
    """
    alias = database()
    connection = connections[alias]
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic(using=alias):
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def written(parts: Iterable[str]) -> BinaryIO:
    """A file with this text; it is gone when it is closed. A lone surrogate stands there as ``\\udXXX``."""
    file: BinaryIO = TemporaryFile()  # noqa: SIM115 (the response closes it)
    try:
        file.writelines(part.encode() for part in parts)
    except BaseException:
        file.close()
        raise
    return file


def sent(request: HttpRequest, file: BinaryIO, content_type: str, name: str) -> StreamingHttpResponse:
    """The response that sends a file, chunk by chunk, under WSGI and ASGI, and closes it."""
    length = file.tell()
    file.seek(0)
    chunks = _AsyncChunks(file) if isinstance(request, ASGIRequest) else _Chunks(file)
    response = StreamingHttpResponse(chunks, content_type=content_type)
    response.headers["Content-Length"] = str(length)
    response.headers["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


class _Chunks:
    """A file for a server that takes chunks from an iterator."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        return iter(partial(self._file.read, CHUNK), b"")

    def close(self) -> None:
        self._file.close()


class _AsyncChunks:
    """A file for a server that awaits its chunks."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await asyncio.to_thread(self._file.read, CHUNK):
            yield chunk

    def close(self) -> None:
        self._file.close()
